"""What may be asked of a graph context. The options are a frozen value with the defaults: a configuration is one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from knowloom import options as request
from knowloom import validation
from knowloom.capabilities.graph.rankers import RANKERS, Ranker
from knowloom.errors import Invalid, unknown
from knowloom.formats.layout import layout
from knowloom.recipes import Mode

MODES = tuple(mode for mode in get_args(Mode) if mode != "walk")  # links have options of their own
MAX_SEPARATOR = 200  # characters
WHOLE_NUMBERS = {
    "max_entities": (0, 1000),
    "relationship_depth": (0, 10),
    "max_relationships": (0, 1000),
    "max_properties_per_entity": (0, 1000),
    "max_claims_per_entity": (0, 1000),
}
FLAGS = (
    "include_relationships",
    "include_axioms",
    "include_claims",
    "include_violations",
    "include_properties",
    "include_property_descriptions",
    "include_entity_ids",
)


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How a graph context is gathered, ranked and written."""

    max_tokens: int | None = 2000  # None: no limit
    max_entities: int = 20
    entity_types: tuple[str, ...] | None = None  # None: all
    exclude_entity_types: tuple[str, ...] = ()
    min_relevance_score: float = 0.1
    include_relationships: bool = True
    relationship_depth: int = (
        1  # links to follow to more entities; 0: only links between those found
    )
    max_relationships: int = 100
    include_axioms: bool = True
    include_claims: bool = False
    max_claims_per_entity: int = 3
    include_violations: bool = False  # in the text, as notes; the answer always has them
    format: str = "markdown"
    include_properties: bool = True
    max_properties_per_entity: int = 10
    include_property_descriptions: bool = False
    include_entity_ids: bool = False
    entity_separator: str = "\n"  # between two entities, in markdown and plain text
    ranker: str | Ranker = "terms"
    preferred_types: tuple[str, ...] = ()  # for rankers that know preferences
    mode: Mode = "hybrid"
    model: str = "gpt-4"


def override_options(options: GraphOptions, changes: Mapping[str, Any]) -> GraphOptions:
    """The options with what one request asks differently, if they make sense."""
    known = [one.name for one in fields(GraphOptions)]
    for name in changes:
        if name not in known:
            raise unknown("option", name, (*known, "as_of", "now", "vector"))
    return validate_options(replace(options, **changes))


def validate_options(options: GraphOptions) -> GraphOptions:
    if not isinstance(options, GraphOptions):
        raise Invalid(f"options must be GraphOptions, not {type(options).__name__}")
    for name, (least, most) in WHOLE_NUMBERS.items():
        request.whole(name, getattr(options, name), least, most)
    for name in FLAGS:
        if not isinstance(getattr(options, name), bool):
            raise Invalid(f"{name} must be True or False, not {getattr(options, name)!r}")
    if (
        not isinstance(options.entity_separator, str)
        or len(options.entity_separator) > MAX_SEPARATOR
    ):
        raise Invalid(
            f"entity_separator must be a text of at most {MAX_SEPARATOR} characters, not {options.entity_separator!r}"
        )
    request.text(options.entity_separator)
    if options.mode not in MODES:
        raise unknown("mode", options.mode, MODES)
    resolve_ranker(options)
    return replace(
        options,
        max_tokens=request.budget(options.max_tokens),
        entity_types=None
        if options.entity_types is None
        else _types("entity_types", options.entity_types),
        exclude_entity_types=_types(
            "exclude_entity_types", options.exclude_entity_types, empty=True
        ),
        preferred_types=_types("preferred_types", options.preferred_types, empty=True),
        min_relevance_score=request.fraction("min_relevance_score", options.min_relevance_score),
        format=layout(validation.name("format", options.format)).name,
    )


def resolve_ranker(options: GraphOptions) -> Ranker:
    if isinstance(options.ranker, str):
        if options.ranker not in RANKERS:
            raise unknown("ranker", options.ranker, RANKERS)
        return RANKERS[options.ranker]
    if not callable(getattr(options.ranker, "rank", None)):
        raise Invalid(
            f"a ranker is one of {', '.join(sorted(RANKERS))} or an object with a method rank, not {options.ranker!r}"
        )
    return options.ranker


def _types(name: str, given: Any, empty: bool = False) -> tuple[str, ...]:
    if isinstance(given, set | frozenset):
        given = sorted(given)
    found = validation.names(name, given)
    if not found and not empty:
        raise Invalid(f"{name} must name at least one type, or be None for all")
    return tuple(dict.fromkeys(found))
