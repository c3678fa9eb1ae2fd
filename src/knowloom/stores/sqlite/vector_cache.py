"""Vectors that were read before: the same ones are asked for in request after request, and in the end all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

MAX_BYTES = 400_000_000  # per space and reader: when these are full, it begins anew
EMPTY = -1
SEQUENTIAL_SPEEDUP = (
    2  # vectors that are read in order in the time that one takes which is asked for
)
READ_BATCH = 8192  # vectors read in one go

Places = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Vectors = npt.NDArray[np.float32]


class VectorCache:
    """Some of the vectors of a space, one row for each, in the order in which they were first read."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._rows: Vectors = np.zeros((0, 0), np.float32)
        self._used = 0
        self._row_of = np.zeros(0, np.int32)  # by place
        self._true: Mask = np.zeros(0, np.bool_)  # by place: whether its row is what is stored
        self._looked_for = 0  # as they were asked for, since all were read

    def forget(self, first: int, last: int) -> None:
        """Those at the places from `first` on, up to `last`, have changed."""
        self._true[first:last] = False

    def get(self, places: Places, stored: Mask, read: Callable[[Places], Vectors]) -> Vectors:
        """The vectors at these places, each asked for once; `stored` says which places of the space have one, `read` reads those that are not here:
        the missing ones, until reading all would have been cheaper, and then all."""
        self._widen(len(stored))
        missing = places[~self._true[places]]
        if len(missing):
            self._looked_for += len(missing)
            if len(stored) <= min(self._looked_for * SEQUENTIAL_SPEEDUP, len(self._rows)):
                missing = np.flatnonzero(stored & ~self._true[: len(stored)])
                self._looked_for = 0
            if not self._read(missing, read):
                vectors = read(places)
                self._begin(vectors.shape[1])
                if not self._take(places, vectors):
                    return vectors
        return self._rows.take(
            self._row_of[places], axis=0, mode="clip"
        )  # unchecked: three quarters of the time

    def _read(self, places: Places, read: Callable[[Places], Vectors]) -> bool:
        """Whether there was room for them."""
        parts = (places[start : start + READ_BATCH] for start in range(0, len(places), READ_BATCH))
        return len(self._rows) > 0 and all(self._take(part, read(part)) for part in parts)

    def _widen(self, size: int) -> None:
        more = size + size // 8 - len(self._true)
        if len(self._true) < size:
            self._row_of = np.concatenate([self._row_of, np.full(more, EMPTY, np.int32)])
            self._true = np.concatenate([self._true, np.zeros(more, np.bool_)])

    def _take(self, places: Places, vectors: Vectors) -> bool:
        """Whether there was room for them."""
        rows = self._row_of[places]
        new = rows == EMPTY
        used = self._used + int(np.count_nonzero(new))
        if vectors.shape[1] != self._rows.shape[1] or used > len(self._rows):
            return False
        rows[new] = np.arange(self._used, used)
        self._rows[rows], self._row_of[places], self._true[places], self._used = (
            vectors,
            rows,
            True,
            used,
        )
        return True

    def _begin(self, dimensions: int) -> None:
        """Room for all there may be, of which the system gives only what is written to."""
        room = min(len(self._row_of), self._most_bytes // (4 * dimensions))
        if self._rows.shape != (room, dimensions):
            self._rows = np.zeros((room, dimensions), np.float32)
        self._row_of.fill(EMPTY)
        self._true.fill(False)
        self._used = 0
