"""Work of a server beside its requests: embedding the items that have no vector."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Self

from knowloom.engine import Engine
from knowloom.errors import Conflict, KnowloomError

log = logging.getLogger("knowloom.http")

RETRY_S = 60.0  # after an embedder failed
REPORT_EVERY = 10_000  # items between two lines of the log
STOP_TIMEOUT_S = 30.0


class _StopRequested(Exception):
    """The server is stopping."""


class BackgroundEmbedding:
    """A thread that embeds items without a vector, from the start of a `with` block to its end.

    Vectors are missing after a load without them, and in files of an older version. Meanwhile the
    items are found by words. An embedder that fails is tried again; without one nothing is done.
    """

    def __init__(self, kb: Engine, retry_s: float = RETRY_S) -> None:
        self._kb = kb
        self._retry_s = retry_s
        self._stopping = Event()
        self._reported = 0
        self._thread = Thread(target=self._run, name="knowloom-embedding", daemon=True)

    def __enter__(self) -> Self:
        if self._kb.reader.dimensions is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._embed()
                return
            except _StopRequested:
                return
            except Conflict as error:  # vectors of another embedder: only a reindex helps
                log.error("cannot embed: %s", error)
                return
            except KnowloomError as error:
                log.warning("cannot embed, next try in %g s: %s", self._retry_s, error)
                self._stopping.wait(self._retry_s)

    def _embed(self) -> None:
        missing = self._kb.maintenance.stats().without_vector
        if missing:
            log.info("embedding %d items without a vector", missing)
            log.info("embedded %d items", self._kb.maintenance.embed(progress=self._report))

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._stopping.is_set():
            raise _StopRequested
        if stage == "vectors" and done - self._reported >= REPORT_EVERY:
            self._reported = done
            log.info("embedded %d of %d items", done, total)
