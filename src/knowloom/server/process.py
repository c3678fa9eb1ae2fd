"""A server process: uvicorn around the application of one engine."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from knowloom.engine import Engine
from knowloom.errors import Unavailable
from knowloom.server.access_log import log_to_stderr
from knowloom.server.app import create_app
from knowloom.server.background import BackgroundEmbedding
from knowloom.server.rate_limit import RateLimiter
from knowloom.server.settings import (
    GRACE_S,
    ServerLimits,
    format_address,
    load_keyring,
    startup_lines,
)

# Allocations before a collection, then collections of younger generations; default 700, 10, 10.
GC_THRESHOLDS = (20_000, 20, 50)


def serve(
    kb: Engine,
    host: str,
    port: int,
    keys: Path,
    *,
    workers: int,
    limits: ServerLimits,
    say: Callable[[str], None],
) -> None:
    """Serve in this process until SIGTERM or SIGINT, then finish the running requests."""
    for line in startup_lines(host, port, load_keyring(host, keys)):
        say(line)
    run_server(kb, keys, host, port, workers, limits)


def run_server(
    kb: Engine,
    keys: Path,
    host: str,
    port: int,
    workers: int,
    limits: ServerLimits,
    *,
    rate: RateLimiter | None = None,
    listener: socket.socket | None = None,
    embeds: bool = True,
) -> None:
    """Run uvicorn on `listener`, or on a new socket, and embed items without a vector."""
    log_to_stderr()
    signal.signal(signal.SIGTERM, _stop)  # uvicorn re-raises the signal after its shutdown
    signal.signal(signal.SIGINT, _stop)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(kb, load_keyring(host, keys), limits, workers, rate),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            http=protocol_with_timeout(limits.body_timeout_s),
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    _collect_rarely()
    try:
        with BackgroundEmbedding(kb) if embeds else nullcontext():
            server.run(sockets=None if listener is None else [listener])
    except SystemExit as error:
        if error.code:
            address = format_address(host, port)
            raise Unavailable(f"cannot listen on {address}; see the log") from None


def _collect_rarely() -> None:
    """Collect garbage less often: requests allocate thousands of values and hardly any cycle.

    With the default thresholds the collector took 4 % of a request's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _stop(*_: object) -> None:
    raise SystemExit(0)


def protocol_with_timeout(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol, closing connections without complete headers after `seconds`.

    uvicorn itself waits for the headers of a request without a limit (slowloris).
    """

    class TimeoutProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._cancel_timer()
            elif self._timer is None:
                self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_timer()
            super().connection_lost(exc)

        def _start_timer(self) -> None:
            self._timer = self.loop.call_later(seconds, self._close_idle)

        def _cancel_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _close_idle(self) -> None:
            self._timer = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

    return TimeoutProtocol
