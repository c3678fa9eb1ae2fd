"""A real server on loopback, and the embedders and spaces that its tests use."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import uvicorn

from knowloom import Engine, Unavailable
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits
from letters import Letters
from paths import ROOT

HARBOR = ROOT / "examples" / "harbor"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
BOTH = ["support", "shared"]


class Broken(Letters):
    def embed(self, texts: Sequence[str]) -> list[Any]:
        raise Unavailable("letters: out of ink", "embedding_failed")


@contextmanager
def serving(
    kb: Engine, keyring: Keyring | None = None, limits: ServerLimits | None = None
) -> Iterator[str]:
    """Run a real server on a free port of loopback; yield its URL."""
    server = uvicorn.Server(
        uvicorn.Config(create_app(kb, keyring, limits), port=0, log_level="critical", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
