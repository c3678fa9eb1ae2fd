"""Recipes: how each part of a context is retrieved, scored and shown. They are data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from knowloom.model import Form, ItemCondition, Kind

Source = Literal["search", "neighbours", "walk", "profile", "subjects", "links"]
Mode = Literal["hybrid", "bm25", "vector", "walk"]

# Shares of the fused score, chosen on the tuning sets (docs/decisions/004-score-fusion.md).
BM25_WEIGHT, VECTOR_WEIGHT = 0.6, 0.4

# A limit that grows with the budget: MIN_CANDIDATES to MAX_CANDIDATES, until the texts of the
# candidates, and of what edges lead to, would fill the budget one and a half times.
FIT_BUDGET = 0
CHARACTERS_PER_TOKEN = 6
TOKENS_PER_CANDIDATE = 20  # the first search expects this; short candidates need a second one
MIN_CANDIDATES, DEFAULT_CANDIDATES, MAX_CANDIDATES = 15, 200, 2_000


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the ranking signals. They are divided by their sum, so scores stay in [0, 1]."""

    match: float = 1.0
    name: float = 0.0
    recency: float = 0.0
    confidence: float = 0.0
    semantic: float = 0.0  # vector similarity alone; ignored for items without a vector
    mention: float = 0.0  # how often the query names the item
    type: float = 0.0  # 1 if the item has a type that the recipe selects
    freshness: float = 0.0  # from 1, new, to 0, a year old
    title: float = 0.0  # share of the item's name that the query contains


RELEVANCE = Weights(match=0.0, semantic=0.35, mention=0.25, type=0.20, freshness=0.10, title=0.10)


@dataclass(frozen=True, slots=True)
class Walk:
    """Tunable parameters of the walk (docs/decisions/023-walk-parameters.md)."""

    starts: int = 12  # seeds, and items that the score flows on from at each hop
    sharpness: float = 6.0  # a seed gets score ** sharpness, as packing values it
    named: float = 0.3  # added to the score of a seed whose title is in the query
    onward: float = 0.5  # damping: the share of a score that flows on
    bridge: float = 0.07  # weight of an ad-hoc edge to a hit that contains a name of a top hit


@dataclass(frozen=True, slots=True)
class Recipe:
    """Retrieval, scoring, budget and forms of one part of a context."""

    name: str
    source: Source = "search"
    kinds: tuple[Kind, ...] = ()
    types: tuple[str, ...] = ()
    exclude_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    where: tuple[ItemCondition, ...] = ()  # all of them
    mode: Mode = "hybrid"
    bm25_weight: float = BM25_WEIGHT
    vector_weight: float = VECTOR_WEIGHT
    limit: int = 10  # maximum of candidates; FIT_BUDGET: as many as could fill the budget
    consider: int = 1  # multiple of the limit that is scored before the weights select
    max_properties: int = 10_000  # shown per item
    room: int = 0  # characters of candidates after which search stops; 0: only the limit counts
    min_score: float = 0.0
    depth: int = 0  # edges to follow
    near: int = 1  # an edge of weight w at hop n scores w / (n + near)
    edge_types: tuple[str, ...] = ()
    starts: int = 10  # best earlier hits whose edges are followed
    hub_cap: int = 30  # edges followed per item and direction, heaviest first
    named: bool = False  # source "neighbours": add items that the query names, linked or not
    weights: Weights = field(default_factory=Weights)
    share: float = 1.0  # of the budget: reserved for this part as far as it can use it
    max_share: float = 1.0  # of the budget: the maximum for this part
    sharpness: float = 6.0  # packing values an item at score ** sharpness
    forms: tuple[Form, ...] = tuple(Form)
    walk: Walk = field(default_factory=Walk)
    required: bool = False  # True: fail, instead of a degraded answer, if its store is down
    shared_limit: bool = False  # source "neighbours": earlier hits count towards the limit


@dataclass(frozen=True, slots=True)
class Agent:
    """A named set of recipes, with the budget and format that a request gets by default."""

    name: str
    recipes: tuple[Recipe, ...]
    max_tokens: int | None = 4000
    format: str = "yaml"
    description: str = ""


# Items found by the walk compete with searched ones by value: a reserved share of either takes room
# from better items of the other. Evidence within 1,024 tokens for single-item questions with a
# share of 0.3 for the walk: 50.0; 0.1: 65.8; none: 72.5.
_BY_VALUE = 0.0
_READABLE = (Kind.NODE, Kind.MEMORY, Kind.CLAIM)

KNOWLEDGE = (
    Recipe("entry_points", kinds=_READABLE, limit=FIT_BUDGET, share=_BY_VALUE, required=True),
    Recipe("context", "walk", kinds=(*_READABLE, Kind.RULE), limit=30, depth=2, share=_BY_VALUE),
    Recipe(
        "entities",
        "neighbours",
        kinds=(Kind.ENTITY,),
        limit=10,
        depth=1,
        starts=20,
        named=True,
        share=0.1,
    ),
)
SEARCH = (Recipe("entry_points", limit=FIT_BUDGET, required=True),)
MEMORIES = (
    Recipe(
        "memories",
        kinds=(Kind.MEMORY,),
        limit=FIT_BUDGET,
        weights=Weights(match=0.5, recency=0.3, confidence=0.2),
        required=True,
    ),
)
PROFILE = (
    Recipe("profile", "profile", kinds=(Kind.PROFILE,), share=0.2),
    Recipe("entry_points", kinds=_READABLE, limit=FIT_BUDGET, share=0.5, required=True),
    Recipe("context", "walk", kinds=_READABLE, limit=50, depth=2, share=_BY_VALUE),
    Recipe("rules", "subjects", kinds=(Kind.RULE, Kind.CLAIM), limit=20, share=0.1),
)

RECIPES: dict[str, tuple[Recipe, ...]] = {
    "knowledge": KNOWLEDGE,
    "memories": MEMORIES,
    "profile": PROFILE,
    "search": SEARCH,
}


def resolve_limit(recipe: Recipe, max_tokens: int | None) -> Recipe:
    """Return the recipe with a limit that suits the budget, if its limit is FIT_BUDGET."""
    if recipe.limit != FIT_BUDGET:
        return recipe
    if not max_tokens:
        return replace(recipe, limit=DEFAULT_CANDIDATES if max_tokens is None else MIN_CANDIDATES)
    return replace(recipe, limit=MAX_CANDIDATES, room=max_tokens * CHARACTERS_PER_TOKEN)


def search_depth(recipe: Recipe) -> int:
    """Return how many candidates the first search asks for, before their lengths are known."""
    if not recipe.room:
        return recipe.limit
    return min(
        recipe.limit,
        DEFAULT_CANDIDATES,
        max(MIN_CANDIDATES, recipe.room // (CHARACTERS_PER_TOKEN * TOKENS_PER_CANDIDATE)),
    )
