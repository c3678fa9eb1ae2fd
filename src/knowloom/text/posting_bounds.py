"""Bounds from postings with impact classes, for indexes that return rows instead of scores.

Each passage is a row, and so is an item that has several. A row is numbered by its entry and the
passage; the rows of a term come with the bounds of its impacts, which are added up here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from knowloom.text import words
from knowloom.text.impact_classes import (
    ItemTerms,
    SpaceStatistics,
    impact_bounds,
    shorten_term,
    weigh_query,
    widen_bound,
)
from knowloom.text.query_terms import TermWeights

PASSAGE_BITS = 20  # of a row's number; the others are those of the entry
WHOLE = (1 << PASSAGE_BITS) - 1  # the row of an item that has several passages
# Rows of an item's only passage, of one of several, and of the item that has several.
SHORT, PART, ITEM = "s", "p", "w"
SPARE_FACTOR, SPARE = 2, 50  # candidates beside the best, as their bounds exceed their scores

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Postings = Mapping[str, tuple[Rows, Scores]]  # by term: rows, and the bounds of its impact
# From a family of rows, terms and the bounds of classes.
ReadPostings = Callable[[str, Sequence[str], Mapping[str, float]], Postings]


def list_rows(number: int, terms: ItemTerms) -> Iterator[tuple[int, str, Mapping[str, str]]]:
    """Yield the rows of an entry: number, family, and the classes of the terms."""
    first = number << PASSAGE_BITS
    family = SHORT if len(terms.passages) == 1 else PART
    for passage, classes in enumerate(terms.passages):
        yield first + passage, family, classes
    if family == PART:
        yield first | WHOLE, ITEM, terms.whole


def score_entries(
    terms: TermWeights, items: int, passages: int, length: int, read: ReadPostings
) -> tuple[Rows, Scores]:
    """Return the entries that share a term with a query, and the bounds of their scores."""
    if not terms or not length:
        return np.empty(0, np.int64), np.empty(0)
    names = list(dict.fromkeys(map(shorten_term, terms)))
    has_long_items = passages > items
    of_passages = impact_bounds(length / passages)
    short = read(SHORT, names, of_passages)
    parts = read(PART, names, of_passages) if has_long_items else {}
    frequencies = {
        name: sum(len(postings[name][0]) for postings in (short, parts) if postings)
        for name in names
    }
    statistics = SpaceStatistics(items, passages, length, frequencies)
    weights = {term.term: term.weight for term in weigh_query(terms, statistics)}
    rows, scores = _add(short, weights)
    if not has_long_items:
        return rows >> PASSAGE_BITS, scores
    wholes = _add(read(ITEM, names, impact_bounds(length / items)), weights)
    return _join((rows >> PASSAGE_BITS, scores), _add(parts, weights), wholes)


def _add(postings: Postings, weights: Mapping[str, float]) -> tuple[Rows, Scores]:
    """Return each row once, with the sum over its terms."""
    rows = np.concatenate([rows for rows, _ in postings.values()])
    gains = np.concatenate([impacts * weights[term] for term, (_, impacts) in postings.items()])
    distinct, positions = np.unique(rows, return_inverse=True)
    return distinct, np.bincount(positions, gains, len(distinct)).astype(np.float64)


def _join(
    short: tuple[Rows, Scores], parts: tuple[Rows, Scores], wholes: tuple[Rows, Scores]
) -> tuple[Rows, Scores]:
    """Return the entries with one passage and those with several, which have their best one's."""
    entries, positions = np.unique(parts[0] >> PASSAGE_BITS, return_inverse=True)
    best = np.zeros(len(entries))
    np.maximum.at(best, positions, parts[1])
    # An entry shares a term as a whole if and only if one of its passages does.
    scores = (1 - words.ITEM_SHARE) * best + words.ITEM_SHARE * wholes[1]
    return np.concatenate([short[0], entries]), np.concatenate([short[1], scores])


def choose_entries(entries: Rows, scores: Scores, limit: int) -> tuple[list[int], float]:
    """Return more than `limit` entries with the highest bounds, and the bound of the others."""
    size = limit * SPARE_FACTOR + SPARE
    order = np.lexsort((entries, -scores))
    bound = widen_bound(float(scores[order[size]])) if len(order) > size else 0.0
    chosen: list[int] = entries[order[:size]].tolist()
    return chosen, bound
