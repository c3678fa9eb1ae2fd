"""Options of a retrieval by the provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args

from knowloom import validation
from knowloom.errors import unknown_name
from knowloom.filters.condition_json import WhereArgument, validate_where
from knowloom.model import Filter, ItemCondition, Kind
from knowloom.recipes import Mode
from knowloom.retrieval_settings import MAX_LIMIT

Scope = Literal["entity", "all"]


OTHER_NAMES = {"limit": "top_k", "depth": "graph_traversal_depth"}  # those of other calls


class ProviderArguments(TypedDict, total=False):
    """Keyword arguments of a retrieval; None means the default."""

    top_k: int | None
    limit: int | None  # the same
    types: Sequence[str] | None
    tags: Sequence[str] | None
    where: WhereArgument
    mode: Mode | None
    min_score: float | None
    scope: Scope | None
    graph_traversal_depth: int | None
    depth: int | None  # the same
    graph_limit: int | None
    edge_types: Sequence[str] | None
    as_of: datetime | None
    now: datetime | None


class TextArguments(ProviderArguments, total=False):
    """Keyword arguments of the single text: those of a retrieval and of its layout."""

    section_delimiter: str
    item_delimiter: str
    include_tags: bool
    include_scores: bool


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """Validated options of a retrieval."""

    top_k: int = 10  # pieces that search may contribute
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    where: tuple[ItemCondition, ...] = ()  # of every item of the answer
    mode: Mode = "hybrid"
    min_score: float = 0.0
    scope: Scope = "entity"  # pieces of the entity and of no entity, or of all entities
    graph_traversal_depth: int = 2
    graph_limit: int = 50  # maximum number of relations
    edge_types: tuple[str, ...] = ()
    as_of: datetime | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A retrieval: the query, the spaces, the entity and the options."""

    query: str
    spaces: tuple[str, ...]
    now: datetime
    entity_id: str | None
    options: ProviderOptions

    def filter(self, *kinds: Kind) -> Filter:
        options, as_of = self.options, self.options.as_of
        valid_at = as_of or self.now
        return Filter(self.spaces, kinds, created_to=as_of, valid_at=valid_at, where=options.where)


NAMES = tuple(field.name for field in fields(ProviderOptions))
INT_RANGES = {
    "top_k": (1, MAX_LIMIT),
    "graph_traversal_depth": (0, 10),
    "graph_limit": (1, MAX_LIMIT),
}
CHOICES = {"scope": get_args(Scope), "mode": get_args(Mode)}


def parse_options(arguments: Mapping[str, Any]) -> ProviderOptions:
    """Validate keyword arguments; None means the default."""
    values = {name: value for name, value in arguments.items() if value is not None}
    for name in values:
        if name not in NAMES:
            raise unknown_name("option", name, NAMES)
    for name, (minimum, maximum) in INT_RANGES.items():
        if name in values:
            validation.validate_int(name, values[name], minimum, maximum)
    for name, choices in CHOICES.items():
        if name in values and values[name] not in choices:
            raise unknown_name(name, values[name], choices)
    for name in ("types", "tags", "edge_types"):
        values[name] = validation.validate_names(name, values.get(name, ()))
    for name in ("now", "as_of"):
        if name in values:
            values[name] = validation.validate_time(name, values[name])
    values["where"] = validate_where(values.get("where"))
    if "min_score" in values:
        validation.validate_fraction("min_score", values["min_score"])
    return replace(ProviderOptions(), **values)
