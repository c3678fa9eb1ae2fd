"""What one group of offers can make of its tokens: a table over all numbers of them, and what it is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_CELLS = 4_000_000  # of one group's table, 8 bytes each
IMPOSSIBLE = np.int64(-(2**62))
FIRST = np.zeros(1, np.int64)

IntArray = npt.NDArray[np.int64]
Gains = tuple[
    IntArray, IntArray
]  # extra tokens, beginning with none, and the value of a group that has them


class Option(NamedTuple):
    """One way to take an offer. There are hundreds in a problem, so it is a bare tuple."""

    tokens: int
    value: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that may be taken in one of several ways. `needs`: of each tuple at least one other offer must be taken."""

    options: tuple[Option, ...]
    needs: tuple[tuple[int, ...], ...] = ()  # numbers of offers, counted through all groups


@dataclass(frozen=True)
class OfferGroup:
    """Offers that share a heading (`overhead` tokens if any is taken), a guaranteed and a largest amount of tokens."""

    offers: tuple[Offer, ...]
    sure: int
    most: int
    overhead: int = 0
    opened: bool = False  # the heading is paid for in any case: something under it is already taken

    @cached_property
    def wanted(self) -> int:
        """The tokens of all offers, each in its largest form, without the heading."""
        return sum(
            [max(offer.options)[0] for offer in self.offers if offer.options]
        )  # the largest option is the one with most tokens


@dataclass(frozen=True, slots=True)
class BranchConstraints:
    """What a branch of the search has settled: offers that must not, and offers that must be taken."""

    forbidden: frozenset[int] = field(default_factory=frozenset)
    forced: frozenset[int] = field(default_factory=frozenset)


class GroupTable:
    """One group's table: row i, column c holds the best value of the first i offers within c units of tokens."""

    def __init__(
        self, group: OfferGroup, first: int, capacity: int, ruling: BranchConstraints
    ) -> None:
        self._group = group
        self._first = first
        self._ruling = ruling
        self._overhead = group.overhead
        self._room = max(-1, min(capacity - group.overhead, group.wanted))
        cells = (len(group.offers) + 1) * (self._room + 1)
        self._unit = max(1, -(-cells // MAX_CELLS))  # tokens per column: 1 is exact
        self.exact = self._unit == 1
        self._rows = self._fill(round_up=True)
        self._must = group.opened or any(
            first <= number < first + len(group.offers) for number in ruling.forced
        )

    def _fill(self, round_up: bool) -> IntArray:
        columns = self._room // self._unit + 1
        rows = np.empty((len(self._group.offers) + 1, max(0, columns)), np.int64)
        rows[0] = 0
        taken = np.empty(
            max(0, columns), np.int64
        )  # one array for all options: making a new one each time costs a third more
        for number, offer in enumerate(self._group.offers):
            before, after = rows[number], rows[number + 1]
            after[:] = IMPOSSIBLE if self._first + number in self._ruling.forced else before
            if self._first + number in self._ruling.forbidden:
                continue
            for tokens, value in offer.options:
                units = -(-tokens // self._unit) if round_up else tokens // self._unit
                if units < columns:
                    better = after[units:]
                    np.maximum(
                        better,
                        np.add(before[: columns - units], value, out=taken[: columns - units]),
                        out=better,
                    )
        return rows

    def best(self, tokens: int) -> int:
        """The best value within `tokens`, heading included."""
        inside = min(tokens - self._overhead, self._room)
        nothing = int(IMPOSSIBLE) if self._must else 0
        return nothing if inside < 0 else max(nothing, int(self._rows[-1][inside // self._unit]))

    def used(self, tokens: int) -> int:
        """How few of these tokens give the same value; more than these when what is forced needs more."""
        last = self._rows[-1]
        inside = min(tokens - self._overhead, self._room)
        value = self.best(tokens)
        if value == 0 or not len(last):
            return 0
        if inside < 0 or value <= IMPOSSIBLE // 2:
            fits = np.flatnonzero(last > IMPOSSIBLE // 2)
            return (
                self._overhead + int(fits[0]) * self._unit
                if len(fits)
                else self._overhead + self._room + 1
            )
        return self._overhead + int(np.searchsorted(last, value)) * self._unit

    def gains(self, own: int, pool: int) -> Gains:
        """Where the value rises when tokens of the pool are added to the group's own, beginning with none of them."""
        now = self.best(own)
        first = max(0, -(-(own - self._overhead) // self._unit))
        last = self._rows[-1][first : max(0, own + pool - self._overhead) // self._unit + 1]
        if not len(last) or own + pool < self._overhead:
            return np.zeros(1, np.int64), np.array([now])
        rises = np.concatenate((FIRST, np.flatnonzero(last[1:] > last[:-1]) + 1))
        extra, value = self._overhead + (first + rises) * self._unit - own, last[rises]
        gained = (extra > 0) & (extra <= pool) & (value > now)
        return np.concatenate((FIRST, extra[gained])), np.concatenate(([now], value[gained]))

    def pick(self, grant: int) -> list[int]:
        """The options that make the best value within the grant."""
        picks = [-1] * len(self._group.offers)
        column = min(grant - self._overhead, self._room) // self._unit
        if column < 0 or (self.best(grant) <= 0 and not self._must):
            return picks
        for number in reversed(range(len(picks))):
            before, value = self._rows[number], self._rows[number + 1][column]
            if value == before[column] and self._first + number not in self._ruling.forced:
                continue
            for place, option in enumerate(self._group.offers[number].options):
                units = -(-option.tokens // self._unit)
                if units <= column and before[column - units] + option.value == value:
                    picks[number] = place
                    column -= units
                    break
        return picks

    def rates(self, own: int, price: float) -> float:
        """The best value, less the price of its tokens, when it has at least its own."""
        inside = max(0, own - self._overhead)
        tokens = self._overhead + np.arange(inside, len(self._rows[-1]))
        return max(
            self.best(own) - price * own,
            float((self._rows[-1][inside:] - price * tokens).max(initial=-np.inf)),
        )

    def optimistic(self, budget: int) -> Gains:
        """Where the value would rise if every cost were rounded down to whole columns."""
        last = self._fill(round_up=False)[-1]
        rises = np.flatnonzero(np.diff(last)) + 1
        tokens, free = self._overhead + rises * self._unit, max(0, int(last[0])) if len(last) else 0
        return np.append(0, tokens[tokens <= budget]), np.append(
            free, last[rises[tokens <= budget]]
        )
