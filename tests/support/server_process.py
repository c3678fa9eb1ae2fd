"""Real `knowloom serve` processes for tests."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from knowloom.cli.main import cli
from paths import ROOT


@contextmanager
def running_server(file: Path, *options: str, **environ: str) -> Iterator[str]:
    """Run a server process; yield its URL."""
    process, base = start_server(file, *options, **environ)
    try:
        yield base
    finally:
        stop_server(process)


def start_server(file: Path, *options: str, **environ: str) -> tuple[subprocess.Popen[str], str]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "knowloom",
        "serve",
        "--db",
        str(file),
        "--port",
        str(port),
        *options,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KNOWLOOM_EMBEDDER": "none",
        **environ,
    }
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=file.parent,
    )
    base = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            httpx.get(f"{base}/healthz")
            return process, base
        except httpx.TransportError:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
    raise TimeoutError(stop_server(process))


def stop_server(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Stop a server; return its exit status and standard error."""
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=40)[1]
    return process.returncode, output


def worker_pids(parent: int) -> list[int]:
    """Return the server processes of a supervisor: children of its fork server."""
    prepared = [
        child
        for child in child_pids(parent)
        if b"multiprocessing.forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return [child for process in prepared for child in child_pids(process)]


def child_pids(parent: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ]


def is_alive(process: int) -> bool:
    with suppress(OSError):
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def free_port() -> int:
    """Return a free port below the ephemeral range, so that no client takes it meanwhile."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := random.SystemRandom().randint(15_000, 32_000)))
            return port


def accepts_connections(port: int) -> bool:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        time.sleep(0.05)
    return False


def serve_error(file: Path, *options: str, **environ: str) -> str:
    command = [sys.executable, "-m", "knowloom", "serve", "--db", str(file), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
    environment |= environ
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, cwd=file.parent
    )
    assert done.returncode == 1, done
    return done.stderr


def run_keys(file: Path, *words: str) -> Any:
    result = CliRunner().invoke(
        cli, ["keys", *words, "--db", str(file), "--json"], prog_name="knowloom"
    )
    return json.loads(result.stdout)
