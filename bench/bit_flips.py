"""Flip single bits of a knowledge file: how many answers are wrong without anybody noticing?

python -m bench.bit_flips --flips 500
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import knowloom
from knowloom.errors import KnowloomError
from knowloom.recipes import Mode

EXAMPLES = Path(__file__).parents[1] / "examples" / "harbor"
QUERIES = ("How do I process a refund?", "chargeback", "Who approves a purchase?", "return label")


def answer(kb: knowloom.Engine, vectors: dict[str, list[float]]) -> dict[str, Callable[[], Any]]:
    """Return requests by name; each gives its result and its problems."""
    spaces = [info.name for info in kb.reader.spaces()]

    def search(query: str, mode: Mode) -> Any:
        hits = kb.search(query, spaces=spaces, vector=vectors[query], mode=mode)
        return [(hit.item, hit.score) for hit in hits], hits.degraded

    def context(query: str) -> Any:
        result = kb.context(query, spaces=spaces, vector=vectors[query], max_tokens=1000)
        return result.text, result.degraded

    requests: dict[str, Callable[[], Any]] = {
        "items": lambda: (list(kb.items()), ()),
        "edges": lambda: (list(kb.edges(automatic=None)), ()),
    }
    for query in QUERIES:
        requests[f"hybrid {query}"] = partial(search, query, "hybrid")
        requests[f"walk {query}"] = partial(search, query, "walk")
        requests[f"context {query}"] = partial(context, query)
    return requests


def classify(path: Path, expected: dict[str, Any], vectors: dict[str, list[float]]) -> str:
    """Return the worst of "same", "noticed", "raw error" and "wrong" of all requests."""
    outcomes = {"same"}
    try:
        with knowloom.open(path, embedder=None) as kb:
            for name, ask in answer(kb, vectors).items():
                try:
                    result, problems = ask()
                except KnowloomError:
                    outcomes.add("noticed")
                    continue
                except Exception:
                    outcomes.add("raw error")
                    continue
                if result != expected[name]:
                    failed = any(problem.severity == "failure" for problem in problems)
                    outcomes.add("noticed" if failed else "wrong")
    except KnowloomError:
        outcomes.add("noticed")
    except Exception:
        outcomes.add("raw error")
    order = ("wrong", "raw error", "noticed", "same")
    return next(outcome for outcome in order if outcome in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        original, damaged = Path(folder) / "k.db", Path(folder) / "damaged.db"
        with knowloom.open(original) as kb:
            kb.load(EXAMPLES)
            embedded = kb.reader.embed_texts(list(QUERIES), queries=True)
        vectors = {query: row.tolist() for query, row in zip(QUERIES, embedded, strict=True)}
        with knowloom.open(original, embedder=None) as kb:
            expected = {name: ask()[0] for name, ask in answer(kb, vectors).items()}
        data, chance = original.read_bytes(), random.Random(arguments.seed)
        counts: Counter[str] = Counter()
        for _ in range(arguments.flips):
            place, bit = chance.randrange(len(data)), chance.randrange(8)
            shutil.copy(original, damaged)
            with damaged.open("r+b") as file:
                file.seek(place)
                file.write(bytes([data[place] ^ (1 << bit)]))
            counts[classify(damaged, expected, vectors)] += 1
            for suffix in ("-wal", "-shm"):
                Path(f"{damaged}{suffix}").unlink(missing_ok=True)
        print(f"{len(data):,} bytes, {arguments.flips} flips")
        for outcome, count in counts.most_common():
            print(f"{outcome:10} {count:5} {100 * count / arguments.flips:5.1f} %")


if __name__ == "__main__":
    main()
