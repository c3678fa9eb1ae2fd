"""Impact classes: what an engine with other scores stores of a text, to bound its BM25 score.

The impact of a term in a text of L terms is tf / (tf + norm), which depends on tf and L / tf alone
once the mean length of the requested spaces is known. An engine stores the term with a class of
both; a query knows the spaces, and so the highest impact of each class. The sum of the impacts,
each times the weight of its term, is an upper bound of the score that no item exceeds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from knowloom.text import words
from knowloom.text.query_terms import TermWeights

STEPS = 4  # classes between two lengths of which one is twice the other
MAX_STEP = 48  # texts of 4,096 or more terms for each occurrence share a class
HIGHEST_FREQUENCIES = (1, 3, math.inf)  # of the classes of tf
MAX_TERM = 128  # characters; longer terms are replaced by a hash
# Scores are rounded to 6 digits, and engines add 32-bit floats.
RELATIVE_SLACK, ABSOLUTE_SLACK = 1e-5, 2e-6


@dataclass(frozen=True, slots=True)
class ItemTerms:
    """The terms of an item with their classes, as `name_class` gives them."""

    passages: tuple[Mapping[str, str], ...]  # term -> class, for each passage
    whole: Mapping[str, str]  # of the whole item; empty if it has one passage
    length: int  # terms of all passages


@dataclass(frozen=True, slots=True)
class SpaceStatistics:
    """Counters of the requested spaces."""

    items: int
    passages: int
    length: int  # terms in all passages
    frequencies: Mapping[str, int] = field(default_factory=dict)  # term -> passages that have it


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A term of a query: the share of the maximum score that the highest impact would have."""

    term: str
    weight: float


def classify_terms(passages: Sequence[Counter[str]]) -> ItemTerms:
    """Return the classes of the terms of an item from the counts of its passages."""
    rows = tuple(_classify(_capped(counts), counts.total()) for counts in passages)
    length = sum(counts.total() for counts in passages)
    totals: Counter[str] = Counter()
    if len(passages) > 1:
        for counts in passages:
            totals.update(_capped(counts))
    return ItemTerms(rows, _classify(totals, length), length)


def _capped(counts: Counter[str]) -> dict[str, int]:
    return {term: min(count, words.MAX_TERM_FREQUENCY) for term, count in counts.items()}


def _classify(counts: Mapping[str, int], length: int) -> dict[str, str]:
    return {shorten_term(term): name_class(count, length) for term, count in counts.items()}


def shorten_term(term: str) -> str:
    """Return the term as it is stored; engines limit the length of a term."""
    if len(term) <= MAX_TERM:
        return term
    return f"sha{sha256(term.encode()).hexdigest()}"


def name_class(frequency: int, length: int) -> str:
    """Return the class of a term that occurs `frequency` times among `length` terms."""
    group = next(
        number for number, highest in enumerate(HIGHEST_FREQUENCIES) if frequency <= highest
    )
    step = min(MAX_STEP, math.floor(STEPS * math.log2(max(1.0, length / frequency))))
    return f"{group}x{step:02}"


def impact_bounds(mean_length: float) -> dict[str, float]:
    """Return the highest impact of each class, where the mean length is this."""
    return {
        f"{group}x{step:02}": 1
        / (
            1
            + words.K1 * (1 - words.B) / highest
            + words.K1 * words.B * 2 ** (step / STEPS) / mean_length
        )
        for group, highest in enumerate(HIGHEST_FREQUENCIES)
        for step in range(MAX_STEP + 1)
    }


def group_classes(bounds: Mapping[str, float], levels: int) -> list[tuple[float, list[str]]]:
    """Return at most `levels` groups of classes, each with the highest bound in it, from the top.

    The bounds of a group differ by the same factor in each.
    """
    highest, lowest = max(bounds.values()), min(bounds.values())
    width = max(math.log(highest / lowest) / levels, 1e-9)
    groups: dict[int, list[str]] = {}
    for name, bound in bounds.items():
        number = min(levels - 1, int(math.log(highest / bound) / width))
        groups.setdefault(number, []).append(name)
    by_level = [(max(bounds[name] for name in names), names) for names in groups.values()]
    return sorted(by_level, key=lambda group: -group[0])


def weigh_query(terms: TermWeights, statistics: SpaceStatistics) -> list[WeightedTerm]:
    """Return the stored terms of a query with their shares of the maximum score, best first."""
    full = {
        term: words.idf(statistics.passages, statistics.frequencies.get(shorten_term(term), 0))
        for term in terms
    }
    maximum = sum(max(1.0, weight) * full[term] for term, weight in terms.items())
    weighted = [
        WeightedTerm(shorten_term(term), weight * full[term] / maximum)
        for term, weight in terms.items()
    ]
    return sorted(weighted, key=lambda term: (-term.weight, term.term))


def widen_bound(score: float) -> float:
    """Return a bound that covers rounding, of a score that is a sum of bounds."""
    return score * (1 + RELATIVE_SLACK) + ABSOLUTE_SLACK


def iterate_levels(
    terms: Sequence[WeightedTerm], groups: Sequence[tuple[float, list[str]]], share: float = 1.0
) -> Iterator[tuple[WeightedTerm, list[str], float]]:
    """Yield each term with the classes of a group and the score that they add at most."""
    for term in terms:
        for bound, classes in groups:
            yield term, classes, share * term.weight * bound
