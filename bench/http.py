"""The service under load: throughput, latency, health checks meanwhile, and memory.

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
from bench.corpus import SPACE, GeneratedCorpus
from bench.speed import ingest

HEALTH_EVERY_S = 0.05


@contextmanager
def run_server(path: Path) -> Iterator[tuple[int, int]]:
    """Run a server process; yield its port and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "knowloom", "serve", "--db", str(path), "--port", str(port)]
    command += ["--requests-per-minute", "0", "--embedder", "none"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_ready(port)
            yield port, process.pid
        finally:
            process.terminate()


def _wait_until_ready(port: int) -> None:
    for _ in range(400):
        try:
            time_request(HTTPConnection("127.0.0.1", port), "GET", "/healthz")
            return
        except ConnectionError:
            time.sleep(0.05)
    raise SystemExit("no answer from the server within 20 s")


def time_request(
    connection: HTTPConnection, method: str, path: str, body: str | None = None
) -> float:
    """Return the milliseconds until the whole response is read."""
    started = time.perf_counter()
    connection.request(method, path, body, {"content-type": "application/json"} if body else {})
    response = connection.getresponse()
    response.read()
    if response.status != 200:
        raise SystemExit(f"{path}: {response.status}")
    return (time.perf_counter() - started) * 1000


def send_load(
    port: int, connections: int, seconds: float, bodies: Sequence[str], results: Queue[list[float]]
) -> None:
    """Send requests on every connection, one after the other; runs in a second process."""
    deadline = time.perf_counter() + seconds
    spans: list[float] = []

    def work(number: int) -> None:
        connection = HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < deadline:
            body = bodies[number % len(bodies)]
            spans.append(time_request(connection, "POST", "/api/context", body))
            number += connections
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(spans)


def poll_health(port: int, process: multiprocessing.Process) -> list[float]:
    """Return the times of health checks while the load process runs."""
    spans: list[float] = []
    connection = HTTPConnection("127.0.0.1", port)
    while process.is_alive() and len(spans) < 100_000:
        spans.append(time_request(connection, "GET", "/healthz"))
        time.sleep(HEALTH_EVERY_S)
    connection.close()
    return spans


def memory_mb(pid: int) -> float:
    """Return the resident memory of the server's processes, from Linux's /proc; nan elsewhere."""
    try:
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in family(pid)]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return float("nan")


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children = [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return [pid, *(descendant for child in children for descendant in family(child))]


def measure(
    port: int, connections: int, seconds: float, bodies: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Return the times of contexts, and of health checks meanwhile."""
    results: Queue[list[float]] = multiprocessing.Queue()
    process = multiprocessing.Process(
        target=send_load, args=(port, connections, seconds, bodies, results)
    )
    process.start()
    health_spans: list[list[float]] = []
    watcher = threading.Thread(target=lambda: health_spans.append(poll_health(port, process)))
    watcher.start()
    spans = results.get(timeout=seconds + 60)
    process.join()
    watcher.join()
    return spans, health_spans[0]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=2000)
    parser.add_argument("--file", type=Path, help="a file of this benchmark or of bench.speed")
    parser.add_argument(
        "--repeat", type=int, default=1, help="rounds of load, to see whether memory grows"
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    path = arguments.file or Path(tempfile.mkdtemp()) / "http.db"
    if not path.exists():
        with knowloom.open(str(path), embedder=None, links=[]) as kb:
            ingest(kb, GeneratedCorpus(arguments.items))
    # By words alone: embedding the query would measure the embedder, not the service.
    request = {"tenant_ids": [SPACE], "max_tokens": arguments.max_tokens, "search_method": "bm25"}
    queries = GeneratedCorpus(arguments.items, seed=8).texts(100, 6)
    bodies = [json.dumps(request | {"query": query}) for query in queries]
    print(
        f"{arguments.items:,} items, {arguments.connections} connections, {os.cpu_count()} cores",
        flush=True,
    )
    with run_server(path) as (port, pid):
        measure(port, 4, 2, bodies)
        print(f"  memory of the server before: {memory_mb(pid):.0f} MB", flush=True)
        for _ in range(arguments.repeat):
            spans, checks = measure(port, arguments.connections, arguments.seconds, bodies)
            p50, p95, p99 = np.percentile(spans, [50, 95, 99])
            print(
                f"  {len(spans) / arguments.seconds:.1f} contexts/s"
                f"   p50 {p50:.0f} ms   p95 {p95:.0f} ms   p99 {p99:.0f} ms"
            )
            print(
                f"  /healthz meanwhile: p95 {np.percentile(checks, 95):.1f} ms of {len(checks)};"
                f"  memory {memory_mb(pid):.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
