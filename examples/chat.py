"""A chat with a memory that survives restarts: python examples/chat.py --file chat.db

It answers by rules and from memory, without a language model; --show prints the context that a
model would receive.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime

import knowloom

ABOUT_ME = re.compile(
    r"\b(?:my|I am|I'm|I live|I like|I prefer|I have|I work|I moved|remember that)\b", re.I
)
ASKS = re.compile(r"\?\s*$|^(?:who|what|when|where|which|why|how|do|does|did|is|are)\b", re.I)


class Chat:
    """One conversation of one user. Facts are stored beside the turns and link to them."""

    def __init__(self, memory: knowloom.Memory, conversation: str, show: bool) -> None:
        self._memory, self._conversation, self._show = memory, conversation, show
        self._last: str | None = None

    def answer(self, text: str) -> str:
        asks = bool(ASKS.search(text))
        reply = (
            self._recall(text)
            if asks
            else "I will remember that."
            if ABOUT_ME.search(text)
            else "I see."
        )
        self._store(text, reply, is_fact=not asks and bool(ABOUT_ME.search(text)))
        return reply

    def _recall(self, question: str) -> str:
        context = self._memory.build_context(
            question, memory_types=["fact"], token_budget=300, limit=3
        )
        if self._show and context.context:
            print(context.context, file=sys.stderr)
        if not context.memories:
            return "You have not told me."
        best = max(context.memories, key=lambda result: (result.score, result.memory.id)).memory
        when = best.created_at or datetime.now(UTC)
        return f'On {when:%Y-%m-%d} you told me: "{best.content}"'

    def _store(self, text: str, reply: str, is_fact: bool) -> None:
        turns = [knowloom.Turn("user", text), knowloom.Turn("assistant", reply)]
        facts = [knowloom.Fact(text, turns=(0,), confidence=0.9)] if is_fact else []
        memories = self._memory.add_conversation(
            turns, conversation=self._conversation, facts=facts, after=self._last
        )
        self._last = memories[1].id


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", default="chat.db", help="file of the memory")
    parser.add_argument("--user", default="me", help="owner of the memory")
    parser.add_argument(
        "--show", action="store_true", help="print the context of each answer on standard error"
    )
    arguments = parser.parse_args()
    with knowloom.open(arguments.file) as kb:
        chat = Chat(
            knowloom.Memory(kb, arguments.user),
            f"chat-{datetime.now(UTC):%Y%m%dT%H%M%S%f}",
            arguments.show,
        )
        for line in sys.stdin:
            if text := line.strip():
                print(chat.answer(text), flush=True)


if __name__ == "__main__":
    try:
        main()
    except knowloom.KnowloomError as error:
        sys.exit(f"error: {error}")
