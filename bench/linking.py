"""What links of knowloom's own cost: all at once for N generated items, and for one change. Processor time, as other programs disturb it less.

python -m bench.linking --items 20000
python -m bench.linking --corpus DATA_FOLDER/hotpotqa/corpus.jsonl
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import knowloom
from bench.speed import Made
from knowloom.linking.name_rules import NAME_RULES

CHANGES = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument(
        "--corpus", type=Path, help="links by names instead, of the passages of a retrieval set"
    )
    arguments = parser.parse_args()
    if arguments.corpus:
        by_names(arguments.corpus, arguments.items)
        return
    count = arguments.items
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/links.db"
        last = fill(path, count)
        for rule in ("shared_tag", "similar"):
            measure(path, rule, last)


def by_names(corpus: Path, count: int) -> None:
    """All links by names of stored passages, then single changes of a passage's text."""
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()[:count]]
    items = [
        knowloom.Item(row["id"], "all", title=row.get("title", ""), text=row["text"])
        for row in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        with knowloom.open(f"{folder}/names.db", embedder=None, links=[]) as kb:
            started = time.process_time()
            kb.add(items, embed=False)
            stored = time.process_time() - started
        with knowloom.open(
            f"{folder}/names.db", embedder=None, links=[rule.type for rule in NAME_RULES]
        ) as kb:
            started = time.process_time()
            kb.maintenance.link()
            spent, links = time.process_time() - started, kb.maintenance.stats().spaces[0].links
            changes = []
            for number, item in enumerate(items[:: max(1, len(items) // CHANGES)]):
                started = time.process_time()
                kb.add(replace(item, text=f"{item.text} Changed {number}."), embed=False)
                changes.append(time.process_time() - started)
    each = 1000 / len(items)
    print(
        f"{len(items):,} passages: storing {stored * each:.2f} ms each; links by names"
        f" {spent * each:.2f} ms each, {links:,} links",
        flush=True,
    )
    print(
        f"  one change, with its words: {np.median(changes) * 1000:.1f} ms, at most"
        f" {max(changes) * 1000:.0f} ms",
        flush=True,
    )


def fill(path: str, count: int) -> list[tuple[knowloom.Item, list[float]]]:
    """Items with four of count / 30 tags each, and clustered vectors; the last of them."""
    made, chance, spent = Made(count), np.random.default_rng(1), 0.0
    with knowloom.open(path, embedder=None, links=[]) as kb:
        for items, vectors in made.batches(2000):
            tagged = [
                replace(
                    one,
                    tags=tuple(
                        f"t{tag}"
                        for tag in sorted(set(chance.integers(0, count // 30, 4).tolist()))
                    ),
                )
                for one in items
            ]
            started = time.process_time()
            kb.add(tagged, embed=False)
            spent += time.process_time() - started
            kb.add(tagged, vectors=vectors.tolist())
    print(
        f"{count:,} items: words without links {count / spent:,.0f} a second of processor time",
        flush=True,
    )
    return list(zip(tagged, vectors.tolist(), strict=True))


def measure(path: str, rule: str, last: list[tuple[knowloom.Item, list[float]]]) -> None:
    with knowloom.open(path, embedder=None, links=[rule]) as kb:
        started = time.process_time()
        kb.maintenance.link()
        spent, links = time.process_time() - started, kb.maintenance.stats().spaces[0].links
        changes = []
        for number, (item, vector) in enumerate(last[:CHANGES]):
            started = time.process_time()
            kb.add(replace(item, text=f"changed {number}"), vectors=[vector])
            changes.append(time.process_time() - started)
    print(
        f"  {rule:12} all: {spent:6.1f} s, {links:,} links; one change:"
        f" {np.median(changes) * 1000:.1f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
