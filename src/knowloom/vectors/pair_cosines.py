"""Exact cosines of pairs of items, by their nearest passages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from knowloom.construction import SCORE_DIGITS
from knowloom.vectors.nearest_lists import Mask
from knowloom.vectors.signs import Matrix
from knowloom.vectors.top_k import SlotArray

FLOAT32_ERROR = 1e-4  # more than the error of a cosine in single precision
MAX_PAIRS = 64  # passages of two items that are compared exactly
COMPARE_BATCH = 1024  # pairs of vectors compared at once: more do not fit the cache
PASSAGE_BATCH = 512  # passages of an item compared with those of another at once

Cosines = npt.NDArray[np.float64]


def compare_pairs(
    pairs: npt.NDArray[np.intp],
    is_short: Mask,
    min_cosine: float,
    read_vectors: Callable[[SlotArray], Matrix],
    read_passages: Callable[[SlotArray], Matrix],
) -> Cosines:
    """Return the cosine of the nearest passages of each pair of items, 0 for small ones.

    Both items of a short pair have one passage: `read_vectors` returns a row for each. Those of
    other items are all rows that `read_passages` returns for an array of one item.
    """
    cosines = np.zeros(pairs.shape[1])
    short = np.flatnonzero(is_short)
    for start in range(0, len(short), COMPARE_BATCH):
        places = short[start : start + COMPARE_BATCH]
        items, inverse = np.unique(pairs[:, places], return_inverse=True)
        stored = read_vectors(items)
        first, second = inverse.reshape(2, -1)
        rough = np.vecdot(stored[first], stored[second])
        near = np.flatnonzero(rough >= min_cosine - FLOAT32_ERROR)
        cosines[places[near]] = _exact_cosines(stored[first[near]], stored[second[near]])
    for place in np.flatnonzero(~is_short).tolist():
        vectors, others = (read_passages(pairs[end, place : place + 1]) for end in (0, 1))
        cosines[place] = _compare_passages(vectors, others)
    return np.clip(cosines, 0.0, 1.0).round(SCORE_DIGITS)


def _compare_passages(vectors: Matrix, others: Matrix) -> float:
    """Return the cosine of the nearest passages of two items.

    Of passages that all say the same, MAX_PAIRS are compared exactly.
    """
    best = 0.0
    for start in range(0, len(vectors), PASSAGE_BATCH):
        part = vectors[start : start + PASSAGE_BATCH]
        rough = (part @ others.T).ravel()
        count = min(MAX_PAIRS, len(rough))
        nearest = np.argpartition(rough, len(rough) - count)[len(rough) - count :]
        rows, columns = np.divmod(nearest, len(others))
        best = max(best, float(_exact_cosines(part[rows], others[columns]).max()))
    return best


def _exact_cosines(vectors: Matrix, others: Matrix) -> Cosines:
    cosines: Cosines = np.vecdot(vectors.astype(np.float64), others.astype(np.float64))
    return cosines
