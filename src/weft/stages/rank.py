"""Order hits. Each signal is a function of one hit, between 0 and 1; a recipe says how much each counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime

from weft.model import Hit, Query
from weft.recipes import Weights

DAY_S = 86_400
UNKNOWN_CONFIDENCE = 0.5


def rank(hits: Sequence[Hit], query: Query, weights: Weights) -> list[Hit]:
    """Best first, ties by id. With the default weights the order of search and graph stays as it is."""
    if weights != Weights():
        hits = [_scored(hit, query, weights) for hit in hits]
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))


def _scored(hit: Hit, query: Query, weights: Weights) -> Hit:
    used = {one.name: getattr(weights, one.name) for one in fields(weights) if getattr(weights, one.name)}
    values = {name: round(SIGNALS[name](hit, query), 6) for name in used}
    score = sum(used[name] * values[name] for name in used) / sum(used.values())
    return replace(hit, score=round(score, 6), signals={**hit.signals, **values})


def match(hit: Hit, _: Query) -> float:
    return hit.score


def name(hit: Hit, query: Query) -> float:
    """The share of the query's longer words that stand in the item's name."""
    terms = set(re.findall(r"\w{3,}", query.text.lower()))
    called = hit.item.name.lower()
    return sum(term in called for term in terms) / len(terms) if terms else 0.0


def recency(hit: Hit, query: Query) -> float:
    return 1 / (1 + _age_days(hit.item.created_at, query.now))


def confidence(hit: Hit, _: Query) -> float:
    return UNKNOWN_CONFIDENCE if hit.item.confidence is None else hit.item.confidence


def _age_days(created_at: datetime | None, now: datetime) -> float:
    return max(0.0, (now - created_at).total_seconds() / DAY_S) if created_at else 0.0


SIGNALS: dict[str, Callable[[Hit, Query], float]] = {"match": match, "name": name, "recency": recency, "confidence": confidence}
