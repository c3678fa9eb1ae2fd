"""Dynamic-programming table of one group: the best value for every number of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_CELLS = 4_000_000  # of one group's table, 8 bytes each
IMPOSSIBLE = np.int64(-(2**62))
ZERO = np.zeros(1, np.int64)

IntArray = npt.NDArray[np.int64]
Gains = tuple[IntArray, IntArray]  # extra tokens, starting with 0, and the group's value with them


class Option(NamedTuple):
    """One way to take an offer; a bare tuple, since a problem has hundreds."""

    tokens: int
    value: int


@dataclass(frozen=True, slots=True)
class Offer:
    """A candidate that may be taken in one of several ways.

    Of each tuple in `needs`, at least one other offer must be taken; offers are numbered through
    all groups.
    """

    options: tuple[Option, ...]
    needs: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class OfferGroup:
    """Offers that share a heading, a guaranteed number of tokens, and a cap.

    The heading costs `overhead` tokens if any offer is taken.
    """

    offers: tuple[Offer, ...]
    guaranteed: int
    cap: int
    overhead: int = 0
    is_open: bool = False  # True if the heading is paid for: an offer under it is already taken

    @cached_property
    def demand(self) -> int:
        """The tokens of all offers in their largest form, without the heading."""
        return sum([max(offer.options)[0] for offer in self.offers if offer.options])


@dataclass(frozen=True, slots=True)
class BranchConstraints:
    """The decisions of one branch: numbers of offers that are excluded or required."""

    forbidden: frozenset[int] = field(default_factory=frozenset)
    forced: frozenset[int] = field(default_factory=frozenset)


class GroupTable:
    """The table of one group: row i, column c is the best value of the first i offers in c units.

    A unit is one token, or more where the table would exceed MAX_CELLS.
    """

    def __init__(
        self, group: OfferGroup, first: int, capacity: int, constraints: BranchConstraints
    ) -> None:
        self._group = group
        self._first = first
        self._constraints = constraints
        self._overhead = group.overhead
        self._room = max(-1, min(capacity - group.overhead, group.demand))
        cells = (len(group.offers) + 1) * (self._room + 1)
        self._unit = max(1, -(-cells // MAX_CELLS))
        self.is_exact = self._unit == 1
        self._rows = self._fill(round_up=True)
        self._is_required = group.is_open or any(
            first <= number < first + len(group.offers) for number in constraints.forced
        )

    def _fill(self, round_up: bool) -> IntArray:
        columns = self._room // self._unit + 1
        rows = np.empty((len(self._group.offers) + 1, max(0, columns)), np.int64)
        rows[0] = 0
        # One buffer for all options: a new array for each costs a third more.
        buffer = np.empty(max(0, columns), np.int64)
        for number, offer in enumerate(self._group.offers):
            before, after = rows[number], rows[number + 1]
            after[:] = IMPOSSIBLE if self._first + number in self._constraints.forced else before
            if self._first + number in self._constraints.forbidden:
                continue
            for tokens, value in offer.options:
                units = -(-tokens // self._unit) if round_up else tokens // self._unit
                if units < columns:
                    target = after[units:]
                    taken = np.add(before[: columns - units], value, out=buffer[: columns - units])
                    np.maximum(target, taken, out=target)
        return rows

    def best(self, tokens: int) -> int:
        """Return the best value within `tokens`, heading included."""
        inside = min(tokens - self._overhead, self._room)
        nothing = int(IMPOSSIBLE) if self._is_required else 0
        return nothing if inside < 0 else max(nothing, int(self._rows[-1][inside // self._unit]))

    def used(self, tokens: int) -> int:
        """Return the fewest tokens with the value of `tokens`; more if forced offers need more."""
        last = self._rows[-1]
        inside = min(tokens - self._overhead, self._room)
        value = self.best(tokens)
        if value == 0 or not len(last):
            return 0
        if inside < 0 or value <= IMPOSSIBLE // 2:
            fits = np.flatnonzero(last > IMPOSSIBLE // 2)
            if not len(fits):
                return self._overhead + self._room + 1
            return self._overhead + int(fits[0]) * self._unit
        return self._overhead + int(np.searchsorted(last, value)) * self._unit

    def gains(self, base: int, pool: int) -> Gains:
        """Return the steps at which the value rises as up to `pool` tokens are added to `base`."""
        value = self.best(base)
        first = max(0, -(-(base - self._overhead) // self._unit))
        last = self._rows[-1][first : max(0, base + pool - self._overhead) // self._unit + 1]
        if not len(last) or base + pool < self._overhead:
            return np.zeros(1, np.int64), np.array([value])
        rises = np.concatenate((ZERO, np.flatnonzero(last[1:] > last[:-1]) + 1))
        extra, values = self._overhead + (first + rises) * self._unit - base, last[rises]
        gained = (extra > 0) & (extra <= pool) & (values > value)
        return np.concatenate((ZERO, extra[gained])), np.concatenate(([value], values[gained]))

    def pick(self, tokens: int) -> list[int]:
        """Return the option of each offer in the best choice within `tokens`; -1 for none."""
        picks = [-1] * len(self._group.offers)
        column = min(tokens - self._overhead, self._room) // self._unit
        if column < 0 or (self.best(tokens) <= 0 and not self._is_required):
            return picks
        for number in reversed(range(len(picks))):
            before, value = self._rows[number], self._rows[number + 1][column]
            if value == before[column] and self._first + number not in self._constraints.forced:
                continue
            for place, option in enumerate(self._group.offers[number].options):
                units = -(-option.tokens // self._unit)
                if units <= column and before[column - units] + option.value == value:
                    picks[number] = place
                    column -= units
                    break
        return picks

    def best_net_value(self, base: int, price: float) -> float:
        """Return the best value less the price of its tokens, of which there are at least
        `base`."""
        inside = max(0, base - self._overhead)
        tokens = self._overhead + np.arange(inside, len(self._rows[-1]))
        net_values = self._rows[-1][inside:] - price * tokens
        return max(self.best(base) - price * base, float(net_values.max(initial=-np.inf)))

    def optimistic_gains(self, budget: int) -> Gains:
        """Return the steps at which the value would rise if all costs were rounded down."""
        last = self._fill(round_up=False)[-1]
        rises = np.flatnonzero(np.diff(last)) + 1
        tokens, free = self._overhead + rises * self._unit, max(0, int(last[0])) if len(last) else 0
        fits = tokens <= budget
        return np.append(0, tokens[fits]), np.append(free, last[rises[fits]])
