"""Ways to rank entities, as data: by the terms of the request, or by five weighted signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Protocol

from knowloom.construction import maker
from knowloom.model import Hit, Item, Key
from knowloom.text.words import split_unspaced

DAY_S = 86_400
SHORTEST_TERM = 3
_APART = re.compile(r"[\s,./\-_:;()\[\]]+")
_AROUND = "?!\"'`*…¿¡«»‹›“”„‘’。、！？「」"  # signs around a term that are no part of it


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """What a ranker may look at. `passages` is the request, or the passages of a long one; `text` is all of it."""

    passages: tuple[str, ...]
    text: str
    now: datetime
    preferred_types: tuple[str, ...] = ()
    semantic: Mapping[Key, float] | None = None  # how near in meaning; None: nothing has a vector


@dataclass(frozen=True, slots=True)
class EntityScore:
    """One entity's score in [0, 1], the numbers behind it, and the terms of the request it matches. `raw` settles ties."""

    score: float
    signals: Mapping[str, float] = field(default_factory=dict)
    matched_terms: tuple[str, ...] = ()
    raw: float = 0.0


_made = maker(EntityScore)


class Ranker(Protocol):
    """Anything with this method can be given as `ranker`. One with `by_meaning = False` is not told how near entities are in
    meaning, which saves the time to find out."""

    def rank(self, request: RankingRequest, hits: Sequence[Hit]) -> list[EntityScore]:
        """One result for each hit, in the same order."""


def split_terms(text: str) -> list[str]:
    """The distinct terms of a text in lower case, those longer than two characters; if there is none, all of them. Scripts without
    spaces are cut into pairs of characters."""
    found: dict[str, bool] = {}
    for part in (part.strip(_AROUND) for part in _APART.split(text.lower())):
        pieces = [part] if part.isascii() else split_unspaced(part)
        for piece in pieces:
            if piece:
                found[piece] = len(piece) >= SHORTEST_TERM or len(pieces) > 1 or not part.isascii()
    return [term for term, long in found.items() if long] or list(found)


@dataclass(frozen=True, slots=True)
class TermRanker:
    """A term of the request counts when it stands in the name, in the type, in the value of a property; the sum is divided by the
    number of terms. Of several passages the best one counts."""

    by_meaning: ClassVar[bool] = False
    name: float = 1.0
    type: float = 0.5
    property: float = 0.3

    def rank(self, request: RankingRequest, hits: Sequence[Hit]) -> list[EntityScore]:
        asked = [one for one in map(split_terms, request.passages) if one]
        nothing = self._scored((), 1, "", "", ()) if asked else EntityScore(0.0)
        return [self._best(asked, hit.item, nothing) for hit in hits]

    def _best(
        self, asked: Sequence[Sequence[str]], item: Item, nothing: EntityScore
    ) -> EntityScore:
        """All that an item says is looked through at once, and first. No term has a line break, so none is found across two values."""
        said = [item.name, item.type, *map(str, item.properties.values())]
        whole = "\n".join(said).lower()
        present = [[term for term in one if term in whole] for one in asked]
        if not any(present):
            return nothing
        name, kind, *values = (
            lines if len(lines := whole.split("\n")) == len(said) else [one.lower() for one in said]
        )
        scores = [
            self._scored(some, len(one), name, kind, values) if some else nothing
            for some, one in zip(present, asked, strict=True)
        ]
        return scores[0] if len(scores) == 1 else max(scores, key=lambda one: one.raw)

    def _scored(
        self, present: Sequence[str], count: int, name: str, kind: str, values: Sequence[str]
    ) -> EntityScore:
        in_name = [term for term in present if term in name]
        in_type = [term for term in present if term in kind]
        in_values = [term for value in values for term in present if term in value]
        by_name, by_type, by_property = (
            self.name * len(in_name),
            self.type * len(in_type),
            self.property * len(in_values),
        )
        raw = sum((by_name, by_type, by_property)) / count
        signals = {
            "name": round(by_name / count, 6),
            "type": round(by_type / count, 6),
            "property": round(by_property / count, 6),
        }
        rounded = round(raw, 6)
        return _made(
            rounded if raw < 1.0 else 1.0,
            signals,
            tuple(dict.fromkeys([*in_name, *in_values])),
            rounded,
        )


@dataclass(frozen=True, slots=True)
class SignalRanker:
    """Five signals from 0 to 1, weighed. An entity without a vector is judged by the other four alone."""

    semantic: float = 0.35
    mention: float = 0.25
    type: float = 0.20
    recency: float = 0.10
    name: float = 0.10
    recency_days: float = 365.0
    mentions_for_all: float = 5.0  # so many mentions are as good as any more

    def rank(self, request: RankingRequest, hits: Sequence[Hit]) -> list[EntityScore]:
        text = request.text.lower()
        asked = set(split_terms(request.text))
        return [self._scored(request, text, asked, hit.item) for hit in hits]

    def _scored(
        self, request: RankingRequest, text: str, asked: set[str], item: Item
    ) -> EntityScore:
        own = split_terms(item.name)
        shared = [term for term in own if term in asked]
        signals = {
            "mention": min(
                1.0, (_occurrences(item.name.lower(), text) + len(shared)) / self.mentions_for_all
            ),
            "type": (1.0 if item.type in request.preferred_types else 0.3)
            if request.preferred_types
            else 0.5,
            "recency": self._recency(item, request.now),
            "name": len(shared) / len(own) if own else 0.0,
        }
        if request.semantic is not None and item.key in request.semantic:
            signals = {"semantic": request.semantic[item.key], **signals}
        weights = {signal: float(getattr(self, signal)) for signal in signals}
        total = sum(weights.values())
        raw = (
            sum(weights[signal] * value for signal, value in signals.items()) / total
            if total
            else 0.0
        )
        return EntityScore(
            round(min(1.0, raw), 6),
            {signal: round(value, 6) for signal, value in signals.items()},
            tuple(shared),
            round(raw, 6),
        )

    def _recency(self, item: Item, now: datetime) -> float:
        """From 1, today, to 0, a year ago and before. What has no date is neither new nor old."""
        seen = item.updated_at or item.created_at
        if seen is None:
            return 0.5
        return min(1.0, max(0.0, 1 - (now - seen).total_seconds() / DAY_S / self.recency_days))


def _occurrences(name: str, text: str) -> int:
    """How often the name stands in the text, not as a part of a word."""
    count = at = 0
    while name and (at := text.find(name, at)) >= 0:
        end = at + len(name)
        count += not (text[at - 1 : at].isalnum() and name[0].isalnum()) and not (
            text[end : end + 1].isalnum() and name[-1].isalnum()
        )
        at = end
    return count


RANKERS: dict[str, Ranker] = {"signals": SignalRanker(), "terms": TermRanker()}
