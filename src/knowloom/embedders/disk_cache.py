"""A file that caches vectors across processes. Its defects slow embedding down, no more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

import apsw
import numpy as np

from knowloom.errors import Invalid
from knowloom.ports import Vector

log = logging.getLogger(__name__)

APPLICATION_ID = 0x57465643
BUSY_TIMEOUT_MS = 2_000  # embedding again is faster than a longer wait
MAX_LENGTH_ERROR = 1e-3  # of a stored unit vector
EVICTED_SHARE = 0.1  # of the limit, deleted at once so that evictions are rare
SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS vector(
        model TEXT, digest BLOB, at REAL NOT NULL, data BLOB NOT NULL, PRIMARY KEY(model, digest)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS vector_at ON vector(at);
    CREATE TABLE IF NOT EXISTS count(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    PRAGMA application_id={APPLICATION_ID}
"""
_EVICT = """
    DELETE FROM vector WHERE (model, digest) IN (
        SELECT model, digest FROM vector ORDER BY at, model, digest LIMIT ?
    )
"""
_SELECT = "SELECT data FROM vector WHERE model = ? AND digest = ? AND at >= ?"

CacheKey = tuple[str, bytes]
"""The fingerprint of the embedder and the digest of the text.

The cache contains no text and never returns a vector of another model.
"""
T = TypeVar("T")


class PersistentCache(Protocol):
    """A cache that outlives the process. It raises nothing; `problem` reports its last failure."""

    problem: str

    def get(self, keys: Iterable[CacheKey]) -> dict[CacheKey, Vector]: ...

    def put(self, vectors: Mapping[CacheKey, Vector]) -> None: ...

    def counts(self) -> tuple[int, int]: ...

    def clear(self, model: str | None = None) -> None: ...

    def forget(self, digests: Iterable[bytes]) -> None: ...

    def close(self) -> None: ...


class DiskCache:
    """An SQLite file of at most `max_size` vectors, none older than `ttl_s` seconds.

    A damaged file is moved aside and replaced; `problem` reports it.
    """

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
        self._try(lambda _: None, None)

    def get(self, keys: Iterable[CacheKey]) -> dict[CacheKey, Vector]:
        """Return the stored vectors of the keys; missing ones are left out."""
        requested = list(keys)
        oldest = self._clock() - self._ttl_s if self._ttl_s is not None else 0.0

        def read(file: apsw.Connection) -> dict[CacheKey, Vector]:
            vectors = {}
            for key in requested:
                rows = file.execute(_SELECT, (*key, oldest)).fetchall()
                if rows and (vector := decode_vector(rows[0][0])) is not None:
                    vectors[key] = vector
            return vectors

        default: dict[CacheKey, Vector] = {}
        vectors = self._try(read, default)
        self._hits += len(vectors)
        return vectors

    def put(self, vectors: Mapping[CacheKey, Vector]) -> None:
        """Store vectors; the oldest ones are evicted when the file is full."""
        now = self._clock()
        rows = [
            (*key, now, np.asarray(vector, np.float32).tobytes()) for key, vector in vectors.items()
        ]

        def write(file: apsw.Connection) -> None:
            with file:
                file.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?, ?)", rows)
                self._add_hits(file)
                ((size,),) = file.execute("SELECT count(*) FROM vector").fetchall()
                if isinstance(size, int) and size > self._max_size:
                    extra = size - self._max_size + int(self._max_size * EVICTED_SHARE)
                    file.execute(_EVICT, (extra,))
                if self._ttl_s is not None:
                    file.execute("DELETE FROM vector WHERE at < ?", (now - self._ttl_s,))

        self._try(write, None)

    def counts(self) -> tuple[int, int]:
        """Return the number of vectors, and of hits since the file was created."""

        def read(file: apsw.Connection) -> tuple[int, int]:
            with file:
                self._add_hits(file)
            ((size,),) = file.execute("SELECT count(*) FROM vector").fetchall()
            hits = file.execute("SELECT value FROM count WHERE name = 'hits'").fetchall()
            return int(str(size)), int(str(hits[0][0])) if hits else 0

        return self._try(read, (0, 0))

    def clear(self, model: str | None = None) -> None:
        """Delete the vectors of a model, by default all."""

        def write(file: apsw.Connection) -> None:
            file.execute("DELETE FROM vector WHERE model = ?1 OR ?1 IS NULL", (model,))

        self._try(write, None)

    def forget(self, digests: Iterable[bytes]) -> None:
        """Delete the vectors of texts by their digests, of all models, and overwrite them."""
        rows = [(digest,) for digest in digests]

        def write(file: apsw.Connection) -> None:
            file.execute("PRAGMA secure_delete=ON").fetchall()
            with file:
                file.executemany("DELETE FROM vector WHERE digest = ?", rows)
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        self._try(write, None)

    def close(self) -> None:
        if self._file is not None:
            self.counts()
            self._file.close()
            self._file = None

    def _add_hits(self, file: apsw.Connection) -> None:
        upsert = (
            "INSERT INTO count VALUES ('hits', ?1) ON CONFLICT DO UPDATE SET value = value + ?1"
        )
        file.execute(upsert, (self._hits,))
        self._hits = 0

    def _try(self, work: Callable[[apsw.Connection], T], default: T) -> T:
        """Return the result of the work, or the default: no failure of a cache is fatal.

        Work on a damaged file is retried once, on a new file.
        """
        with self._lock:
            for _ in range(2):
                try:
                    self._file = self._file or self._open()
                    return work(self._file)
                except (apsw.CorruptError, apsw.NotADBError) as error:
                    self._move_aside(str(error))
                except apsw.Error as error:
                    self.problem = f"embedding cache {str(self.path)!r}: {error}"
                    log.warning("%s", self.problem)
                    return default
        return default

    def _open(self) -> apsw.Connection:
        file = apsw.Connection(str(self.path))
        file.set_busy_timeout(BUSY_TIMEOUT_MS)
        ((tables,),) = file.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        if tables and file.pragma("application_id") != APPLICATION_ID:
            file.close()
            raise Invalid(
                f"embedding cache: {str(self.path)!r} is an SQLite file of another program"
            )
        file.execute("PRAGMA journal_mode=WAL").fetchall()
        file.execute("PRAGMA synchronous=OFF")  # vectors lost in a power cut are embedded again
        if not tables:
            file.execute(SCHEMA)
        return file

    def _move_aside(self, reason: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        target = self.path.with_name(f"{self.path.name}.damaged")
        outcome = f"was damaged ({reason}) and is replaced; the old file is {str(target)!r}"
        self.problem = f"embedding cache {str(self.path)!r} {outcome}"
        log.warning("%s", self.problem)
        try:
            self.path.replace(target)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(f"{self.path.name}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            log.warning("embedding cache: cannot move %s aside: %s", self.path, error.strerror)


def decode_vector(data: object) -> Vector | None:
    """Return a stored vector, None for bytes that are not a unit vector."""
    if not isinstance(data, bytes) or not data or len(data) % 4:
        return None
    vector = np.frombuffer(data, np.float32)
    return vector if abs(float(np.linalg.norm(vector)) - 1) < MAX_LENGTH_ERROR else None
