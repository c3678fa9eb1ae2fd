"""A pool of processes that render user templates; one that exceeds a limit is killed."""

from __future__ import annotations

import atexit
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from knowloom.isolation.process import ChildProcess
from knowloom.validation import validate_int, validate_positive

SCRIPT = Path(__file__).with_name("worker.py")
MAX_IDLE = 4  # processes that wait for the next template
MAX_LIMIT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one rendering."""

    timeout_s: float = 2.0
    output: int = 1_000_000  # characters
    fuel: int = 2_000_000  # steps of a Jinja2 template
    memory_mb: int = 512  # of the process, beyond what it has when it starts
    cpu_s: float = 2.0  # of processor time, which other processes do not use up

    def __post_init__(self) -> None:
        validate_positive("limits: timeout_s", self.timeout_s, MAX_LIMIT)
        validate_positive("limits: cpu_s", self.cpu_s, MAX_LIMIT)
        for name in ("output", "fuel", "memory_mb"):
            validate_int(f"limits: {name}", getattr(self, name), 1, MAX_LIMIT)


class TemplateWorker(ChildProcess):
    """A process that renders templates, used by one thread at a time."""

    def __init__(self, memory_mb: int) -> None:
        super().__init__(SCRIPT, memory_mb, "templates")

    def run(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the answer of the process.

        If the process ends instead, the answer has a `reason` and `ended`, and the worker is
        closed.
        """
        line, reason = self.ask([json.dumps(request).encode(), b"\n"], timeout_s)
        if reason and self.exit_signal == getattr(signal, "SIGVTALRM", None):
            reason = f"takes longer than {request['cpu_s'] * 1000:g} ms of processor time"
        if reason:
            return {"reason": reason, "line": None, "ended": True}
        answer: dict[str, Any] = json.loads(line)
        return answer


_idle: list[TemplateWorker] = []
_idle_lock = Lock()


def run(request: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Run a request in an idle process, or a new one."""
    worker = _take_worker(limits.memory_mb)
    answer = worker.run(
        request | {"fuel": limits.fuel, "output": limits.output, "cpu_s": limits.cpu_s},
        limits.timeout_s,
    )
    if not answer.pop("ended", False):
        _give_back(worker)
    return answer


def _take_worker(memory_mb: int) -> TemplateWorker:
    with _idle_lock:
        # A forked process inherits this list, but must not use its parent's workers.
        _idle[:] = [worker for worker in _idle if worker.owner == os.getpid() and worker.is_alive]
        for worker in _idle:
            if worker.memory_mb == memory_mb:
                _idle.remove(worker)
                return worker
    return TemplateWorker(memory_mb)


def _give_back(worker: TemplateWorker) -> None:
    with _idle_lock:
        if len(_idle) < MAX_IDLE:
            _idle.append(worker)
            return
    worker.close()


@atexit.register
def _close_all() -> None:
    with _idle_lock:
        while _idle:
            worker = _idle.pop()
            if worker.owner == os.getpid():
                worker.close()
