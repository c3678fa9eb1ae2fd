"""Improve a choice made on a coarse table: spend leftover tokens and tighten the upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from knowloom.context.knapsack_bounds import EPSILON, build_matrix, critical_price
from knowloom.context.knapsack_table import BranchConstraints, OfferGroup


def spend_leftover(
    groups: Sequence[OfferGroup],
    budget: int,
    picks: Sequence[int],
    constraints: BranchConstraints,
) -> tuple[int, ...]:
    """Add or enlarge picks while tokens are left, by value per token, then in order.

    Offers that need others are not added, as these may be missing.
    """
    matrix, chosen = build_matrix(groups, budget), list(picks)
    tokens, values = matrix.tokens, matrix.values
    group_of = np.repeat(np.arange(len(groups)), matrix.sizes)
    rows = np.flatnonzero(np.array(chosen) >= 0)
    spent, gained = np.zeros(len(chosen)), np.zeros(len(chosen))
    columns = np.array(chosen)[rows]
    spent[rows], gained[rows] = tokens[rows, columns], values[rows, columns]
    is_open = np.array([group.is_open for group in groups])
    is_open[group_of[rows]] = True
    overheads = np.array([group.overhead for group in groups], np.float64)
    caps = np.array([group.cap for group in groups], np.float64)
    offers = (offer for group in groups for offer in group.offers)
    needy = [number for number, offer in enumerate(offers) if offer.needs and chosen[number] < 0]
    excluded = np.isin(np.arange(len(chosen)), [*constraints.forbidden, *needy])
    allowed = matrix.is_real & ~excluded[:, None]
    while True:
        used = np.bincount(group_of, spent, len(groups)) + overheads * is_open
        extra = tokens - spent[:, None] + (overheads * ~is_open)[group_of, None]
        left = np.minimum(budget - used.sum(), caps - used)[group_of, None]
        gains = np.where(allowed & (extra <= left), values - gained[:, None], 0.0)
        gains /= np.maximum(extra, EPSILON)
        row, option = divmod(int(gains.argmax()), gains.shape[1])
        if gains[row, option] <= 0:
            return tuple(chosen)
        chosen[row], is_open[group_of[row]] = option, True
        spent[row], gained[row] = tokens[row, option], values[row, option]


def pick_at_price(
    groups: Sequence[OfferGroup], budget: int, constraints: BranchConstraints
) -> tuple[int, ...] | None:
    """Pick the options that are worth more than their tokens at the critical price.

    A good start where offers are similar, which a coarse table cannot distinguish. None where
    guaranteed tokens, needs or forced offers matter, or if a group exceeds its cap.
    """
    if (
        constraints.forced
        or any(group.guaranteed and group.offers for group in groups)
        or any(offer.needs for group in groups for offer in group.offers)
    ):
        return None
    matrix = build_matrix(groups, budget)
    overheads = [group.overhead if group.offers or group.is_open else 0 for group in groups]
    price = critical_price(matrix, max(0, budget - sum(overheads)))
    net = matrix.values - price * (1 + EPSILON) * matrix.tokens
    net[list(constraints.forbidden)] = 0.0
    picks = np.where(net.max(axis=1) > 0, net.argmax(axis=1), -1)
    spent = np.where(picks >= 0, matrix.tokens[np.arange(len(picks)), picks], 0.0)
    group_of = np.repeat(np.arange(len(groups)), matrix.sizes)
    used = np.bincount(group_of, spent, len(groups)) + overheads
    is_valid = used.sum() <= budget and all(
        tokens <= group.cap for tokens, group in zip(used, groups, strict=True) if group.offers
    )
    return tuple(picks.tolist()) if is_valid else None


def upper_bound(groups: Sequence[OfferGroup], budget: int) -> int:
    """Return a bound of any choice's value: all tokens at the critical price, and the value of
    offers beyond it."""
    matrix = build_matrix(groups, budget)
    price = critical_price(matrix, budget)
    beyond = np.maximum((matrix.values - price * matrix.tokens).max(axis=1), 0.0).sum()
    return ceil((price * budget + float(beyond)) * (1 + EPSILON))
