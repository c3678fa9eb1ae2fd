"""Threads and processes that read and write the same SQLite file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

import knowloom
from knowloom.ports import Batch
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import ACME, batch, edge, item, matches, unit

StartProcess = Callable[..., "subprocess.Popen[str]"]
Store = MemoryStore | SqliteStore
PRELUDE = """
import os, sys, time
from datetime import UTC, datetime
from knowloom.model import Filter, Item
from knowloom.ports import Batch
from knowloom.stores.sqlite.store import SqliteStore
NOW, ACME = datetime(2025, 6, 1, 12, tzinfo=UTC), Filter(("acme",))
def put(*ids, text="refund"):
    store.apply(Batch(NOW, tuple(Item(id, "acme", text=text, created_at=NOW) for id in ids)))
path = sys.argv[1]
def report(*words):
    print(*words, flush=True)
"""


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_threads_read_whole_batches_while_another_writes(kind: str, sqlite: SqliteStore) -> None:
    store = sqlite if kind == "sqlite" else MemoryStore()

    def read(_: int) -> set[bool]:
        return {is_consistent(store) for _ in range(60)}

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, number) for number in range(4)]
        for number in range(60):
            store.apply(pair_batch(number))
            store.put_vectors(
                {("acme", f"{number}a"): unit(1, number), ("acme", f"{number}b"): unit(number, 1)},
                "e1",
            )
        assert [reader.result() for reader in readers] == [{True}] * 4


def pair_batch(number: int) -> Batch:
    return batch(
        [item(f"{number}a", "refund"), item(f"{number}b", "refund")],
        [edge(f"{number}a", f"{number}b")],
    )


def is_consistent(store: Store) -> bool:
    """Return True if each index has every batch of `pair_batch` as a whole."""
    with store.reading():
        stored = store.find(ACME, 1000)
        counts = {
            len(stored),
            store.search_text("refund", ACME, 5).considered,
            2 * len(store.edges(["acme"], 1000)),
        }
        embedded = store.search_vector(unit(1, 1), ACME, 5).considered
        return (
            len(counts) == 1
            and embedded + store.count_missing(["acme"]) == len(stored)
            and not embedded % 2
        )


@pytest.fixture
def start_process(path: str) -> Iterator[StartProcess]:
    """Run a script in another Python process, with `path` and these arguments."""
    running: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", PRELUDE + dedent(script), path, *arguments]
        folders = os.pathsep.join(
            [str(Path(knowloom.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        )
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running.append(
            subprocess.Popen(command, env={**os.environ, "PYTHONPATH": folders}, **pipes)
        )  # type: ignore[call-overload]
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str], line: str = "") -> str:
    """Return the next line of the process, after sending it a line."""
    assert process.stdin is not None and process.stdout is not None
    if line:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def test_processes_see_each_others_writes_immediately(
    sqlite: SqliteStore, start_process: StartProcess
) -> None:
    other = start_process("""
        store = SqliteStore.open(path)
        for line in sys.stdin:
            if line.startswith("put"):
                put(line.split()[1])
            report(*(id for (_, id), _ in store.search_text("refund", ACME, 10).matches))
        """)
    assert read_line(other, "put a") == "a"
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a"]
    sqlite.apply(batch([item("b", "refund"), item("a", "parcel")]))
    assert read_line(other, "look") == "b"
    assert read_line(other, "put a") == "a b"
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a", "b"]


def test_processes_read_whole_batches_while_another_writes(
    sqlite: SqliteStore, start_process: StartProcess
) -> None:
    sqlite.apply(pair_batch(0))
    script = """
        store, seen, odd = SqliteStore.open(path), 0, 0
        report("ready")
        while seen < 100:
            with store.reading():
                seen = len(store.find(ACME, 1000))
                odd += seen % 2 or seen != store.search_text("refund", ACME, 5).considered
        report(odd)
        """
    readers = [start_process(script) for _ in range(3)]
    assert [read_line(reader) for reader in readers] == ["ready"] * 3
    for number in range(1, 50):
        sqlite.apply(pair_batch(number))
    assert [read_line(reader) for reader in readers] == ["0"] * 3


def test_concurrent_writer_processes_all_succeed(path: str, start_process: StartProcess) -> None:
    script = """
        store = SqliteStore.open(path)  # all create the file at the same time
        for number in range(40):
            put(f"{sys.argv[2]}-{number}", "shared")
        report("done")
        """
    writers = [start_process(script, name) for name in "abc"]
    assert [read_line(writer) for writer in writers] == ["done"] * 3
    store = SqliteStore.open(path)
    assert (len(store.find(ACME, 1000)), len(store.changes("acme")), store.verify()) == (
        121,
        240,
        [],
    )
    store.close()


def test_a_killed_writer_loses_only_its_batch(path: str, start_process: StartProcess) -> None:
    writer = start_process("""
        class Slow(dict):
            def items(self):
                report("in the middle")
                time.sleep(60)
        store = SqliteStore.open(path)
        put("a")
        text = "refund " * 50
        many = tuple(Item(f"{n}", "acme", text=text, created_at=NOW) for n in range(3000))
        store.apply(Batch(NOW, (*many, Item("slow", "acme", properties=Slow(x=1), created_at=NOW))))
        """)
    assert read_line(writer) == "in the middle"
    writer.kill()
    writer.wait()
    store = SqliteStore.open(path)
    assert (matches(store.search_text("refund", ACME, 10)), store.verify()) == (["a"], [])
    store.apply(batch([item("b", "refund")]))
    assert (len(store.find(ACME, 10)), store.verify()) == (2, [])
    store.close()


def test_a_file_in_a_read_only_folder_can_be_read(path: str, start_process: StartProcess) -> None:
    store = SqliteStore.open(path)
    store.apply(batch([item("a", "refund")]))
    store.close()
    Path(path).parent.chmod(0o555)
    Path(path).chmod(0o444)
    reader = start_process("""
        if os.geteuid() == 0:
            os.setuid(65534)  # permissions do not bind root
        store = SqliteStore.open(path)
        report(*(id for (_, id), _ in store.search_text("refund", ACME, 10).matches))
        try:
            put("b")
        except Exception as error:
            report(type(error).__name__, error.code)
        """)
    assert (read_line(reader), read_line(reader)) == ("a", "Unavailable read_only")
    Path(path).parent.chmod(0o755)
