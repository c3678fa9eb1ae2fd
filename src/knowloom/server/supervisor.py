"""Several server processes on one store: start, restart and stop them together."""

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
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from knowloom.errors import Unavailable
from knowloom.server.access_log import log_to_stderr
from knowloom.server.connections import open_listeners
from knowloom.server.limits.rate_limit import RateLimiter
from knowloom.server.readiness import wait_until_ready
from knowloom.server.settings import (
    GRACE_S,
    METRICS_FOLDER,
    ServerLimits,
    startup_lines,
)

if TYPE_CHECKING:
    from knowloom.engine import Engine

log = logging.getLogger("knowloom.http")

MIN_LIFE_S = 5  # a process that ends sooner would end again: it is not restarted
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
CAN_FORK = sys.platform == "linux"  # elsewhere forking is unsafe: each process imports everything
PRELOADED = ["knowloom.server.process", "knowloom.stores.sqlite.store"]


@dataclass(frozen=True)
class WorkerTask:
    """All that a server process needs; it is pickled."""

    open_engine: Callable[[], Engine]
    host: str
    port: int
    keys: Path | str
    workers: int
    limits: ServerLimits
    rate: RateLimiter
    metrics: str  # the folder where processes add up their counts
    embeds: bool = False  # True for the process that embeds items without a vector


def warm_up() -> None:
    """Start the fork server, which imports the server's modules in the background (about 1 s).

    Server processes are forked from it: a process with threads or open files is unsafe to fork.
    """
    if not CAN_FORK:
        return
    multiprocessing.set_forkserver_preload(PRELOADED)
    resource_tracker.ensure_running()  # now: its start unblocks the signals
    with _metrics_folder(tempfile.gettempdir()), _blocked_signals():
        forkserver.ensure_running()


def require_packages() -> None:
    """Raise ImportError if a package of the server is missing, before any process starts."""
    import uvicorn  # noqa: F401


def run_processes(
    open_engine: Callable[[], Engine],
    host: str,
    port: int,
    keys: Path | str,
    *,
    processes: int,
    workers: int,
    limits: ServerLimits,
    say: Callable[[str], None],
) -> None:
    """Serve from several processes until SIGTERM or SIGINT.

    A process that dies is restarted; connections that wait for it are kept, as their socket
    stays open here.
    """
    lines = startup_lines(host, port, keys)
    log_to_stderr()
    starter = multiprocessing.get_context("forkserver" if CAN_FORK else "spawn")
    warm_up()
    with (
        open_listeners(host, port, processes) as (listeners, refuse),
        tempfile.TemporaryDirectory(prefix="knowloom-metrics-") as metrics,
    ):
        rate = RateLimiter.shared(limits.requests_per_minute, starter)
        task = WorkerTask(open_engine, host, port, keys, workers, limits, rate, metrics)
        for number in STOP_SIGNALS:
            signal.signal(number, _stop)
        say(f"starting {processes} server processes")
        starts = [
            partial(_start_process, starter, replace(task, embeds=number == 0), listener)
            for number, listener in enumerate(listeners)
        ]

        def announce(check: Callable[[], bool]) -> None:
            wait_until_ready(host, port, check)
            for line in lines:
                say(line)

        _supervise(starts, announce, refuse)


def _supervise(
    starts: Sequence[Callable[[], BaseProcess]],
    announce: Callable[[Callable[[], bool]], None],
    refuse: Callable[[], None],
) -> None:
    """Start the processes, announce them when they answer, and restart those that exit."""
    running: dict[int, tuple[BaseProcess, float]] = {}
    try:
        for number, start in enumerate(starts):
            with _deferred_signals():  # a process that is being started would not be stopped
                running[number] = (start(), time.monotonic())
        announce(lambda: all(_is_alive(process) for process, _ in running.values()))
        while True:
            wait([process.sentinel for process, _ in running.values()])
            for number, (process, since) in list(running.items()):
                if process.is_alive():
                    continue
                if time.monotonic() - since < MIN_LIFE_S:
                    raise _exit_error(process)
                log.error("%s; restarting it", _exit_error(process))
                running[number] = (starts[number](), time.monotonic())
    finally:
        refuse()  # first: new connections would go to a process that accepts no more
        _stop_processes([process for process, _ in running.values()])


def _is_alive(process: BaseProcess) -> bool:
    """Return True; raise if the process exited."""
    if process.is_alive():
        return True
    raise _exit_error(process)


def _exit_error(process: BaseProcess) -> Unavailable:
    return Unavailable(f"server process exited with status {process.exitcode}; see the log")


def _stop_processes(running: Sequence[BaseProcess]) -> None:
    """Let processes finish their requests; kill those that take too long."""
    for process in running:
        process.terminate()
    deadline = time.monotonic() + GRACE_S + 5
    for process in running:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            log.error("server process did not stop in time and was killed")
            process.kill()
            process.join()


def _start_process(starter: BaseContext, task: WorkerTask, listener: socket.socket) -> BaseProcess:
    create = starter.Process  # type: ignore[attr-defined]
    process: BaseProcess = create(target=_run_worker, args=(task, listener))
    process.start()
    return process


def _run_worker(task: WorkerTask, listener: socket.socket) -> None:
    """Run a server process from its start to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the supervisor stops them
    _unblock_signals()
    os.environ[METRICS_FOLDER] = task.metrics
    # Imported here: it takes half a second, which the supervisor does not need.
    from knowloom.server.process import create_server, run_server

    Thread(target=_stop_with_parent, daemon=True).start()
    address = (task.host, task.port)
    try:
        with task.open_engine() as kb:
            server = create_server(
                kb,
                task.keys,
                *address,
                task.workers,
                task.limits,
                rate=task.rate,
                channel=listener,
            )
            run_server(server, kb, embeds=task.embeds)
    except SystemExit:
        raise
    except Exception as error:  # the outermost frame of this process
        log.error("server process exits: %s", error)
        sys.exit(1)


def _stop_with_parent() -> None:
    """Stop this process if its parent was killed: nothing else would."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defer stop signals to the end of the block.

    Blocking them would not do: another thread would receive them.
    """
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in STOP_SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        raise SystemExit(0)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block stop signals in processes started within the block, until they unblock them."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        _unblock_signals()


def _unblock_signals() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def _metrics_folder(folder: str) -> Iterator[None]:
    """Set the metrics folder within the block.

    prometheus_client checks that it is set when it is imported, and reads its value later.
    """
    before = os.environ.get(METRICS_FOLDER)
    os.environ[METRICS_FOLDER] = folder
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(METRICS_FOLDER)
        else:
            os.environ[METRICS_FOLDER] = before


def _stop(*_: object) -> None:
    raise SystemExit(0)
