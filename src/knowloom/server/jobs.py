"""Jobs: calls that take minutes. Their states are files, which all processes of a server share."""

from __future__ import annotations

import json
import logging
import os
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue
from threading import Lock, Thread
from time import time
from typing import Literal

from knowloom import codec
from knowloom.errors import KnowloomError, NotFound, Unavailable
from knowloom.files import write_atomic
from knowloom.ports import Progress
from knowloom.wire import JsonObject

log = logging.getLogger("knowloom.http")

MAX_RUNNING = 2  # per process
MAX_WAITING = 20  # per process; more are refused
KEPT_S = 24 * 3600  # states of finished jobs
ID_BYTES = 12
Status = Literal["waiting", "running", "done", "failed"]
Work = Callable[[Progress], JsonObject]


@dataclass(frozen=True, slots=True)
class Job:
    """The state of a job. `error` has the status, code and detail of a failed request."""

    id: str
    space: str
    submitted_at: str
    process: int  # that runs it
    status: Status = "waiting"
    progress: JsonObject | None = None
    result: JsonObject | None = None
    error: JsonObject | None = None


class JobBoard:
    """The jobs of a server. Those of a process end with it; the others report them as failed."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder  # None: a temporary one, for a single process
        self._lock = Lock()
        self._queue: Queue[tuple[Job, Work]] = Queue(MAX_WAITING)
        self._threads: list[Thread] = []

    def submit(self, space: str, work: Work) -> Job:
        """Queue a call that returns JSON; raise Unavailable if too many are waiting."""
        now = codec.time_to_text(datetime.now(UTC))
        job = Job(secrets.token_hex(ID_BYTES), space, now, os.getpid())
        folder = self._open_folder()
        _remove_old(folder)
        self._write(job)
        try:
            self._queue.put_nowait((job, work))
        except Full:
            self._path(job.id).unlink(missing_ok=True)
            raise Unavailable(f"{MAX_WAITING} jobs are waiting: try again later", "busy") from None
        self._start_threads()
        return job

    def get(self, id: str) -> Job:
        """Return the state of a job; that of a process that died is a failure."""
        try:
            row = json.loads(self._path(id).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            raise NotFound(f"unknown job {id!r}: it never existed, or ended a day ago") from None
        job = Job(**row)
        if job.status in ("waiting", "running") and not _is_alive(job.process):
            detail = "the server process ended before the job was done: send the request again"
            error: JsonObject = {"status": 503, "code": "interrupted", "detail": detail}
            return replace(job, status="failed", error=error)
        return job

    def _start_threads(self) -> None:
        """Start the threads at the first job: a process may be forked before it."""
        with self._lock:
            if not self._threads:
                # Daemons: a server that stops must not wait minutes for a language model.
                self._threads = [Thread(target=self._run, daemon=True) for _ in range(MAX_RUNNING)]
                for thread in self._threads:
                    thread.start()

    def _run(self) -> None:
        while True:
            job, work = self._queue.get()
            job = replace(job, status="running")
            try:
                self._write(job)
                result = work(self._reporter(job))
                self._write(replace(job, status="done", result=result))
            except Exception as error:  # whatever fails is the result of the job
                self._write_failure(job, error)

    def _reporter(self, job: Job) -> Progress:
        def report(stage: str, done: int, total: int) -> None:
            self._write(replace(job, progress={"stage": stage, "done": done, "total": total}))

        return report

    def _write_failure(self, job: Job, error: Exception) -> None:
        """Store the problem of a job, with the details that a response would have."""
        status, code, detail = 500, "error", "internal error; see the server log"
        if isinstance(error, KnowloomError):
            status, code = error.status, error.code
            detail = str(error) if status < 500 else "the job failed; its record has the reason"
        # The message may have the text of the user; check-in records have it.
        log.error("job %s failed: %s", job.id, code if status != 500 else type(error).__name__)
        try:
            problem: JsonObject = {"status": status, "code": code, "detail": detail}
            self._write(replace(job, status="failed", error=problem))
        except OSError as failure:
            log.error("the state of job %s was not written: %s", job.id, failure.strerror)

    def _write(self, job: Job) -> None:
        path = self._path(job.id)
        write_atomic(path, json.dumps(asdict(job)).encode())
        path.chmod(0o600)

    def _path(self, id: str) -> Path:
        is_id = len(id) == 2 * ID_BYTES and set(id) <= set("0123456789abcdef")
        return self._open_folder() / (f"{id}.json" if is_id else "unknown")

    def _open_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="knowloom-jobs-"))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove_old(folder: Path) -> None:
    for path in folder.glob("*.json"):
        try:
            if path.stat().st_mtime < time() - KEPT_S:
                path.unlink()
        except FileNotFoundError:  # removed by another process
            continue
