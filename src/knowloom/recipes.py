"""Named ways to gather context. A recipe is data: another agent, another mix of knowledge, needs no code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from knowloom.model import Form, Kind

Source = Literal["search", "neighbours", "walk", "profile", "subjects", "links"]
Mode = Literal["hybrid", "bm25", "vector", "walk"]

# Shares of the fused score, chosen on the tuning sets (docs/ARCHITECTURE.md, "Fusion").
BM25_WEIGHT, VECTOR_WEIGHT = 0.6, 0.4

FIT_BUDGET = 0  # a limit that grows with the budget: LEAST to MOST candidates, until their texts, and what links lead to, would fill it one and a half times
CHARACTERS_PER_TOKEN = 6
TOKENS_PER_CANDIDATE = (
    20  # so many are searched for, at most USUAL; more when these turn out to be short
)
MIN_CANDIDATES, DEFAULT_CANDIDATES, MAX_CANDIDATES = 15, 200, 2_000


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts. They are divided by their sum, so scores stay in [0, 1]."""

    match: float = 1.0
    name: float = 0.0
    recency: float = 0.0
    confidence: float = 0.0
    semantic: float = (
        0.0  # the likeness of meaning alone; what has no vector is judged by the other signals
    )
    mention: float = 0.0  # how often the request names it
    type: float = 0.0  # of a type that the recipe asks for
    freshness: float = 0.0  # from 1, new, to 0, a year old
    title: float = 0.0  # the share of its name that stands in the request


RELEVANCE = Weights(match=0.0, semantic=0.35, mention=0.25, type=0.20, freshness=0.10, title=0.10)


@dataclass(frozen=True, slots=True)
class Walk:
    """The numbers of a walk along links that may be tuned. The defaults were chosen on two tuning sets (docs/walk.md)."""

    starts: int = 12  # items the worth starts at, and items it flows on from at each hop
    sharpness: float = 6.0  # a start has score ** 6 of the worth, which is also what a budget takes an item to be worth (`Recipe.sharpness`)
    named: float = 0.3  # added to the score of a start whose title stands in the question
    onward: float = 0.5  # the part of the worth that flows on
    bridge: float = (
        0.07  # the weight of a link to another hit that holds what one of the best names
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one part of a context is gathered, scored, shared out and shown."""

    name: str
    source: Source = "search"
    kinds: tuple[Kind, ...] = ()
    types: tuple[str, ...] = ()
    exclude_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mode: Mode = "hybrid"
    bm25_weight: float = BM25_WEIGHT
    vector_weight: float = VECTOR_WEIGHT
    limit: int = 10  # candidates, at most; AS_FITS: as many as the budget could hold
    consider: int = 1  # times the limit are looked at before the weights choose
    max_properties: int = 10_000  # of an item, at most so many are given
    room: int = 0  # characters: when the LEAST best candidates have this much text, no more are looked at; 0 for all up to the limit
    min_score: float = 0.0
    depth: int = 0  # links to follow
    near: int = 1  # a link of weight w at hop n scores w / (n + near)
    edge_types: tuple[str, ...] = ()
    starts: int = 10  # of what was found before, the links of the best are followed
    hub_cap: int = 30  # links followed per item and direction, heaviest first
    named: bool = False  # True: what the question calls by its name is there, too, whatever links lead to it (of the source `neighbours`)
    weights: Weights = field(default_factory=Weights)
    share: float = 1.0  # of the budget: what this part is sure to get if it can use it
    most: float = 1.0  # of the budget: what this part may have at most
    sharpness: float = 6.0  # an item is worth score ** sharpness: how much one good item outweighs several fair ones
    forms: tuple[Form, ...] = (Form.WHOLE, Form.SUMMARY, Form.POINTER)
    walk: Walk = field(default_factory=Walk)
    required: bool = False  # True: when its store is down the request fails, instead of an answer marked as degraded


@dataclass(frozen=True, slots=True)
class Agent:
    """A named set of recipes, with the budget and format that a request gets by default."""

    name: str
    recipes: tuple[Recipe, ...]
    max_tokens: int | None = 4000
    format: str = "yaml"
    description: str = ""


# What a walk reaches is worth what it says, in the measure of what was searched: a sure share of either would only take room from
# better items of the other. Evidence for questions of one piece inside 1,024 tokens when the walk had a share: 50.0 with 0.3, 65.8 with 0.1, 72.5
# with none. Evidence for two tuning sets with many passages inside 512 tokens when what is found has 0.6: 62.9 and 96.0; with none 64.9 and 97.0.
_BY_WORTH = 0.0
_READABLE = (Kind.NODE, Kind.MEMORY, Kind.CLAIM)

KNOWLEDGE = (
    Recipe("entry_points", kinds=_READABLE, limit=FIT_BUDGET, share=_BY_WORTH, required=True),
    Recipe("context", "walk", kinds=(*_READABLE, Kind.RULE), limit=30, depth=2, share=_BY_WORTH),
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
    Recipe("context", "walk", kinds=_READABLE, limit=50, depth=2, share=_BY_WORTH),
    Recipe("rules", "subjects", kinds=(Kind.RULE, Kind.CLAIM), limit=20, share=0.1),
)

RECIPES: dict[str, tuple[Recipe, ...]] = {
    "knowledge": KNOWLEDGE,
    "memories": MEMORIES,
    "profile": PROFILE,
    "search": SEARCH,
}


def resolve_limit(recipe: Recipe, max_tokens: int | None) -> Recipe:
    """The recipe with a limit that suits the budget, if it left that open."""
    if recipe.limit != FIT_BUDGET:
        return recipe
    if not max_tokens:
        return replace(recipe, limit=DEFAULT_CANDIDATES if max_tokens is None else MIN_CANDIDATES)
    return replace(recipe, limit=MAX_CANDIDATES, room=max_tokens * CHARACTERS_PER_TOKEN)


def search_depth(recipe: Recipe) -> int:
    """How many candidates are searched for, before it is known whether they are enough to fill the room there is."""
    if not recipe.room:
        return recipe.limit
    return min(
        recipe.limit,
        DEFAULT_CANDIDATES,
        max(MIN_CANDIDATES, recipe.room // (CHARACTERS_PER_TOKEN * TOKENS_PER_CANDIDATE)),
    )
