"""Numbers of retrieval that a configuration may set: shares of words and meaning, the walk, how sharply the best outweigh the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from weft.errors import Invalid, NotFound, Unavailable, unknown
from weft.recipes import Recipe, Walk
from weft.request import checked_recipe, overridden

TABLE = "retrieval"  # of weft.toml, and of a patch that `weft tune` writes


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """None: as the recipe says. They hold for `search`, and for `context` and `explain` with a recipe of weft's; what a request says
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
