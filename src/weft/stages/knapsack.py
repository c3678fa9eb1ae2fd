"""The best set that fits: an exact multiple-choice knapsack over groups with guaranteed shares. Numbers in, numbers out.

Every offer has options (tokens, value), of which at most one is taken. Every group is first given the best it can make of its
share; what it leaves unused goes, token by token, to whichever group gains most by it, and no group ever takes what another
one made good use of. Under these guarantees no other choice has more value. Dependencies (an offer needs others) are met by
branch and bound with the relaxed optimum as bound. Instances too large for an exact table are solved on a coarser one, and
the distance to the optimum is bounded and reported.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_CELLS = 4_000_000  # of one group's table, 8 bytes each
SPARE = 100  # tokens more that a table has room for at first: about what the last item that does not fit leaves
MAX_NODES = 48  # relaxed problems solved for dependencies, 1-2 ms each
IMPOSSIBLE = np.int64(-(2**62))

Table = npt.NDArray[np.int64]
Gains = tuple[Table, Table]  # extra tokens, beginning with none, and the value of a group that has them


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
class Group:
    """Offers that share a heading (`overhead` tokens if any is taken), a guaranteed and a largest amount of tokens."""

    offers: tuple[Offer, ...]
    sure: int
    most: int
    overhead: int = 0

    @cached_property
    def wanted(self) -> int:
        """The tokens of all offers, each in its largest form, without the heading."""
        return sum(max((option.tokens for option in offer.options), default=0) for offer in self.offers)


@dataclass(frozen=True, slots=True)
class Choice:
    """The option taken of each offer, counted through all groups; -1 for none. `bound` is what no choice can exceed."""

    options: tuple[int, ...]
    value: int
    bound: int

    @property
    def gap(self) -> float:
        return 0.0 if self.bound <= self.value else (self.bound - self.value) / self.bound


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a branch of the search has settled: offers that must not, and offers that must be taken."""

    forbidden: frozenset[int] = field(default_factory=frozenset)
    forced: frozenset[int] = field(default_factory=frozenset)


def choose(groups: Sequence[Group], budget: int, tolerance: float = 0.0) -> Choice:
    """The best choice whose tokens, headings included, stay within the budget. The shares must fit into it together. Where offers
    need others, a choice that misses at most this share (`tolerance`) of the optimum will do; the gap says how much it can be."""
    offers = [offer for group in groups for offer in group.offers]
    if all(offer.options and all(offer.needs) for offer in offers) and _all_fit(groups, budget):
        best = [max(offer.options, key=lambda option: option.value) for offer in offers]
        value = sum(option.value for option in best)
        return Choice(tuple(offer.options.index(option) for offer, option in zip(offers, best, strict=True)), value, value)
    budget = min(budget, sum(group.overhead + group.wanted for group in groups))  # the tables are as long as the budget
    relaxed = _solve(groups, budget, Ruling())
    if not any(offer.needs for offer in offers) or relaxed is None:
        return relaxed or Choice((-1,) * len(offers), 0, 0)
    return _branch(groups, budget, offers, relaxed, tolerance)


def _all_fit(groups: Sequence[Group], budget: int) -> bool:
    """Whether every offer can be taken in its largest form: then there is nothing to weigh, and no table to make."""
    sizes = [group.overhead + group.wanted for group in groups]
    return sum(sizes) <= budget and all(size <= group.most for size, group in zip(sizes, groups, strict=True))


def _branch(groups: Sequence[Group], budget: int, offers: Sequence[Offer], relaxed: Choice, tolerance: float) -> Choice:
    """Best first: the first choice taken from the heap that breaks no dependency is the best there is."""
    good = _mended(groups, budget, offers, relaxed) if tolerance else None
    order = count()
    heap = [(-relaxed.bound, next(order), Ruling(), relaxed)]
    solved = 1
    while heap and solved < MAX_NODES:
        if good is not None and good.value >= -heap[0][0] * (1 - tolerance):
            return Choice(good.options, good.value, max(good.value, -heap[0][0]))
        _, _, ruling, choice = heapq.heappop(heap)
        broken = _broken(offers, choice)
        if broken is None:
            return Choice(choice.options, choice.value, choice.bound)
        for child in _children(ruling, *broken):
            solved += 1
            found = _solve(groups, budget, child)
            if found is not None:
                heapq.heappush(heap, (-found.bound, next(order), child, found))
    bound = -heap[0][0] if heap else 0
    if good is not None:
        return Choice(good.options, good.value, max(good.value, bound))
    return _repaired(groups, budget, offers, relaxed, bound)


def _mended(groups: Sequence[Group], budget: int, offers: Sequence[Offer], choice: Choice) -> Choice:
    """A choice that breaks no dependency, in few steps: all that lack their needs are forbidden at once."""
    forbidden: frozenset[int] = frozenset()
    while lacking := {number for number, taken in enumerate(choice.options) if taken >= 0 and _lacks(offers[number], choice)}:
        forbidden |= lacking
        choice = _solve(groups, budget, Ruling(forbidden)) or Choice((-1,) * len(offers), 0, 0)
    return choice


def _lacks(offer: Offer, choice: Choice) -> bool:
    return any(all(choice.options[other] < 0 for other in need) for need in offer.needs)


def _broken(offers: Sequence[Offer], choice: Choice) -> tuple[int, tuple[int, ...]] | None:
    """The first offer that was taken without what it needs, and what it needs."""
    taken = (number for number, option in enumerate(choice.options) if option >= 0)
    return next(((number, need) for number in taken for need in offers[number].needs if all(choice.options[other] < 0 for other in need)), None)


def _children(ruling: Ruling, number: int, need: tuple[int, ...]) -> list[Ruling]:
    """Either the offer goes, or one of those it needs comes."""
    children = [Ruling(ruling.forbidden, ruling.forced | {other}) for other in need if other not in ruling.forbidden]
    if number not in ruling.forced:
        children.append(Ruling(ruling.forbidden | {number}, ruling.forced))
    return children


def _repaired(groups: Sequence[Group], budget: int, offers: Sequence[Offer], choice: Choice, bound: int) -> Choice:
    """A good choice when there is no time for the best one: what lacks its needs is forbidden until nothing does."""
    forbidden: frozenset[int] = frozenset()
    while (broken := _broken(offers, choice)) is not None:
        forbidden |= {broken[0]}
        choice = _solve(groups, budget, Ruling(forbidden)) or Choice((-1,) * len(offers), 0, 0)
    return Choice(choice.options, choice.value, max(bound, choice.value))


def _solve(groups: Sequence[Group], budget: int, ruling: Ruling) -> Choice | None:
    """The best choice without regard to needs; None when what is forced does not fit."""
    solvers = _solvers(groups, budget, ruling)
    grants = _grants(solvers, [group.sure for group in groups], budget)
    if grants is None:
        return None
    picks = tuple(option for solver, grant in zip(solvers, grants, strict=True) for option in solver.pick(grant))
    value = sum(solver.value(picks) for solver in solvers)
    return Choice(picks, value, value if all(solver.exact for solver in solvers) else max(value, _bound(solvers, budget)))


def _solvers(groups: Sequence[Group], budget: int, ruling: Ruling) -> list[_Solver]:
    """A table for each group, no longer than it can need: its share, what the others cannot use of theirs, and a little more.
    Only when the groups leave more than that unused are the tables made again, long enough for all of it."""
    firsts = list(accumulate((len(group.offers) for group in groups), initial=0))
    longest = [min(group.most, budget) for group in groups]
    pool = budget - sum(min(group.sure, group.overhead + group.wanted) for group in groups) + SPARE
    short = [min(most, group.sure + pool) for group, most in zip(groups, longest, strict=True)]
    solvers = [_Solver(group, first, most, ruling) for group, first, most in zip(groups, firsts, short, strict=False)]
    left = budget - sum(solver.used(group.sure) for solver, group in zip(solvers, groups, strict=True))
    if 0 <= left <= pool or short == longest:
        return solvers
    return [_Solver(group, first, most, ruling) for group, first, most in zip(groups, firsts, longest, strict=False)]


def _bound(solvers: Sequence[_Solver], budget: int) -> int:
    """What no choice can exceed when tables are coarse: costs rounded down, no guarantees, one pool for all."""
    best: Table = np.zeros(budget + 1, np.int64)
    for solver in solvers:
        best = _share_out(best, solver.optimistic(budget))
    return int(best[-1])


def _grants(solvers: Sequence[_Solver], sure: Sequence[int], budget: int) -> list[int] | None:
    """Tokens for each group: what it makes of its share, plus the best way to hand out what is left."""
    grants = [solver.used(tokens) for solver, tokens in zip(solvers, sure, strict=True)]
    left = budget - sum(grants)
    if left < 0:
        return None
    gains = [solver.gains(own, left) for solver, own in zip(solvers, grants, strict=True)]
    if any(values[-1] <= IMPOSSIBLE // 2 for _, values in gains):
        return None
    # The last group that wants anything of the pool takes what is best for it: only those before it need a table.
    last = max((number for number, (tokens, _) in enumerate(gains) if len(tokens) > 1), default=0)
    best: list[Table] = [np.zeros(left + 1, np.int64)]
    for steps in gains[:last]:
        best.append(_share_out(best[-1], steps))
    for number in reversed(range(last + 1)):
        tokens, values = gains[number]
        inside = tokens <= left
        extra = int(tokens[np.argmax(best[number][left - tokens[inside]] + values[inside])])
        grants[number] += extra
        left -= extra
    return grants


def _share_out(best: Table, gains: Gains) -> Table:
    """Give one more group a part of the pool."""
    tokens, values = gains
    result: Table = best + values[0]
    if not best.any():  # the first group: its own gains are the best there is
        result[tokens] = values
        return np.maximum.accumulate(result, out=result)
    for extra, value in zip(tokens[1:].tolist(), values[1:].tolist(), strict=True):
        np.maximum(result[extra:], best[: len(best) - extra] + value, out=result[extra:])
    return result


class _Solver:
    """One group's table: row i, column c holds the best value of the first i offers within c units of tokens."""

    def __init__(self, group: Group, first: int, capacity: int, ruling: Ruling) -> None:
        self._group = group
        self._first = first
        self._ruling = ruling
        self._overhead = group.overhead
        self._room = max(-1, min(capacity - group.overhead, group.wanted))
        cells = (len(group.offers) + 1) * (self._room + 1)
        self._unit = max(1, -(-cells // MAX_CELLS))  # tokens per column: 1 is exact
        self.exact = self._unit == 1
        self._rows = self._fill(round_up=True)
        self._must = any(first <= number < first + len(group.offers) for number in ruling.forced)

    def _fill(self, round_up: bool) -> Table:
        columns = self._room // self._unit + 1
        rows = np.empty((len(self._group.offers) + 1, max(0, columns)), np.int64)
        rows[0] = 0
        taken = np.empty(max(0, columns), np.int64)  # one array for all options: making a new one each time costs a third more
        for number, offer in enumerate(self._group.offers):
            before, after = rows[number], rows[number + 1]
            after[:] = IMPOSSIBLE if self._first + number in self._ruling.forced else before
            if self._first + number in self._ruling.forbidden:
                continue
            for tokens, value in offer.options:
                units = -(-tokens // self._unit) if round_up else tokens // self._unit
                if units < columns:
                    better = after[units:]
                    np.maximum(better, np.add(before[: columns - units], value, out=taken[: columns - units]), out=better)
        return rows

    def _best(self, tokens: int) -> int:
        """The best value within `tokens`, heading included."""
        inside = min(tokens - self._overhead, self._room)
        nothing = int(IMPOSSIBLE) if self._must else 0
        return nothing if inside < 0 else max(nothing, int(self._rows[-1][inside // self._unit]))

    def used(self, tokens: int) -> int:
        """How few of these tokens give the same value; more than these when what is forced needs more."""
        last = self._rows[-1]
        inside = min(tokens - self._overhead, self._room)
        value = self._best(tokens)
        if value == 0 or not len(last):
            return 0
        if inside < 0 or value <= IMPOSSIBLE // 2:
            fits = np.flatnonzero(last > IMPOSSIBLE // 2)
            return self._overhead + int(fits[0]) * self._unit if len(fits) else self._overhead + self._room + 1
        return self._overhead + int(np.searchsorted(last, value)) * self._unit

    def gains(self, own: int, pool: int) -> Gains:
        """Where the value rises when tokens of the pool are added to the group's own, beginning with none of them."""
        now = self._best(own)
        first = max(0, -(-(own - self._overhead) // self._unit))
        last = self._rows[-1][first : max(0, own + pool - self._overhead) // self._unit + 1]
        if not len(last) or own + pool < self._overhead:
            return np.zeros(1, np.int64), np.array([now])
        rises = np.flatnonzero(np.diff(last, prepend=IMPOSSIBLE))
        extra, value = self._overhead + (first + rises) * self._unit - own, last[rises]
        gained = (extra > 0) & (extra <= pool) & (value > now)
        return np.append(0, extra[gained]), np.append(now, value[gained])

    def pick(self, grant: int) -> list[int]:
        """The options that make the best value within the grant."""
        picks = [-1] * len(self._group.offers)
        column = min(grant - self._overhead, self._room) // self._unit
        if column < 0 or (self._best(grant) <= 0 and not self._must):
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

    def value(self, picks: Sequence[int]) -> int:
        own = picks[self._first : self._first + len(self._group.offers)]
        return sum(offer.options[pick].value for offer, pick in zip(self._group.offers, own, strict=True) if pick >= 0)

    def optimistic(self, budget: int) -> Gains:
        """Where the value would rise if every cost were rounded down to whole columns."""
        last = self._fill(round_up=False)[-1]
        rises = np.flatnonzero(np.diff(last)) + 1
        tokens, free = self._overhead + rises * self._unit, max(0, int(last[0])) if len(last) else 0
        return np.append(0, tokens[tokens <= budget]), np.append(free, last[rises[tokens <= budget]])
