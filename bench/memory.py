"""Quality of memory on conversations, and speed of a large workspace.

python -m bench.memory quality DATA_FOLDER/locomo --cache /tmp/vectors
python -m bench.memory speed --items 100000
python -m bench.memory cache
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import timeit
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import knowloom
from bench.corpus import SPACE, GeneratedCorpus
from bench.timing import time_calls
from bench.vectors import open_embedder
from knowloom.evaluation.questions import read_rows
from knowloom.ports import Embedder

DEPTHS = (5, 10, 25, 50)
BUDGETS = (512, 1024, 2048)
NOW = datetime(2024, 6, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """A question about a conversation, with the ids of the turns that answer it."""

    text: str
    workspace: str
    gold: frozenset[str]


def parse_turn(row: dict[str, Any]) -> knowloom.Turn:
    """Parse a turn of LoCoMo, at its session's time such as "1:56 pm on 8 May, 2023"."""
    return knowloom.Turn(
        row["speaker"],
        row["text"] or "(a picture)",
        datetime.strptime(row["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
    )


def load(folder: Path, embedder: Embedder) -> tuple[knowloom.Engine, list[MemoryQuestion]]:
    """Load every conversation into its own workspace, session by session.

    Return the engine and the questions that have evidence.
    """
    sessions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _, row in read_rows(folder / "corpus.jsonl"):
        sessions.setdefault((row["conv"], row["session"]), []).append(dict(row))
    kb = knowloom.open(tempfile.mkdtemp() + "/memory.db", embedder=embedder)
    ids: dict[str, str] = {}
    for (conversation, session), rows in sessions.items():
        turns = knowloom.Memory(kb, conversation).add_conversation(
            [parse_turn(row) for row in rows], conversation=session, embed=False
        )
        ids |= {row["id"]: turn.id for row, turn in zip(rows, turns, strict=True)}
    kb.maintenance.embed()
    questions = [
        MemoryQuestion(row["text"], row["conv"], frozenset(ids[id] for id in row["gold"]))
        for _, row in read_rows(folder / "queries.jsonl")
        if row["gold"]
    ]
    return kb, questions


def measure_recall(
    kb: knowloom.Engine, questions: Sequence[MemoryQuestion], ranker: str
) -> dict[str, float]:
    """Return recall at each depth, in percent."""
    recalls: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    for question in questions:
        results = knowloom.Memory(kb, question.workspace).search(
            question.text, limit=max(DEPTHS), now=NOW, ranker=ranker
        )
        ids = [result.memory.id for result in results]
        for depth in DEPTHS:
            recalls[depth].append(len(question.gold & set(ids[:depth])) / len(question.gold))
    return {f"R@{depth}": _mean(shares) for depth, shares in recalls.items()}


def measure_evidence(
    kb: knowloom.Engine,
    questions: Sequence[MemoryQuestion],
    ranker: str,
    include_relationships: bool = False,
) -> dict[str, float]:
    """Return the share of the evidence inside each budget, and the share of the budget used."""
    result: dict[str, float] = {}
    for budget in BUDGETS:
        shares, used = [], []
        for question in questions:
            preview = knowloom.Memory(kb, question.workspace).preview(
                question.text,
                token_budget=budget,
                now=NOW,
                limit=None,
                ranker=ranker,
                include_relationships=include_relationships,
            )
            shares.append(len(question.gold & set(preview.memory_ids)) / len(question.gold))
            used.append(preview.budget_used / 100)
        result |= {f"ev@{budget}": _mean(shares), f"used@{budget}": _mean(used)}
    return result


def measure_quality(arguments: argparse.Namespace) -> None:
    kb, questions = load(arguments.data, open_embedder(arguments.cache))
    questions = questions[: arguments.questions]
    turns = sum(info.items for info in kb.maintenance.stats().spaces)
    print(f"{turns:,} turns, {len(questions):,} questions", flush=True)
    for ranker in ("similarity", "default"):
        recall = measure_recall(kb, questions, ranker)
        print(f"  search, ranked by {ranker:10}", recall, flush=True)
    for ranker in ("similarity", "default"):
        evidence = measure_evidence(kb, questions, ranker)
        print(f"  context, ranked by {ranker:10}", evidence, flush=True)
    evidence = measure_evidence(kb, questions, "similarity", include_relationships=True)
    print("  context with neighbouring turns", evidence, flush=True)


def fill(kb: knowloom.Engine, corpus: GeneratedCorpus) -> None:
    """Store a corpus as memories of 50 conversations."""
    for items, vectors in corpus.batches(2000):
        memories = [
            knowloom.Item(
                item.id,
                SPACE,
                knowloom.Kind.MEMORY,
                item.type,
                text=item.text,
                subject=f"c{n % 50}",
                confidence=0.5,
                created_at=NOW - timedelta(minutes=n),
            )
            for n, item in enumerate(items)
        ]
        kb.add(memories, vectors=vectors.tolist())


def measure_speed(arguments: argparse.Namespace) -> None:
    corpus = GeneratedCorpus(arguments.items)
    kb = knowloom.open(tempfile.mkdtemp() + "/memory.db", embedder=None, links=[])
    fill(kb, corpus)
    memory = knowloom.Memory(kb, SPACE)
    queries = GeneratedCorpus(arguments.items, seed=8).texts(100, 6)
    vectors = [vector.tolist() for vector in corpus.vectors(100)]
    print(f"{arguments.items:,} memories of one workspace, with query vectors")
    runs = {
        "search by vector": lambda n: memory.search_by_vector(vectors[n % 100]),
        "the same, of one conversation": lambda n: memory.search_by_vector(
            vectors[n % 100], conversation_id="c7"
        ),
        "search by words": lambda n: memory.search(queries[n % 100], mode="bm25"),
        "context by vector, 2,000 tokens": lambda n: memory.build_context_by_vector(
            vectors[n % 100], limit=None
        ),
    }
    for name, run in runs.items():
        print(f"  {name:32} {time_calls(run, arguments.requests)}", flush=True)


def measure_cache(_: argparse.Namespace) -> None:
    embedder = open_embedder(None)
    texts = ["How do I get a refund for a parcel that came too late?"]
    embedder.embed(texts)
    best = min(timeit.repeat(lambda: embedder.embed(texts), number=1000, repeat=20)) / 1000
    print(f"a hit of the embedding cache: {best * 1e6:.1f} microseconds")


def _mean(values: Sequence[float]) -> float:
    return round(100 * statistics.fmean(values), 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    quality = commands.add_parser("quality")
    quality.add_argument("data", type=Path, help="a folder with corpus.jsonl and queries.jsonl")
    quality.add_argument("--cache", type=Path, help="folder to cache vectors in")
    quality.add_argument("--questions", type=int, help="only the first N")
    quality.set_defaults(run=measure_quality)
    speed = commands.add_parser("speed")
    speed.add_argument("--items", type=int, default=100_000)
    speed.add_argument("--requests", type=int, default=200)
    speed.set_defaults(run=measure_speed)
    commands.add_parser("cache").set_defaults(run=measure_cache)
    arguments = parser.parse_args()
    started = time.perf_counter()
    arguments.run(arguments)
    print(f"  {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
