"""Rankers of entities: by the terms of the request, or by five weighted signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Protocol

from knowloom.construction import fast_constructor
from knowloom.model import Hit, Item, Key
from knowloom.text.words import split_unspaced

DAY_S = 86_400
MIN_TERM_LENGTH = 3
_SEPARATORS = re.compile(r"[\s,./\-_:;()\[\]]+")
_PUNCTUATION = "?!\"'`*…¿¡«»‹›“”„‘’。、！？「」"  # stripped from the ends of a term


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """The input of a ranker; `passages` are those of `text`, or the whole of a short one."""

    passages: tuple[str, ...]
    text: str
    now: datetime
    preferred_types: tuple[str, ...] = ()
    semantic: Mapping[Key, float] | None = None  # similarity by vectors; None: no query vector


@dataclass(frozen=True, slots=True)
class EntityScore:
    """A score in [0, 1], its signals, and the terms that matched; `raw` breaks ties."""

    score: float
    signals: Mapping[str, float] = field(default_factory=dict)
    matched_terms: tuple[str, ...] = ()
    raw: float = 0.0


_entity_score = fast_constructor(EntityScore)


class EntityRanker(Protocol):
    """The interface of rankers. One with `uses_vectors = False` gets no `semantic` scores, which
    saves the time to compute them."""

    def rank(self, request: RankingRequest, hits: Sequence[Hit]) -> list[EntityScore]:
        """Return one score per hit, in the same order."""


def split_terms(text: str) -> list[str]:
    """Return the distinct terms in lower case: those of three or more characters, else all.
    Scripts without spaces are cut into pairs of characters."""
    is_long: dict[str, bool] = {}
    for part in (part.strip(_PUNCTUATION) for part in _SEPARATORS.split(text.lower())):
        pieces = [part] if part.isascii() else split_unspaced(part)
        for piece in pieces:
            if piece:
                is_long[piece] = (
                    len(piece) >= MIN_TERM_LENGTH or len(pieces) > 1 or not part.isascii()
                )
    return [term for term, long in is_long.items() if long] or list(is_long)


@dataclass(frozen=True, slots=True)
class TermRanker:
    """Scores the terms of the request found in an entity's name, type and property values,
    divided by the number of terms. The best of several passages counts."""

    uses_vectors: ClassVar[bool] = False
    name: float = 1.0
    type: float = 0.5
    property: float = 0.3

    def rank(self, request: RankingRequest, hits: Sequence[Hit]) -> list[EntityScore]:
        queries = [terms for terms in map(split_terms, request.passages) if terms]
        zero = self._score((), 1, "", "", ()) if queries else EntityScore(0.0)
        return [self._best_score(queries, hit.item, zero) for hit in hits]

    def _best_score(
        self, queries: Sequence[Sequence[str]], item: Item, zero: EntityScore
    ) -> EntityScore:
        # All texts are searched at once first. No term has a line break, so none spans two texts.
        texts = [item.name, item.type, *map(str, item.properties.values())]
        joined = "\n".join(texts).lower()
        present = [[term for term in terms if term in joined] for terms in queries]
        if not any(present):
            return zero
        lines = joined.split("\n")
        if len(lines) != len(texts):
            lines = [text.lower() for text in texts]
        name, type, *values = lines
        scores = [
            self._score(matches, len(terms), name, type, values) if matches else zero
            for matches, terms in zip(present, queries, strict=True)
        ]
        return scores[0] if len(scores) == 1 else max(scores, key=lambda score: score.raw)

    def _score(
        self, present: Sequence[str], count: int, name: str, type: str, values: Sequence[str]
    ) -> EntityScore:
        in_name = [term for term in present if term in name]
        in_values = [term for value in values for term in present if term in value]
        by_name = self.name * len(in_name)
        by_type = self.type * len([term for term in present if term in type])
        by_property = self.property * len(in_values)
        raw = sum((by_name, by_type, by_property)) / count
        signals = {
            "name": round(by_name / count, 6),
            "type": round(by_type / count, 6),
            "property": round(by_property / count, 6),
        }
        rounded = round(raw, 6)
        matched_terms = tuple(dict.fromkeys([*in_name, *in_values]))
        return _entity_score(rounded if raw < 1.0 else 1.0, signals, matched_terms, rounded)


@dataclass(frozen=True, slots=True)
class SignalRanker:
    """Five weighted signals from 0 to 1; an entity without a vector is scored by the other four."""

    semantic: float = 0.35
    mention: float = 0.25
    type: float = 0.20
    recency: float = 0.10
    name: float = 0.10
    recency_days: float = 365.0
    mentions_for_all: float = 5.0  # the number of mentions from which the signal is 1

    def rank(self, request: RankingRequest, hits: Sequence[Hit]) -> list[EntityScore]:
        text = request.text.lower()
        terms = set(split_terms(request.text))
        return [self._score(request, text, terms, hit.item) for hit in hits]

    def _score(
        self, request: RankingRequest, text: str, terms: set[str], item: Item
    ) -> EntityScore:
        name_terms = split_terms(item.name)
        shared = [term for term in name_terms if term in terms]
        mentions = _count_occurrences(item.name.lower(), text) + len(shared)
        signals = {
            "mention": min(1.0, mentions / self.mentions_for_all),
            "type": _type_signal(item.type, request.preferred_types),
            "recency": self._recency(item, request.now),
            "name": len(shared) / len(name_terms) if name_terms else 0.0,
        }
        if request.semantic is not None and item.key in request.semantic:
            signals = {"semantic": request.semantic[item.key], **signals}
        weights = {signal: float(getattr(self, signal)) for signal in signals}
        total = sum(weights.values())
        weighted = sum(weights[signal] * value for signal, value in signals.items())
        raw = weighted / total if total else 0.0
        rounded = {signal: round(value, 6) for signal, value in signals.items()}
        return EntityScore(round(min(1.0, raw), 6), rounded, tuple(shared), round(raw, 6))

    def _recency(self, item: Item, now: datetime) -> float:
        """Return 1 for today, falling to 0 at `recency_days`; 0.5 without a date."""
        seen = item.updated_at or item.created_at
        if seen is None:
            return 0.5
        return min(1.0, max(0.0, 1 - (now - seen).total_seconds() / DAY_S / self.recency_days))


def _type_signal(type: str, preferred_types: tuple[str, ...]) -> float:
    if not preferred_types:
        return 0.5
    return 1.0 if type in preferred_types else 0.3


def _count_occurrences(name: str, text: str) -> int:
    """Return how often the name is in the text as a whole word."""
    count = at = 0
    while name and (at := text.find(name, at)) >= 0:
        end = at + len(name)
        count += not (text[at - 1 : at].isalnum() and name[0].isalnum()) and not (
            text[end : end + 1].isalnum() and name[-1].isalnum()
        )
        at = end
    return count


RANKERS: dict[str, EntityRanker] = {"signals": SignalRanker(), "terms": TermRanker()}
