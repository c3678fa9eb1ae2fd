"""What a caller may ask: options checked one by one, recipes chosen and changed as a request wants them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from knowloom import validation
from knowloom.errors import Invalid, NotFound, Unavailable, unknown
from knowloom.model import Form, Kind
from knowloom.recipes import RECIPES, Mode, Recipe, Source, Walk, resolved

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
                *validation.names("exclude_types", values["exclude_types"]),
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
        field: validation.names(field, getattr(recipe, field))
        for field in ("types", "exclude_types", "tags", "edge_types")
    }
    return replace(
        recipe,
        name=validation.name("a recipe's name", recipe.name),
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
    if twice := validation.duplicates(recipe.name for recipe in given):
        raise Invalid(f"two recipes have the name {twice[0]!r}")
    return tuple(given)


def kinds(given: Sequence[str]) -> tuple[Kind, ...]:
    for kind in validation.names("kinds", given):
        if kind not in [known.value for known in Kind]:
            raise unknown("kind", kind, [known.value for known in Kind])
    return tuple(Kind(kind) for kind in given)


def _forms(given: Sequence[str]) -> tuple[Form, ...]:
    for form in validation.names("forms", given):
        if form not in [known.value for known in Form]:
            raise unknown("form", form, [known.value for known in Form])
    return tuple(Form(form) for form in given)


def ids(given: str | Sequence[str]) -> tuple[str, ...]:
    return validation.names("ids", [given] if isinstance(given, str) else given)


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


TABLE = "retrieval"  # of knowloom.toml, and of a patch that `knowloom tune` writes


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """None: as the recipe says. They hold for `search`, and for `context` and `explain` with a recipe of knowloom's; what a request says
    itself, an agent, and recipes given as values stay as they are."""

    bm25_weight: float | None = None  # the share of words in a fused score, beside
    vector_weight: float | None = None  # the share of meaning
    sharpness: float | None = (
        None  # an item is worth score ** sharpness when the budget is shared out
    )
    depth: int | None = None  # links that a context follows from what was found
    walk_starts: int | None = None  # the same as the fields of `Walk`
    walk_sharpness: float | None = None
    walk_named: float | None = None
    walk_onward: float | None = None
    walk_bridge: float | None = None

    @property
    def given(self) -> dict[str, float]:
        """What differs from the recipes, by name."""
        return {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None
        }

    def applied(self, recipe: Recipe, options: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
        """The recipe with these numbers where it has a use for them, but for those that the options of a request say themselves."""
        given = {name: value for name, value in self.given.items() if options.get(name) is None}
        if not given:
            return recipe
        recipe = overridden(
            recipe, {name: given.get(name) for name in ("bm25_weight", "vector_weight", "depth")}
        )
        if recipe.source == "search" and self.depth and "depth" in given:
            recipe = replace(recipe, depth=self.depth)  # for the mode "walk"
        walk: dict[str, Any] = {
            one.name: given[f"walk_{one.name}"]
            for one in fields(Walk)
            if f"walk_{one.name}" in given
        }
        return replace(
            recipe,
            sharpness=given.get("sharpness", recipe.sharpness),
            walk=replace(recipe.walk, **walk),
        )


AS_RECIPES_SAY = RetrievalSettings()
NAMES = tuple(one.name for one in fields(RetrievalSettings))


def known(given: str | Path | Mapping[str, Any] | RetrievalSettings) -> RetrievalSettings:
    """The numbers of a file with a table [retrieval], of a mapping or of a value, all of them checked; "" for none."""
    if isinstance(given, RetrievalSettings):
        return _checked(given)
    if isinstance(given, Mapping):
        return read(given)
    if not isinstance(given, str | Path):
        raise Invalid(
            f"retrieval is a file, a table of numbers or a RetrievalSettings, not {type(given).__name__}"
        )
    return load(given) if given else AS_RECIPES_SAY


def read(table: Mapping[str, Any]) -> RetrievalSettings:
    for name in table:
        if name not in NAMES:
            raise unknown("number of retrieval", name, NAMES)
    return _checked(RetrievalSettings(**table))


def load(path: str | Path) -> RetrievalSettings:
    """The table [retrieval] of a TOML file, whatever else stands there."""
    try:
        said = tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise NotFound(f"no file {str(path)!r} with a table [{TABLE}]", "no_file") from None
    except OSError as error:
        raise Unavailable(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: not TOML: {error}") from None
    if not isinstance(said.get(TABLE), Mapping):
        raise Invalid(f"{path}: has no table [{TABLE}]; it may have: {', '.join(NAMES)}")
    try:
        return read(said[TABLE])
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from None


def _checked(numbers: RetrievalSettings) -> RetrievalSettings:
    """Refused here, and not at the first request."""
    checked_recipe(numbers.applied(Recipe("search")))
    checked_recipe(numbers.applied(Recipe("context", "walk", depth=2)))
    return numbers
