"""Several stateless servers on one PostgreSQL, with profiles on a Redis cluster, losing parts.

python -m bench.many_servers [--servers 3] [--seconds 10]

Starts everything on loopback. While clients write profiles and items and request contexts, it kills
and restarts a node of the cluster, a server, and PostgreSQL. It prints how many requests failed and
how many were degraded meanwhile, and how long it took from the restart until all answers were
whole; in the end it reads every write that was acknowledged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from servers import postgresql, redis
from servers.process import free_port

SPACES = ("anna", "ben", "carla", "dora", "emil", "fred")  # in slots of different nodes
WRITE_TIMEOUT_S, READY_S, WHOLE_S = 20.0, 240.0, 60.0
SCHEMA = "many_servers"


@dataclass
class Load:
    """Counts of the requests of all clients, and the writes that were acknowledged."""

    acknowledged: list[tuple[str, str]] = field(default_factory=list)  # space, id
    failed: int = 0
    degraded: dict[str, int] = field(default_factory=dict)
    contexts: int = 0
    lock: Lock = field(default_factory=Lock)


def send(url: str, body: Mapping[str, object] | None = None) -> tuple[int, Any]:
    """Return the status and the answer; 0 if the server does not answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=WRITE_TIMEOUT_S) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, None
    except (OSError, ValueError):
        return 0, None


@contextmanager
def running(store: str, metadata: str, port: int, folder: Path) -> Iterator[None]:
    """Run a server process."""
    command = [sys.executable, "-m", "knowloom", "serve", "--db", store, "--port", str(port)]
    environment = {**os.environ, "KNOWLOOM_EMBEDDER": "none", "KNOWLOOM_METADATA": metadata}
    environment |= {"KNOWLOOM_STORE": store, "KNOWLOOM_RATE_LIMITS": metadata}
    with (folder / f"{port}.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--processes", "1", "--requests-per-minute", "0"],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + READY_S
        while send(f"http://127.0.0.1:{port}/readyz")[0] != 200:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError((folder / f"{port}.log").read_text()[-1000:])
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


def write(bases: list[str], name: str, load: Load, stop: Event) -> None:
    """Write profiles and items in turns until `stop`; remember those that were acknowledged."""
    number = 0
    while not stop.is_set():
        number += 1
        space, id = SPACES[number % len(SPACES)], f"{name}-{number}"
        row: dict[str, object] = {"id": id, "title": f"about {id}", "text": "Parcels are late."}
        if number // len(SPACES) % 2:
            row["kind"] = "profile"
        base = bases[number % len(bases)]
        status, _ = send(f"{base}/api/spaces/{space}/items", row)
        with load.lock:
            if status in (200, 201):
                load.acknowledged.append((space, id))
            else:
                load.failed += 1
        time.sleep(0.02)


def read(bases: list[str], load: Load, stop: Event) -> None:
    """Request contexts until `stop`, and count the degraded ones by part."""
    number = 0
    while not stop.is_set():
        number += 1
        problems = request_context(bases[number % len(bases)], SPACES[number % len(SPACES)])
        with load.lock:
            load.contexts += 1
            for problem in problems:
                load.degraded[problem] = load.degraded.get(problem, 0) + 1
        time.sleep(0.02)


def request_context(base: str, space: str) -> list[str]:
    """Return the parts that a context went without, with codes; "failed" without an answer."""
    body = {"query": "late parcels", "spaces": [space], "max_tokens": 300}
    status, answer = send(f"{base}/api/context", body)
    if status != 200:
        return ["failed"]
    problems = [f"{problem['part']} {problem['code']}" for problem in answer["degraded"]]
    return [problem for problem in problems if "no_results" not in problem]


def await_whole(bases: list[str]) -> float:
    """Return the seconds until each server answers for each space without a degraded layer."""
    started = time.monotonic()
    while any(request_context(base, space) for base in bases for space in SPACES):
        if time.monotonic() - started > WHOLE_S:
            break
        time.sleep(0.1)
    return time.monotonic() - started


def count_lost(bases: list[str], load: Load) -> int:
    """Return the number of acknowledged writes that cannot be read."""
    return sum(
        send(f"{bases[0]}/api/spaces/{space}/items/{id}")[0] != 200
        for space, id in load.acknowledged
    )


def run(servers: int, seconds: float, say: Callable[[str], object] = print) -> dict[str, float]:
    """Run the load and the failures; return the figures."""
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = postgresql.Server(f"many-{os.getpid()}")
        database.start()
        stack.callback(database.stop)
        cluster = redis.Cluster(f"many-{os.getpid()}-")
        stack.callback(cluster.erase)
        cluster.start()
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        metadata = f"redis://{hosts}?cluster=true&timeout=1&connect_timeout=1"
        store = f"{database.url}?schema={SCHEMA}&connect_timeout=1&statement_timeout=5"
        ports = [free_port() for _ in range(servers)]
        bases = [f"http://127.0.0.1:{port}" for port in ports]
        running_servers = [ExitStack() for _ in ports]
        for port, server in zip(ports, running_servers, strict=True):
            stack.push(server)
            server.enter_context(running(store, metadata, port, folder))
        load, stop = Load(), Event()
        clients = [Thread(target=write, args=(bases, f"w{n}", load, stop)) for n in range(2)]
        clients.append(Thread(target=read, args=(bases, load, stop)))
        for client in clients:
            client.start()

        def fail(name: str, begin: Callable[[], object], end: Callable[[], object]) -> None:
            time.sleep(seconds)
            before = (load.failed, dict(load.degraded), load.contexts)
            begin()
            time.sleep(seconds)
            degraded = {
                part: count - before[1].get(part, 0)
                for part, count in load.degraded.items()
                if count > before[1].get(part, 0)
            }
            writes, contexts = load.failed - before[0], load.contexts - before[2]
            end()
            whole_s = figures[name] = await_whole(bases)
            say(f"{name}: {writes} writes failed, of {contexts} contexts {degraded or 'none'}")
            say(f"  whole {whole_s:.1f} s after the restart")

        try:
            node = cluster.nodes[1]
            fail("a master of Redis killed", node.kill, node.start)
            restart = running_servers[0]
            fail(
                "a server killed",
                restart.close,
                lambda: restart.enter_context(running(store, metadata, ports[0], folder)),
            )
            fail("PostgreSQL killed", database.kill, database.start)
            time.sleep(seconds)
        finally:
            stop.set()
            for client in clients:
                client.join()
        figures |= {"acknowledged": len(load.acknowledged), "lost": count_lost(bases, load)}
    say(f"{figures['acknowledged']:.0f} writes acknowledged, {figures['lost']:.0f} lost")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    run(options.servers, options.seconds)
