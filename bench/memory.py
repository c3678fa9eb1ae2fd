"""Quality of memory on conversations, and speed of a large workspace.

python -m bench.memory quality DATA_FOLDER/locomo --cache /tmp/vectors --json after.json
python -m bench.memory compare before.json after.json
python -m bench.memory speed --items 100000
python -m bench.memory cache
"""

from __future__ import annotations

import argparse
import json
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
from bench.retrieval import compare_results, format_difference
from bench.timing import time_calls
from bench.vectors import open_embedder
from knowloom.evaluation.questions import read_rows
from knowloom.ports import Embedder

DEPTH = 50  # results of a search: more than the default, so that the ranker has a choice
DEPTHS = (5, 10, 50)
BUDGET = 1024
NOW = datetime(2024, 6, 1, tzinfo=UTC)  # of the generated corpus
# The questions are put so long after the last turn of their conversation.
DELAYS = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "year": timedelta(days=365),
}
CATEGORIES = {1: "several turns", 2: "time", 3: "inference", 4: "one turn", 5: "adversarial"}

Results = dict[str, dict[str, float]]  # question id -> measure -> value


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """A question about a conversation, with the ids of the turns that answer it."""

    id: str
    text: str
    workspace: str
    category: int
    gold: frozenset[str]
    last_turn: datetime

    def recall(self, ids: Sequence[str]) -> float:
        return len(self.gold & set(ids)) / len(self.gold)


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
    last_turns: dict[str, datetime] = {}
    for (conversation, session), rows in sessions.items():
        turns = knowloom.Memory(kb, conversation).add_conversation(
            [parse_turn(row) for row in rows], conversation=session, embed=False
        )
        ids |= {row["id"]: turn.id for row, turn in zip(rows, turns, strict=True)}
        times = [turn.created_at for turn in turns if turn.created_at is not None]
        last_turns[conversation] = max([*times, last_turns.get(conversation, times[0])])
    kb.maintenance.embed()
    questions = [
        MemoryQuestion(
            row["id"],
            row["text"],
            row["conv"],
            row["category"],
            frozenset(ids[id] for id in row["gold"]),
            last_turns[row["conv"]],
        )
        for _, row in read_rows(folder / "queries.jsonl")
        if row["gold"]
    ]
    return kb, questions


def measure_question(
    kb: knowloom.Engine, question: MemoryQuestion, delay: str, ranker: str
) -> dict[str, float]:
    """Return recall at each depth and the share of the evidence inside the budget."""
    memory = knowloom.Memory(kb, question.workspace)
    now = question.last_turn + DELAYS[delay]
    results = memory.search(question.text, limit=DEPTH, now=now, ranker=ranker)
    ids = [result.memory.id for result in results]
    preview = memory.preview(question.text, token_budget=BUDGET, now=now, limit=None, ranker=ranker)
    recalls = {f"R@{depth}": question.recall(ids[:depth]) for depth in DEPTHS}
    return recalls | {f"evidence@{BUDGET}": question.recall(preview.memory_ids)}


def measure_quality(arguments: argparse.Namespace) -> None:
    kb, questions = load(arguments.data, open_embedder(arguments.cache))
    if arguments.skip:
        workspaces = sorted({question.workspace for question in questions})[arguments.skip :]
        questions = [question for question in questions if question.workspace in workspaces]
    questions = questions[: arguments.questions]
    turns = sum(info.items for info in kb.maintenance.stats().spaces)
    print(f"{turns:,} turns, {len(questions):,} questions", flush=True)
    results: Results = {question.id: {} for question in questions}
    for delay in DELAYS:
        for question in questions:
            values = measure_question(kb, question, delay, arguments.ranker)
            results[question.id] |= {f"{name} {delay}": value for name, value in values.items()}
        print(f"  asked {'an' if delay == 'hour' else 'a'} {delay} after the last turn")
        _print_means(results, questions, delay)
    if arguments.json:
        categories = {question.id: question.category for question in questions}
        content = {"ranker": arguments.ranker, "categories": categories, "questions": results}
        arguments.json.write_text(json.dumps(content), "utf-8")


def _print_means(results: Results, questions: Sequence[MemoryQuestion], delay: str) -> None:
    """Print the means of all questions and of each category."""
    for category in (0, *CATEGORIES):
        values = [
            {
                name.removesuffix(f" {delay}"): value
                for name, value in results[question.id].items()
                if name.endswith(f" {delay}")
            }
            for question in questions
            if category in (0, question.category)
        ]
        if values:
            means = {name: _mean([row[name] for row in values]) for name in values[0]}
            label = CATEGORIES.get(category, "all")
            print(f"    {label:14} {len(values):5,} questions", means, flush=True)


def compare(arguments: argparse.Namespace) -> None:
    """Print the paired test of each measure, for all questions and by category."""
    before, after = (
        json.loads(path.read_text("utf-8")) for path in (arguments.before, arguments.after)
    )
    for category in (0, *CATEGORIES):
        ids = [
            id
            for id, number in before["categories"].items()
            if id in after["questions"] and category in (0, number)
        ]
        if not ids:
            continue
        print(f"{CATEGORIES.get(category, 'all')}: {len(ids):,} questions")
        runs = ({id: run["questions"][id] for id in ids} for run in (before, after))
        for measure, (_, means, difference) in compare_results(*runs).items():
            print(f"  {format_difference(measure, means, difference)}")


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
    quality.add_argument("--skip", type=int, help="without the first N conversations")
    quality.add_argument("--ranker", default="default", help="the ranker to measure")
    quality.add_argument("--json", type=Path, help="file for the values of each question")
    quality.set_defaults(run=measure_quality)
    comparison = commands.add_parser("compare")
    comparison.add_argument("before", type=Path, help="a file of quality --json")
    comparison.add_argument("after", type=Path)
    comparison.set_defaults(run=compare)
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
