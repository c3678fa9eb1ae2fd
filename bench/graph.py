"""Speed of graph contexts: N generated entities with five links each, optionally with a hub.

The hub has ten links to every entity.

python -m bench.graph --entities 100000 --hub
"""

from __future__ import annotations

import argparse
import gc
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import knowloom
from bench.corpus import SPACE, Floats, GeneratedCorpus
from bench.timing import stage_medians
from knowloom.capabilities.graph.entities import HUB_CAP

KINDS = ("Product", "System", "Team", "Endpoint", "Parameter", "Term", "Policy", "Site")
LINKS = ("USES", "OWNS", "PROVIDES", "PART_OF", "RELATED")
HUB = "hub"
HUB_LINKS = 10  # from the hub to every entity, each of another type
QUESTIONS = 100
RUNS: dict[str, dict[str, Any]] = {
    "depth 2, 2,000 tokens": {"relationship_depth": 2},
    "depth 2, 800 tokens": {"relationship_depth": 2, "max_tokens": 800},
    "depth 2, signals": {"relationship_depth": 2, "ranker": "signals"},
    "depth 1": {},
}


def entity_batches(
    corpus: GeneratedCorpus, batch_size: int = 2000
) -> Iterator[tuple[list[knowloom.Item], Floats]]:
    for start in range(0, corpus.size, batch_size):
        numbers = range(start, min(start + batch_size, corpus.size))
        items = [_entity(corpus, number) for number in numbers]
        yield items, corpus.vectors(len(items))


def _entity(corpus: GeneratedCorpus, number: int) -> knowloom.Item:
    properties = {
        "code": f"E-{number:06}",
        "owner": corpus.text(2),
        "tier": number % 4,
        "status": corpus.text(1),
        "note": corpus.text(5),
    }
    return knowloom.Item(
        f"n{number}",
        SPACE,
        knowloom.Kind.ENTITY,
        KINDS[number % len(KINDS)],
        corpus.text(3).title(),
        corpus.text(12),
        properties=properties,
    )


def rules() -> list[knowloom.Item]:
    """Return an axiom with two checks for every kind of entity."""
    checks = [
        {"property": "tier", "constraint": "range", "min": 0, "max": 2},
        {"property": "code", "constraint": "pattern", "pattern": "^E-[0-9]+$"},
    ]
    return [
        knowloom.Item(
            f"axiom-{kind}",
            SPACE,
            knowloom.Kind.RULE,
            "axiom",
            f"{kind} rule",
            f"What holds for every {kind}.",
            subject=kind,
            properties={"rules": checks},
        )
        for kind in KINDS
    ]


def ingest(kb: knowloom.Engine, corpus: GeneratedCorpus) -> None:
    for items, vectors in entity_batches(corpus):
        kb.add(items, embed=False)
        kb._stores.vectors.put_vectors(
            {item.key: vector for item, vector in zip(items, vectors, strict=True)}, "bench"
        )
    kb.add(rules(), embed=False)
    random = np.random.default_rng(11)
    for edges in corpus.edges():
        types = [LINKS[number] for number in random.integers(0, len(LINKS), len(edges)).tolist()]
        typed = [
            knowloom.Edge(edge.source, edge.target, type, edge.weight, SPACE)
            for edge, type in zip(edges, types, strict=True)
        ]
        kb.add([], typed)


def add_hub(kb: knowloom.Engine, count: int) -> None:
    hub = knowloom.Item(HUB, SPACE, knowloom.Kind.ENTITY, "System", "The Hub", "Linked to all.")
    kb.add(hub, embed=False)
    random = np.random.default_rng(12)
    for start in range(0, count, 2000):
        numbers = range(start, min(start + 2000, count))
        weights = np.round(random.random((len(numbers), HUB_LINKS)) * 0.9 + 0.1, 6)
        edges = [
            knowloom.Edge(HUB, f"n{n}", f"LINK_{k}", float(weights[n - start, k]), SPACE)
            for n in numbers
            for k in range(HUB_LINKS)
        ]
        kb.add([], edges)


def time_calls(call: Callable[[int], object], count: int) -> str:
    """Return wall and processor time per call; other programs disturb the latter less."""
    for number in range(5):
        call(number)
    gc.collect()
    spans = []
    for number in range(count):
        wall, cpu = time.perf_counter(), time.process_time()
        call(number)
        spans.append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
    columns = []
    for name, values in zip(("wall", "cpu"), np.array(spans).T, strict=True):
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        columns.append(f"{name} p50 {p50:6.2f}  p95 {p95:6.2f}  p99 {p99:6.2f} ms")
    return "   ".join(columns)


@dataclass(slots=True)
class Requests:
    """Requests by number, with the stage timings and sizes of their answers."""

    kb: knowloom.Engine
    queries: list[str]
    vectors: Floats
    timings: dict[str, list[float]] = field(default_factory=dict)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)

    def search(self, number: int) -> object:
        return self.kb.search(
            self.queries[number % QUESTIONS],
            spaces=[SPACE],
            kinds=["entity"],
            limit=60,
            vector=self.vectors[number % QUESTIONS].tolist(),
        )

    def graph_context(self, number: int, options: dict[str, Any]) -> object:
        answer = knowloom.GraphContext(self.kb, [SPACE]).for_query(
            self.queries[number % QUESTIONS],
            vector=self.vectors[number % QUESTIONS].tolist(),
            **options,
        )
        for stage, span in answer.stats.timings.items():
            self.timings.setdefault(stage, []).append(span)
        self.sizes.append((len(answer.entities), len(answer.relationships), answer.tokens))
        return answer


def measure(kb: knowloom.Engine, size: int, count: int) -> None:
    generator = GeneratedCorpus(size, seed=8)
    queries, vectors = generator.texts(QUESTIONS, 4), generator.vectors(QUESTIONS)
    search_times = time_calls(Requests(kb, queries, vectors).search, count)
    print(f"  {'beside it: search alone':24} {search_times}", flush=True)
    for name, options in RUNS.items():
        requests = Requests(kb, queries, vectors)
        print(f"  {name:24} {_time_contexts(requests, options, count)}", flush=True)
        print("    stages p50", stage_medians(requests.timings))
        sizes = np.mean(requests.sizes, axis=0).round(1).tolist()
        print("    entities, relationships, tokens on average:", sizes, flush=True)


def _time_contexts(requests: Requests, options: dict[str, Any], count: int) -> str:
    return time_calls(lambda number: requests.graph_context(number, options), count)


def measure_hub(kb: knowloom.Engine, size: int, count: int) -> None:
    """Start at the hub; its best neighbours must be in the answer, whatever else it links to."""
    graph = knowloom.GraphContext(kb, [SPACE])
    times = time_calls(lambda _: graph.for_entities([HUB], relationship_depth=2), count)
    print(f"  {f'hub of {size * HUB_LINKS:,} links':24} {times}", flush=True)
    answer = graph.for_entities([HUB], relationship_depth=1, max_tokens=None)
    heaviest = kb._stores.graph.edges_of([(SPACE, HUB)], [SPACE], (), HUB_CAP)
    neighbours = list(dict.fromkeys(edge.target for edge in heaviest if edge.source == HUB))
    best = neighbours[: len(answer.entities) - 1]
    returned = {entity.item.id for entity in answer.entities}
    print(f"    of its {len(best)} best neighbours {len(returned & set(best))} are in the answer")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--file", type=Path, help="store the graph here, or reuse this file")
    parser.add_argument(
        "--hub", action="store_true", help="also add an entity with ten links to every other one"
    )
    arguments = parser.parse_args()
    # The rules have no vectors, which every search would report.
    logging.getLogger("knowloom").setLevel(logging.ERROR)
    path = arguments.file or Path(tempfile.mkdtemp()) / "graph.db"
    is_new = not path.exists()
    with knowloom.open(str(path), embedder=None, links=[]) as kb:
        if is_new:
            started = time.perf_counter()
            ingest(kb, GeneratedCorpus(arguments.entities))
            print(f"ingest {time.perf_counter() - started:.0f} s", flush=True)
        measure(kb, arguments.entities, arguments.requests)
        if arguments.hub:
            if not kb.get(HUB, space=SPACE):
                add_hub(kb, arguments.entities)
            measure_hub(kb, arguments.entities, arguments.requests)


if __name__ == "__main__":
    main()
