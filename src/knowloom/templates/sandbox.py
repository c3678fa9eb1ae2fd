"""Processes that render users' templates: started when first needed, used again, ended when one takes too long or too much."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

from knowloom.errors import Invalid, Unavailable

SCRIPT = Path(__file__).with_name("worker.py")
MAX_IDLE = 4  # processes kept for the next template
MAX_LIMIT = 1_000_000_000  # of any limit
START_TIMEOUT_S = 30.0  # given to a new process before its first template


@dataclass(frozen=True, slots=True)
class Limits:
    """What one rendering may take."""

    timeout_s: float = 2.0
    output: int = 1_000_000  # characters
    fuel: int = 2_000_000  # steps of a Jinja2 template
    memory_mb: int = 512  # of the process

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            whole = isinstance(value, int) or one.name == "timeout_s"
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not whole
                or not 0 < value <= MAX_LIMIT
            ):
                raise Invalid(
                    f"limits: {one.name} must be a{' whole' if one.name != 'timeout_s' else ''} number above 0 and at most {MAX_LIMIT:,}, not {value!r}"
                )


class TemplateWorker:
    """One process. One thread uses it at a time."""

    def __init__(self, memory_mb: int) -> None:
        # Nothing of this environment is the templates' business, and keys may be in it.
        environment = (
            None
            if sys.platform == "win32"
            else {
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PYTHONHASHSEED": "0",
            }
        )
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
            raise Unavailable(f"no process for templates could be started: {error}") from error

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer; if the process ends instead, what ended it as a `reason`, and the worker is of no more use."""
        if self.fresh and not self._said(b"", START_TIMEOUT_S)[0]:
            self.close()
            raise Unavailable("the process for templates does not start")
        self.fresh = False
        line, late = self._said(json.dumps(request).encode() + b"\n", timeout_s)
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        self.close()
        ended = f"ended its process, which has {self.memory_mb} MB"
        return {
            "reason": f"takes longer than {timeout_s:g} s" if late else ended,
            "line": None,
            "ended": True,
        }

    def _said(self, request: bytes, timeout_s: float) -> tuple[bytes, bool]:
        """The line that the process answers with, empty when it ended; and whether its time was over."""
        late = Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = Timer(timeout_s, end)
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
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not sent to a process that ended
                    continue


_idle: list[TemplateWorker] = []
_idle_lock = Lock()


def run(request: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Have an idle process answer, or a new one."""
    worker = _take_worker(limits.memory_mb)
    answer = worker.ask(request | {"fuel": limits.fuel, "output": limits.output}, limits.timeout_s)
    if not answer.pop("ended", False):
        _give_back(worker)
    return answer


def _take_worker(memory_mb: int) -> TemplateWorker:
    with _idle_lock:
        # A forked process has its parent's list, but must not talk to its parent's workers.
        _idle[:] = [worker for worker in _idle if worker.owner == os.getpid() and worker.alive]
        found = next((worker for worker in _idle if worker.memory_mb == memory_mb), None)
        if found is not None:
            _idle.remove(found)
            return found
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
