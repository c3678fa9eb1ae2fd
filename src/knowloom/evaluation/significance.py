"""Bootstrap intervals of means, and the significance of paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knowloom.errors import Invalid

Floats = npt.NDArray[np.float64]

ROUNDS = 10_000
CONFIDENCE = 0.95  # of the intervals
SIGNIFICANCE = 0.05  # a smaller p is significant
_BATCH = 2_000_000  # numbers sampled at a time, to bound memory
_EPSILON = 1e-12  # rounding error between sums in different order


@dataclass(frozen=True, slots=True)
class Difference:
    """Two configurations on the same questions: the mean of (second - first) and its p-value."""

    mean: float
    low: float
    high: float
    p: float
    better: int  # questions
    worse: int
    equal: int

    @property
    def questions(self) -> int:
        return self.better + self.worse + self.equal

    @property
    def real(self) -> bool:
        """True if both the p-value and the interval exclude chance."""
        return self.p < SIGNIFICANCE and (self.low > 0 or self.high < 0)


def compare_paired(
    first: Sequence[float],
    second: Sequence[float],
    rng: np.random.Generator,
    rounds: int = ROUNDS,
) -> Difference:
    """Return the mean difference with a paired bootstrap interval and a sign-flip p-value."""
    if len(first) != len(second):
        raise Invalid(f"paired values must have equal lengths, got {len(first)} and {len(second)}")
    changes = _to_array(second) - _to_array(first)
    better, worse = int((changes > _EPSILON).sum()), int((changes < -_EPSILON).sum())
    if not better and not worse:
        return Difference(0.0, 0.0, 0.0, 1.0, 0, 0, len(changes))
    low, high = _bootstrap(changes, rng, rounds)
    mean = float(changes.mean())
    as_large = sum(
        int((abs(means) >= abs(mean) - _EPSILON).sum())
        for means in _sample_means(changes, rng, rounds, _flip_signs)
    )
    p = (1 + as_large) / (1 + rounds)
    return Difference(mean, low, high, p, better, worse, len(changes) - better - worse)


def bootstrap_interval(
    values: Sequence[float], rng: np.random.Generator, rounds: int = ROUNDS
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean."""
    return _bootstrap(_to_array(values), rng, rounds)


def _bootstrap(values: Floats, rng: np.random.Generator, rounds: int) -> tuple[float, float]:
    means = np.concatenate(list(_sample_means(values, rng, rounds, _resample)))
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _sample_means(
    values: Floats,
    rng: np.random.Generator,
    rounds: int,
    sample: Callable[[Floats, np.random.Generator, int], Floats],
) -> Iterator[Floats]:
    """Yield the means of samples in batches."""
    step = max(1, _BATCH // len(values))
    for start in range(0, rounds, step):
        yield sample(values, rng, min(step, rounds - start))


def _resample(values: Floats, rng: np.random.Generator, count: int) -> Floats:
    means: Floats = values[rng.integers(0, len(values), (count, len(values)))].mean(axis=1)
    return means


def _flip_signs(values: Floats, rng: np.random.Generator, count: int) -> Floats:
    signs = rng.integers(0, 2, (count, len(values))) * 2.0 - 1.0
    means: Floats = signs @ values / len(values)
    return means


def _to_array(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise Invalid("values must be one or more finite numbers")
    return array
