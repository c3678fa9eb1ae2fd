"""A server process: uvicorn around the application of one engine."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Thread

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from knowloom.engine import Engine
from knowloom.errors import Unavailable
from knowloom.server.access_log import log_to_stderr
from knowloom.server.app import create_app
from knowloom.server.background import BackgroundEmbedding
from knowloom.server.connections import CAN_PASS_SOCKETS, receive_connection
from knowloom.server.limits.rate_limit import RateLimiter
from knowloom.server.readiness import wait_until_ready
from knowloom.server.settings import (
    GRACE_S,
    ServerLimits,
    format_address,
    jobs_folder,
    load_keyring,
    startup_lines,
)

log = logging.getLogger("knowloom.http")

# Allocations before a collection, then collections of younger generations; default 700, 10, 10.
GC_THRESHOLDS = (20_000, 20, 50)


def serve(
    kb: Engine,
    host: str,
    port: int,
    keys: Path | str,
    *,
    workers: int,
    limits: ServerLimits,
    say: Callable[[str], None],
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve in this process until SIGTERM or SIGINT, then finish the running requests.

    `on_ready` is called once the server accepts requests and the startup lines were said.
    """
    lines = startup_lines(host, port, keys)
    server = create_server(kb, keys, host, port, workers, limits)
    problems: list[Unavailable] = []

    def announce() -> None:
        try:
            wait_until_ready(host, port, lambda: server.started)
        except Unavailable as error:
            problems.append(error)
            server.should_exit = True
        else:
            for line in lines:
                say(line)
            on_ready()

    Thread(target=announce, name="knowloom-startup", daemon=True).start()
    run_server(server, kb)
    for problem in problems:
        raise problem


def create_server(
    kb: Engine,
    keys: Path | str,
    host: str,
    port: int,
    workers: int,
    limits: ServerLimits,
    *,
    rate: RateLimiter | None = None,
    channel: socket.socket | None = None,
) -> uvicorn.Server:
    """Return a server on a new socket, or for the connections that `channel` receives."""
    config = uvicorn.Config(
        create_app(kb, load_keyring(host, keys), limits, workers, rate, jobs_folder(keys)),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        http=protocol_with_timeout(limits.body_timeout_s),
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config) if channel is None else HandoverServer(config, channel)


def run_server(server: uvicorn.Server, kb: Engine, *, embeds: bool = True) -> None:
    """Run a server until it is stopped, and embed items without a vector meanwhile."""
    log_to_stderr()
    signal.signal(signal.SIGTERM, _stop)  # uvicorn re-raises the signal after its shutdown
    signal.signal(signal.SIGINT, _stop)
    _collect_rarely()
    try:
        with BackgroundEmbedding(kb) if embeds else nullcontext():
            server.run()
    except SystemExit as error:
        if error.code:
            address = format_address(server.config.host, server.config.port)
            raise Unavailable(f"cannot listen on {address}; see the log") from None


class HandoverServer(uvicorn.Server):
    """A server for connections that another process accepts and passes on through a channel.

    They are attached by `connect_accepted_socket`, which every event loop has. Where sockets cannot
    be passed, the channel is the listening socket that all processes share.
    """

    def __init__(self, config: uvicorn.Config, channel: socket.socket) -> None:
        super().__init__(config)
        self._channel = channel
        self._attaching: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if not CAN_PASS_SOCKETS:
            await super().startup([self._channel])
            return
        await super().startup([])
        self._channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._channel, self._receive)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Attach the connections that wait in the channel, then finish the running requests."""
        if CAN_PASS_SOCKETS:
            asyncio.get_running_loop().remove_reader(self._channel)
            while self._receive():
                pass
            await asyncio.gather(*self._attaching)
        await super().shutdown(sockets)

    def _receive(self) -> bool:
        """Attach the next connection; return False if there is none."""
        loop = asyncio.get_running_loop()
        try:
            connection = receive_connection(self._channel)
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                log.warning("cannot receive a connection: %s", error)
            return False
        if connection is None:  # the supervisor is gone, and stops this process
            loop.remove_reader(self._channel)
            return False
        task = loop.create_task(self._attach(connection))
        self._attaching.add(task)
        task.add_done_callback(self._attaching.discard)
        return True

    async def _attach(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._create_protocol, connection)
        except OSError as error:  # the client disconnected meanwhile
            log.debug("connection lost: %s", error)
            connection.close()

    def _create_protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


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
