"""Vectors on disk: what was embedded once need not be embedded again by the next process. A cache: whatever is wrong with it, it is only slower."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar

import apsw
import numpy as np

from knowloom.errors import Invalid
from knowloom.ports import Vector

log = logging.getLogger(__name__)

APPLICATION = 0x57465643  # "WFVC"
BUSY_TIMEOUT_MS = 2_000  # longer than that, embedding anew is quicker
UNIT = 1e-3  # how far from 1 the length of a stored vector may be
SPARE = 0.1  # of the limit: so much more is deleted at once, to delete seldom
SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS vector(model TEXT, digest BLOB, at REAL NOT NULL, data BLOB NOT NULL, PRIMARY KEY(model, digest)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS vector_at ON vector(at);
    CREATE TABLE IF NOT EXISTS count(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    PRAGMA application_id={APPLICATION}
"""
Key = tuple[str, bytes]
T = TypeVar("T")


class Kept:
    """An SQLite file of vectors by (model, digest of the text), at most `max_size` of them and none older than `ttl_s`. A damaged file is put
    aside and begun anew; `problem` says so."""

    def __init__(
        self,
        path: str | Path,
        max_size: int = 1_000_000,
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not Path(path).absolute().parent.is_dir():
            raise Invalid(f"embedding cache: the folder of {str(path)!r} does not exist")
        self.path, self._max_size, self._ttl_s, self._clock = Path(path), max_size, ttl_s, clock
        self.problem = ""
        self._hits = 0
        self._lock = Lock()
        self._file: apsw.Connection | None = None
        self._safely(lambda _: None, None)

    def get(self, keys: Iterable[Key]) -> dict[Key, Vector]:
        """Those of the keys that are known."""
        wanted = list(keys)
        oldest = self._clock() - self._ttl_s if self._ttl_s is not None else 0.0

        def read(file: apsw.Connection) -> dict[Key, Vector]:
            rows = [
                (
                    key,
                    file.execute(
                        "SELECT data FROM vector WHERE model = ? AND digest = ? AND at >= ?",
                        (*key, oldest),
                    ).fetchall(),
                )
                for key in wanted
            ]
            return {
                key: vector
                for key, row in rows
                if row and (vector := _vector(row[0][0])) is not None
            }

        nothing: dict[Key, Vector] = {}
        found = self._safely(read, nothing)
        self._hits += len(found)
        return found

    def put(self, vectors: Mapping[Key, Vector]) -> None:
        """Remember; the oldest go when there are too many."""
        now = self._clock()
        rows = [
            (*key, now, np.asarray(vector, np.float32).tobytes()) for key, vector in vectors.items()
        ]

        def write(file: apsw.Connection) -> None:
            with file:
                file.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?, ?)", rows)
                self._count(file)
                ((size,),) = file.execute("SELECT count(*) FROM vector").fetchall()
                if isinstance(size, int) and size > self._max_size:
                    extra = size - self._max_size + int(self._max_size * SPARE)
                    file.execute(
                        "DELETE FROM vector WHERE (model, digest) IN (SELECT model, digest FROM vector ORDER BY at, model, digest LIMIT ?)",
                        (extra,),
                    )
                if self._ttl_s is not None:
                    file.execute("DELETE FROM vector WHERE at < ?", (now - self._ttl_s,))

        self._safely(write, None)

    def counts(self) -> tuple[int, int]:
        """How many vectors there are, and how often one was used, since the file was made."""

        def read(file: apsw.Connection) -> tuple[int, int]:
            with file:
                self._count(file)
            ((size,),) = file.execute("SELECT count(*) FROM vector").fetchall()
            used = file.execute("SELECT value FROM count WHERE name = 'hits'").fetchall()
            return int(str(size)), int(str(used[0][0])) if used else 0

        return self._safely(read, (0, 0))

    def clear(self) -> None:
        def write(file: apsw.Connection) -> None:
            file.execute("DELETE FROM vector")

        self._safely(write, None)

    def close(self) -> None:
        if self._file is not None:
            self.counts()
            self._file.close()
            self._file = None

    def _count(self, file: apsw.Connection) -> None:
        file.execute(
            "INSERT INTO count VALUES ('hits', ?1) ON CONFLICT DO UPDATE SET value = value + ?1",
            (self._hits,),
        )
        self._hits = 0

    def _safely(self, work: Callable[[apsw.Connection], T], instead: T) -> T:
        """What the work gives; nothing that happens to a cache is fatal. A damaged file is tried again once, as a new one."""
        with self._lock:
            for _ in range(2):
                try:
                    self._file = self._file or self._opened()
                    return work(self._file)
                except (apsw.CorruptError, apsw.NotADBError) as error:
                    self._put_aside(str(error))
                except apsw.Error as error:
                    self.problem = f"embedding cache {str(self.path)!r}: {error}"
                    log.warning("%s", self.problem)
                    return instead
        return instead

    def _opened(self) -> apsw.Connection:
        file = apsw.Connection(str(self.path))
        file.set_busy_timeout(BUSY_TIMEOUT_MS)
        ((tables,),) = file.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        if tables and file.pragma("application_id") != APPLICATION:
            file.close()
            raise Invalid(
                f"embedding cache: {str(self.path)!r} is an SQLite file of another program"
            )
        file.execute("PRAGMA journal_mode=WAL").fetchall()
        file.execute("PRAGMA synchronous=OFF")  # what a power cut damages is embedded again
        if not tables:
            file.execute(SCHEMA)
        return file

    def _put_aside(self, reason: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        aside = self.path.with_name(f"{self.path.name}.damaged")
        self.problem = f"embedding cache {str(self.path)!r} was damaged ({reason}) and is begun anew; the old file is {str(aside)!r}"
        log.warning("%s", self.problem)
        try:
            self.path.replace(aside)
            for end in ("-wal", "-shm"):
                self.path.with_name(f"{self.path.name}{end}").unlink(missing_ok=True)
        except OSError as error:
            log.warning("embedding cache: %s cannot be put aside: %s", self.path, error.strerror)


def _vector(data: object) -> Vector | None:
    """A stored vector, if it is one."""
    if not isinstance(data, bytes) or not data or len(data) % 4:
        return None
    vector = np.frombuffer(data, np.float32)
    return vector if abs(float(np.linalg.norm(vector)) - 1) < UNIT else None
