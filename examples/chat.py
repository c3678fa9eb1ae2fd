"""A chat that remembers. What you tell it is there when you start it again: python examples/chat.py --file chat.db

It answers by rules and from memory, without a language model: the context it prints with --show is what a model would be given.
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
    """One conversation of one user. Facts are kept beside what was said, and point to it."""

    def __init__(self, memory: knowloom.Memory, conversation: str, show: bool) -> None:
        self._memory, self._conversation, self._show = memory, conversation, show
        self._last: str | None = None

    def answer(self, said: str) -> str:
        asks = bool(ASKS.search(said))
        reply = (
            self._recalled(said)
            if asks
            else "I will remember that."
            if ABOUT_ME.search(said)
            else "I see."
        )
        self._keep(said, reply, is_fact=not asks and bool(ABOUT_ME.search(said)))
        return reply

    def _recalled(self, question: str) -> str:
        context = self._memory.build_context(
            question, memory_types=["fact"], token_budget=300, limit=3
        )
        if self._show and context.context:
            print(context.context, file=sys.stderr)
        if not context.memories:
            return "You have not told me."
        best = max(context.memories, key=lambda one: (one.score, one.memory.id)).memory
        when = best.created_at or datetime.now(UTC)
        return f'On {when:%Y-%m-%d} you told me: "{best.content}"'

    def _keep(self, said: str, reply: str, is_fact: bool) -> None:
        turns = [knowloom.Turn("user", said), knowloom.Turn("assistant", reply)]
        facts = [knowloom.Fact(said, turns=(0,), confidence=0.9)] if is_fact else []
        kept = self._memory.add_conversation(
            turns, conversation=self._conversation, facts=facts, after=self._last
        )
        self._last = kept[1].id


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", default="chat.db", help="where the memory is kept")
    parser.add_argument("--user", default="me", help="whose memory it is")
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
            if said := line.strip():
                print(chat.answer(said), flush=True)


if __name__ == "__main__":
    try:
        main()
    except knowloom.KnowloomError as error:
        sys.exit(f"error: {error}")
