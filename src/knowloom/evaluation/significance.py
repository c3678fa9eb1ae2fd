"""What chance can do: intervals of means by drawing questions again, and how often chance alone gives a difference as large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knowloom.errors import Invalid

Floats = npt.NDArray[np.float64]

ROUNDS = 10_000
LEVEL = 0.95  # of the intervals
CHANCE = 0.05  # a p below this is no longer taken for chance
_AT_ONCE = 2_000_000  # numbers drawn at a time, so that many questions need little memory
_SAME = 1e-12  # sums of the same numbers in another order


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two configurations on the same questions: the mean of (second - first), its interval, and how likely chance alone gives as much."""

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
        return self.p < CHANCE and (self.low > 0 or self.high < 0)


def paired(
    first: Sequence[float],
    second: Sequence[float],
    chance: np.random.Generator,
    rounds: int = ROUNDS,
) -> Difference:
    """Paired bootstrap: the interval holds the middle 95 % of the mean differences of questions drawn again, with repeats. p is the
    share of 10,000 worlds in which the two configurations are swapped at random on each question, and which differ as much."""
    if len(first) != len(second):
        raise Invalid(f"{len(first)} values cannot be paired with {len(second)}")
    changes = _checked(second) - _checked(first)
    better, worse = int((changes > _SAME).sum()), int((changes < -_SAME).sum())
    if not better and not worse:
        return Difference(0.0, 0.0, 0.0, 1.0, 0, 0, len(changes))
    low, high = _middle(changes, chance, rounds)
    mean = float(changes.mean())
    as_large = sum(
        int((abs(means) >= abs(mean) - _SAME).sum())
        for means in _drawn(changes, chance, rounds, _swapped)
    )
    return Difference(
        mean, low, high, (1 + as_large) / (1 + rounds), better, worse, len(changes) - better - worse
    )


def interval(
    values: Sequence[float], chance: np.random.Generator, rounds: int = ROUNDS
) -> tuple[float, float]:
    """The middle 95 % of the means of questions drawn again."""
    return _middle(_checked(values), chance, rounds)


def _middle(values: Floats, chance: np.random.Generator, rounds: int) -> tuple[float, float]:
    means = np.concatenate(list(_drawn(values, chance, rounds, _again)))
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _drawn(
    values: Floats,
    chance: np.random.Generator,
    rounds: int,
    draw: Callable[[Floats, np.random.Generator, int], Floats],
) -> Iterator[Floats]:
    """Means of so many draws, some at a time."""
    step = max(1, _AT_ONCE // len(values))
    for start in range(0, rounds, step):
        yield draw(values, chance, min(step, rounds - start))


def _again(values: Floats, chance: np.random.Generator, count: int) -> Floats:
    means: Floats = values[chance.integers(0, len(values), (count, len(values)))].mean(axis=1)
    return means


def _swapped(values: Floats, chance: np.random.Generator, count: int) -> Floats:
    signs = chance.integers(0, 2, (count, len(values))) * 2.0 - 1.0
    means: Floats = signs @ values / len(values)
    return means


def _checked(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise Invalid("what is compared must be one or more finite numbers")
    return array
