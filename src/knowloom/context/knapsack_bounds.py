"""Reduction of a knapsack problem: options that every best choice takes, or none, are fixed.

A price per token bounds the value of any choice (Lagrangian relaxation), and a greedy choice at
that price is worth nearly as much. An option that no choice as good as the greedy one can contain
is dropped; an offer that all of them contain is taken. Most offers are fixed by this, and only the
few in between need a table. No best choice is lost, so the result is that of the full tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt

from knowloom.context.knapsack_table import GroupTable, Offer, OfferGroup, Option

MAX_FILL_STEPS = 6  # improvements of the greedy choice by the best offer that still fits
EPSILON = 1e-9  # relative error of values as floating-point numbers
NO_OPTION = Option(0, 0)

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReducedGroup:
    """A group with its fixed picks, and the rest that is still undecided."""

    rest: OfferGroup
    picks: tuple[int, ...]  # by offer: the option taken in any case, -1 for none
    undecided: tuple[tuple[int, tuple[int, ...]], ...]  # by offer of the rest: place and options
    value: int = 0  # of the fixed picks

    def merge_picks(self, rest_picks: Iterator[int]) -> list[int]:
        """Return the pick of every offer, given those of the rest."""
        picks = list(self.picks)
        for place, options in self.undecided:
            pick = next(rest_picks)
            picks[place] = options[pick] if pick >= 0 else -1
        return picks


@dataclass(frozen=True, slots=True)
class OptionMatrix:
    """All options as numbers, a row per offer; options too large for their group are zero."""

    tokens: Floats
    values: Floats
    is_real: Booleans
    starts: npt.NDArray[np.intp]  # the first row of each group
    sizes: npt.NDArray[np.intp]


def fix_variables(
    groups: Sequence[OfferGroup], budget: int, tables: Mapping[int, GroupTable]
) -> list[ReducedGroup] | None:
    """Return the reduced groups, or None if there is no greedy choice to compare with.

    Groups that have a table, which those with guaranteed tokens must, are not reduced.
    """
    free = [group for number, group in enumerate(groups) if group.offers and number not in tables]
    if not free or not all(table.is_exact for table in tables.values()):
        return None
    bases = [(table, table.used(groups[number].guaranteed)) for number, table in tables.items()]
    room = budget - sum(group.overhead for group in free) - sum(base for _, base in bases)
    matrix = build_matrix(free, budget)
    price = critical_price(matrix, room)
    lower = _greedy_value(matrix, price, room, free)
    if lower is None:
        return None
    lower += sum(table.best(base) for table, base in bases)
    upper = price * budget + sum(table.best_net_value(base, price) for table, base in bases)
    overheads = np.array([group.overhead for group in free], np.float64)
    possible, can_skip = _undecided(matrix, price, upper, lower, overheads)
    rows = iter(possible.tolist()), iter((can_skip | (possible.sum(axis=1) > 1)).tolist())
    return [
        _unreduced(group) if number in tables or not group.offers else _reduce(group, *rows)
        for number, group in enumerate(groups)
    ]


def build_matrix(groups: Sequence[OfferGroup], budget: int) -> OptionMatrix:
    options = [offer.options for group in groups for offer in group.offers]
    width = max(1, *map(len, options))
    padding = [(NO_OPTION,) * (width - count) for count in range(width + 1)]
    # From one flat list: an array of nested tuples takes three times as long.
    flat = np.array(
        [number for row in options for option in row + padding[len(row)] for number in option],
        np.float64,
    )
    rows = flat.reshape(len(options), width, 2)
    sizes = np.array([len(group.offers) for group in groups])
    rooms = np.array(
        [min(group.cap, budget) - group.overhead for group in groups], np.float64
    ).repeat(sizes)
    is_real = (rows[:, :, 0] <= rooms[:, None]) & (
        np.arange(width) < np.array([len(row) for row in options])[:, None]
    )
    rows *= is_real[:, :, None]
    return OptionMatrix(rows[:, :, 0], rows[:, :, 1], is_real, sizes.cumsum() - sizes, sizes)


def critical_price(matrix: OptionMatrix, room: int) -> float:
    """Return the value of the last token when fractions of offers may be taken.

    The upper convex hull of each offer's values rises in steps, which are taken by their value per
    token until the room is used up.
    """
    rows = np.arange(len(matrix.tokens))[:, None]
    order = matrix.tokens.argsort(axis=1)
    tokens, values = (
        [np.zeros(len(rows)), *numbers[rows, order].T] for numbers in (matrix.tokens, matrix.values)
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
    matrix: OptionMatrix, price: float, room: int, groups: Sequence[OfferGroup]
) -> float | None:
    """Return the value of a greedy choice: options worth the price, then the best that still fit.

    None if a group exceeds its cap.
    """
    tokens, values = matrix.tokens, matrix.values
    rows = np.arange(len(tokens))
    net = values - price * (1 + EPSILON) * tokens
    picks = net.argmax(axis=1)
    taken = net[rows, picks] > 0
    spent = np.where(taken, tokens[rows, picks], 0.0)
    gained = np.where(taken, values[rows, picks], 0.0)
    for _ in range(MAX_FILL_STEPS):
        fits = tokens - spent[:, None] <= room - spent.sum()
        gains = np.where(fits, values - gained[:, None], 0.0)
        row, option = divmod(int(gains.argmax()), gains.shape[1])
        if gains[row, option] <= 0:
            break
        spent[row], gained[row] = tokens[row, option], values[row, option]
    is_valid = spent.sum() <= room and all(
        used + group.overhead <= group.cap
        for used, group in zip(np.add.reduceat(spent, matrix.starts), groups, strict=True)
        if used
    )
    return float(gained.sum()) if is_valid else None


def _undecided(
    matrix: OptionMatrix, price: float, upper: float, lower: float, overheads: Floats
) -> tuple[Booleans, Booleans]:
    """Return which options a best choice may take, and which offers it may skip."""
    net = matrix.values - price * matrix.tokens
    best = np.maximum(net.max(axis=1), 0.0)
    of_groups = np.add.reduceat(best, matrix.starts) - price * overheads
    upper += float(np.maximum(of_groups, 0.0).sum())
    # Bounds of all groups but the offer's, and of the rest of its group.
    others = np.repeat(upper - np.maximum(of_groups, 0.0), matrix.sizes)
    rest = np.repeat(of_groups, matrix.sizes) - best
    threshold = lower - EPSILON * upper - 1
    possible = matrix.is_real & ((others + rest)[:, None] + net >= threshold)
    return possible, others + np.maximum(rest, 0.0) >= threshold


def _unreduced(group: OfferGroup) -> ReducedGroup:
    undecided = tuple(
        (place, tuple(range(len(offer.options)))) for place, offer in enumerate(group.offers)
    )
    return ReducedGroup(group, (-1,) * len(group.offers), undecided)


def _reduce(
    group: OfferGroup, possible: Iterator[list[bool]], is_undecided: Iterator[bool]
) -> ReducedGroup:
    picks = [-1] * len(group.offers)
    undecided: list[tuple[int, tuple[int, ...]]] = []
    taken: list[Option] = []
    rows = zip(group.offers, possible, is_undecided, strict=False)
    for place, (offer, options, is_open) in enumerate(rows):
        if True not in options:
            continue
        if is_open:
            undecided.append((place, tuple(compress(range(len(options)), options))))
        else:
            picks[place] = options.index(True)
            taken.append(offer.options[picks[place]])
    offers = tuple(
        Offer(tuple(group.offers[place].options[number] for number in options))
        for place, options in undecided
    )
    overhead = group.overhead + sum(option.tokens for option in taken)
    rest = OfferGroup(offers, group.guaranteed, group.cap, overhead, is_open=bool(taken))
    return ReducedGroup(rest, tuple(picks), tuple(undecided), sum(option.value for option in taken))
