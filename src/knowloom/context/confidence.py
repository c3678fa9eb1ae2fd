"""Confidence: how likely the evidence for a query is stored, judged by its best hits.

It is a logistic regression over two measures of the hits, fitted by `bench/confidence.py`
(docs/decisions/032-confidence.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowloom.model import Hit
from knowloom.recipes import Mode
from knowloom.text.normalisation import strip_accents
from knowloom.text.words import extract_terms, find_words, normalise_characters

LEADERS = 3  # best hits whose texts are compared with the query
MAX_TERMS = 64  # of a query; the rest is not compared
MAX_SCANNED = 4000  # characters of a passage that are compared
DECIMALS = 4
# Letters in lower case, and a space for everything that is no letter or digit.
_LOWER_WORDS = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else ord(" ")
    for code in range(256)
)


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of the hits of a query, each from 0 to 1."""

    best: float  # the best score
    covered: float  # share of the query's terms in the best three hits together


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """Coefficients of the logistic regression for one way to search; none but the intercept is
    negative, so that better hits never lower the confidence."""

    intercept: float
    best: float
    covered: float


# Fitted by: python -m bench.confidence DATA_FOLDER --write
CALIBRATIONS: Mapping[str, LogisticModel] = {
    "bm25": LogisticModel(-3.43, 8.51, 1.72),
    "hybrid": LogisticModel(-5.01, 10.75, 1.67),
    "vector": LogisticModel(-6.12, 8.43, 2.73),
    "walk": LogisticModel(-5.16, 10.13, 2.26),
    "walk_bm25": LogisticModel(-3.60, 7.45, 2.47),
}


def calibration_name(mode: Mode, has_vector: bool) -> str:
    """Return the way to search: a hybrid search without a vector is one by words."""
    if mode == "bm25" or not has_vector:
        return "walk_bm25" if mode == "walk" else "bm25"
    return mode


def estimate_confidence(text: str, hits: Sequence[Hit], best: float, calibration: str) -> float:
    """Return the estimated share of questions with such hits whose evidence is stored.

    `hits` are the best ones, `best` is the best score. Without hits, it is 0.
    """
    if not hits:
        return 0.0
    measures, fitted = measure_hits(text, hits, best), CALIBRATIONS[calibration]
    log_odds = fitted.intercept + fitted.best * measures.best + fitted.covered * measures.covered
    return round(1 / (1 + math.exp(-log_odds)), DECIMALS)


def measure_hits(text: str, hits: Sequence[Hit], best: float) -> Measures:
    """Return the measures of hits, best first."""
    terms = list(dict.fromkeys(extract_terms(text)))[:MAX_TERMS]
    covered = set().union(*[_find_terms(terms, hit) for hit in hits[:LEADERS]])
    return Measures(best, len(covered) / (len(terms) or 1))


def context_confidence(
    text: str,
    searches: Sequence[tuple[Mode, Sequence[Hit], float]],
    walked: Sequence[Hit],
    has_vector: bool,
) -> float | None:
    """Return the confidence of the best search, or that of the walk from their hits.

    A search is its mode, its hits and its best score. `walked` are all hits with the scores of the
    walk, which tells more, and empty without one. None means that nothing was searched.
    """
    if not searches:
        return None
    if not walked:
        return max(
            estimate_confidence(text, hits, best, calibration_name(mode, has_vector))
            for mode, hits, best in searches
        )
    ordered = sorted(walked, key=lambda hit: (-_walk_score(hit), hit.item.id, hit.item.space))
    best, name = _walk_score(ordered[0]), calibration_name("walk", has_vector)
    return estimate_confidence(text, ordered, best, name)


def _walk_score(hit: Hit) -> float:
    return hit.signals.get("walk", hit.score)


def _find_terms(terms: Sequence[str], hit: Hit) -> set[str]:
    """Return the terms that begin a word of the title or of the best passage."""
    passage = hit.passage
    end = min(passage.end, passage.start + MAX_SCANNED)
    text = f" {hit.item.title} {hit.item.text[passage.start : end]}"
    if text.isascii():  # most texts: a tenth of the time
        words = text.encode().translate(_LOWER_WORDS)
        return {term for term in terms if f" {term}".encode() in words}
    text = strip_accents(normalise_characters(text.lower()))
    text = f" {' '.join(find_words(text))}"
    # Terms of scripts without spaces are parts of words.
    return {term for term in terms if (f" {term}" if term.isascii() else term) in text}
