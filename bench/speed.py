"""How fast knowloom is: ingest, search and context at N generated items, with plain bm25s and numpy beside it in the same run.

python -m bench.speed --items 100000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import knowloom
from knowloom.embedders.minilm import FILES
from knowloom.recipes import KNOWLEDGE, Mode, Source

DIMENSIONS = 384
TYPES = (
    "faq",
    "playbook",
    "permission_rule",
    "concept",
    "schema_index",
    "schema_field",
    "example",
    "note",
)
EDGES_PER_ITEM = 5
QUESTIONS, NEW_QUESTIONS = 100, 1000
CONTEXTS: dict[str, Source] = {
    "context, links by weight": "neighbours",
    "context, links by the walk": "walk",
}
Floats = npt.NDArray[np.float32]


class Made:
    """A corpus made of chance: words by Zipf's law, vectors in clusters, edges that favour hubs. The same seed, the same corpus."""

    def __init__(self, items: int, seed: int = 7) -> None:
        self.items = items
        self._chance = np.random.default_rng(seed)
        vocabulary = json.loads((FILES / "tokenizer.json").read_text())["model"][
            "vocab"
        ]  # real words, the frequent ones first
        self._words = [word for word in vocabulary if word.isalpha() and len(word) > 2]
        weights = 1 / np.arange(1, len(self._words) + 1) ** 1.05
        self._odds = np.cumsum(weights / weights.sum())
        self._centres = self._units(max(50, items // 500), self._chance)

    def _units(self, count: int, chance: np.random.Generator) -> Floats:
        vectors = chance.standard_normal((count, DIMENSIONS), dtype=np.float32)
        units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return units

    def text(self, length: int) -> str:
        return " ".join(
            self._words[int(n)] for n in np.searchsorted(self._odds, self._chance.random(length))
        )

    def vectors(self, count: int) -> Floats:
        near = self._centres[self._chance.integers(0, len(self._centres), count)]
        vectors = near + 0.055 * self._chance.standard_normal((count, DIMENSIONS), dtype=np.float32)
        units: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(
            np.float32
        )
        return units

    def batches(self, size: int) -> Iterator[tuple[list[knowloom.Item], Floats]]:
        for start in range(0, self.items, size):
            numbers = range(start, min(start + size, self.items))
            items = [
                knowloom.Item(
                    f"n{n}",
                    "one",
                    type=TYPES[n % len(TYPES)],
                    title=self.text(4),
                    text=self.text(45),
                    summary=self.text(9),
                )
                for n in numbers
            ]
            yield items, self.vectors(len(items))

    def edges(self) -> Iterator[list[knowloom.Edge]]:
        for start in range(0, self.items * EDGES_PER_ITEM, 20_000):
            count = min(20_000, self.items * EDGES_PER_ITEM - start)
            sources = self._chance.integers(0, self.items, count)
            targets = (self.items * self._chance.random(count) ** 2.2).astype(np.int64)
            weights = np.round(self._chance.random(count) * 0.9 + 0.1, 3)
            found = {
                (s, t): knowloom.Edge(f"n{s}", f"n{t}", weight=float(w), space="one")
                for s, t, w in zip(
                    sources.tolist(), targets.tolist(), weights.tolist(), strict=True
                )
            }
            yield list(found.values())


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds. `cpu` is the median of processor time, `quiet` the median of those calls beside which a fixed loop ran at nearly its best: the
    speed of a shared machine changes by a half within seconds, and these are what an idle one would do.
    """

    p50: float
    p95: float
    cpu: float
    quiet: float
    of: float  # the part of the calls that were such

    def __str__(self) -> str:
        return (
            f"p50 {self.p50:7.2f} ms   p95 {self.p95:7.2f} ms   cpu {self.cpu:7.2f} ms   at full"
            f" speed {self.quiet:7.2f} ms ({self.of:.0%})"
        )


def yardstick() -> float:
    """How long a fixed piece of work takes just now, in seconds."""
    started, total = time.perf_counter(), 0
    for number in range(3000):
        total += number * number % 7
    return time.perf_counter() - started


def timed(call: Callable[[int], object], count: int, untimed: int = 3) -> Times:
    for number in range(untimed):
        call(number)
    walls, cpus, loops = [], [], [yardstick()]
    for number in range(count):
        wall, cpu = time.perf_counter(), time.process_time()
        call(number)
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
        loops.append(yardstick())
    beside = np.maximum(loops[:-1], loops[1:])
    quiet = beside <= np.percentile(beside, 2) * 1.12
    median = float(np.percentile(np.array(walls)[quiet], 50))
    return Times(
        float(np.percentile(walls, 50)),
        float(np.percentile(walls, 95)),
        float(np.percentile(cpus, 50)),
        median,
        float(quiet.mean()),
    )


def ingest(kb: knowloom.Engine, made: Made) -> dict[str, float]:
    spent = {"items": 0.0, "vectors": 0.0, "edges": 0.0}
    for items, vectors in made.batches(2000):
        started = time.perf_counter()
        kb.add(items, embed=False)
        spent["items"] += time.perf_counter() - started
        started = time.perf_counter()
        kb._stores.vectors.put_vectors(
            {item.key: vector for item, vector in zip(items, vectors, strict=True)}, "bench"
        )
        spent["vectors"] += time.perf_counter() - started
    for edges in made.edges():
        started = time.perf_counter()
        kb.add([], edges)
        spent["edges"] += time.perf_counter() - started
    return {
        name: round((made.items * (EDGES_PER_ITEM if name == "edges" else 1)) / seconds)
        for name, seconds in spent.items()
    }


def peers(
    made_texts: Sequence[str], vectors: Floats, queries: Sequence[str], asked: Floats, count: int
) -> tuple[float, float]:
    """p50 of plain bm25s top-30 and of a plain numpy top-30, in milliseconds."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(list(made_texts), stemmer=stemmer, show_progress=False), show_progress=False
    )

    def words(number: int) -> object:
        tokens = bm25s.tokenize(
            queries[number % len(queries)], stemmer=stemmer, show_progress=False
        )
        return index.retrieve(tokens, k=30, show_progress=False)

    def meaning(number: int) -> object:
        scores = vectors @ asked[number % len(asked)]
        best = np.argpartition(-scores, 30)[:30]
        return best[np.argsort(-scores[best])]

    return timed(words, count).p50, timed(meaning, count).p50


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=2000)
    parser.add_argument(
        "--file", type=Path, help="keep the file here, and use it again if it is there"
    )
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument(
        "--links",
        default="",
        help="rules of knowloom's own links to make, with commas between: shared_tag,similar",
    )
    arguments = parser.parse_args()
    path = arguments.file or Path(tempfile.mkdtemp()) / "speed.db"
    made = Made(arguments.items)
    fresh = not path.exists()
    kb = knowloom.open(str(path), embedder=None, links=[])
    print(f"{arguments.items:,} items, {DIMENSIONS} dimensions, {EDGES_PER_ITEM} edges an item")
    if fresh:
        print(
            "  ingest per second:",
            ingest(kb, made),
            f"  file {path.stat().st_size / 1e6:.0f} MB",
            flush=True,
        )
    if arguments.links:
        kb.close()
        kb = knowloom.open(str(path), embedder=None, links=arguments.links.split(","))
        started, cpu = time.perf_counter(), time.process_time()
        looked_at = kb.maintenance.link()
        spent = time.perf_counter() - started, time.process_time() - cpu
        print(
            f"  links: {sum(info.links for info in kb.maintenance.stats().spaces):,} of"
            f" {looked_at:,} items in {spent[0]:.1f} s, {spent[1]:.1f} s of processor time",
            flush=True,
        )
    asking = Made(arguments.items, seed=8)
    queries = [asking.text(6) for _ in range(QUESTIONS + NEW_QUESTIONS)]
    vectors = made.vectors(QUESTIONS + NEW_QUESTIONS)
    measure(kb, queries, vectors, arguments)
    print(
        f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
        flush=True,
    )
    kb.close()
    cold_start(path)
    if not arguments.no_peers:
        again = Made(arguments.items)
        texts, stored = [], []
        for items, part in again.batches(2000):
            texts += [f"{item.title} {item.text} {item.summary}" for item in items]
            stored.append(part)
        words, meaning = peers(
            texts,
            np.concatenate(stored),
            queries[:QUESTIONS],
            vectors[:QUESTIONS],
            arguments.requests,
        )
        print(f"  beside it, p50: bm25s {words:.2f} ms, numpy brute force {meaning:.2f} ms")


def measure(
    kb: knowloom.Engine, queries: Sequence[str], vectors: Floats, arguments: argparse.Namespace
) -> None:
    def search(number: int, mode: Mode = "hybrid") -> object:
        return kb.search(
            queries[number % QUESTIONS],
            spaces=["one"],
            limit=30,
            mode=mode,
            vector=vectors[number % QUESTIONS].tolist(),
        )

    def filtered(number: int) -> object:
        return kb.search(
            queries[number % QUESTIONS],
            spaces=["one"],
            limit=30,
            types=["faq", "concept"],
            vector=vectors[number % QUESTIONS].tolist(),
        )

    def context(number: int, source: Source, spans: dict[str, list[float]]) -> object:
        answer = kb.context(
            queries[number],
            spaces=["one"],
            max_tokens=arguments.max_tokens,
            vector=vectors[number].tolist(),
            recipe=[
                replace(recipe, source=source) if recipe.source == "walk" else recipe
                for recipe in KNOWLEDGE
            ],
        )
        for name, value in answer.stats.timings.items():
            spans.setdefault(name, []).append(value)
        return answer

    runs: dict[str, Callable[[int], object]] = {
        "search bm25": lambda number: search(number, "bm25"),
        "search vector": lambda number: search(number, "vector"),
        "search hybrid": search,
        "search hybrid, 2 of 8 types": filtered,
    }
    for name, run in runs.items():
        print(f"  {name:41} {timed(run, arguments.requests)}", flush=True)
    # An item is rendered and counted when it is shown first, and a vector is read when it may be near first: such requests are told apart. The questions
    # of the first were searched for above; the new ones never were, and are new once: they are asked by the default.
    asked = {
        "first time": (QUESTIONS, 0),
        "again": (arguments.requests, 3),
        "new questions": (NEW_QUESTIONS, 0),
    }
    for name, source in CONTEXTS.items():
        for when, (count, untimed) in asked.items():
            if when == "new questions" and source != "walk":
                continue
            spans: dict[str, list[float]] = {}
            first, among = (QUESTIONS, NEW_QUESTIONS) if when == "new questions" else (0, QUESTIONS)
            run = partial(_numbered, context, first, among, source=source, spans=spans)
            print(f"  {f'{name}, {when}':41} {timed(run, count, untimed)}")
            print(
                "    by stage, p50:",
                {
                    part: round(float(np.percentile(values, 50)), 2)
                    for part, values in spans.items()
                },
                flush=True,
            )


def _numbered(
    call: Callable[..., object], first: int, among: int, number: int, **options: Any
) -> object:
    """The call for one of so many questions, from the first on."""
    return call(first + number % among, **options)


def cold_start(path: Path) -> None:
    """A new process from start to exit: what a shell call costs."""
    command = [
        sys.executable,
        "-m",
        "knowloom",
        "context",
        "--db",
        str(path),
        "--space",
        "one",
        "--json",
        "how to process a refund",
    ]
    spans = []
    for _ in range(5):
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        spans.append(time.perf_counter() - started)
    tokens = (
        json.loads(done.stdout)["tokens"] if done.returncode == 0 else done.stderr.strip()[-200:]
    )
    print(
        f"  `knowloom context` in a new process: {min(spans):.2f} to {max(spans):.2f} s (tokens:"
        f" {tokens})",
        flush=True,
    )


if __name__ == "__main__":
    main()
