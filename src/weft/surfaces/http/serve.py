"""The process that answers: uvicorn around the application of one engine, until it is told to stop."""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from weft.engine import Engine
from weft.errors import Unavailable
from weft.surfaces.http import app, logs, slow
from weft.surfaces.http.door import GRACE_S, Limits, address, greeting, keyring_for
from weft.surfaces.http.rate import Rate

COLLECT_AFTER = (
    20_000,
    20,
    50,
)  # values made, then collections of younger ones; Python's own: 700, 10, 10


def serve(
    kb: Engine,
    host: str,
    port: int,
    keys: Path,
    *,
    workers: int,
    limits: Limits,
    say: Callable[[str], None],
) -> None:
    """Answer requests in this process until SIGTERM or SIGINT; then finish the running ones."""
    for line in greeting(host, port, keyring_for(host, keys)):
        say(line)
    listen(kb, keys, host, port, workers, limits)


def listen(
    kb: Engine,
    keys: Path,
    host: str,
    port: int,
    workers: int,
    limits: Limits,
    *,
    rate: Rate | None = None,
    listening: socket.socket | None = None,
) -> None:
    """The same, on a socket of its own or on one that is `listening` already."""
    logs.to_stderr()
    signal.signal(signal.SIGTERM, _stop)  # uvicorn hands the signal on when it has stopped
    signal.signal(signal.SIGINT, _stop)
    server = uvicorn.Server(
        uvicorn.Config(
            app.create(kb, keyring_for(host, keys), limits, workers, rate),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            http=slow.ending_after(limits.body_timeout_s),
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    _collect_seldom()
    try:
        server.run(sockets=None if listening is None else [listening])
    except SystemExit as error:
        if error.code:
            raise Unavailable(
                f"cannot listen on {address(host, port)}: the log has the reason"
            ) from None


def _collect_seldom() -> None:
    """A request makes thousands of values and hardly a cycle: looking for cycles every 700 values took 4 % of its time, and what was imported
    was looked through again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _stop(*_: object) -> None:
    raise SystemExit(0)
