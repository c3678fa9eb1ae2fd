"""Access tiers: restrict recipes and searches to the knowledge that a tier may see."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from knowloom.errors import Forbidden, Invalid, unknown_name
from knowloom.model import Kind, Problem
from knowloom.recipes import FIT_BUDGET, Recipe, search_depth

log = logging.getLogger(__name__)


class TrustedRecipes(tuple[Recipe, ...]):
    """Recipes that knowloom built from plain fields of a request; every tier may use them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tier:
    """Limits of a tier. With `kinds`, it finds only these, by search, `max_items` in total."""

    name: str
    kinds: tuple[Kind, ...] | None = None  # None: no limits
    max_items: int = 0
    allows_custom: bool = False  # agents, recipes and formats of the caller
    note: str = ""  # reported with every answer

    @property
    def is_full(self) -> bool:
        return self.kinds is None

    @property
    def notes(self) -> tuple[Problem, ...]:
        return () if self.is_full else (Problem("tier", self.note, "tier"),)


TierArgument = str | Tier | Callable[[], str] | None

TIERS: dict[str, Tier] = {
    "core": Tier("core", (), 0, note="tier 'core' has no access to knowledge"),
    "writer_pro": Tier(
        "writer_pro",
        (Kind.ENTITY,),
        10,
        note="tier 'writer_pro' has access to entities only, at most 10",
    ),
    "teams": Tier("teams"),
    "enterprise": Tier("enterprise", allows_custom=True),
}
LOWEST = TIERS["core"]


def resolve_tier(tier: TierArgument) -> Tier:
    """Return the tier of a request.

    None allows everything: the embedding program decides. A lookup that fails, or returns an
    unknown tier, gives the lowest.
    """
    if tier is None:
        return TIERS["enterprise"]
    if isinstance(tier, Tier):
        return tier
    if not callable(tier):
        return TIERS[validate_tier(tier)]
    try:
        return TIERS[tier()]
    except Exception as error:  # a lookup of the user may raise anything
        log.warning("tier lookup failed: %s; using tier core", type(error).__name__)
        return replace(LOWEST, note="tier lookup failed: no access to knowledge")


def tier_of_key(name: str) -> Tier:
    """Return the stored tier of an API key; an unknown one is the lowest."""
    return TIERS.get(name, LOWEST)


def lower_tier(tier: Tier, requested: str | None) -> Tier:
    """Return the lower of a key's tier and the requested one."""
    if requested is None:
        return tier
    order = list(TIERS)
    return min(tier, TIERS[validate_tier(requested)], key=lambda tier: order.index(tier.name))


def restrict_recipes(recipes: Sequence[Recipe], tier: Tier) -> tuple[Recipe, ...]:
    """Return the part of the recipes that the tier allows.

    Edges could lead beyond the tier: recipes that follow them search instead.
    """
    if tier.kinds is None:
        return tuple(recipes)
    visible = [recipe for recipe in recipes if set(recipe.kinds) & set(tier.kinds)] or [
        recipe for recipe in recipes if not recipe.kinds
    ]
    restricted: list[Recipe] = []
    remaining = tier.max_items
    for recipe in visible:
        limit = remaining if recipe.limit == FIT_BUDGET else min(remaining, search_depth(recipe))
        if limit > 0:
            kinds = tuple(kind for kind in tier.kinds if not recipe.kinds or kind in recipe.kinds)
            search = replace(recipe, source="search", kinds=kinds, limit=limit)
            restricted.append(replace(search, room=0, depth=0, required=False))
            remaining -= limit
    return tuple(restricted)


def restrict_search(kinds: Sequence[Kind], limit: int, tier: Tier) -> tuple[tuple[Kind, ...], int]:
    """Return the kinds and the limit that the tier allows; the limit is 0 if there are none."""
    if tier.kinds is None:
        return tuple(kinds), limit
    allowed = tuple(kind for kind in tier.kinds if not kinds or kind in kinds)
    return allowed, min(limit, tier.max_items) if allowed else 0


def check_custom(tier: Tier, feature: str) -> None:
    if not tier.allows_custom:
        raise Forbidden(f"{feature} need tier 'enterprise', got {tier.name!r}", "tier")


def check_full(tier: Tier, feature: str) -> None:
    if not tier.is_full:
        raise Forbidden(f"{feature} needs tier 'teams' or 'enterprise', got {tier.name!r}", "tier")


def validate_tier(name: object) -> str:
    """Return the name of a tier, or raise Invalid with the available ones."""
    if not isinstance(name, str):
        raise Invalid(f"tier must be one of {', '.join(TIERS)}, got {name!r}")
    if name not in TIERS:
        raise unknown_name("tier", name, TIERS)
    return name
