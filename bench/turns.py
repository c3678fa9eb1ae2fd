"""Contexts over the turns of a conversation: bytes that a prompt cache keeps, and evidence.

python -m bench.turns DATA_FOLDER/locomo --cache /tmp/vectors --conversations 2
python -m bench.turns DATA_FOLDER/locomo --words
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import knowloom
from bench.vectors import open_embedder
from knowloom.conversation.earlier_turns import earlier_of
from knowloom.evaluation.questions import read_rows

NOW = datetime(2024, 6, 1, tzinfo=UTC)
NEW_TOKENS = (500, 1000, 2000)
WINDOWS = (8_000, 16_000, 32_000)


@dataclass(frozen=True, slots=True)
class Question:
    """A question in the order of its conversation, and the ids of its evidence."""

    text: str
    conversation: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One context: its bytes, those shared with the one before, and the evidence it holds."""

    size: int
    shared: int
    evidence: float
    tokens: int
    begins_anew: bool


def load(folder: Path, conversations: int, cache: Path | None) -> knowloom.Engine:
    """Store each conversation as a space of turns; without a cache, no vectors."""
    embedder = None if cache is None else open_embedder(cache)
    kb = knowloom.open(tempfile.mkdtemp() + "/turns.db", embedder=embedder)
    names: dict[str, None] = {}
    items = []
    for _, row in read_rows(folder / "corpus.jsonl"):
        names.setdefault(row["conv"])
        if len(names) <= conversations:
            values = {"title": row["title"], "text": row["text"]}
            items.append(knowloom.Item(row["id"], row["conv"], **values))
    kb.add(items)
    return kb


def read_questions(folder: Path, spaces: Sequence[str]) -> list[Question]:
    return [
        Question(row["text"], row["conv"], frozenset(row["gold"]))
        for _, row in read_rows(folder / "queries.jsonl")
        if row["gold"] and row["conv"] in spaces
    ]


def ask(
    kb: knowloom.Engine, questions: Sequence[Question], window: int, new: int, *, anew: bool
) -> list[TurnResult]:
    """Ask the questions in their order, each context after the one before, or all made anew."""
    results: list[TurnResult] = []
    earlier: knowloom.Context | None = None
    for before, question in zip((None, *questions), questions, strict=False):
        if before is None or before.conversation != question.conversation:
            earlier = None
        context = kb.context(
            question.text,
            spaces=[question.conversation],
            max_tokens=window,
            new_tokens=new,
            after=None if anew else earlier,
            now=NOW,
        )
        results.append(measure(context, earlier, question))
        earlier = context
    return results


def measure(
    context: knowloom.Context, earlier: knowloom.Context | None, question: Question
) -> TurnResult:
    shown = {entry.id for entry in earlier_of(context).shown}
    shared = common_bytes(context.text, earlier.text) if earlier is not None else 0
    return TurnResult(
        len(context.text.encode()),
        shared,
        len(question.gold & shown) / len(question.gold),
        context.tokens,
        earlier is not None and not context.prefix,
    )


def common_bytes(first: str, second: str) -> int:
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return len(first[:low].encode())


def summarize(name: str, results: Sequence[TurnResult]) -> str:
    count = len(results)
    shared = 100 * sum(result.shared for result in results) / sum(r.size for r in results)
    evidence = 100 * sum(result.evidence for result in results) / count
    tokens = sum(result.tokens for result in results) / count
    anew = sum(result.begins_anew for result in results)
    return f"| {name} | {shared:.1f} | {evidence:.1f} | {tokens:,.0f} | {anew} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--cache", type=Path, help="folder of vectors")
    parser.add_argument("--words", action="store_true", help="without vectors")
    parser.add_argument("--new", type=int, nargs="*", default=NEW_TOKENS)
    parser.add_argument("--windows", type=int, nargs="*", default=WINDOWS)
    arguments = parser.parse_args()
    cache = None if arguments.words else arguments.cache or Path("/tmp/vectors")
    with load(arguments.data, arguments.conversations, cache) as kb:
        questions = read_questions(arguments.data, [info.name for info in kb.reader.spaces()])
        print(f"{len(questions)} questions", flush=True)
        print("| new_tokens, max_tokens | shared bytes, % | evidence, % | tokens | begun anew |")
        print("|---|---|---|---|---|")
        for new in arguments.new:
            made = ask(kb, questions, new, new, anew=True)
            print(summarize(f"{new}, made anew", made), flush=True)
            for window in arguments.windows:
                continued = ask(kb, questions, window, new, anew=False)
                print(summarize(f"{new}, {window:,}", continued), flush=True)


if __name__ == "__main__":
    main()
