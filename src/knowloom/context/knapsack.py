"""The best set that fits: an exact multiple-choice knapsack over groups with guaranteed shares. Numbers in, numbers out.

Every offer has options (tokens, value), of which at most one is taken. Every group is first given the best it can make of its
share; what it leaves unused goes, token by token, to whichever group gains most by it, and no group ever takes what another
one made good use of. Under these guarantees no other choice has more value. Dependencies (an offer needs others) are met by
branch and bound with the relaxed optimum as bound. Instances too large for an exact table are solved on a coarser one,
what it leaves is used up, and the distance to the optimum is bounded and reported.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from types import MappingProxyType

import numpy as np

from knowloom.context.knapsack_bounds import fix_variables
from knowloom.context.knapsack_coarse import pick_at_price, spend_leftover, upper_bound
from knowloom.context.knapsack_table import (
    IMPOSSIBLE,
    BranchConstraints,
    Gains,
    GroupTable,
    IntArray,
    Offer,
    OfferGroup,
    Option,
)

__all__ = ["Choice", "Offer", "OfferGroup", "Option", "choose"]

SPARE_TOKENS = 100  # tokens more that a table has room for at first: about what the last item that does not fit leaves
MAX_NODES = 48  # relaxed problems solved for dependencies, 1-2 ms each
SMALL_TABLE = 20_000  # cells: such tables are made as quickly as bounds


@dataclass(frozen=True, slots=True)
class Choice:
    """The option taken of each offer, counted through all groups; -1 for none. `bound` is what no choice can exceed."""

    options: tuple[int, ...]
    value: int
    bound: int

    @property
    def gap(self) -> float:
        return 0.0 if self.bound <= self.value else (self.bound - self.value) / self.bound


def choose(groups: Sequence[OfferGroup], budget: int, tolerance: float = 0.0) -> Choice:
    """The best choice whose tokens, headings included, stay within the budget. The shares must fit into it together. Where offers
    need others, a choice that misses at most this share (`tolerance`) of the optimum will do; the gap says how much it can be."""
    offers = [offer for group in groups for offer in group.offers]
    if all(offer.options and all(offer.needs) for offer in offers) and _all_fit(groups, budget):
        best = [max(offer.options, key=lambda option: option.value) for offer in offers]
        value = sum(option.value for option in best)
        return Choice(
            tuple(offer.options.index(option) for offer, option in zip(offers, best, strict=True)),
            value,
            value,
        )
    budget = min(
        budget, sum(group.overhead + group.wanted for group in groups)
    )  # the tables are as long as the budget
    if not any(offer.needs for offer in offers):
        return _solve_reduced(groups, budget) or Choice((-1,) * len(offers), 0, 0)
    relaxed = _solve(groups, budget, BranchConstraints())
    return (
        Choice((-1,) * len(offers), 0, 0)
        if relaxed is None
        else _branch(groups, budget, offers, relaxed, tolerance)
    )


def _solve_reduced(groups: Sequence[OfferGroup], budget: int) -> Choice | None:
    """Where no offer needs another, few of them have to be weighed: what is taken or left in any case is settled before."""
    if sum(len(group.offers) for group in groups) * budget < SMALL_TABLE:
        return _solve(groups, budget, BranchConstraints())
    tables = {
        number: GroupTable(group, 0, min(group.most, budget), BranchConstraints())
        for number, group in enumerate(groups)
        if group.sure and group.offers
    }
    parts = fix_variables(groups, budget, tables)
    if parts is None:
        return _solve(groups, budget, BranchConstraints())
    left = [number for number, part in enumerate(parts) if part.rest.offers or part.rest.opened]
    ready = {place: tables[number] for place, number in enumerate(left) if number in tables}
    rest = (
        _solve([parts[number].rest for number in left], budget, BranchConstraints(), ready)
        if left
        else Choice((), 0, 0)
    )
    if rest is None:
        return None
    picks, sure = iter(rest.options), sum(part.value for part in parts)
    return Choice(
        tuple(pick for part in parts for pick in part.with_rest(picks)),
        sure + rest.value,
        sure + rest.bound,
    )


def _all_fit(groups: Sequence[OfferGroup], budget: int) -> bool:
    """Whether every offer can be taken in its largest form: then there is nothing to weigh, and no table to make."""
    sizes = [group.overhead + group.wanted for group in groups]
    return sum(sizes) <= budget and all(
        size <= group.most for size, group in zip(sizes, groups, strict=True)
    )


def _branch(
    groups: Sequence[OfferGroup],
    budget: int,
    offers: Sequence[Offer],
    relaxed: Choice,
    tolerance: float,
) -> Choice:
    """Best first: the first choice taken from the heap that breaks no dependency is the best there is."""
    good = _forbid_all_broken(groups, budget, offers, relaxed) if tolerance else None
    order = count()
    heap = [(-relaxed.bound, next(order), BranchConstraints(), relaxed)]
    solved = 1
    while heap and solved < MAX_NODES:
        if good is not None and good.value >= -heap[0][0] * (1 - tolerance):
            return Choice(good.options, good.value, max(good.value, -heap[0][0]))
        _, _, ruling, choice = heapq.heappop(heap)
        broken = _find_broken(offers, choice)
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
    return _forbid_one_by_one(groups, budget, offers, relaxed, bound)


def _forbid_all_broken(
    groups: Sequence[OfferGroup], budget: int, offers: Sequence[Offer], choice: Choice
) -> Choice:
    """A choice that breaks no dependency, in few steps: all that lack their needs are forbidden at once."""
    forbidden: frozenset[int] = frozenset()
    while lacking := {
        number
        for number, taken in enumerate(choice.options)
        if taken >= 0 and _lacks_needs(offers[number], choice)
    }:
        forbidden |= lacking
        choice = _solve(groups, budget, BranchConstraints(forbidden)) or Choice(
            (-1,) * len(offers), 0, 0
        )
    return choice


def _lacks_needs(offer: Offer, choice: Choice) -> bool:
    return any(all(choice.options[other] < 0 for other in need) for need in offer.needs)


def _find_broken(offers: Sequence[Offer], choice: Choice) -> tuple[int, tuple[int, ...]] | None:
    """The first offer that was taken without what it needs, and what it needs."""
    taken = (number for number, option in enumerate(choice.options) if option >= 0)
    return next(
        (
            (number, need)
            for number in taken
            for need in offers[number].needs
            if all(choice.options[other] < 0 for other in need)
        ),
        None,
    )


def _children(
    ruling: BranchConstraints, number: int, need: tuple[int, ...]
) -> list[BranchConstraints]:
    """Either the offer goes, or one of those it needs comes."""
    children = [
        BranchConstraints(ruling.forbidden, ruling.forced | {other})
        for other in need
        if other not in ruling.forbidden
    ]
    if number not in ruling.forced:
        children.append(BranchConstraints(ruling.forbidden | {number}, ruling.forced))
    return children


def _forbid_one_by_one(
    groups: Sequence[OfferGroup], budget: int, offers: Sequence[Offer], choice: Choice, bound: int
) -> Choice:
    """A good choice when there is no time for the best one: what lacks its needs is forbidden until nothing does."""
    forbidden: frozenset[int] = frozenset()
    while (broken := _find_broken(offers, choice)) is not None:
        forbidden |= {broken[0]}
        choice = _solve(groups, budget, BranchConstraints(forbidden)) or Choice(
            (-1,) * len(offers), 0, 0
        )
    return Choice(choice.options, choice.value, max(bound, choice.value))


def _solve(
    groups: Sequence[OfferGroup],
    budget: int,
    ruling: BranchConstraints,
    ready: Mapping[int, GroupTable] = MappingProxyType({}),
) -> Choice | None:
    """The best choice without regard to needs; None when what is forced does not fit. `ready` are tables of groups that were made before."""
    solvers = _solvers(groups, budget, ruling, ready)
    grants = _grants(solvers, [group.sure for group in groups], budget)
    if grants is None:
        return None
    picks = tuple(
        option
        for solver, grant in zip(solvers, grants, strict=True)
        for option in solver.pick(grant)
    )
    if all(solver.exact for solver in solvers):
        return Choice(picks, value := _value(groups, picks), value)
    priced = pick_at_price(groups, budget, ruling)
    filled = [
        spend_leftover(groups, budget, one, ruling) for one in (picks, priced) if one is not None
    ]
    picks = max(filled, key=lambda one: _value(groups, one))
    return Choice(
        picks,
        value := _value(groups, picks),
        max(value, min(_bound(solvers, budget), upper_bound(groups, budget))),
    )


def _value(groups: Sequence[OfferGroup], picks: Sequence[int]) -> int:
    offers = (offer for group in groups for offer in group.offers)
    return sum(
        offer.options[pick].value for offer, pick in zip(offers, picks, strict=True) if pick >= 0
    )


def _solvers(
    groups: Sequence[OfferGroup],
    budget: int,
    ruling: BranchConstraints,
    ready: Mapping[int, GroupTable],
) -> list[GroupTable]:
    """A table for each group, no longer than it can need: its share, what the others cannot use of theirs, and a little more.
    Only when the groups leave more than that unused are the tables made again, long enough for all of it."""
    firsts = list(accumulate((len(group.offers) for group in groups), initial=0))
    longest = [min(group.most, budget) for group in groups]
    shares = [max(group.sure, group.overhead) if group.opened else group.sure for group in groups]
    pool = (
        budget
        - sum(
            min(share, group.overhead + group.wanted)
            for group, share in zip(groups, shares, strict=True)
        )
        + SPARE_TOKENS
    )
    short = [min(most, share + pool) for share, most in zip(shares, longest, strict=True)]
    solvers = [
        ready.get(number) or GroupTable(group, first, most, ruling)
        for number, (group, first, most) in enumerate(zip(groups, firsts, short, strict=False))
    ]
    left = budget - sum(
        solver.used(group.sure) for solver, group in zip(solvers, groups, strict=True)
    )
    if 0 <= left <= pool or short == longest:
        return solvers
    return [
        ready.get(number) or GroupTable(group, first, most, ruling)
        for number, (group, first, most) in enumerate(zip(groups, firsts, longest, strict=False))
    ]


def _bound(solvers: Sequence[GroupTable], budget: int) -> int:
    """What no choice can exceed when tables are coarse: costs rounded down, no guarantees, one pool for all."""
    best: IntArray = np.zeros(budget + 1, np.int64)
    for solver in solvers:
        best = _merge_gains(best, solver.optimistic(budget))
    return int(best[-1])


def _grants(solvers: Sequence[GroupTable], sure: Sequence[int], budget: int) -> list[int] | None:
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
    best: list[IntArray] = [np.zeros(left + 1, np.int64)]
    for steps in gains[:last]:
        best.append(_merge_gains(best[-1], steps))
    for number in reversed(range(last + 1)):
        tokens, values = gains[number]
        inside = tokens <= left
        extra = int(tokens[np.argmax(best[number][left - tokens[inside]] + values[inside])])
        grants[number] += extra
        left -= extra
    return grants


def _merge_gains(best: IntArray, gains: Gains) -> IntArray:
    """Give one more group a part of the pool."""
    tokens, values = gains
    result: IntArray = best + values[0]
    if not best.any():  # the first group: its own gains are the best there is
        result[tokens] = values
        return np.maximum.accumulate(result, out=result)
    for extra, value in zip(tokens[1:].tolist(), values[1:].tolist(), strict=True):
        np.maximum(result[extra:], best[: len(best) - extra] + value, out=result[extra:])
    return result
