"""What a table that is too coarse leaves undone: the tokens that it took offers to cost and they do not, and a bound that is close."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from knowloom.context.knapsack_bounds import EPSILON, build_matrix, critical_price
from knowloom.context.knapsack_table import BranchConstraints, OfferGroup


def spend_leftover(
    groups: Sequence[OfferGroup], budget: int, picks: Sequence[int], ruling: BranchConstraints
) -> tuple[int, ...]:
    """The picks, and more or larger ones as long as there are tokens for any: what gives most for a token first, then the first.
    Nothing is added that needs others, as these may be missing."""
    every, found = build_matrix(groups, budget), list(picks)
    tokens, values = every.tokens, every.values
    group_of = np.repeat(np.arange(len(groups)), every.sizes)
    rows = np.flatnonzero(np.array(found) >= 0)
    spent, worth = np.zeros(len(found)), np.zeros(len(found))
    spent[rows], worth[rows] = (
        tokens[rows, np.array(found)[rows]],
        values[rows, np.array(found)[rows]],
    )
    opened = np.array([group.opened for group in groups])
    opened[group_of[rows]] = True
    overheads, most = (
        np.array(one, np.float64)
        for one in ([group.overhead for group in groups], [group.most for group in groups])
    )
    needy = [
        number
        for number, offer in enumerate(offer for group in groups for offer in group.offers)
        if offer.needs and found[number] < 0
    ]
    allowed = every.real & ~np.isin(np.arange(len(found)), [*ruling.forbidden, *needy])[:, None]
    while True:
        used = np.bincount(group_of, spent, len(groups)) + overheads * opened
        extra = tokens - spent[:, None] + (overheads * ~opened)[group_of, None]
        left = np.minimum(budget - used.sum(), most - used)[group_of, None]
        gains = np.where(allowed & (extra <= left), values - worth[:, None], 0.0) / np.maximum(
            extra, EPSILON
        )
        row, option = divmod(int(gains.argmax()), gains.shape[1])
        if gains[row, option] <= 0:
            return tuple(found)
        found[row], spent[row], worth[row], opened[group_of[row]] = (
            option,
            tokens[row, option],
            values[row, option],
            True,
        )


def pick_at_price(
    groups: Sequence[OfferGroup], budget: int, ruling: BranchConstraints
) -> tuple[int, ...] | None:
    """What is worth more than its tokens are at one price: a good beginning where offers are much alike, which a coarse table cannot tell. None
    where shares, needs or what is forced have a say, or if a group gets more than it may have."""
    if (
        ruling.forced
        or any(group.sure and group.offers for group in groups)
        or any(offer.needs for group in groups for offer in group.offers)
    ):
        return None
    every = build_matrix(groups, budget)
    overheads = [group.overhead if group.offers or group.opened else 0 for group in groups]
    good = (
        every.values
        - critical_price(every, max(0, budget - sum(overheads))) * (1 + EPSILON) * every.tokens
    )
    good[list(ruling.forbidden)] = 0.0
    picks = np.where(good.max(axis=1) > 0, good.argmax(axis=1), -1)
    spent = np.where(picks >= 0, every.tokens[np.arange(len(picks)), picks], 0.0)
    used = (
        np.bincount(np.repeat(np.arange(len(groups)), every.sizes), spent, len(groups)) + overheads
    )
    fits = used.sum() <= budget and all(
        tokens <= group.most for tokens, group in zip(used, groups, strict=True) if group.offers
    )
    return tuple(picks.tolist()) if fits else None


def upper_bound(groups: Sequence[OfferGroup], budget: int) -> int:
    """What no choice can be worth more than: all tokens at one price, and what offers are worth beyond it."""
    every = build_matrix(groups, budget)
    price = critical_price(every, budget)
    beyond = np.maximum((every.values - price * every.tokens).max(axis=1), 0.0).sum()
    return ceil((price * budget + float(beyond)) * (1 + EPSILON))
