"""What a caller may ask of a memory: options with their defaults, checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from knowloom import options, validation
from knowloom.capabilities.memory.ranking import Ranker, RankingOptions
from knowloom.capabilities.memory.templates import MemoryTemplate
from knowloom.errors import Invalid, unknown
from knowloom.model import Filter, Kind
from knowloom.recipes import Mode

MAX_DEPTH = 10


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search. `limit` is how many the search may find; None for a context: as many as its budget could hold."""

    limit: int | None = 10
    memory_types: tuple[str, ...] = ()
    date_from: datetime | None = None
    date_to: datetime | None = None
    min_confidence: float = 0.0
    conversation_id: str | None = None
    include_relationships: bool = False
    relationship_depth: int = 1
    relationship_types: tuple[str, ...] = ()
    mode: Mode = "hybrid"
    min_score: float = 0.0
    ranker: str | Ranker = "default"
    ranking: RankingOptions = field(default_factory=RankingOptions)
    as_of: datetime | None = None
    now: datetime | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options a caller named, the rest as by default. None stands for the default, where that is not None itself."""
        known = {one.name: one.default for one in fields(cls)}
        for name in given:
            if name not in known:
                raise unknown("option", name, known)
        values = {
            name: value
            for name, value in given.items()
            if value is not None or known[name] is None or name in _NO_LIMIT
        }
        named: dict[str, Any] = {
            name: CHECKS[name](name, value) if value is not None else None
            for name, value in values.items()
        }
        checked = cls(**named)
        if (
            checked.date_from is not None
            and checked.date_to is not None
            and checked.date_from > checked.date_to
        ):
            raise Invalid(f"date_from {checked.date_from} is after date_to {checked.date_to}")
        return checked

    def allowed(self, workspace: str, now: datetime) -> Filter:
        """The memories that may be found."""
        return Filter(
            (workspace,),
            (Kind.MEMORY,),
            self.memory_types,
            subjects=() if self.conversation_id is None else (self.conversation_id,),
            created_from=self.date_from,
            created_to=options.earliest(self.as_of, self.date_to),
            valid_at=self.as_of or now,
            min_confidence=self.min_confidence,
        )

    def reachable(self, workspace: str, now: datetime) -> Filter:
        """The memories that links may lead to: whatever was known and valid, also outside of the search's filters."""
        return Filter(
            (workspace,), (Kind.MEMORY,), created_to=self.as_of, valid_at=self.as_of or now
        )


@dataclass(frozen=True, slots=True)
class ContextOptions(SearchOptions):
    """How to write what was found into a prompt. `pinned`: pinned memories come first, found or not."""

    template: str | MemoryTemplate | None = None
    token_budget: int | None = None
    include_metadata: bool = False
    model: str = "gpt-4"
    pinned: bool = True


_NO_LIMIT = ("limit",)


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    return lambda name, value: options.whole(name, value, least, most)


def _yes_or_no(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{name} must be True or False, not {value!r}")
    return value


def _ranking(name: str, value: Any) -> RankingOptions:
    if isinstance(value, Mapping):
        for one in value:
            if one not in RankingOptions.__dataclass_fields__:
                raise unknown("ranking option", one, RankingOptions.__dataclass_fields__)
        value = RankingOptions(**value)
    if not isinstance(value, RankingOptions):
        raise Invalid(f"{name} must be RankingOptions, not {value!r}")
    return value.checked()


def _as_given(_: str, value: Any) -> Any:
    """What is looked up or checked where it is used."""
    return value


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "limit": _whole(1, options.MAX_LIMIT),
    "memory_types": validation.names,
    "date_from": validation.time,
    "date_to": validation.time,
    "min_confidence": options.fraction,
    "conversation_id": validation.name,
    "include_relationships": _yes_or_no,
    "relationship_depth": _whole(0, MAX_DEPTH),
    "relationship_types": validation.names,
    "mode": validation.name,
    "min_score": options.fraction,
    "ranker": _as_given,
    "ranking": _ranking,
    "as_of": validation.time,
    "now": validation.time,
    "template": _as_given,
    "token_budget": _whole(0, 100_000_000),
    "include_metadata": _yes_or_no,
    "model": validation.name,
    "pinned": _yes_or_no,
}
