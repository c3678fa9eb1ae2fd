"""Signals and their weighting: each signal is a function of a hit and the query, in [0, 1]."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar

from knowloom.construction import fast_constructor
from knowloom.model import Hit, Query
from knowloom.recipes import Weights

DAY_S = 86_400
YEAR_DAYS = 365
UNKNOWN_CONFIDENCE = 0.5
FULL_MENTIONS = 5  # mentions of an item in the query that give it a signal of 1
_SEPARATORS = re.compile(r"[\s,./\-_:;()\[\]?!]+")

K = TypeVar("K", bound=tuple[Any, ...])

_new_hit = fast_constructor(Hit)


def with_score(hit: Hit, score: float, signals: Mapping[str, float]) -> Hit:
    """Return the hit with another score; hundreds per request, and `replace` is five times
    slower."""
    path, edge, links, via = hit.path, hit.edge, hit.links, hit.via
    return _new_hit(hit.item, score, signals, hit.found_by, path, edge, links, via, hit.passages)


def top_k(keys: Collection[K], scores: Mapping[K, float], k: int) -> list[K]:
    """Return the k keys with the highest scores, best first, ties by id, space and passage."""
    if 0 < k < len(keys):
        values = list(scores.values() if keys is scores else map(scores.__getitem__, keys))
        threshold = sorted(values, reverse=True)[k - 1]
        keys = [key for key, score in zip(keys, values, strict=True) if score >= threshold]
    return sorted(keys, key=lambda key: (-scores[key], key[1], key[0], key[2:]))[:k]


def rank(
    hits: Sequence[Hit], query: Query, weights: Weights, types: Sequence[str] = ()
) -> list[Hit]:
    """Return the hits best first, ties by id.

    The default weights preserve the scores of search and graph. `types` are preferred.
    """
    if weights != Weights():
        hits = [_apply_weights(hit, query, weights, types) for hit in hits]
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))


def _apply_weights(hit: Hit, query: Query, weights: Weights, types: Sequence[str]) -> Hit:
    """Score a hit by the weighted mean of its signals, without those that do not apply to it."""
    used = {
        field.name: weight for field in fields(weights) if (weight := getattr(weights, field.name))
    }
    signals = {name: SIGNALS[name](hit, query) for name in used if name != "type"}
    if "type" in used:
        signals["type"] = _type_preference(hit, types)
    values = {name: round(value, 6) for name in used if (value := signals[name]) is not None}
    total = sum(used[name] for name in values)
    score = sum(used[name] * value for name, value in values.items()) / total if total else 0.0
    reported = {_reported_name(name, used): value for name, value in values.items()}
    return with_score(hit, round(score, 6), {**hit.signals, **reported})


def _reported_name(name: str, used: Collection[str]) -> str:
    """Return the name of a signal in results: one per meaning, unless both formulas are used."""
    meaning = REPORTED_NAMES.get(name, name)
    return name if meaning in used else meaning


def match(hit: Hit, _: Query) -> float:
    return hit.score


def name(hit: Hit, query: Query) -> float:
    """Return the share of the query's longer words that occur in the item's name."""
    terms = set(re.findall(r"\w{3,}", query.text.lower()))
    item_name = hit.item.name.lower()
    return sum(term in item_name for term in terms) / len(terms) if terms else 0.0


def recency(hit: Hit, query: Query) -> float:
    return 1 / (1 + _age_days(hit.item.created_at, query.now))


def confidence(hit: Hit, _: Query) -> float:
    return UNKNOWN_CONFIDENCE if hit.item.confidence is None else hit.item.confidence


def semantic(hit: Hit, _: Query) -> float | None:
    return hit.signals.get("vector")


def mention(hit: Hit, query: Query) -> float:
    """Count the whole mentions of the item's name and the shared terms, up to FULL_MENTIONS."""
    item_name = re.escape(hit.item.name.lower())
    pattern = rf"(?<!\w){item_name}(?!\w)"
    mentions = len(re.findall(pattern, query.text.lower())) if item_name else 0
    return min(1.0, (mentions + len(_shared_terms(hit, query))) / FULL_MENTIONS)


def title(hit: Hit, query: Query) -> float:
    """Return the share of the item's name that occurs in the query."""
    terms = _terms(hit.item.name)
    return len(_shared_terms(hit, query)) / len(terms) if terms else 0.0


def freshness(hit: Hit, query: Query) -> float:
    """Return 1 for a new item, 0 for one a year old, 0.5 for one without a date."""
    changed_at = hit.item.updated_at or hit.item.created_at
    return 0.5 if changed_at is None else max(0.0, 1 - _age_days(changed_at, query.now) / YEAR_DAYS)


def _type_preference(hit: Hit, types: Sequence[str]) -> float:
    return 0.5 if not types else 1.0 if hit.item.type in types else 0.3


def _terms(text: str) -> frozenset[str]:
    return frozenset(term for term in _SEPARATORS.split(text.lower()) if len(term) > 2)


def _shared_terms(hit: Hit, query: Query) -> frozenset[str]:
    return _terms(hit.item.name) & _terms(query.text)


def _age_days(created_at: datetime | None, now: datetime) -> float:
    return max(0.0, (now - created_at).total_seconds() / DAY_S) if created_at else 0.0


# Other formulas of a signal, and the name that results have for it.
REPORTED_NAMES = {"freshness": "recency", "title": "name"}
SIGNALS: dict[str, Callable[[Hit, Query], float | None]] = {
    "match": match,
    "name": name,
    "recency": recency,
    "confidence": confidence,
    "semantic": semantic,
    "mention": mention,
    "freshness": freshness,
    "title": title,
}
