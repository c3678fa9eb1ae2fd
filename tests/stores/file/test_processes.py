"""Processes that write file and networkx stores, and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import knowloom
from knowloom.registry import open_store
from knowloom.stores.file import folder as files
from knowloom.testing.knowledge import ACME

WRITER = """
import sys
from datetime import UTC, datetime
from knowloom.model import Edge, Item
from knowloom.ports import Batch
from knowloom.registry import open_store
store, name = open_store(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    ids = [f"{name}-{number}-{part}" for part in range(3)]
    items = tuple(Item(id, "acme", text="x" * 2000) for id in ids)
    edges = tuple(Edge(ids[0], id, space="acme") for id in ids)
    store.apply(Batch(datetime.now(UTC), items, edges))
"""


def start_writer(url: str, name: str, count: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(knowloom.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url, name, str(count)],
        env=environment,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("scheme", ["file", "networkx"])
def test_a_killed_writer_leaves_whole_batches(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}:{tmp_path}/store"
    count = 0
    for round in range(8):
        process = start_writer(url, f"w{round}", 100_000)
        assert process.stdout is not None and process.stdout.readline()
        time.sleep(0.02 + 0.013 * round)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = open_store(url)
        edges = store.edges(["acme"], 1_000_000)
        assert len(edges) % 3 == 0 and len(edges) >= count
        count = len(edges)
        if scheme == "file":
            items = store.find(ACME, 1_000_000)
            assert (len(items), store.verify()) == (len(edges), [])
            assert not (tmp_path / "store" / files.JOURNAL).exists()
    assert count


@pytest.mark.parametrize("scheme", ["file", "networkx"])
def test_concurrent_writers_lose_nothing(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}:{tmp_path}/store"
    reader = open_store(url)
    writers = [start_writer(url, name, 15) for name in ("one", "two")]
    for process in writers:
        assert process.wait(60) == 0
        assert process.stdout is not None
        process.stdout.close()
    assert len(reader.edges(["acme"], 1000)) == 90
    if scheme == "file":
        assert (
            len(reader.find(ACME, 1000)),
            [change.number for change in reader.changes("acme", limit=1000)],
            reader.verify(),
        ) == (90, list(range(1, 181)), [])
