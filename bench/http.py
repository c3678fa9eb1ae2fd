"""How the service holds up under load: requests a second and their times, the health check meanwhile, and the server's memory.

python -m bench.http --items 100000 --seconds 30
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np

import knowloom
from bench.speed import Made, ingest

HEALTH_EVERY_S = 0.05


@contextmanager
def serving(path: Path) -> Iterator[tuple[int, int]]:
    """A server process: its port and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [
        sys.executable,
        "-m",
        "knowloom",
        "serve",
        "--db",
        str(path),
        "--port",
        str(port),
        "--requests-per-minute",
        "0",
        "--embedder",
        "none",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(port)
            yield port, process.pid
        finally:
            process.terminate()


def _wait(port: int) -> None:
    for _ in range(400):
        try:
            ask(HTTPConnection("127.0.0.1", port), "GET", "/healthz")
            return
        except ConnectionError:
            time.sleep(0.05)
    raise SystemExit("the server does not answer")


def ask(connection: HTTPConnection, method: str, path: str, body: str | None = None) -> float:
    """Milliseconds until the whole answer is there."""
    started = time.perf_counter()
    connection.request(method, path, body, {"content-type": "application/json"} if body else {})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status}")
    return (time.perf_counter() - started) * 1000


def load(
    port: int, connections: int, seconds: float, bodies: Sequence[str], answers: Queue[list[float]]
) -> None:
    """The second process: every connection asks one question after the other."""
    until = time.perf_counter() + seconds
    spans: list[float] = []

    def work(number: int) -> None:
        connection = HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < until:
            spans.append(ask(connection, "POST", "/api/context", bodies[number % len(bodies)]))
            number += connections
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(spans)


def health(port: int, process: multiprocessing.Process) -> list[float]:
    """The times of the health check while the load lasts."""
    spans: list[float] = []
    connection = HTTPConnection("127.0.0.1", port)
    while process.is_alive() and len(spans) < 100_000:
        spans.append(ask(connection, "GET", "/healthz"))
        time.sleep(HEALTH_EVERY_S)
    connection.close()
    return spans


def memory_mb(pid: int) -> float:
    """What the server's processes hold together, as Linux counts it; nan elsewhere."""
    try:
        return (
            sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in family(pid))
            * os.sysconf("SC_PAGE_SIZE")
            / 1e6
        )
    except OSError:
        return float("nan")


def family(pid: int) -> list[int]:
    """A process, those it started, those they started, and so on."""
    children = [
        int(one)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for one in (thread / "children").read_text().split()
    ]
    return [pid, *(one for child in children for one in family(child))]


def measured(
    port: int, connections: int, seconds: float, bodies: Sequence[str]
) -> tuple[list[float], list[float]]:
    """The times of the contexts and of the health checks beside them."""
    answers: Queue[list[float]] = multiprocessing.Queue()
    process = multiprocessing.Process(
        target=load, args=(port, connections, seconds, bodies, answers)
    )
    process.start()
    watching: list[list[float]] = []
    watcher = threading.Thread(target=lambda: watching.append(health(port, process)))
    watcher.start()
    spans = answers.get(timeout=seconds + 60)
    process.join()
    watcher.join()
    return spans, watching[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=2000)
    parser.add_argument(
        "--file", type=Path, help="knowledge made by an earlier run of this or of bench.speed"
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        help="how often the load is repeated, to see whether the memory grows",
    )
    arguments = parser.parse_args()
    path = arguments.file or Path(tempfile.mkdtemp()) / "http.db"
    if not path.exists():
        with knowloom.open(str(path), embedder=None, links=[]) as kb:
            ingest(kb, Made(arguments.items))
    asking = Made(arguments.items, seed=8)
    # By words alone: the query's vector would be the embedder's work, and here the service is measured.
    asked = {"tenant_ids": ["one"], "max_tokens": arguments.max_tokens, "search_method": "bm25"}
    bodies = [json.dumps(asked | {"query": asking.text(6)}) for _ in range(100)]
    print(
        f"{arguments.items:,} items, {arguments.connections} connections, {os.cpu_count()} cores",
        flush=True,
    )
    with serving(path) as (port, pid):
        measured(port, 4, 2, bodies)
        print(f"  memory of the server before: {memory_mb(pid):.0f} MB", flush=True)
        for _ in range(arguments.repeat):
            spans, checks = measured(port, arguments.connections, arguments.seconds, bodies)
            p50, p95, p99 = np.percentile(spans, [50, 95, 99])
            print(
                f"  {len(spans) / arguments.seconds:.1f} contexts/s   p50 {p50:.0f} ms   p95"
                f" {p95:.0f} ms   p99 {p99:.0f} ms"
            )
            print(
                f"  /healthz meanwhile: p95 {np.percentile(checks, 95):.1f} ms of {len(checks)}; "
                f" memory {memory_mb(pid):.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
