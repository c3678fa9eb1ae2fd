"""Confidence: how likely the evidence for a query is stored, judged by its best hits.

It is a logistic regression over four measures of the hits. `bench/confidence.py` fits the constants
(docs/decisions/032-confidence.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowloom.model import Hit
from knowloom.recipes import Mode
from knowloom.retrieval.hybrid import BEST_SCORES
from knowloom.text.normalisation import strip_accents
from knowloom.text.words import extract_terms, find_words, normalise_characters

LEADERS = 3  # best hits whose texts are compared with the query
MAX_TERMS = 64  # of a query; the rest is not compared
MAX_SCANNED = 4000  # characters of a passage that are compared
DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of the hits of a query, each from 0 to 1."""

    best: float  # the best score
    lead: float  # of the best score over the tenth, which counts as 0 if there are fewer
    first: float  # share of the query's terms in the best hit
    three: float  # share of the query's terms in the best three hits together


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients of the logistic regression for one way to search."""

    intercept: float
    best: float
    lead: float
    first: float
    three: float


# Fitted by: python -m bench.confidence DATA_FOLDER --write
CALIBRATIONS: Mapping[str, Calibration] = {
    "bm25": Calibration(-3.95, 10.19, 0.80, -4.54, 3.96),
    "hybrid": Calibration(-6.01, 14.68, -0.57, -6.00, 4.41),
    "vector": Calibration(-6.20, 8.30, 1.96, -3.18, 4.36),
    "walk": Calibration(-5.44, 5.61, 13.51, -5.94, 4.74),
    "walk_bm25": Calibration(-3.97, 0.64, 18.88, -5.56, 4.99),
}


def calibration_name(mode: Mode, has_vector: bool) -> str:
    """Return the way to search: a hybrid search without a vector is one by words."""
    if mode == "bm25" or not has_vector:
        return "walk_bm25" if mode == "walk" else "bm25"
    return mode


def estimate_confidence(
    text: str, hits: Sequence[Hit], scores: Sequence[float], calibration: str
) -> float:
    """Return the estimated share of questions with such hits whose evidence is stored.

    `hits` are the best ones, `scores` the BEST_SCORES highest of all matches. Without hits, it is
    0.
    """
    if not hits or not scores:
        return 0.0
    measures, fitted = measure_hits(text, hits, scores), CALIBRATIONS[calibration]
    log_odds = (
        fitted.intercept
        + fitted.best * measures.best
        + fitted.lead * measures.lead
        + fitted.first * measures.first
        + fitted.three * measures.three
    )
    return round(1 / (1 + math.exp(-log_odds)), DECIMALS)


def measure_hits(text: str, hits: Sequence[Hit], scores: Sequence[float]) -> Measures:
    """Return the measures of hits, best first, and of the best BEST_SCORES scores."""
    terms = list(dict.fromkeys(extract_terms(text)))[:MAX_TERMS]
    covered = [_find_terms(terms, hit) for hit in hits[:LEADERS]]
    count = len(terms) or 1
    return Measures(
        scores[0],
        scores[0] - (scores[BEST_SCORES - 1] if len(scores) >= BEST_SCORES else 0.0),
        len(covered[0]) / count,
        len(set().union(*covered)) / count,
    )


def context_confidence(
    text: str,
    searches: Sequence[tuple[Mode, Sequence[Hit], Sequence[float]]],
    walked: Sequence[Hit],
    has_vector: bool,
) -> float | None:
    """Return the confidence of the best search, or that of the walk from their hits.

    A search is its mode, its hits and its best scores. `walked` are all hits with the scores of the
    walk, which tells more, and empty without one. None means that nothing was searched.
    """
    if not searches:
        return None
    if not walked:
        return max(
            estimate_confidence(text, hits, scores, calibration_name(mode, has_vector))
            for mode, hits, scores in searches
        )
    ordered = sorted(walked, key=lambda hit: (-_walk_score(hit), hit.item.id, hit.item.space))
    scores = [_walk_score(hit) for hit in ordered[:BEST_SCORES]]
    return estimate_confidence(text, ordered, scores, calibration_name("walk", has_vector))


def _walk_score(hit: Hit) -> float:
    return hit.signals.get("walk", hit.score)


def _find_terms(terms: Sequence[str], hit: Hit) -> set[str]:
    """Return the terms that begin a word of the title or of the best passage."""
    passage = hit.passage
    end = min(passage.end, passage.start + MAX_SCANNED)
    text = f"{hit.item.title} {hit.item.text[passage.start : end]}".lower()
    if not text.isascii():
        text = strip_accents(normalise_characters(text))
    text = f" {' '.join(find_words(text))}"
    # Terms of scripts without spaces are parts of words.
    return {term for term in terms if (f" {term}" if term.isascii() else term) in text}
