"""A pool of processes that render user templates; one that exceeds a limit is killed."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

from knowloom.errors import Unavailable
from knowloom.validation import validate_int, validate_positive

SCRIPT = Path(__file__).with_name("worker.py")
MAX_IDLE = 4  # processes that wait for the next template
MAX_LIMIT = 1_000_000_000
START_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one rendering."""

    timeout_s: float = 2.0
    output: int = 1_000_000  # characters
    fuel: int = 2_000_000  # steps of a Jinja2 template
    memory_mb: int = 512  # of the process

    def __post_init__(self) -> None:
        validate_positive("limits: timeout_s", self.timeout_s, MAX_LIMIT)
        for name in ("output", "fuel", "memory_mb"):
            validate_int(f"limits: {name}", getattr(self, name), 1, MAX_LIMIT)


class TemplateWorker:
    """A process that renders templates, used by one thread at a time."""

    def __init__(self, memory_mb: int) -> None:
        # Templates must not see this environment, which may contain keys.
        environment = None
        if sys.platform != "win32":
            path = os.pathsep.join(path for path in sys.path if path)
            environment = {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        self.memory_mb, self.owner, self.fresh = memory_mb, os.getpid(), True
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(SCRIPT), str(memory_mb)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise Unavailable(f"cannot start a process for templates: {error}") from error

    def run(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the answer of the process.

        If the process ends instead, the answer has a `reason` and `ended`, and the worker is
        closed.
        """
        if self.fresh and not self._exchange(b"", START_TIMEOUT_S)[0]:
            self.close()
            raise Unavailable("the process for templates does not start")
        self.fresh = False
        line, is_late = self._exchange(json.dumps(request).encode() + b"\n", timeout_s)
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.close()
        reason = f"ended its process, which has {self.memory_mb} MB"
        if is_late:
            reason = f"takes longer than {timeout_s:g} s"
        return {"reason": reason, "line": None, "ended": True}

    def _exchange(self, request: bytes, timeout_s: float) -> tuple[bytes, bool]:
        """Return the answered line, empty if the process ended, and whether it timed out."""
        late = Event()

        def kill() -> None:
            late.set()
            self._process.kill()

        timer = Timer(timeout_s, kill)
        timer.daemon = True
        timer.start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        finally:
            timer.cancel()
        return (line if line.endswith(b"\n") else b""), late.is_set()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # data that could not be flushed to a process that ended
                    continue


_idle: list[TemplateWorker] = []
_idle_lock = Lock()


def run(request: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Run a request in an idle process, or a new one."""
    worker = _take_worker(limits.memory_mb)
    answer = worker.run(request | {"fuel": limits.fuel, "output": limits.output}, limits.timeout_s)
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
