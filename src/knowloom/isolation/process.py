"""A child process that answers requests line by line, and is killed when it exceeds a limit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Timer

from knowloom.errors import Unavailable

START_TIMEOUT_S = 30.0


class ChildProcess:
    """A Python script that prints a line when it is ready and one for each request.

    It is used by one thread at a time, and bounds its own memory with `limit_memory`.
    """

    def __init__(self, script: Path, memory_mb: int, what: str) -> None:
        # The child must not see this environment, which may contain keys.
        environment = None
        if sys.platform != "win32":
            path = os.pathsep.join(path for path in sys.path if path)
            environment = {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        self.memory_mb, self.owner, self._what, self._fresh = memory_mb, os.getpid(), what, True
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(memory_mb)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise Unavailable(f"cannot start a process for {what}: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_signal(self) -> int | None:
        """The number of the signal that ended the process, None if none did."""
        code = self._process.poll()
        return -code if code is not None and code < 0 else None

    def ask(self, request: Sequence[bytes], timeout_s: float) -> tuple[bytes, str]:
        """Return the answered line, or b"" and why the process ended; it is closed then."""
        if self._fresh and not self._exchange((), START_TIMEOUT_S)[0]:
            self.close()
            raise Unavailable(f"the process for {self._what} does not start")
        self._fresh = False
        line, is_late = self._exchange(request, timeout_s)
        if line:
            return line, ""
        self.close()
        if is_late:
            return b"", f"takes longer than {timeout_s:g} s"
        return b"", f"ended its process, which has {self.memory_mb} MB"

    def _exchange(self, request: Sequence[bytes], timeout_s: float) -> tuple[bytes, bool]:
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
            for part in request:
                self._process.stdin.write(part)
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        finally:
            timer.cancel()
        return (line if line.endswith(b"\n") else b""), late.is_set()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # data that could not be flushed to a process that ended
                    continue
