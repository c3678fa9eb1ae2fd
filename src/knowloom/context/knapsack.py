"""An exact multiple-choice knapsack over groups with guaranteed shares.

Each offer has options (tokens, value), of which at most one is taken. Each group first makes the
best of its guaranteed tokens; the tokens it leaves unused go to the groups that gain most by them,
and no group takes tokens that another one used well. Under these guarantees the choice is optimal.
Dependencies (an offer needs others) are resolved by branch and bound with the relaxed optimum as
bound. Problems too large for exact tables are solved on coarser ones and improved; the distance to
the optimum is bounded and reported.
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

SPARE_TOKENS = 100  # spare room of the first tables: about what the last item leaves unused
MAX_NODES = 48  # relaxed problems solved for dependencies, 1-2 ms each
SMALL_TABLE = 20_000  # cells: such tables are computed as quickly as bounds

Needs = tuple[int, ...]  # numbers of offers, one of which must be taken


@dataclass(frozen=True, slots=True)
class Choice:
    """The option taken of each offer, through all groups; -1 for none. No choice exceeds
    `bound`."""

    options: tuple[int, ...]
    value: int
    bound: int

    @property
    def gap(self) -> float:
        """The relative distance to the optimum, at most; 0 if the choice is optimal."""
        return 0.0 if self.bound <= self.value else (self.bound - self.value) / self.bound


def choose(groups: Sequence[OfferGroup], budget: int, tolerance: float = 0.0) -> Choice:
    """Return the best choice whose tokens, headings included, stay within the budget.

    The guaranteed tokens must fit into it together. Where offers need others, a choice within
    `tolerance` of the optimum is enough; its gap is an upper bound of the distance.
    """
    offers = [offer for group in groups for offer in group.offers]
    if all(offer.options and all(offer.needs) for offer in offers) and _all_fit(groups, budget):
        best = [max(offer.options, key=lambda option: option.value) for offer in offers]
        value = sum(option.value for option in best)
        picks = [offer.options.index(option) for offer, option in zip(offers, best, strict=True)]
        return Choice(tuple(picks), value, value)
    # Tables are as long as the budget.
    budget = min(budget, sum(group.overhead + group.demand for group in groups))
    if not any(offer.needs for offer in offers):
        return _solve_reduced(groups, budget) or _choose_nothing(offers)
    relaxed = _solve(groups, budget, BranchConstraints())
    if relaxed is None:
        return _choose_nothing(offers)
    return _branch(groups, budget, offers, relaxed, tolerance)


def _choose_nothing(offers: Sequence[Offer]) -> Choice:
    return Choice((-1,) * len(offers), 0, 0)


def _all_fit(groups: Sequence[OfferGroup], budget: int) -> bool:
    """Return True if every offer can be taken in its largest form, without a table."""
    sizes = [group.overhead + group.demand for group in groups]
    return sum(sizes) <= budget and all(
        size <= group.cap for size, group in zip(sizes, groups, strict=True)
    )


def _solve_reduced(groups: Sequence[OfferGroup], budget: int) -> Choice | None:
    """Solve a problem without dependencies: fix most offers by bounds, and the rest by tables."""
    constraints = BranchConstraints()
    if sum(len(group.offers) for group in groups) * budget < SMALL_TABLE:
        return _solve(groups, budget, constraints)
    tables = {
        number: GroupTable(group, 0, min(group.cap, budget), constraints)
        for number, group in enumerate(groups)
        if group.guaranteed and group.offers
    }
    reduced = fix_variables(groups, budget, tables)
    if reduced is None:
        return _solve(groups, budget, constraints)
    left = [
        number for number, group in enumerate(reduced) if group.rest.offers or group.rest.is_open
    ]
    ready = {place: tables[number] for place, number in enumerate(left) if number in tables}
    rest: Choice | None = Choice((), 0, 0)
    if left:
        rest = _solve([reduced[number].rest for number in left], budget, constraints, ready)
    if rest is None:
        return None
    rest_picks, fixed_value = iter(rest.options), sum(group.value for group in reduced)
    picks = tuple(pick for group in reduced for pick in group.merge_picks(rest_picks))
    return Choice(picks, fixed_value + rest.value, fixed_value + rest.bound)


def _branch(
    groups: Sequence[OfferGroup],
    budget: int,
    offers: Sequence[Offer],
    relaxed: Choice,
    tolerance: float,
) -> Choice:
    """Search best first: the first choice from the heap that breaks no dependency is optimal."""
    good = _forbid_all_broken(groups, budget, offers, relaxed) if tolerance else None
    order = count()
    heap = [(-relaxed.bound, next(order), BranchConstraints(), relaxed)]
    solved = 1
    while heap and solved < MAX_NODES:
        if good is not None and good.value >= -heap[0][0] * (1 - tolerance):
            return Choice(good.options, good.value, max(good.value, -heap[0][0]))
        _, _, constraints, choice = heapq.heappop(heap)
        broken = _find_broken(offers, choice)
        if broken is None:
            return choice
        for child in _children(constraints, *broken):
            solved += 1
            solution = _solve(groups, budget, child)
            if solution is not None:
                heapq.heappush(heap, (-solution.bound, next(order), child, solution))
    bound = -heap[0][0] if heap else 0
    if good is not None:
        return Choice(good.options, good.value, max(good.value, bound))
    return _forbid_first_broken(groups, budget, offers, relaxed, bound)


def _forbid_all_broken(
    groups: Sequence[OfferGroup], budget: int, offers: Sequence[Offer], choice: Choice
) -> Choice:
    """Return a choice that breaks no dependency, in few steps: forbid all broken offers at once."""
    forbidden: frozenset[int] = frozenset()
    while broken := {
        number
        for number, option in enumerate(choice.options)
        if option >= 0 and _lacks_needs(offers[number], choice)
    }:
        forbidden |= broken
        constraints = BranchConstraints(forbidden)
        choice = _solve(groups, budget, constraints) or _choose_nothing(offers)
    return choice


def _forbid_first_broken(
    groups: Sequence[OfferGroup],
    budget: int,
    offers: Sequence[Offer],
    choice: Choice,
    bound: int,
) -> Choice:
    """Return a good choice when the nodes are used up: forbid broken offers one by one."""
    forbidden: frozenset[int] = frozenset()
    while (broken := _find_broken(offers, choice)) is not None:
        forbidden |= {broken[0]}
        constraints = BranchConstraints(forbidden)
        choice = _solve(groups, budget, constraints) or _choose_nothing(offers)
    return Choice(choice.options, choice.value, max(bound, choice.value))


def _lacks_needs(offer: Offer, choice: Choice) -> bool:
    return any(all(choice.options[other] < 0 for other in need) for need in offer.needs)


def _find_broken(offers: Sequence[Offer], choice: Choice) -> tuple[int, Needs] | None:
    """Return the first offer that was taken without its needs, and the missing ones."""
    for number, option in enumerate(choice.options):
        if option >= 0:
            for need in offers[number].needs:
                if all(choice.options[other] < 0 for other in need):
                    return number, need
    return None


def _children(constraints: BranchConstraints, number: int, need: Needs) -> list[BranchConstraints]:
    """Return the branches that repair an offer: force one of its needs, or forbid the offer."""
    forbidden, forced = constraints.forbidden, constraints.forced
    children = [
        BranchConstraints(forbidden, forced | {other}) for other in need if other not in forbidden
    ]
    if number not in forced:
        children.append(BranchConstraints(forbidden | {number}, forced))
    return children


def _solve(
    groups: Sequence[OfferGroup],
    budget: int,
    constraints: BranchConstraints,
    ready: Mapping[int, GroupTable] = MappingProxyType({}),
) -> Choice | None:
    """Return the best choice regardless of needs, or None if the forced offers do not fit.

    `ready` has tables of groups that were computed before.
    """
    tables = _build_tables(groups, budget, constraints, ready)
    grants = _grant_tokens(tables, [group.guaranteed for group in groups], budget)
    if grants is None:
        return None
    picks = tuple(
        option for table, grant in zip(tables, grants, strict=True) for option in table.pick(grant)
    )
    if all(table.is_exact for table in tables):
        return Choice(picks, value := _value(groups, picks), value)
    starts = [picks, pick_at_price(groups, budget, constraints)]
    improved = [
        spend_leftover(groups, budget, start, constraints) for start in starts if start is not None
    ]
    picks = max(improved, key=lambda choice: _value(groups, choice))
    value = _value(groups, picks)
    bound = min(_coarse_bound(tables, budget), upper_bound(groups, budget))
    return Choice(picks, value, max(value, bound))


def _value(groups: Sequence[OfferGroup], picks: Sequence[int]) -> int:
    offers = (offer for group in groups for offer in group.offers)
    return sum(
        offer.options[pick].value for offer, pick in zip(offers, picks, strict=True) if pick >= 0
    )


def _build_tables(
    groups: Sequence[OfferGroup],
    budget: int,
    constraints: BranchConstraints,
    ready: Mapping[int, GroupTable],
) -> list[GroupTable]:
    """Return a table for each group, no longer than it can need.

    That is its share, the tokens the others cannot use of theirs, and some spare. Only if the
    groups leave more unused are the tables rebuilt at full length.
    """
    firsts = list(accumulate((len(group.offers) for group in groups), initial=0))

    def build(lengths: Sequence[int]) -> list[GroupTable]:
        return [
            ready.get(number) or GroupTable(group, first, length, constraints)
            for number, (group, first, length) in enumerate(
                zip(groups, firsts, lengths, strict=False)
            )
        ]

    full = [min(group.cap, budget) for group in groups]
    shares = [
        max(group.guaranteed, group.overhead) if group.is_open else group.guaranteed
        for group in groups
    ]
    usable = [
        min(share, group.overhead + group.demand)
        for group, share in zip(groups, shares, strict=True)
    ]
    pool = budget - sum(usable) + SPARE_TOKENS
    short = [min(length, share + pool) for share, length in zip(shares, full, strict=True)]
    tables = build(short)
    used = [table.used(group.guaranteed) for table, group in zip(tables, groups, strict=True)]
    if 0 <= budget - sum(used) <= pool or short == full:
        return tables
    return build(full)


def _coarse_bound(tables: Sequence[GroupTable], budget: int) -> int:
    """Return an upper bound for coarse tables: costs rounded down, no guarantees, one pool."""
    best: IntArray = np.zeros(budget + 1, np.int64)
    for table in tables:
        best = _merge_gains(best, table.optimistic_gains(budget))
    return int(best[-1])


def _grant_tokens(
    tables: Sequence[GroupTable], guaranteed: Sequence[int], budget: int
) -> list[int] | None:
    """Return the tokens of each group: those it uses of its share, and its part of the rest.

    None if the forced offers do not fit.
    """
    grants = [table.used(tokens) for table, tokens in zip(tables, guaranteed, strict=True)]
    left = budget - sum(grants)
    if left < 0:
        return None
    gains = [table.gains(grant, left) for table, grant in zip(tables, grants, strict=True)]
    if any(values[-1] <= IMPOSSIBLE // 2 for _, values in gains):
        return None
    # The last group that can use the pool takes its best part: only those before it need a table.
    last = max((number for number, (tokens, _) in enumerate(gains) if len(tokens) > 1), default=0)
    best: list[IntArray] = [np.zeros(left + 1, np.int64)]
    for steps in gains[:last]:
        best.append(_merge_gains(best[-1], steps))
    for number in reversed(range(last + 1)):
        tokens, values = gains[number]
        fits = tokens <= left
        extra = int(tokens[np.argmax(best[number][left - tokens[fits]] + values[fits])])
        grants[number] += extra
        left -= extra
    return grants


def _merge_gains(best: IntArray, gains: Gains) -> IntArray:
    """Return the best values per number of tokens when one more group shares the pool."""
    tokens, values = gains
    result: IntArray = best + values[0]
    if not best.any():  # the first group: its gains are the best values
        result[tokens] = values
        return np.maximum.accumulate(result, out=result)
    for extra, value in zip(tokens[1:].tolist(), values[1:].tolist(), strict=True):
        np.maximum(result[extra:], best[: len(best) - extra] + value, out=result[extra:])
    return result
