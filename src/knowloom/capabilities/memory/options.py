"""Options of memory searches and contexts, with their defaults and validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self, TypedDict

from knowloom import options, validation
from knowloom.capabilities.memory.ranking import Ranker, RankingOptions
from knowloom.capabilities.memory.templates import MemoryTemplate
from knowloom.errors import Invalid, unknown_name
from knowloom.filters.condition_json import WhereArgument, validate_where
from knowloom.model import Filter, ItemCondition, Kind
from knowloom.recipes import Mode
from knowloom.retrieval_settings import MAX_LIMIT

MAX_DEPTH = 10
MAX_BUDGET = 100_000_000
MAX_QUERIES = 100  # of one request to a server


OTHER_NAMES = {"max_tokens": "token_budget", "types": "memory_types"}  # those of other calls


class MemorySearchArguments(TypedDict, total=False):
    """Keyword arguments of `Memory.search`."""

    limit: int | None
    memory_types: Sequence[str] | None
    types: Sequence[str] | None  # the same
    date_from: datetime | None
    date_to: datetime | None
    min_confidence: float | None
    conversation_id: str | None
    where: WhereArgument
    include_relationships: bool | None
    relationship_depth: int | None
    relationship_types: Sequence[str] | None
    mode: Mode | None
    min_score: float | None
    ranker: str | Ranker | None
    ranking: RankingOptions | Mapping[str, Any] | None
    as_of: datetime | None
    now: datetime | None


class MemoryContextArguments(MemorySearchArguments, total=False):
    """Keyword arguments of `Memory.build_context` and `Memory.preview`."""

    template: str | MemoryTemplate | Mapping[str, Any] | None
    token_budget: int | None
    max_tokens: int | None  # the same
    include_metadata: bool | None
    model: str | None
    strict: bool | None
    pinned: bool | None


class MemoryFields(TypedDict, total=False):
    """Optional fields of a memory, for `Memory.remember`."""

    confidence: float | None
    conversation: str | None
    created_at: datetime | None
    expires_at: datetime | None
    id: str | None
    metadata: Mapping[str, Any] | None
    pinned: bool | None
    source: str | None
    speaker: str | None
    tags: Sequence[str] | None
    title: str | None
    type: str | None
    valid_from: datetime | None
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class MemorySearchOptions:
    """Options of a search. `limit` None, for a context only: as many as its budget can hold."""

    limit: int | None = 10
    memory_types: tuple[str, ...] = ()
    date_from: datetime | None = None
    date_to: datetime | None = None
    min_confidence: float = 0.0
    conversation_id: str | None = None
    where: tuple[ItemCondition, ...] = ()  # of every memory of the answer
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
    def parse(cls, arguments: Mapping[str, Any]) -> Self:
        """Validate keyword arguments. None means the default, unless it is a value itself."""
        defaults = {spec.name: spec.default for spec in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in validation.merge_names(arguments, OTHER_NAMES).items():
            if name not in defaults:
                raise unknown_name("option", name, defaults)
            if value is not None:
                values[name] = VALIDATORS[name](name, value)
            elif defaults[name] is None or name == "limit":
                values[name] = None
        parsed = cls(**values)
        start, end = parsed.date_from, parsed.date_to
        if start is not None and end is not None and start > end:
            raise Invalid(f"date_from {start} is after date_to {end}")
        return parsed

    def search_filter(self, workspace: str, now: datetime) -> Filter:
        """Return the filter of the memories that a search may return."""
        return Filter(
            (workspace,),
            (Kind.MEMORY,),
            self.memory_types,
            subjects=() if self.conversation_id is None else (self.conversation_id,),
            created_from=self.date_from,
            created_to=options.earliest(self.as_of, self.date_to),
            valid_at=self.as_of or now,
            min_confidence=self.min_confidence,
            where=self.where,
        )

    def relationship_filter(self, workspace: str, now: datetime) -> Filter:
        """Return the filter of related memories: all that were stored and valid at that time."""
        as_of, kinds, valid_at = self.as_of, (Kind.MEMORY,), self.as_of or now
        where = self.where
        return Filter((workspace,), kinds, created_to=as_of, valid_at=valid_at, where=where)


@dataclass(frozen=True, slots=True)
class MemoryContextOptions(MemorySearchOptions):
    """Options of a context. `pinned`: include pinned memories, whether retrieved or not."""

    template: str | MemoryTemplate | None = None
    token_budget: int | None = None
    include_metadata: bool = False
    model: str = "gpt-4"
    strict: bool = False
    pinned: bool = True


def validate_queries(queries: object) -> list[str]:
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise Invalid(f"queries must be a list of strings, got {queries!r}")
    return [validate_query(query) for query in queries]


def validate_query(query: object) -> str:
    text = validation.validate_query(query)
    if not text.strip():
        raise Invalid("query must not be blank")
    return text


Validator = Callable[[str, Any], Any]


def _int_range(minimum: int, maximum: int) -> Validator:
    return lambda name, value: validation.validate_int(name, value, minimum, maximum)


def _parse_ranking(name: str, value: Any) -> RankingOptions:
    if isinstance(value, Mapping):
        for option in value:
            if option not in RankingOptions.__dataclass_fields__:
                raise unknown_name("ranking option", option, RankingOptions.__dataclass_fields__)
        value = RankingOptions(**value)
    if not isinstance(value, RankingOptions):
        raise Invalid(f"{name} must be RankingOptions, got {value!r}")
    return value.validate()


def _defer(_: str, value: Any) -> Any:
    """Accept a value that is validated where it is used."""
    return value


VALIDATORS: dict[str, Validator] = {
    "limit": _int_range(1, MAX_LIMIT),
    "memory_types": validation.validate_names,
    "date_from": validation.validate_time,
    "date_to": validation.validate_time,
    "min_confidence": validation.validate_fraction,
    "conversation_id": validation.validate_name,
    "where": lambda _, value: validate_where(value),
    "include_relationships": validation.validate_bool,
    "relationship_depth": _int_range(0, MAX_DEPTH),
    "relationship_types": validation.validate_names,
    "mode": validation.validate_name,
    "min_score": validation.validate_fraction,
    "ranker": _defer,
    "ranking": _parse_ranking,
    "as_of": validation.validate_time,
    "now": validation.validate_time,
    "template": _defer,
    "token_budget": _int_range(0, MAX_BUDGET),
    "include_metadata": validation.validate_bool,
    "model": validation.validate_name,
    "strict": validation.validate_bool,
    "pinned": validation.validate_bool,
}
