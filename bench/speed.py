"""Speed of ingest, search and context at N generated items, with plain bm25s and numpy beside it.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import knowloom
from bench.corpus import DIMENSIONS, EDGES_PER_ITEM, SPACE, Floats, GeneratedCorpus
from bench.timing import stage_medians, time_calls
from knowloom.recipes import KNOWLEDGE, Mode, Source

QUESTIONS, NEW_QUESTIONS = 100, 1000
CONTEXTS: dict[str, Source] = {
    "context, links by weight": "neighbours",
    "context, links by the walk": "walk",
}


def ingest(kb: knowloom.Engine, corpus: GeneratedCorpus) -> dict[str, int]:
    """Store a corpus; return items, vectors and edges per second."""
    spent = {"items": 0.0, "vectors": 0.0, "edges": 0.0}
    for items, vectors in corpus.batches(2000):
        started = time.perf_counter()
        kb.add(items, embed=False)
        spent["items"] += time.perf_counter() - started
        started = time.perf_counter()
        kb._stores.vectors.put_vectors(
            {item.key: vector for item, vector in zip(items, vectors, strict=True)}, "bench"
        )
        spent["vectors"] += time.perf_counter() - started
    for edges in corpus.edges():
        started = time.perf_counter()
        kb.add([], edges)
        spent["edges"] += time.perf_counter() - started
    counts = dict.fromkeys(spent, corpus.size) | {"edges": corpus.size * EDGES_PER_ITEM}
    return {name: round(counts[name] / seconds) for name, seconds in spent.items()}


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests by number to an engine, each with its query and vector."""

    kb: knowloom.Engine
    queries: Sequence[str]
    vectors: Floats
    max_tokens: int

    def search(self, number: int, mode: Mode = "hybrid", types: Sequence[str] = ()) -> object:
        return self.kb.search(
            self.queries[number % QUESTIONS],
            spaces=[SPACE],
            limit=30,
            mode=mode,
            types=types,
            vector=self.vectors[number % QUESTIONS].tolist(),
        )

    def context(self, number: int, source: Source, timings: dict[str, list[float]]) -> object:
        recipes = [
            replace(recipe, source=source) if recipe.source == "walk" else recipe
            for recipe in KNOWLEDGE
        ]
        context = self.kb.context(
            self.queries[number],
            spaces=[SPACE],
            max_tokens=self.max_tokens,
            vector=self.vectors[number].tolist(),
            recipe=recipes,
        )
        for stage, span in context.stats.timings.items():
            timings.setdefault(stage, []).append(span)
        return context


def measure_searches(requests: Requests, count: int) -> None:
    runs: dict[str, Callable[[int], object]] = {
        "search bm25": lambda number: requests.search(number, "bm25"),
        "search vector": lambda number: requests.search(number, "vector"),
        "search hybrid": requests.search,
        "search hybrid, 2 of 8 types": lambda number: requests.search(
            number, types=["faq", "concept"]
        ),
    }
    for name, run in runs.items():
        print(f"  {name:41} {time_calls(run, count)}", flush=True)


def measure_contexts(requests: Requests, count: int) -> None:
    """Time contexts the first time, again, and for new questions.

    An item is rendered and counted when it is first shown, and a vector is read when it is first
    a candidate, so these differ. The questions of the first round were searched for before; the
    new ones were not, and can only be new once, so only the default source gets them.
    """
    for name, source in CONTEXTS.items():
        _measure_context(f"{name}, first time", requests, source, range(QUESTIONS))
        _measure_context(f"{name}, again", requests, source, range(QUESTIONS), count, untimed=3)
        if source == "walk":
            new = range(QUESTIONS, QUESTIONS + NEW_QUESTIONS)
            _measure_context(f"{name}, new questions", requests, source, new)


def _measure_context(
    name: str,
    requests: Requests,
    source: Source,
    numbers: range,
    count: int | None = None,
    untimed: int = 0,
) -> None:
    timings: dict[str, list[float]] = {}
    times = time_calls(
        lambda number: requests.context(numbers[number % len(numbers)], source, timings),
        count or len(numbers),
        untimed,
    )
    print(f"  {name:41} {times}")
    print("    by stage, p50:", stage_medians(timings), flush=True)


def measure_links(path: Path, rules: Sequence[str]) -> None:
    """Add the automatic edges of some rules to the file."""
    with knowloom.open(str(path), embedder=None, links=rules) as kb:
        started, cpu = time.perf_counter(), time.process_time()
        examined = kb.maintenance.link()
        spent = time.perf_counter() - started, time.process_time() - cpu
        links = sum(info.links for info in kb.maintenance.stats().spaces)
    print(
        f"  links: {links:,} of {examined:,} items in {spent[0]:.1f} s,"
        f" {spent[1]:.1f} s of processor time",
        flush=True,
    )


def measure_cold_start(path: Path) -> None:
    """Time a shell command: a new process from start to exit."""
    command = [sys.executable, "-m", "knowloom", "context", "--db", str(path)]
    command += ["--space", SPACE, "--json", "how to process a refund"]
    spans = []
    for _ in range(5):
        started = time.perf_counter()
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        spans.append(time.perf_counter() - started)
    failed = process.returncode != 0
    tokens = process.stderr.strip()[-200:] if failed else json.loads(process.stdout)["tokens"]
    print(
        f"  `knowloom context` in a new process: {min(spans):.2f} to {max(spans):.2f} s"
        f" (tokens: {tokens})",
        flush=True,
    )


def measure_peers(
    corpus: GeneratedCorpus, queries: Sequence[str], query_vectors: Floats, count: int
) -> None:
    """Time plain bm25s and a numpy brute force, both for the best 30 of the same corpus."""
    import bm25s
    import Stemmer

    texts: list[str] = []
    parts = []
    for items, part in corpus.batches(2000):
        texts += [f"{item.title} {item.text} {item.summary}" for item in items]
        parts.append(part)
    vectors = np.concatenate(parts)
    stemmer = Stemmer.Stemmer("english")

    def tokenize(batch: str | list[str]) -> Any:
        return bm25s.tokenize(batch, stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokenize(texts), show_progress=False)

    def search_words(number: int) -> object:
        tokens = tokenize(queries[number % len(queries)])
        return index.retrieve(tokens, k=30, show_progress=False)

    def search_vectors(number: int) -> object:
        scores = vectors @ query_vectors[number % len(query_vectors)]
        best = np.argpartition(-scores, 30)[:30]
        return best[np.argsort(-scores[best])]

    words, brute_force = time_calls(search_words, count).p50, time_calls(search_vectors, count).p50
    print(f"  beside it, p50: bm25s {words:.2f} ms, numpy brute force {brute_force:.2f} ms")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=2000)
    parser.add_argument("--file", type=Path, help="store the corpus here, or reuse this file")
    parser.add_argument("--no-peers", action="store_true", help="skip bm25s and numpy")
    parser.add_argument(
        "--links", default="", help="rules of automatic edges, separated by commas: similar,..."
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    path = arguments.file or Path(tempfile.mkdtemp()) / "speed.db"
    corpus = GeneratedCorpus(arguments.items)
    print(f"{arguments.items:,} items, {DIMENSIONS} dimensions, {EDGES_PER_ITEM} edges an item")
    if not path.exists():
        with knowloom.open(str(path), embedder=None, links=[]) as kb:
            rates = ingest(kb, corpus)
        size = path.stat().st_size / 1e6
        print(f"  ingest per second: {rates}   file {size:.0f} MB", flush=True)
    rules = arguments.links.split(",") if arguments.links else []
    if rules:
        measure_links(path, rules)
    queries = GeneratedCorpus(arguments.items, seed=8).texts(QUESTIONS + NEW_QUESTIONS, 6)
    vectors = corpus.vectors(QUESTIONS + NEW_QUESTIONS)
    with knowloom.open(str(path), embedder=None, links=rules) as kb:
        requests = Requests(kb, queries, vectors, arguments.max_tokens)
        measure_searches(requests, arguments.requests)
        measure_contexts(requests, arguments.requests)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  peak memory {peak:.0f} MB", flush=True)
    measure_cold_start(path)
    if not arguments.no_peers:
        again = GeneratedCorpus(arguments.items)
        measure_peers(again, queries[:QUESTIONS], vectors[:QUESTIONS], arguments.requests)


if __name__ == "__main__":
    main()
