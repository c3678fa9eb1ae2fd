"""A cache of the vectors of a space, one row for each passage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knowloom import caching
from knowloom.stores.postgresql.item_rows import Numbers, ranges

MAX_BYTES = 400_000_000  # per space and session; a full cache is emptied
SPARE = 8  # it grows by at least an eighth, so that repeated reads stay cheap
NO_VERSION = -1  # of items whose vectors are not cached

Matrix = npt.NDArray[np.float32]


class VectorMatrix:
    """Vectors by the number of their item, in the order in which they were first read."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._rows: Matrix = np.zeros((0, 0), np.float32)
        self._used = 0
        self._firsts = np.zeros(0, np.intp)  # by number: the first row
        self._versions = np.zeros(0, np.int64)  # by number: of the vectors that are cached
        caching.register("postgresql vectors", max_bytes, self)

    def __len__(self) -> int:
        """Return the bytes in use."""
        return self._used * int(self._rows.shape[1]) * 4

    def clear(self) -> None:
        self._versions.fill(NO_VERSION)
        self._used = 0

    def missing(self, numbers: Numbers, versions: npt.NDArray[np.int64]) -> Numbers:
        """Return the numbers whose vectors of these versions are not cached."""
        self._grow(int(numbers.max(initial=-1)) + 1)
        missing: Numbers = numbers[self._versions[numbers] != versions]
        return missing

    def put(
        self,
        numbers: Numbers,
        versions: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int32],
        vectors: Matrix,
    ) -> None:
        """Add the vectors of items, as many of each as its count, item by item."""
        if vectors.shape[1] != self._rows.shape[1]:
            self.clear()
            self._rows = np.zeros((0, vectors.shape[1]), np.float32)
        if (self._used + len(vectors)) * vectors.shape[1] * 4 > self.max_bytes:
            self.clear()
        end = self._used + len(vectors)
        if end > len(self._rows):
            more = max(end - len(self._rows), len(self._rows) // SPARE)
            padding = np.zeros((more, vectors.shape[1]), np.float32)
            self._rows = np.concatenate([self._rows, padding])
        self._rows[self._used : end] = vectors
        self._firsts[numbers] = self._used + np.cumsum(counts) - counts
        self._versions[numbers] = versions
        self._used = end

    def get(self, numbers: Numbers, counts: npt.NDArray[np.int32]) -> Matrix:
        """Return the vectors of items that are cached, item by item."""
        firsts = self._firsts[numbers]
        rows = firsts if len(numbers) == counts.sum() else ranges(firsts, counts)
        return self._rows[rows]

    def _grow(self, size: int) -> None:
        more = size - len(self._versions)
        if more > 0:
            self._firsts = np.append(self._firsts, np.zeros(more, np.intp))
            self._versions = np.append(self._versions, np.full(more, NO_VERSION))
