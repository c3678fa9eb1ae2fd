"""Distances that are the same whatever other vectors are compared with them.

Long vectors are compared by the signs of their dimensions, short ones by all of their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from knowloom.errors import Invalid
from knowloom.model import Key

Signs = npt.NDArray[np.uint64]
Matrix = npt.NDArray[np.float32]

ROWS_PER_BYTE = 3  # rows of 64 bits whose distance fits a byte; adding bytes is much faster
# Whole numbers up to the square of SCALE are exact in single precision, and so are all sums on the
# way to the product of two vectors of this length.
SCALE = 4000.0
MAX_SQUARE_ERROR = 2e-3  # of the length of a unit vector


def check_unit_length(vectors: Mapping[Key, Matrix]) -> None:
    """Raise Invalid if a vector, or a row of a matrix, does not have unit length."""
    for key, rows in vectors.items():
        with np.errstate(over="ignore"):
            squares = np.einsum("...i,...i->...", rows, rows)
        if not np.all(abs(squares - 1) < MAX_SQUARE_ERROR):  # NaN too
            raise Invalid(
                f"a vector must have unit length, got {np.sqrt(squares).tolist()!r} for {key!r}"
            )


def pack_signs(vectors: Matrix) -> Signs:
    """Return one bit per dimension of one or more vectors, set where it is positive.

    Padded to whole 64-bit words.
    """
    dimensions = vectors.shape[-1]
    bits = np.zeros((*vectors.shape[:-1], -(-dimensions // 64) * 64), np.bool_)
    bits[..., :dimensions] = vectors > 0
    return np.packbits(bits, axis=-1).view(np.uint64)


def count_differing(signs: Signs, bits: Signs) -> npt.NDArray[np.uint16]:
    """Return the Hamming distance of each column of `signs`, a row per 64 dimensions."""
    distances = np.zeros(signs.shape[1], np.uint16)
    for first in range(0, len(signs), ROWS_PER_BYTE):
        differing = np.bitwise_count(signs[first] ^ bits[first])
        for row in range(first + 1, min(first + ROWS_PER_BYTE, len(signs))):
            differing += np.bitwise_count(signs[row] ^ bits[row])
        distances += differing
    return distances


def round_vectors(vectors: Matrix) -> Matrix:
    """Return unit vectors as whole numbers, as exact as 16-bit floats are."""
    rounded: Matrix = np.rint(vectors.astype(np.float16).astype(np.float32) * SCALE)
    return rounded


def measure_distances(rounded: Matrix, others: Matrix) -> npt.NDArray[np.uint32]:
    """Return the distance of each rounded vector to the nearest of the others, from 0."""
    products = (rounded @ others.T).max(axis=1)
    distances: npt.NDArray[np.uint32]
    distances = np.clip(SCALE**2 - products, 0, SCALE**2).astype(np.uint32)
    return distances
