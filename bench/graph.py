"""How fast graph contexts are: N generated entities with five links each, then the same with a hub of ten links to every one.

python -m bench.graph --entities 100000 --hub
"""

from __future__ import annotations

import argparse
import gc
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import knowloom
from bench.speed import Floats, Made
from knowloom.capabilities.graph.entities import HUB_CAP

KINDS = ("Product", "System", "Team", "Endpoint", "Parameter", "Term", "Policy", "Site")
LINKS = ("USES", "OWNS", "PROVIDES", "PART_OF", "RELATED")
HUB = "hub"
HUB_LINKS = 10  # from the hub to every entity, each of another type


def entities(made: Made, size: int = 2000) -> Iterator[tuple[list[knowloom.Item], Floats]]:
    for start in range(0, made.items, size):
        items = [_entity(made, number) for number in range(start, min(start + size, made.items))]
        yield items, made.vectors(len(items))


def _entity(made: Made, number: int) -> knowloom.Item:
    properties = {
        "code": f"E-{number:06}",
        "owner": made.text(2),
        "tier": number % 4,
        "status": made.text(1),
        "note": made.text(5),
    }
    return knowloom.Item(
        f"n{number}",
        "one",
        knowloom.Kind.ENTITY,
        KINDS[number % len(KINDS)],
        made.text(3).title(),
        made.text(12),
        properties=properties,
    )


def rules() -> list[knowloom.Item]:
    checks = [
        {"property": "tier", "constraint": "range", "min": 0, "max": 2},
        {"property": "code", "constraint": "pattern", "pattern": "^E-[0-9]+$"},
    ]
    return [
        knowloom.Item(
            f"axiom-{kind}",
            "one",
            knowloom.Kind.RULE,
            "axiom",
            f"{kind} rule",
            f"What holds for every {kind}.",
            subject=kind,
            properties={"rules": checks},
        )
        for kind in KINDS
    ]


def ingest(kb: knowloom.Engine, made: Made) -> None:
    for items, vectors in entities(made):
        kb.add(items, embed=False)
        kb._stores.vectors.put_vectors(
            {item.key: vector for item, vector in zip(items, vectors, strict=True)}, "bench"
        )
    kb.add(rules(), embed=False)
    kinds = np.random.default_rng(11)
    for edges in made.edges():
        names = kinds.integers(0, len(LINKS), len(edges))
        kb.add(
            [],
            [
                knowloom.Edge(edge.source, edge.target, LINKS[name], edge.weight, "one")
                for edge, name in zip(edges, names.tolist(), strict=True)
            ],
        )


def add_hub(kb: knowloom.Engine, count: int) -> None:
    kb.add(
        knowloom.Item(HUB, "one", knowloom.Kind.ENTITY, "System", "The Hub", "Linked to all."),
        embed=False,
    )
    chance = np.random.default_rng(12)
    for start in range(0, count, 2000):
        numbers = range(start, min(start + 2000, count))
        weights = np.round(chance.random((len(numbers), HUB_LINKS)) * 0.9 + 0.1, 6)
        kb.add(
            [],
            [
                knowloom.Edge(HUB, f"n{n}", f"LINK_{k}", float(weights[n - start, k]), "one")
                for n in numbers
                for k in range(HUB_LINKS)
            ],
        )


def timed(call: Callable[[int], object], count: int) -> str:
    """Wall and processor time of each call: other programs on the machine disturb the latter less."""
    for number in range(5):
        call(number)
    gc.collect()
    spans = []
    for number in range(count):
        wall, cpu = time.perf_counter(), time.process_time()
        call(number)
        spans.append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
    said = []
    for name, values in zip(("wall", "cpu"), np.array(spans).T, strict=True):
        said.append(
            f"{name} p50 {np.percentile(values, 50):6.2f}  p95 {np.percentile(values, 95):6.2f} "
            f" p99 {np.percentile(values, 99):6.2f} ms"
        )
    return "   ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument(
        "--file", type=Path, help="keep the file here, and use it again if it is there"
    )
    parser.add_argument(
        "--hub", action="store_true", help="also add an entity with ten links to every other one"
    )
    arguments = parser.parse_args()
    logging.getLogger("knowloom").setLevel(
        logging.ERROR
    )  # the rules have no vectors, and every search says so
    path = arguments.file or Path(tempfile.mkdtemp()) / "graph.db"
    made, fresh = Made(arguments.entities), not path.exists()
    with knowloom.open(str(path), embedder=None, links=[]) as kb:
        if fresh:
            started = time.perf_counter()
            ingest(kb, made)
            print(f"ingest {time.perf_counter() - started:.0f} s", flush=True)
        measure(kb, made, arguments.requests)
        if arguments.hub:
            if not kb.get(HUB, space="one"):
                add_hub(kb, arguments.entities)
            near_hub(kb, arguments.requests)


def measure(kb: knowloom.Engine, made: Made, requests: int) -> None:
    asking = Made(made.items, seed=8)
    queries, vectors = [asking.text(4) for _ in range(100)], asking.vectors(100)
    graph = knowloom.GraphContext(kb, ["one"])
    stages: dict[str, list[float]] = {}
    shown: list[tuple[int, int, int]] = []

    def ask(number: int, **options: Any) -> object:
        answer = graph.for_query(
            queries[number % 100], vector=vectors[number % 100].tolist(), **options
        )
        for name, value in answer.stats.timings.items():
            stages.setdefault(name, []).append(value)
        shown.append((len(answer.entities), len(answer.relationships), answer.tokens))
        return answer

    runs: dict[str, dict[str, Any]] = {
        "depth 2, 2,000 tokens": {"relationship_depth": 2},
        "depth 2, 800 tokens": {"relationship_depth": 2, "max_tokens": 800},
        "depth 2, signals": {"relationship_depth": 2, "ranker": "signals"},
        "depth 1": {},
    }
    yardstick = timed(
        lambda number: kb.search(
            queries[number % 100],
            spaces=["one"],
            kinds=["entity"],
            limit=60,
            vector=vectors[number % 100].tolist(),
        ),
        requests,
    )
    print(f"  {'beside it: search alone':24} {yardstick}", flush=True)
    for name, options in runs.items():
        stages.clear()
        shown.clear()
        took = timed(lambda number, options=options: ask(number, **options), requests)  # type: ignore[misc]
        print(f"  {name:24} {took}", flush=True)
        print(
            "    stages p50",
            {stage: round(float(np.percentile(values, 50)), 2) for stage, values in stages.items()},
        )
        print(
            "    entities, relationships, tokens on average:",
            np.mean(shown, axis=0).round(1).tolist(),
            flush=True,
        )


def near_hub(kb: knowloom.Engine, requests: int) -> None:
    """The hub is the start: its best neighbours must be in the answer, whatever else it is linked to."""
    graph = knowloom.GraphContext(kb, ["one"])
    print(
        "  hub of 1,000,000 links  "
        f" {timed(lambda _: graph.for_entities([HUB], relationship_depth=2), requests)}",
        flush=True,
    )
    answer = graph.for_entities([HUB], relationship_depth=1, max_tokens=None)
    heaviest = kb._stores.graph.edges_of([("one", HUB)], ["one"], (), HUB_CAP)
    best = list(dict.fromkeys(edge.target for edge in heaviest if edge.source == HUB))[
        : len(answer.entities) - 1
    ]
    found = {one.item.id for one in answer.entities}
    print(f"    of its {len(best)} best neighbours {len(found & set(best))} are in the answer")


if __name__ == "__main__":
    main()
