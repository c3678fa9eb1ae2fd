"""Top-k selection in large arrays without sorting them: a sample gives a threshold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SAMPLE_STEP = 64  # every 64th number is in the sample
ROUNDING = 1e-6  # numbers that differ by less may be equal when rounded
SMALLEST_POSITIVE = 5e-324

SlotArray = npt.NDArray[np.intp]


def k_largest(
    scores: npt.NDArray[np.float64], limit: int, scale: float = 1.0, matching: int | None = None
) -> tuple[list[int], list[float], int]:
    """Return the indexes and values of the `limit` largest scores, with all of the last tie.

    Values are divided by `scale` and rounded. The third result counts the scores above 0, unless
    `matching` is that number already; others are never returned.
    """
    if matching is None:
        matching = int(np.count_nonzero(scores > 0))  # ten times as fast on booleans as on floats
    if not 0 < limit < matching:
        slots = np.flatnonzero(scores > 0)
        return slots.tolist(), np.round(scores[slots] / scale, 6).tolist(), matching
    sample = np.sort(scores[::SAMPLE_STEP])
    threshold = sample[-_sample_rank(limit, len(sample))] - ROUNDING * scale
    likely = np.flatnonzero(scores >= max(threshold, SMALLEST_POSITIVE))
    slots = likely if len(likely) >= limit else np.flatnonzero(scores > 0)
    values = scores[slots]
    # Rounding creates ties: keep what may round to the same value as the last, then round.
    last = np.partition(values, len(values) - limit)[len(values) - limit]
    near = values >= last - ROUNDING * scale
    return slots[near].tolist(), np.round(values[near] / scale, 6).tolist(), matching


def k_smallest(distances: npt.NDArray[np.uint16], limit: int) -> SlotArray:
    """Return the indexes of the `limit` smallest distances, with all of the last tie."""
    sample = np.sort(distances[::SAMPLE_STEP])
    likely = np.flatnonzero(distances <= sample[_sample_rank(limit, len(sample)) - 1])
    if len(likely) >= limit:
        return likely[_select_smallest(distances[likely], limit)]
    return _select_smallest(distances, limit)


def _select_smallest(distances: npt.NDArray[np.uint16], limit: int) -> SlotArray:
    # Distances are small whole numbers: a histogram finds the threshold faster than sorting.
    return np.flatnonzero(distances <= np.searchsorted(np.cumsum(np.bincount(distances)), limit))


def _sample_rank(limit: int, sampled: int) -> int:
    """Return a rank in the sample that, almost surely, `limit` of all numbers reach."""
    return min(sampled, 2 * limit // SAMPLE_STEP + 8)
