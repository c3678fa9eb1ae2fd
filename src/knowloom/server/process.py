"""The process that answers: uvicorn around the application of one engine, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from knowloom.engine import Engine
from knowloom.errors import Unavailable
from knowloom.server import access_log, app
from knowloom.server.rate_limit import Rate
from knowloom.server.settings import GRACE_S, Limits, address, greeting, keyring_for

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
    access_log.to_stderr()
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
            http=ending_after(limits.body_timeout_s),
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


def ending_after(seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol, which waits for the first line and the headers of a request for ever, with an end to that."""

    class Impatient(H11Protocol):
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._wait_no_more()
            elif self._patience is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_no_more()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._patience = self.loop.call_later(seconds, self._end)

        def _wait_no_more(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _end(self) -> None:
            self._patience = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

    return Impatient
