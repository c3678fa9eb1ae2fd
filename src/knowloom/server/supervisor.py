"""Several server processes on one file: who starts them, starts them again, and ends them together."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from knowloom.errors import Unavailable
from knowloom.server import access_log, settings
from knowloom.server.rate_limit import Rate
from knowloom.server.settings import Limits

if TYPE_CHECKING:
    from knowloom.engine import Engine


from itertools import cycle, islice

log = logging.getLogger("knowloom.http")

BACKLOG = 2048
LEAST_LIFE_S = 5  # a process that ends sooner would end again
STOPS = (signal.SIGTERM, signal.SIGINT)
COPIED = (
    sys.platform == "linux"
)  # elsewhere a copy of a process is not safe: each imports everything itself


@dataclass(frozen=True)
class Task:
    """All that one process needs to serve; it is sent to it."""

    opened: Callable[[], Engine]
    host: str
    port: int
    keys: Path
    workers: int
    limits: Limits
    rate: Rate
    metrics: str  # the folder where processes add up what they count


def warm_up() -> None:
    """Have another process begin to import what every server needs, which takes a second: the servers are copies of it, made when
    it is ready. It is a process of its own, as one that has opened a file, or has threads, must not be copied."""
    if not COPIED:
        return
    multiprocessing.set_forkserver_preload(
        ["knowloom.server.process", "knowloom.stores.sqlite.store"]
    )
    resource_tracker.ensure_running()  # it lets signals through again when it starts
    with _counting_together(tempfile.gettempdir()), _blocked():
        forkserver.ensure_running()


def needed() -> None:
    """An ImportError if the packages of the service are missing: told before any process starts."""
    import uvicorn  # noqa: F401


def run(
    opened: Callable[[], Engine],
    host: str,
    port: int,
    keys: Path,
    *,
    processes: int,
    workers: int,
    limits: Limits,
    say: Callable[[str], None],
) -> None:
    """Serve from several processes until SIGTERM or SIGINT. One that dies is started again; what waited for it is not lost,
    as its socket stays open here."""
    keyring = settings.keyring_for(host, keys)
    access_log.to_stderr()
    starting = multiprocessing.get_context("forkserver" if COPIED else "spawn")
    warm_up()
    with (
        _sockets(host, port, processes) as (sockets, refuse),
        tempfile.TemporaryDirectory(prefix="knowloom-metrics-") as metrics,
    ):
        task = Task(
            opened,
            host,
            port,
            keys,
            workers,
            limits,
            Rate.shared(limits.requests_per_minute, starting),
            metrics,
        )
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)
        for line in settings.greeting(host, port, keyring):
            say(line)
        starts = [partial(_started, starting, task, listener) for listener in sockets]
        _supervise(starts, refuse)


def _supervise(starts: Sequence[Callable[[], BaseProcess]], refuse: Callable[[], None]) -> None:
    running: dict[int, tuple[BaseProcess, float]] = {}
    try:
        for number, start in enumerate(starts):
            with _later():  # one that is just being started would not be ended
                running[number] = (start(), time.monotonic())
        while True:
            wait([process.sentinel for process, _ in running.values()])
            for number, (process, since) in list(running.items()):
                if process.is_alive():
                    continue
                if time.monotonic() - since < LEAST_LIFE_S:
                    raise Unavailable(
                        f"a server process ended at once with status {process.exitcode}: the log has the reason"
                    )
                log.error(
                    "a server process ended with status %s and is started again", process.exitcode
                )
                running[number] = (starts[number](), time.monotonic())
    finally:
        refuse()  # first: whoever comes while requests are finished would be handed to a process that takes no more
        _end([process for process, _ in running.values()])


def _end(running: Sequence[BaseProcess]) -> None:
    """Each finishes its requests; what does not end in time is killed."""
    for process in running:
        process.terminate()
    until = time.monotonic() + settings.GRACE_S + 5
    for process in running:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            log.error("a server process did not end in time and was killed")
            process.kill()
            process.join()


def _started(starting: BaseContext, task: Task, listening: socket.socket) -> BaseProcess:
    process: BaseProcess = starting.Process(target=_work, args=(task, listening))  # type: ignore[attr-defined]
    process.start()
    return process


def _work(task: Task, listening: socket.socket) -> None:
    """What a server process does, from its start to its end."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all, also those that are not ready: the first one ends them
    _let_through()
    os.environ[settings.METRICS_FOLDER] = task.metrics
    from knowloom.server import (
        process as serve,  # here: it takes half a second, which the process that starts the others can save
    )

    Thread(target=_end_with_parent, daemon=True).start()
    if POSSIBLE:
        listening = Handed(fileno=listening.detach())
    try:
        with task.opened() as kb:
            serve.listen(
                kb,
                task.keys,
                task.host,
                task.port,
                task.workers,
                task.limits,
                rate=task.rate,
                listening=listening,
            )
    except SystemExit:
        raise
    except Exception as error:  # the outermost line of this process
        log.error("the server process ends: %s", error)
        sys.exit(1)


def _end_with_parent() -> None:
    """Nobody would ever stop this process if the one that started it were killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _sockets(
    host: str, port: int, count: int
) -> Iterator[tuple[list[socket.socket], Callable[[], None]]]:
    """One for each process, and what refuses connections from then on. They are handed out in turn, where that is possible, else all
    processes accept from one socket, until each of them ends."""
    made: list[socket.socket] = []
    try:
        listening = _listening(host, port)
        made.append(listening)
        if not POSSIBLE:
            yield made * count, lambda: None
            return
        pairs = [socket.socketpair() for _ in range(count)]
        made.extend(end for pair in pairs for end in pair)
        for given, _ in pairs:
            given.setblocking(False)
        Thread(
            target=hand_out, args=(listening, [given for given, _ in pairs]), daemon=True
        ).start()
        try:
            yield [taken for _, taken in pairs], lambda: _shut(listening)
        finally:
            _shut(listening)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {settings.address(host, port)}: {error.strerror}"
        ) from error
    finally:
        for one in made:
            one.close()


def _shut(listening: socket.socket) -> None:
    with suppress(OSError):  # it was before
        listening.shutdown(socket.SHUT_RDWR)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _later() -> Iterator[None]:
    """A signal to stop takes effect at the end of the block. Blocking it would not do: any other thread would take it."""
    asked: list[int] = []
    before = {stop: signal.signal(stop, lambda number, _: asked.append(number)) for stop in STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
    if asked:
        raise SystemExit(0)


@contextmanager
def _blocked() -> Iterator[None]:
    """What is started in the block gets no signal to stop until it lets them through."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        _let_through()


def _let_through() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


@contextmanager
def _counting_together(folder: str) -> Iterator[None]:
    """prometheus_client looks once, when it is imported, whether there is such a folder; which one, it asks when it counts."""
    before = os.environ.get(settings.METRICS_FOLDER)
    os.environ[settings.METRICS_FOLDER] = folder
    try:
        yield
    finally:
        os.environ.pop(settings.METRICS_FOLDER) if before is None else os.environ.update(
            {settings.METRICS_FOLDER: before}
        )


def _stop(*_: object) -> None:
    raise SystemExit(0)


POSSIBLE = hasattr(socket, "send_fds")  # not on Windows
PAUSE_S = 0.01  # before trying again, when nobody takes more, or there are no more files


class Handed(socket.socket):
    """Where a process is handed connections that another one accepted. To a server it is a listening socket."""

    def listen(self, backlog: int = 0) -> None:
        """Another process does."""

    def accept(self) -> tuple[socket.socket, object]:
        _, handles, _, _ = socket.recv_fds(self, 1, 1)
        if not handles:
            raise ConnectionAbortedError("nobody hands out connections any more")
        connection = socket.socket(fileno=handles[0])
        try:
            return connection, connection.getpeername()
        except OSError as error:  # gone before it was answered
            connection.close()
            raise ConnectionAbortedError from error


def hand_out(listening: socket.socket, ends: Sequence[socket.socket]) -> None:
    """Accept connections, and give one after the other to the next end, until the socket is shut down. Ends do not block."""
    turns = cycle(ends)
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:
            continue
        except OSError:
            if is_shut_down(listening):
                return
            time.sleep(PAUSE_S)  # too many open files: some will be closed
            continue
        with connection:
            while not any(_given(connection, end) for end in islice(turns, len(ends))):
                time.sleep(PAUSE_S)


def _given(connection: socket.socket, end: socket.socket) -> bool:
    try:
        socket.send_fds(end, [b"c"], [connection.fileno()])
    except OSError:  # it has as many as it can take
        return False
    return True


def is_shut_down(listening: socket.socket) -> bool:
    """Whether it listens no more; closing it would not wake who waits for the next connection."""
    return listening.fileno() < 0 or not listening.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN
    )
