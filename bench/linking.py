"""Cost of automatic edges: all of them at once for N generated items, and for single changes.

Times are processor time, which other programs disturb less than wall time.

python -m bench.linking --items 20000
python -m bench.linking --items 10000 --narrow
python -m bench.linking --corpus DATA_FOLDER/hotpotqa/corpus.jsonl
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import knowloom
from bench.corpus import GeneratedCorpus
from knowloom.linking.name_rules import NAME_RULES

CHANGES = 20
CENTRE = 2.8  # added to unit vectors, it makes unrelated ones have a cosine of 0.89
Embedded = tuple[knowloom.Item, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument(
        "--corpus", type=Path, help="link the passages of a retrieval set by names instead"
    )
    parser.add_argument("--narrow", action="store_true", help="vectors with a mean cosine of 0.89")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/links.db"
        if arguments.corpus:
            measure_names(path, arguments.corpus, arguments.items)
            return
        last_batch = fill(path, arguments.items, CENTRE if arguments.narrow else 0.0)
        for rule in ("shared_tag", "similar"):
            measure_rule(path, rule, last_batch)


def measure_names(path: str, corpus: Path, count: int) -> None:
    """Measure all edges by names of stored passages, then single changes of a passage's text."""
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()[:count]]
    items = [
        knowloom.Item(row["id"], "all", title=row.get("title", ""), text=row["text"])
        for row in rows
    ]
    with knowloom.open(path, embedder=None, links=[]) as kb:
        started = time.process_time()
        kb.add(items, embed=False)
        stored = time.process_time() - started
    with knowloom.open(path, embedder=None, links=[rule.type for rule in NAME_RULES]) as kb:
        spent, links = link_all(kb)
        changes = [
            time_change(kb, replace(item, text=f"{item.text} Changed {number}."))
            for number, item in enumerate(items[:: max(1, len(items) // CHANGES)])
        ]
    ms_per_item = 1000 / len(items)
    print(
        f"{len(items):,} passages: storing {stored * ms_per_item:.2f} ms each; edges by names"
        f" {spent * ms_per_item:.2f} ms each, {links:,} edges",
        flush=True,
    )
    print(
        f"  one change, with its words: {np.median(changes):.1f} ms, at most {max(changes):.0f} ms",
        flush=True,
    )


def fill(path: str, count: int, centre: float) -> list[Embedded]:
    """Store items with four of count / 30 tags and clustered vectors; return the last batch.

    `centre` is the length of a vector that is added to all of them.
    """
    corpus, random, spent = GeneratedCorpus(count), np.random.default_rng(1), 0.0
    with knowloom.open(path, embedder=None, links=[]) as kb:
        for items, vectors in corpus.batches(2000):
            tagged = [
                replace(item, tags=_tags(random.integers(0, count // 30, 4).tolist()))
                for item in items
            ]
            started = time.process_time()
            kb.add(tagged, embed=False)
            spent += time.process_time() - started
            moved = vectors + centre * direction(vectors.shape[1])
            kb.add(tagged, vectors=moved.tolist())
    print(
        f"{count:,} items: words without edges {count / spent:,.0f} a second of processor time",
        flush=True,
    )
    return list(zip(tagged, vectors.tolist(), strict=True))


def direction(dimensions: int) -> npt.NDArray[np.float64]:
    vector = np.random.default_rng(0).normal(size=dimensions)
    unit: npt.NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit


def _tags(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"t{number}" for number in sorted(set(numbers)))


def measure_rule(path: str, rule: str, last_batch: Sequence[Embedded]) -> None:
    with knowloom.open(path, embedder=None, links=[rule]) as kb:
        spent, links = link_all(kb)
        changes = [
            time_change(kb, replace(item, text=f"changed {number}"), vector)
            for number, (item, vector) in enumerate(last_batch[:CHANGES])
        ]
    print(
        f"  {rule:12} all: {spent:6.1f} s, {links:,} edges; one change:"
        f" {np.median(changes):.1f} ms",
        flush=True,
    )


def link_all(kb: knowloom.Engine) -> tuple[float, int]:
    """Add all automatic edges; return the seconds it took and their number."""
    started = time.process_time()
    kb.maintenance.link()
    return time.process_time() - started, kb.maintenance.stats().spaces[0].links


def time_change(
    kb: knowloom.Engine, item: knowloom.Item, vector: list[float] | None = None
) -> float:
    """Return the milliseconds that storing a changed item takes."""
    started = time.process_time()
    if vector is None:
        kb.add(item, embed=False)
    else:
        kb.add(item, vectors=[vector])
    return (time.process_time() - started) * 1000


if __name__ == "__main__":
    main()
