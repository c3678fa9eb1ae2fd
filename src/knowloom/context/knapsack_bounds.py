"""What is in every best choice and what is in none, told before any table is made. Most offers are settled by this: those that are
good for their tokens, and those that are not; only the few between them have to be weighed.

A price per token bounds what any choice can be worth (Lagrange's relaxation). A choice found by taking what is good at that price is
worth nearly as much. An option that no choice as good as this one can have is dropped; an offer that every one of them has is taken.
No best choice is lost, so the one that is found is the one that the tables of all offers would give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt

from knowloom.context.knapsack_table import GroupTable, Offer, OfferGroup, Option

MAX_FILL_STEPS = 6  # times that the choice found is made better by the best offer that still fits
EPSILON = 1e-9  # of what floating-point numbers make of values, at most
NO_OPTION = Option(0, 0)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReducedGroup:
    """A group of which only the rest has to be weighed."""

    rest: OfferGroup
    picks: tuple[int, ...]  # of each offer the option that is taken in any case, -1 for none
    open: tuple[
        tuple[int, tuple[int, ...]], ...
    ]  # of each offer of the rest its place, and the options it still has
    value: int = 0  # of what is taken

    def with_rest(self, picks: Iterator[int]) -> list[int]:
        every = list(self.picks)
        for place, options in self.open:
            pick = next(picks)
            every[place] = options[pick] if pick >= 0 else -1
        return every


@dataclass(frozen=True, slots=True)
class OptionMatrix:
    """Options by offer, as numbers: a row for each offer of the groups. Options that are too large for their group are like nothing."""

    tokens: Floats
    values: Floats
    real: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.intp]  # the first row of each group
    sizes: npt.NDArray[np.intp]


def fix_variables(
    groups: Sequence[OfferGroup], budget: int, tables: Mapping[int, GroupTable]
) -> list[ReducedGroup] | None:
    """Each group as far as it can be settled. Those that have a table, as all do that are sure of a share, stay as they are. None when
    there is nothing to compare with."""
    free = [group for number, group in enumerate(groups) if group.offers and number not in tables]
    if not free or not all(table.exact for table in tables.values()):
        return None
    owns = [(table, table.used(groups[number].sure)) for number, table in tables.items()]
    room = budget - sum(group.overhead for group in free) - sum(own for _, own in owns)
    every = build_matrix(free, budget)
    price = critical_price(every, room)
    least = _greedy_value(every, price, room, free)
    if least is None:
        return None
    least += sum(table.best(own) for table, own in owns)
    most = price * budget + sum(table.rates(own, price) for table, own in owns)
    kept, spared = _undecided(
        every, price, most, least, np.array([group.overhead for group in free], np.float64)
    )
    rows = iter(kept.tolist()), iter((spared | (kept.sum(axis=1) > 1)).tolist())
    return [
        _unreduced(group) if number in tables or not group.offers else _reduce(group, *rows)
        for number, group in enumerate(groups)
    ]


def build_matrix(groups: Sequence[OfferGroup], budget: int) -> OptionMatrix:
    options = [offer.options for group in groups for offer in group.offers]
    width = max(1, *map(len, options))
    filler = [(NO_OPTION,) * (width - many) for many in range(width + 1)]
    # From one flat list: an array made of tuples in tuples takes three times as long.
    flat = np.array(
        [number for one in options for option in one + filler[len(one)] for number in option],
        np.float64,
    )
    rows = flat.reshape(len(options), width, 2)
    sizes = np.array([len(group.offers) for group in groups])
    rooms = np.array(
        [min(group.most, budget) - group.overhead for group in groups], np.float64
    ).repeat(sizes)
    real = (rows[:, :, 0] <= rooms[:, None]) & (
        np.arange(width) < np.array([len(one) for one in options])[:, None]
    )
    rows *= real[:, :, None]
    return OptionMatrix(rows[:, :, 0], rows[:, :, 1], real, sizes.cumsum() - sizes, sizes)


def critical_price(every: OptionMatrix, room: int) -> float:
    """What the last token of the room is worth when parts of offers could be taken: the value of each offer, by tokens, with its dents
    filled, rises in steps; the steps are taken by what they give for a token."""
    rows = np.arange(len(every.tokens))[:, None]
    order = every.tokens.argsort(axis=1)
    tokens, values = (
        [np.zeros(len(rows)), *one[rows, order].T] for one in (every.tokens, every.values)
    )
    slopes = np.full(order.shape[::-1], np.inf)  # a row for each step
    for before in range(len(slopes)):
        highest = -np.inf
        for step in reversed(range(before, len(slopes))):
            slope = (values[step + 1] - values[before]) / np.maximum(
                tokens[step + 1] - tokens[before], EPSILON
            )
            highest = np.maximum(highest, slope)
            np.minimum(slopes[step], highest, out=slopes[step])
    steps = np.concatenate([after - before for before, after in pairwise(tokens)])
    best_first = (-slopes).argsort(axis=None)
    place = int(steps[best_first].cumsum().searchsorted(room, "right"))
    return max(0.0, float(slopes.flat[best_first[place]])) if place < slopes.size else 0.0


def _greedy_value(
    every: OptionMatrix, price: float, room: int, groups: Sequence[OfferGroup]
) -> float | None:
    """The value of a choice that fits: what is good at the price, then the best that still fits. None if a group has too much."""
    tokens, values = every.tokens, every.values
    rows = np.arange(len(tokens))
    good = values - price * (1 + EPSILON) * tokens
    picks = good.argmax(axis=1)
    taken = good[rows, picks] > 0
    spent, worth = (
        np.where(taken, tokens[rows, picks], 0.0),
        np.where(taken, values[rows, picks], 0.0),
    )
    for _ in range(MAX_FILL_STEPS):
        gains = np.where(
            tokens - spent[:, None] <= room - spent.sum(), values - worth[:, None], 0.0
        )
        row, option = divmod(int(gains.argmax()), gains.shape[1])
        if gains[row, option] <= 0:
            break
        spent[row], worth[row] = tokens[row, option], values[row, option]
    per_group = np.add.reduceat(spent, every.starts)
    fits = spent.sum() <= room and all(
        used + group.overhead <= group.most
        for used, group in zip(per_group, groups, strict=True)
        if used
    )
    return float(worth.sum()) if fits else None


def _undecided(
    every: OptionMatrix, price: float, most: float, least: float, overheads: Floats
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which options may be in a best choice, and which offers may be in none of its options."""
    rates = every.values - price * every.tokens
    best = np.maximum(rates.max(axis=1), 0.0)
    of_groups = np.add.reduceat(best, every.starts) - price * overheads
    most += float(np.maximum(of_groups, 0.0).sum())
    others = np.repeat(
        most - np.maximum(of_groups, 0.0), every.sizes
    )  # what all groups but its own can be worth
    without = np.repeat(of_groups, every.sizes) - best  # and the rest of its own
    limit = least - EPSILON * most - 1
    return every.real & ((others + without)[:, None] + rates >= limit), others + np.maximum(
        without, 0.0
    ) >= limit


def _unreduced(group: OfferGroup) -> ReducedGroup:
    return ReducedGroup(
        group,
        (-1,) * len(group.offers),
        tuple(
            (place, tuple(range(len(offer.options)))) for place, offer in enumerate(group.offers)
        ),
    )


def _reduce(
    group: OfferGroup, kept: Iterator[list[bool]], doubtful: Iterator[bool]
) -> ReducedGroup:
    picks = [-1] * len(group.offers)
    open: list[tuple[int, tuple[int, ...]]] = []
    taken: list[Option] = []
    for place, (offer, options, doubt) in enumerate(
        zip(group.offers, kept, doubtful, strict=False)
    ):
        if True not in options:
            continue
        if doubt:
            open.append((place, tuple(compress(range(len(options)), options))))
        else:
            picks[place] = options.index(True)
            taken.append(offer.options[picks[place]])
    offers = tuple(
        Offer(tuple(group.offers[place].options[one] for one in options)) for place, options in open
    )
    rest = OfferGroup(
        offers,
        group.sure,
        group.most,
        group.overhead + sum(option.tokens for option in taken),
        opened=bool(taken),
    )
    return ReducedGroup(rest, tuple(picks), tuple(open), sum(option.value for option in taken))
