"""Options of a graph context, as a frozen value with defaults and as keyword arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, get_args

from knowloom.capabilities.graph.rankers import RANKERS, EntityRanker
from knowloom.errors import Invalid, unknown_name
from knowloom.filters.condition_json import WhereArgument, validate_where
from knowloom.formats.custom import resolve_layout
from knowloom.formats.layout import get_layout
from knowloom.model import ContextFormat
from knowloom.options import validate_budget
from knowloom.recipes import Mode
from knowloom.tiers import TierArgument
from knowloom.validation import (
    merge_names,
    validate_bool,
    validate_fraction,
    validate_int,
    validate_name,
    validate_names,
    validate_query,
)

MODES = tuple(mode for mode in get_args(Mode) if mode != "walk")  # edges have their own options
MAX_SEPARATOR = 200  # characters
INTEGER_BOUNDS = {
    "max_entities": (0, 1000),
    "relationship_depth": (0, 10),
    "max_relationships": (0, 1000),
    "max_properties_per_entity": (0, 1000),
    "max_claims_per_entity": (0, 1000),
}


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Options of gathering, ranking and writing a graph context."""

    max_tokens: int | None = 2000  # None: no limit
    max_entities: int = 20
    entity_types: tuple[str, ...] | None = None  # None: all
    exclude_entity_types: tuple[str, ...] = ()
    min_relevance_score: float = 0.1
    include_relationships: bool = True
    relationship_depth: int = 1  # edges to follow to more entities; 0: none
    max_relationships: int = 100
    include_axioms: bool = True
    include_claims: bool = False
    max_claims_per_entity: int = 3
    include_violations: bool = False  # as notes in the text; the answer always has them
    format: str | ContextFormat = "markdown"
    include_properties: bool = True
    max_properties_per_entity: int = 10
    include_property_descriptions: bool = False
    include_entity_ids: bool = False
    entity_separator: str = "\n"  # between two entities, in markdown and plain text
    ranker: str | EntityRanker = "terms"
    preferred_types: tuple[str, ...] = ()  # for rankers that use them
    mode: Mode = "hybrid"
    model: str = "gpt-4"
    strict: bool = False  # an upper bound instead of an estimate for models without a tokenizer
    where: WhereArgument = None  # conditions that every item of the answer fulfils


OTHER_NAMES = {
    "limit": "max_entities",
    "types": "entity_types",
    "exclude_types": "exclude_entity_types",
    "min_score": "min_relevance_score",
    "depth": "relationship_depth",
}
"""Names of other calls for the same options."""


class GraphArguments(TypedDict, total=False):
    """Keyword arguments of a graph request: the fields of GraphOptions, and `tier`."""

    max_tokens: int | None
    max_entities: int
    entity_types: Collection[str] | None
    exclude_entity_types: Collection[str]
    min_relevance_score: float
    include_relationships: bool
    relationship_depth: int
    max_relationships: int
    include_axioms: bool
    include_claims: bool
    max_claims_per_entity: int
    include_violations: bool
    format: str | ContextFormat
    include_properties: bool
    max_properties_per_entity: int
    include_property_descriptions: bool
    include_entity_ids: bool
    entity_separator: str
    ranker: str | EntityRanker
    preferred_types: Collection[str]
    mode: Mode
    model: str
    strict: bool
    where: WhereArgument
    tier: TierArgument
    limit: int  # OTHER_NAMES
    types: Collection[str] | None
    exclude_types: Collection[str]
    min_score: float
    depth: int


OPTION_NAMES = tuple(field.name for field in fields(GraphOptions))
FLAGS = tuple(name for name in OPTION_NAMES if name.startswith("include_"))


def override_options(options: GraphOptions, changes: Mapping[str, Any]) -> GraphOptions:
    """Return the validated options with the changes of one request."""
    changes = merge_names(changes, OTHER_NAMES)
    for name in changes:
        if name not in OPTION_NAMES:
            raise unknown_name("option", name, (*OPTION_NAMES, "as_of", "now", "vector"))
    return validate_options(replace(options, **changes))


def validate_options(options: GraphOptions) -> GraphOptions:
    """Return the options in canonical form; raise Invalid for a wrong value."""
    if not isinstance(options, GraphOptions):
        raise Invalid(f"options must be GraphOptions, got {type(options).__name__}")
    for name, (minimum, maximum) in INTEGER_BOUNDS.items():
        validate_int(name, getattr(options, name), minimum, maximum)
    for name in (*FLAGS, "strict"):
        validate_bool(name, getattr(options, name))
    separator = options.entity_separator
    if not isinstance(separator, str) or len(separator) > MAX_SEPARATOR:
        raise Invalid(
            f"entity_separator must be a text of at most {MAX_SEPARATOR} characters, "
            f"got {separator!r}"
        )
    validate_query(separator)
    if options.mode not in MODES:
        raise unknown_name("mode", options.mode, MODES)
    resolve_ranker(options)
    entity_types = options.entity_types
    if entity_types is not None:
        entity_types = _validate_types("entity_types", entity_types)
        if not entity_types:
            raise Invalid("entity_types must name at least one type, or be None for all")
    return replace(
        options,
        where=validate_where(options.where),
        max_tokens=validate_budget(options.max_tokens),
        entity_types=entity_types,
        exclude_entity_types=_validate_types("exclude_entity_types", options.exclude_entity_types),
        preferred_types=_validate_types("preferred_types", options.preferred_types),
        min_relevance_score=validate_fraction("min_relevance_score", options.min_relevance_score),
        format=_validate_format(options.format),
    )


def _validate_format(format: str | ContextFormat) -> str | ContextFormat:
    if not isinstance(format, ContextFormat):
        return get_layout(validate_name("format", format)).name
    resolve_layout(format)
    return format


def resolve_ranker(options: GraphOptions) -> EntityRanker:
    """Return the ranker with the name in the options, or the object itself."""
    ranker = options.ranker
    if isinstance(ranker, str):
        if ranker not in RANKERS:
            raise unknown_name("ranker", ranker, RANKERS)
        return RANKERS[ranker]
    if not callable(getattr(ranker, "rank", None)):
        names = ", ".join(sorted(RANKERS))
        raise Invalid(f"ranker must be {names} or an object with a method rank, got {ranker!r}")
    return ranker


def _validate_types(name: str, types: Sequence[str] | set[str] | frozenset[str]) -> tuple[str, ...]:
    if isinstance(types, set | frozenset):
        types = sorted(types)
    return tuple(dict.fromkeys(validate_names(name, types)))
