"""What each tier may see of the knowledge. Pure functions: recipes in, fewer or smaller recipes out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from knowloom.errors import Forbidden, Invalid, unknown_name
from knowloom.model import Kind, Problem
from knowloom.recipes import FIT_BUDGET, Recipe, search_depth

log = logging.getLogger(__name__)


class TrustedRecipes(tuple[Recipe, ...]):
    """Recipes that knowloom made of a request's plain fields: no configuration of the caller's own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tier:
    """`kinds` None: all kinds, found in every way. Else only items of these kinds, found by search, `most` of them in all."""

    name: str
    kinds: tuple[Kind, ...] | None = None
    most: int = 0
    custom: bool = False  # may bring configurations and formats of its own
    says: str = ""  # what a user is told of its limits

    @property
    def full(self) -> bool:
        return self.kinds is None

    @property
    def notes(self) -> tuple[Problem, ...]:
        return () if self.full else (Problem("tier", self.says, "tier"),)


TierArgument = str | Tier | Callable[[], str] | None

TIERS: dict[str, Tier] = {
    "core": Tier("core", (), 0, says="the tier 'core' has no access to knowledge"),
    "writer_pro": Tier(
        "writer_pro",
        (Kind.ENTITY,),
        10,
        says="the tier 'writer_pro' has access to entities only, at most 10",
    ),
    "teams": Tier("teams"),
    "enterprise": Tier("enterprise", custom=True),
}
LOWEST = TIERS["core"]


def resolve_tier(given: TierArgument) -> Tier:
    """The tier a request runs under. Without one everything is allowed: the program that embeds knowloom says which tier is in force. A
    lookup that fails, or gives what is no tier, means the least."""
    if given is None:
        return TIERS["enterprise"]
    if isinstance(given, Tier):
        return given
    if not callable(given):
        return TIERS[validate_tier(given)]
    try:
        return TIERS[given()]
    except Exception as error:  # whatever keeps the tier from being known
        log.warning("the tier could not be found out: %s; core is in force", type(error).__name__)
        return replace(
            LOWEST,
            says="the tier could not be found out: without it there is no access to knowledge",
        )


def tier_of_key(name: str) -> Tier:
    """The tier that a key was given. One that is not known is the least."""
    return TIERS.get(name, LOWEST)


def lower_tier(one: Tier, asked: str | None) -> Tier:
    """The tier of a request that asks for another than its own: it may ask for less, never for more."""
    if asked is None:
        return one
    order = list(TIERS)
    return min(one, TIERS[validate_tier(asked)], key=lambda tier: order.index(tier.name))


def restrict_recipes(recipes: Sequence[Recipe], tier: Tier) -> tuple[Recipe, ...]:
    """What the tier leaves of a request. Links are a way to more than the tier may see: what they would find is searched for instead."""
    if tier.kinds is None:
        return tuple(recipes)
    showing = [recipe for recipe in recipes if set(recipe.kinds) & set(tier.kinds)] or [
        recipe for recipe in recipes if not recipe.kinds
    ]
    kept: list[Recipe] = []
    left = tier.most
    for recipe in showing:
        limit = left if recipe.limit == FIT_BUDGET else min(left, search_depth(recipe))
        if limit > 0:
            kinds = tuple(kind for kind in tier.kinds if not recipe.kinds or kind in recipe.kinds)
            kept.append(
                replace(
                    recipe,
                    source="search",
                    kinds=kinds,
                    limit=limit,
                    room=0,
                    depth=0,
                    required=False,
                )
            )
            left -= limit
    return tuple(kept)


def restrict_search(kinds: Sequence[Kind], limit: int, tier: Tier) -> tuple[tuple[Kind, ...], int]:
    """The kinds and the number of items a search may find; 0 for nothing at all."""
    if tier.kinds is None:
        return tuple(kinds), limit
    allowed = tuple(kind for kind in tier.kinds if not kinds or kind in kinds)
    return allowed, min(limit, tier.most) if allowed else 0


def check_custom(tier: Tier, what: str) -> None:
    if not tier.custom:
        raise Forbidden(f"{what} need the tier 'enterprise'; this one is {tier.name!r}", "tier")


def check_full(tier: Tier, what: str) -> None:
    if not tier.full:
        raise Forbidden(
            f"{what} needs the tier 'teams' or 'enterprise'; this one is {tier.name!r}", "tier"
        )


def validate_tier(given: object) -> str:
    """The name of a tier, or an error that names them all."""
    if not isinstance(given, str):
        raise Invalid(f"a tier is one of {', '.join(TIERS)}, not {given!r}")
    if given not in TIERS:
        raise unknown_name("tier", given, TIERS)
    return given
