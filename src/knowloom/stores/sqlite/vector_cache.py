"""A cache of vectors read from the file; loads the whole space once half of it has been read."""

from __future__ import annotations

from collections.abc import Callable

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import caching
from knowloom.errors import Corrupt
from knowloom.stores.sqlite.id_cache import bind_rows
from knowloom.stores.sqlite.rows import decode_float16

MAX_BYTES = 400_000_000  # per space and connection; a full cache is emptied
EMPTY = -1
SEQUENTIAL_SPEEDUP = 2  # vectors read by a scan in the time of one lookup
READ_BATCH = 8192  # vectors read at once

SlotArray = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
VectorMatrix = npt.NDArray[np.float32]


class VectorCache:
    """Vectors of a space, one row for each, in the order in which they were first read."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rows: VectorMatrix = np.zeros((0, 0), np.float32)
        self._used = 0
        self._row_of = np.zeros(0, np.int32)  # by slot
        self._valid: Mask = np.zeros(0, np.bool_)  # by slot: the row is what the file has
        self._lookups = 0  # single reads since all vectors were read
        caching.register("sqlite vectors", max_bytes, self)

    def __len__(self) -> int:
        """Return the bytes in use."""
        return self._used * int(self._rows.shape[1]) * 4

    def clear(self) -> None:
        self._valid.fill(False)

    def forget(self, first: int, last: int) -> None:
        """Invalidate the slots from `first` up to, not including, `last`."""
        self._valid[first:last] = False

    def get(
        self, slots: SlotArray, stored: Mask, read: Callable[[SlotArray], VectorMatrix]
    ) -> VectorMatrix:
        """Return the vectors at these distinct slots.

        `stored` flags the slots of the space that have a vector. `read` reads vectors from the
        file: the missing ones, or all once that would have been cheaper.
        """
        self._grow(len(stored))
        missing = slots[~self._valid[slots]]
        if len(missing):
            self._lookups += len(missing)
            if len(stored) <= min(self._lookups * SEQUENTIAL_SPEEDUP, len(self._rows)):
                missing = np.flatnonzero(stored & ~self._valid[: len(stored)])
                self._lookups = 0
            if not self._load(missing, read):
                vectors = read(slots)
                self._reset(vectors.shape[1])
                if not self._add(slots, vectors):
                    return vectors
        # mode="clip" skips the bounds check: three quarters of the time.
        return self._rows.take(self._row_of[slots], axis=0, mode="clip")

    def _load(self, slots: SlotArray, read: Callable[[SlotArray], VectorMatrix]) -> bool:
        """Read and cache the vectors; return False if they do not fit."""
        parts = (slots[start : start + READ_BATCH] for start in range(0, len(slots), READ_BATCH))
        return len(self._rows) > 0 and all(self._add(part, read(part)) for part in parts)

    def _grow(self, size: int) -> None:
        if len(self._valid) < size:
            more = size + size // 8 - len(self._valid)
            self._row_of = np.concatenate([self._row_of, np.full(more, EMPTY, np.int32)])
            self._valid = np.concatenate([self._valid, np.zeros(more, np.bool_)])

    def _add(self, slots: SlotArray, vectors: VectorMatrix) -> bool:
        """Cache the vectors; return False if they do not fit."""
        rows = self._row_of[slots]
        new = rows == EMPTY
        used = self._used + int(np.count_nonzero(new))
        if vectors.shape[1] != self._rows.shape[1] or used > len(self._rows):
            return False
        rows[new] = np.arange(self._used, used)
        self._rows[rows] = vectors
        self._row_of[slots] = rows
        self._valid[slots] = True
        self._used = used
        return True

    def _reset(self, dimensions: int) -> None:
        """Reserve rows for the whole space; the system allocates only pages that are written."""
        room = min(len(self._row_of), self._max_bytes // (4 * dimensions))
        if self._rows.shape != (room, dimensions):
            self._rows = np.zeros((room, dimensions), np.float32)
        self._row_of.fill(EMPTY)
        self._valid.fill(False)
        self._used = 0


def fetch_vectors(connection: apsw.Connection, space: int, slots: SlotArray) -> VectorMatrix:
    """Read the vectors at these slots of a space from the file."""
    query = """SELECT vector.data FROM carray(?) AS query
        CROSS JOIN vector ON vector.row = query.value"""
    rows = [data for (data,) in connection.execute(query, (bind_rows(space, slots),))]
    ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
    # A vector of another length would shift all that follow it.
    if len(rows) != len(slots) or {*map(len, rows)} != {2 * dimensions}:
        raise Corrupt(
            "stored vectors are missing or truncated: `knowloom verify` reports which, "
            "`knowloom reindex` rebuilds all of them"
        )
    return decode_float16(b"".join(rows)).reshape(len(rows), dimensions)
