"""What a caller may ask: options checked one by one, recipes chosen and changed as a request wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, get_args

from weft.errors import Invalid, unknown
from weft.ingest import check
from weft.model import Form, Kind
from weft.recipes import RECIPES, Mode, Recipe, Source, Walk, resolved

MAX_LIMIT = 10_000
MAX_QUERY = 100_000  # characters
WHOLE_NUMBERS = {  # of a recipe, with the least and the most they may be
    "limit": (1, MAX_LIMIT),
    "depth": (0, 10),
    "near": (0, 100),
    "starts": (0, MAX_LIMIT),
    "hub_cap": (1, MAX_LIMIT),
    "room": (0, 10**12),
    "consider": (1, 100),
    "max_properties": (0, 10_000),
}

_OF_REQUESTS = (
    "agent",
    "as_of",
    "entity",
    "format",
    "max_tokens",
    "model",
    "now",
    "paths",
    "recipe",
    "tier",
    "vector",
)
# For every recipe that searches; `depth` is for those that follow links, `exclude_types` for all.
_OVERRIDES = (
    "bm25_weight",
    "exclude_types",
    "kinds",
    "limit",
    "min_score",
    "mode",
    "tags",
    "types",
    "vector_weight",
)


def wanted(
    recipes: tuple[Recipe, ...], options: Mapping[str, Any], max_tokens: int | None
) -> tuple[Recipe, ...]:
    """The recipes as a request wants them. Most requests want ours as they are: those are checked once."""
    if not options:
        for name, own in RECIPES.items():
            if recipes is own:
                return _unchanged(name, max_tokens)
    return tuple(
        checked_recipe(resolved(overridden(recipe, options), max_tokens)) for recipe in recipes
    )


@lru_cache(maxsize=256)
def _unchanged(name: str, max_tokens: int | None) -> tuple[Recipe, ...]:
    return tuple(checked_recipe(resolved(recipe, max_tokens)) for recipe in RECIPES[name])


def overridden(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """The recipe with what a request asks differently."""
    for name in options:
        if name not in (*_OVERRIDES, "depth"):
            raise unknown("option", name, (*_OVERRIDES, "depth", *_OF_REQUESTS))
    values = {name: value for name, value in options.items() if value is not None}
    if (
        recipe.source != "search" and "exclude_types" in values
    ):  # what is unwanted is so wherever it comes from
        recipe = replace(
            recipe,
            exclude_types=(
                *recipe.exclude_types,
                *check.names("exclude_types", values["exclude_types"]),
            ),
        )
    if recipe.source in ("neighbours", "walk"):
        return (
            replace(recipe, depth=values.get("depth", recipe.depth))
            if recipe.depth > 1 or values.get("depth") == 0
            else recipe
        )
    values.pop("depth", None)
    if recipe.source != "search":
        return recipe
    if "limit" in values:
        whole("limit", values["limit"], 1, MAX_LIMIT)  # 0 would mean AS_FITS
    return replace(recipe, **values)


def checked_recipe(recipe: Recipe) -> Recipe:
    """The recipe, if its names and numbers make sense."""
    for name, known in (("mode", get_args(Mode)), ("source", get_args(Source))):
        if getattr(recipe, name) not in known:
            raise unknown(name, getattr(recipe, name), known)
    for name, (least, most) in WHOLE_NUMBERS.items():
        whole(name, getattr(recipe, name), least, most)
    for name in ("min_score", "share", "most"):
        fraction(name, getattr(recipe, name))
    for name in ("bm25_weight", "vector_weight", "sharpness"):
        _not_negative(name, getattr(recipe, name))
    _check_walk(recipe.walk)
    for one in fields(recipe.weights):
        _not_negative(f"the weight of {one.name}", getattr(recipe.weights, one.name))
    if recipe.bm25_weight + recipe.vector_weight == 0:
        raise Invalid("bm25_weight and vector_weight must not both be 0")
    if not any(getattr(recipe.weights, one.name) for one in fields(recipe.weights)):
        raise Invalid("weights must not all be 0")
    names: dict[str, Any] = {
        field: check.names(field, getattr(recipe, field))
        for field in ("types", "exclude_types", "tags", "edge_types")
    }
    return replace(
        recipe,
        name=check.name("a recipe's name", recipe.name),
        kinds=kinds(recipe.kinds),
        forms=_forms(recipe.forms),
        **names,
    )


def _check_walk(numbers: Walk) -> None:
    if not isinstance(numbers, Walk):
        raise Invalid(f"the walk of a recipe is a Walk value, not {numbers!r}")
    whole("walk_starts", numbers.starts, 1, 1000)
    for name in ("named", "onward", "bridge"):
        fraction(f"walk_{name}", getattr(numbers, name))
    if (
        isinstance(numbers.sharpness, bool)
        or not isinstance(numbers.sharpness, int | float)
        or not 0.1 <= numbers.sharpness <= 100
    ):
        raise Invalid(f"walk_sharpness must be a number from 0.1 to 100, not {numbers.sharpness!r}")


def named_recipes(given: str | Sequence[Recipe]) -> tuple[Recipe, ...]:
    if isinstance(given, str):
        if given not in RECIPES:
            raise unknown("recipe", given, RECIPES)
        return RECIPES[given]
    if (
        not given
        or not isinstance(given, list | tuple)
        or not all(isinstance(recipe, Recipe) for recipe in given)
    ):
        raise Invalid(
            f"a recipe is one of {', '.join(sorted(RECIPES))} or a list of Recipe values, not {given!r}"
        )
    if twice := check.duplicates(recipe.name for recipe in given):
        raise Invalid(f"two recipes have the name {twice[0]!r}")
    return tuple(given)


def kinds(given: Sequence[str]) -> tuple[Kind, ...]:
    for kind in check.names("kinds", given):
        if kind not in [known.value for known in Kind]:
            raise unknown("kind", kind, [known.value for known in Kind])
    return tuple(Kind(kind) for kind in given)


def _forms(given: Sequence[str]) -> tuple[Form, ...]:
    for form in check.names("forms", given):
        if form not in [known.value for known in Form]:
            raise unknown("form", form, [known.value for known in Form])
    return tuple(Form(form) for form in given)


def ids(given: str | Sequence[str]) -> tuple[str, ...]:
    return check.names("ids", [given] if isinstance(given, str) else given)


def budget(value: object) -> int | None:
    if value is None:
        return None
    return whole("max_tokens", value, 0, 100_000_000)


def whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Invalid(f"{name} must be a whole number from {least} to {most:,}, not {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{name} must be True or False, not {value!r}")
    return value


def fraction(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Invalid(f"{name} must be a number from 0 to 1, not {value!r}")
    return float(value)


def _not_negative(name: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < float("inf")
    ):
        raise Invalid(f"{name} must be a number that is not negative, not {value!r}")


def earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def text(given: object) -> str:
    """The question of a request."""
    if not isinstance(given, str) or len(given) > MAX_QUERY:
        raise Invalid(f"a query is a text of at most {MAX_QUERY:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in given):
        raise Invalid("the query contains lone surrogates, which are not text")
    return given
