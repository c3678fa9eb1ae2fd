"""The best of very many numbers, without sorting them: a sample tells how good the best are, and only what is as good is looked at closely."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SAMPLE_STEP = 64  # one number of so many is in the sample
ROUNDING = 1e-6  # numbers that differ by less may be the same when rounded
SMALLEST_POSITIVE = 5e-324  # the least number above 0

Places = npt.NDArray[np.intp]


def k_largest(
    scores: npt.NDArray[np.float64], limit: int, most: float = 1.0
) -> tuple[list[int], list[float], int]:
    """The places of the best scores, as shares of `most` and rounded, all of the last tie included; and how many are above 0, which alone count."""
    matching = int(np.count_nonzero(scores > 0))  # of truth values: ten times as fast as of numbers
    if not 0 < limit < matching:
        places = np.flatnonzero(scores > 0)
        return places.tolist(), np.round(scores[places] / most, 6).tolist(), matching
    sample = np.sort(scores[::SAMPLE_STEP])
    likely = np.flatnonzero(
        scores >= max(sample[-_rank(limit, len(sample))] - ROUNDING * most, SMALLEST_POSITIVE)
    )
    places = likely if len(likely) >= limit else np.flatnonzero(scores > 0)
    values = scores[places]
    # Rounding makes ties: what may round to the same as the last is kept, and only what is kept is rounded.
    near = (
        values >= np.partition(values, len(values) - limit)[len(values) - limit] - ROUNDING * most
    )
    return places[near].tolist(), np.round(values[near] / most, 6).tolist(), matching


def k_smallest(distances: npt.NDArray[np.uint16], wanted: int) -> Places:
    """The places of the `wanted` smallest distances, all of the last tie included."""
    sample = np.sort(distances[::SAMPLE_STEP])
    likely = np.flatnonzero(distances <= sample[_rank(wanted, len(sample)) - 1])
    return (
        likely[_smallest(distances[likely], wanted)]
        if len(likely) >= wanted
        else _smallest(distances, wanted)
    )


def _smallest(distances: npt.NDArray[np.uint16], wanted: int) -> Places:
    # Distances are small whole numbers: counting them finds the wanted-th smallest faster than sorting does.
    return np.flatnonzero(distances <= np.searchsorted(np.cumsum(np.bincount(distances)), wanted))


def _rank(wanted: int, sampled: int) -> int:
    """The rank in the sample that at least `wanted` of all are almost surely as good as."""
    return min(sampled, 2 * wanted // SAMPLE_STEP + 8)
