"""What the best item says already: where items name each other, the rest of an answer is what says something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from knowloom.construction import round_scores
from knowloom.model import Key

# Chosen on the two tuning sets (docs/walk.md).
REPETITION_PENALTY = 1.2  # how much less an item is worth that repeats the best one
FULLY_LINKED = (
    0.4  # of the starts having enough links by names: then all knowledge here is taken to be linked
)


def name_link_density(starts: Sequence[tuple[float, float]]) -> float:
    """How far knowledge is linked by names, from 0 to 1, as most starts are or those with most of the worth. Of each start: its share of
    the worth, and how much it has of the links that are enough. Items that only resemble each other tell the same again, and are no
    further pieces of an answer."""
    held = [(share, min(1.0, enough)) for share, enough in starts]
    usual = sum(enough for _, enough in held) / len(held) if held else 0.0
    return min(1.0, max(usual, sum(share * enough for share, enough in held)) / FULLY_LINKED)


def penalise_repetition(
    keys: Sequence[Key],
    worth: Sequence[float],
    same: Callable[[Key, Iterable[Key]], list[float]],
    linked: float,
) -> list[float]:
    """Less for each item but the best, by the part of the question that it has in common with the best (`same`); not where the best
    one has the whole question, nor where nothing is linked. The worth is that of the keys, in their order."""
    most = max(worth)
    best = min(
        [key for key, one in zip(keys, worth, strict=True) if one == most],
        key=lambda key: (key[1], key[0]),
    )
    rate = REPETITION_PENALTY * linked * (1 - same(best, [best])[0]) ** 2
    if not rate:
        return list(worth)
    less = round_scores(
        [one * (1 - rate * shared) for one, shared in zip(worth, same(best, keys), strict=True)]
    )
    less[keys.index(best)] = most
    return less
