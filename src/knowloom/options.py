"""Typed options of the public calls. Every surface derives its option names from these fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, TypedDict, TypeVar

from knowloom.errors import unknown_name
from knowloom.filters.condition_json import WhereArgument
from knowloom.model import Context, ContextFormat, Earlier, Edge, Filter, Item, Query, Shown
from knowloom.recipes import Agent, Mode, Recipe
from knowloom.retrieval_settings import (
    MAX_LIMIT,
    RetrievalSettings,
    resolve_recipes,
    select_recipes,
    validate_kinds,
    validate_recipe,
)
from knowloom.tiers import Tier, TierArgument, resolve_tier, restrict_recipes, restrict_search
from knowloom.tokens import strict_model
from knowloom.validation import (
    choose_space,
    validate_bool,
    validate_fraction,
    validate_int,
    validate_name,
    validate_names,
    validate_time,
)

Row = TypeVar("Row", Item, Edge)
SeenArgument = str | Context | Shown | Sequence[str | Context | Shown] | None
OVERRIDES = (
    "bm25_weight depth exclude_types kinds limit min_score mode tags types vector_weight".split()
)


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options of a single query: its budget, its times, and how the answer is written."""

    max_tokens: int | None = 2000  # None: no limit
    format: str | ContextFormat = "markdown"
    model: str = "gpt-4"  # whose tokens are counted
    strict: bool = False  # an upper bound instead of an estimate for models without a tokenizer
    entity: str | None = None  # the entity the agent works for
    now: datetime | None = None  # None: the engine's clock
    as_of: datetime | None = None  # ignore knowledge that is newer
    vector: Sequence[float] | None = None  # a ready query vector; None: embed the text
    paths: bool = False  # show by which edges an item was reached
    citations: bool = False  # number the blocks and list their sources
    fence: bool = False  # mark untrusted text as data
    min_answer_confidence: float = 0.0  # return nothing but a notice below this
    where: WhereArgument = None  # conditions that every item of the answer fulfils
    rerank: bool | None = None  # False: without the reranker; True: not without it
    seen: SeenArgument = None  # ids and contexts that the reader knows: not shown again
    after: Context | Earlier | None = None  # the context that this one continues
    new_tokens: int | None = None  # of what is not in `after`; None: as many as fit

    @property
    def token_model(self) -> str:
        """The model for `get_counter`."""
        return strict_model(self.model, validate_bool("strict", self.strict))


@dataclass(frozen=True, slots=True)
class ContextOptions(QueryOptions):
    """Options of `context` and `explain`. None leaves a field of the recipes as it is."""

    recipe: str | Sequence[Recipe] = "knowledge"
    agent: str | Agent | None = None  # its recipes, budget and format instead of the defaults
    tier: TierArgument = None  # None: everything is allowed
    kinds: Sequence[str] | None = None
    types: Sequence[str] | None = None
    exclude_types: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    limit: int | None = None
    mode: Mode | None = None
    min_score: float | None = None
    bm25_weight: float | None = None
    vector_weight: float | None = None
    depth: int | None = None  # edges to follow

    @property
    def overrides(self) -> dict[str, Any]:
        """The fields of recipes that the request changes."""
        values = {name: getattr(self, name) for name in OVERRIDES}
        return {name: value for name, value in values.items() if value is not None}

    def resolve_recipes(self, settings: RetrievalSettings) -> tuple[Recipe, ...]:
        """Return the recipes of the request, validated and restricted to its tier."""
        recipes, overrides = select_recipes(self.recipe), self.overrides
        if isinstance(self.recipe, str) and settings.changes:
            recipes = tuple(settings.apply(recipe, overrides) for recipe in recipes)
        new = validate_budget(self.new_tokens, name="new_tokens")
        limits = [limit for limit in (validate_budget(self.max_tokens), new) if limit is not None]
        recipes = resolve_recipes(recipes, overrides, min(limits, default=None))
        return restrict_recipes(recipes, resolve_tier(self.tier))


class ContextArguments(TypedDict, total=False):
    """Keyword arguments of `context` and `explain`: the fields of ContextOptions."""

    max_tokens: int | None
    format: str | ContextFormat
    model: str
    strict: bool
    entity: str | None
    now: datetime | None
    as_of: datetime | None
    vector: Sequence[float] | None
    paths: bool
    citations: bool
    fence: bool
    min_answer_confidence: float
    where: WhereArgument
    rerank: bool | None
    seen: SeenArgument
    after: Context | Earlier | None
    new_tokens: int | None
    recipe: str | Sequence[Recipe]
    agent: str | Agent | None
    tier: TierArgument
    kinds: Sequence[str] | None
    types: Sequence[str] | None
    exclude_types: Sequence[str] | None
    tags: Sequence[str] | None
    limit: int | None
    mode: Mode | None
    min_score: float | None
    bm25_weight: float | None
    vector_weight: float | None
    depth: int | None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of `search`."""

    kinds: Sequence[str] = ()
    types: Sequence[str] = ()
    exclude_types: Sequence[str] = ()
    tags: Sequence[str] = ()
    subject: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    min_confidence: float = 0.0
    limit: int = 10
    mode: Mode = "hybrid"
    min_score: float = 0.0
    min_answer_confidence: float = 0.0  # return nothing but a notice below this
    as_of: datetime | None = None
    now: datetime | None = None
    vector: Sequence[float] | None = None
    tier: TierArgument = None
    where: WhereArgument = None
    rerank: bool | None = None

    def resolve_recipe(self, settings: RetrievalSettings) -> Recipe:
        recipe = Recipe("search", mode=self.mode, limit=self.limit, min_score=self.min_score)
        return validate_recipe(settings.apply(recipe))

    def restrict(self, tier: Tier) -> SearchOptions:
        """Return the options with the kinds and the limit that the tier allows."""
        kinds, limit = restrict_search(validate_kinds(self.kinds), self.limit, tier)
        if (kinds, limit) == (self.kinds, self.limit):
            return self
        return replace(self, kinds=kinds, limit=limit)

    def resolve_filter(self, query: Query) -> Filter:
        created_to = _validate_optional_time("created_to", self.created_to)
        subject = self.subject
        return Filter(
            query.spaces,
            validate_kinds(self.kinds),
            validate_names("types", self.types),
            validate_names("exclude_types", self.exclude_types),
            validate_names("tags", self.tags),
            () if subject is None else (validate_name("subject", subject),),
            _validate_optional_time("created_from", self.created_from),
            earliest(query.as_of, created_to),
            query.as_of or query.now,
            validate_fraction("min_confidence", self.min_confidence),
            query.where,
        )


class SearchArguments(TypedDict, total=False):
    """Keyword arguments of `search`: the fields of SearchOptions."""

    kinds: Sequence[str]
    types: Sequence[str]
    exclude_types: Sequence[str]
    tags: Sequence[str]
    subject: str | None
    created_from: datetime | None
    created_to: datetime | None
    min_confidence: float
    limit: int
    mode: Mode
    min_score: float
    min_answer_confidence: float
    as_of: datetime | None
    now: datetime | None
    vector: Sequence[float] | None
    tier: TierArgument
    where: WhereArgument
    rerank: bool | None


class ReadArguments(TypedDict, total=False):
    """Keyword arguments of `read`."""

    page: int  # 1 is the first and the default
    max_tokens: int | None  # of a page; 2000 by default, None for the whole text
    passage: int | None  # open the page where this passage begins
    model: str  # whose tokens are counted; gpt-4 by default
    strict: bool  # an upper bound instead of an estimate for models without a tokenizer


CONTEXT_OPTIONS = tuple(field.name for field in fields(ContextOptions))
SEARCH_OPTIONS = tuple(field.name for field in fields(SearchOptions))


def check_option_names(options: Iterable[str], allowed: Sequence[str]) -> None:
    """Raise Invalid, naming the allowed options, if one is unknown."""
    for name in options:
        if name not in allowed:
            raise unknown_name("option", name, allowed)


def parse_search_options(arguments: Mapping[str, Any]) -> SearchOptions:
    check_option_names(arguments, SEARCH_OPTIONS)
    return SearchOptions(**arguments)


def validate_ids(ids: str | Sequence[str]) -> tuple[str, ...]:
    return validate_names("ids", [ids] if isinstance(ids, str) else ids)


def validate_limit(limit: int | None) -> int | None:
    return None if limit is None else validate_int("limit", limit, 1, MAX_LIMIT)


def validate_budget(value: object, minimum: int = 0, name: str = "max_tokens") -> int | None:
    return None if value is None else validate_int(name, value, minimum, 100_000_000)


def fill_space(
    rows: Iterable[Row], items: Sequence[Item], list_spaces: Callable[[], Sequence[str]]
) -> list[Row]:
    """Return items or edges with the default space where they name none.

    It is one of those that exist, or that the other rows and the `items` stored with them name.
    """
    rows = list(rows)
    names = {getattr(row, "space", None) for row in rows}
    if "" not in names:
        return rows
    names |= {*list_spaces(), *(item.space for item in items)}
    space = choose_space(sorted(filter(None, names)))
    return [replace(row, space=space) if row.space == "" else row for row in rows]


def earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _validate_optional_time(name: str, value: datetime | None) -> datetime | None:
    return None if value is None else validate_time(name, value)
