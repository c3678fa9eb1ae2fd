"""Memory: how much of the evidence is found and shown on conversations, and how fast a large workspace is searched.

python -m bench.memory quality DATA_FOLDER/locomo --cache /tmp/vectors
python -m bench.memory speed --items 100000
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
from bench.retrieval import CachedOnDisk
from bench.speed import Made, timed
from knowloom.embedders.cache import CachedEmbedder
from knowloom.evaluation.questions import read_rows as lines_of

DEPTHS = (5, 10, 25, 50)
BUDGETS = (512, 1024, 2048)
NOW = datetime(2024, 6, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    workspace: str
    gold: frozenset[str]


def spoken(row: dict[str, Any]) -> knowloom.Turn:
    """A turn of LoCoMo: its time is that of the session, written as "1:56 pm on 8 May, 2023"."""
    return knowloom.Turn(
        row["speaker"],
        row["text"] or "(a picture)",
        datetime.strptime(row["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
    )


def load(folder: Path, embedder: CachedOnDisk) -> tuple[knowloom.Engine, list[Asked]]:
    """Every conversation in a workspace of its own, told session by session, and the questions that have evidence."""
    sessions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _, row in lines_of(folder / "corpus.jsonl"):
        sessions.setdefault((row["conv"], row["session"]), []).append(dict(row))
    kb = knowloom.open(tempfile.mkdtemp() + "/memory.db", embedder=embedder)
    ids: dict[str, str] = {}
    for (conversation, session), rows in sessions.items():
        turns = knowloom.Memory(kb, conversation).add_conversation(
            [spoken(row) for row in rows], conversation=session, embed=False
        )
        ids |= {row["id"]: turn.id for row, turn in zip(rows, turns, strict=True)}
    embedder.warm("memory", [item.embeddable for item in kb.items()])
    kb.maintenance.embed()
    asked = [row for _, row in lines_of(folder / "queries.jsonl") if row["gold"]]
    embedder.warm("memory-queries", [row["text"] for row in asked])
    return kb, [
        Asked(row["text"], row["conv"], frozenset(ids[id] for id in row["gold"])) for row in asked
    ]


def recall(kb: knowloom.Engine, asked: Sequence[Asked], **options: Any) -> dict[str, float]:
    found = [
        (
            [
                one.memory.id
                for one in knowloom.Memory(kb, one.workspace).search(
                    one.text, limit=max(DEPTHS), now=NOW, **options
                )
            ],
            one.gold,
        )
        for one in asked
    ]
    return {
        f"R@{k}": _mean([len(gold & set(ids[:k])) / len(gold) for ids, gold in found])
        for k in DEPTHS
    }


def evidence(kb: knowloom.Engine, asked: Sequence[Asked], **options: Any) -> dict[str, float]:
    """The share of the evidence inside a budget, and how much of the budget was used."""
    result: dict[str, float] = {}
    for budget in BUDGETS:
        shares, used = [], []
        for one in asked:
            preview = knowloom.Memory(kb, one.workspace).preview(
                one.text, token_budget=budget, now=NOW, **({"limit": None} | options)
            )
            shares.append(len(one.gold & set(preview.memory_ids)) / len(one.gold))
            used.append(preview.budget_used / 100)
        result |= {f"ev@{budget}": _mean(shares), f"used@{budget}": _mean(used)}
    return result


def quality(arguments: argparse.Namespace) -> None:
    kb, asked = load(arguments.data, CachedOnDisk(arguments.cache))
    asked = asked[: arguments.questions]
    print(
        f"{sum(info.items for info in kb.maintenance.stats().spaces):,} turns, {len(asked):,}"
        " questions",
        flush=True,
    )
    for ranker in ("similarity", "default"):
        print(f"  search, ranked by {ranker:10}", recall(kb, asked, ranker=ranker), flush=True)
    for ranker in ("similarity", "default"):
        print(f"  context, ranked by {ranker:10}", evidence(kb, asked, ranker=ranker), flush=True)
    print(
        "  context with neighbouring turns",
        evidence(kb, asked, ranker="similarity", include_relationships=True),
        flush=True,
    )


def speed(arguments: argparse.Namespace) -> None:
    made, kb = (
        Made(arguments.items),
        knowloom.open(tempfile.mkdtemp() + "/memory.db", embedder=None, links=[]),
    )
    for items, vectors in made.batches(2000):
        memories = [
            knowloom.Item(
                item.id,
                "one",
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
    asking, memory = Made(arguments.items, seed=8), knowloom.Memory(kb, "one")
    queries, ready = (
        [asking.text(6) for _ in range(100)],
        [vector.tolist() for vector in made.vectors(100)],
    )
    print(f"{arguments.items:,} memories of one workspace, the vector given")
    runs = {
        "search by vector": lambda n: memory.search_by_vector(ready[n % 100]),
        "the same, of one conversation": lambda n: memory.search_by_vector(
            ready[n % 100], conversation_id="c7"
        ),
        "search by words": lambda n: memory.search(queries[n % 100], mode="bm25"),
        "context by vector, 2,000 tokens": lambda n: memory.build_context_by_vector(
            ready[n % 100], limit=None
        ),
    }
    for name, run in runs.items():
        print(f"  {name:32} {timed(run, arguments.requests)}", flush=True)


def cache(arguments: argparse.Namespace) -> None:
    del arguments
    held, question = (
        CachedEmbedder(CachedOnDisk(None)),
        ["How do I get a refund for a parcel that came too late?"],
    )
    held.embed(question)
    best = min(timeit.repeat(lambda: held.embed(question), number=1000, repeat=20)) / 1000
    print(f"a hit of the embedding cache: {best * 1e6:.1f} microseconds")


def _mean(values: Sequence[float]) -> float:
    return round(100 * statistics.fmean(values), 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("quality")
    one.add_argument("data", type=Path, help="a folder with corpus.jsonl and queries.jsonl")
    one.add_argument("--cache", type=Path, help="folder that keeps vectors between runs")
    one.add_argument("--questions", type=int, help="only the first N")
    one.set_defaults(run=quality)
    two = commands.add_parser("speed")
    two.add_argument("--items", type=int, default=100_000)
    two.add_argument("--requests", type=int, default=200)
    two.set_defaults(run=speed)
    commands.add_parser("cache").set_defaults(run=cache)
    arguments = parser.parse_args()
    started = time.perf_counter()
    arguments.run(arguments)
    print(f"  {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
