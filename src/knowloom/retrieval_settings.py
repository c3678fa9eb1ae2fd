"""Select, override and validate recipes, by the options of a request or by stored settings."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from knowloom.caching import cached
from knowloom.errors import Invalid, unknown_name
from knowloom.files import read_toml
from knowloom.filters.condition_json import validate_where
from knowloom.model import Form, Kind
from knowloom.recipes import RECIPES, Mode, Recipe, Source, Walk, resolve_limit
from knowloom.validation import (
    find_duplicates,
    validate_fraction,
    validate_int,
    validate_name,
    validate_names,
    validate_number,
)

MAX_LIMIT = 10_000
DEFAULT_FLOOR = 0.2  # chosen in docs/decisions/032-confidence.md
SETTINGS_TABLE = "retrieval"  # in knowloom.toml, and in a patch that `knowloom tune` writes
INTEGER_BOUNDS = {  # by field of a recipe: minimum and maximum
    "limit": (1, MAX_LIMIT),
    "depth": (0, 10),
    "near": (0, 100),
    "starts": (0, MAX_LIMIT),
    "hub_cap": (1, MAX_LIMIT),
    "room": (0, 10**12),
    "consider": (1, 100),
    "max_properties": (0, 10_000),
}


def select_recipes(recipe: str | Sequence[Recipe]) -> tuple[Recipe, ...]:
    """Return the built-in recipes of that name, or the given ones."""
    if isinstance(recipe, str):
        if recipe not in RECIPES:
            raise unknown_name("recipe", recipe, RECIPES)
        return RECIPES[recipe]
    if (
        not recipe
        or not isinstance(recipe, list | tuple)
        or not all(isinstance(value, Recipe) for value in recipe)
    ):
        names = ", ".join(sorted(RECIPES))
        raise Invalid(f"recipe must be one of {names} or a list of Recipe values, got {recipe!r}")
    if duplicates := find_duplicates(value.name for value in recipe):
        raise Invalid(f"duplicate recipe name {duplicates[0]!r}")
    return tuple(recipe)


def resolve_recipes(
    recipes: tuple[Recipe, ...], overrides: Mapping[str, Any], max_tokens: int | None
) -> tuple[Recipe, ...]:
    """Override, bound and validate recipes. Unchanged built-in ones are validated once."""
    if not overrides:
        for name, builtin in RECIPES.items():
            if recipes is builtin:
                return _resolve_builtin(name, max_tokens)
    return tuple(
        validate_recipe(resolve_limit(override_recipe(recipe, overrides), max_tokens))
        for recipe in recipes
    )


@cached("resolved recipes", 256)
def _resolve_builtin(name: str, max_tokens: int | None) -> tuple[Recipe, ...]:
    return tuple(validate_recipe(resolve_limit(recipe, max_tokens)) for recipe in RECIPES[name])


def override_recipe(recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """Change the fields that apply to the recipe's source.

    `exclude_types` applies to every source, `depth` to those that follow edges, the rest to search.
    """
    if recipe.source == "search":
        values = {name: value for name, value in overrides.items() if name != "depth"}
        if "limit" in values:  # 0 would mean FIT_BUDGET
            validate_int("limit", values["limit"], 1, MAX_LIMIT)
        return replace(recipe, **values)
    if "exclude_types" in overrides:
        excluded = validate_names("exclude_types", overrides["exclude_types"])
        recipe = replace(recipe, exclude_types=(*recipe.exclude_types, *excluded))
    if recipe.source not in ("neighbours", "walk"):
        return recipe
    depth = overrides.get("depth", recipe.depth)
    return replace(recipe, depth=depth) if recipe.depth > 1 or depth == 0 else recipe


def validate_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe with normalised names, or raise Invalid."""
    for name, choices in (("mode", get_args(Mode)), ("source", get_args(Source))):
        if getattr(recipe, name) not in choices:
            raise unknown_name(name, getattr(recipe, name), choices)
    for name, (minimum, maximum) in INTEGER_BOUNDS.items():
        validate_int(name, getattr(recipe, name), minimum, maximum)
    for name in ("min_score", "share", "max_share"):
        validate_fraction(name, getattr(recipe, name))
    for name in ("bm25_weight", "vector_weight", "sharpness"):
        validate_number(name, getattr(recipe, name), 0)
    _validate_walk(recipe.walk)
    weights = {field.name: getattr(recipe.weights, field.name) for field in fields(recipe.weights)}
    for name, weight in weights.items():
        validate_number(f"the weight of {name}", weight, 0)
    if recipe.bm25_weight + recipe.vector_weight == 0:
        raise Invalid("bm25_weight and vector_weight must not both be 0")
    if not any(weights.values()):
        raise Invalid("weights must not all be 0")
    names: dict[str, Any] = {
        name: validate_names(name, getattr(recipe, name))
        for name in ("types", "exclude_types", "tags", "edge_types")
    }
    return replace(
        recipe,
        name=validate_name("a recipe's name", recipe.name),
        kinds=validate_kinds(recipe.kinds),
        forms=_validate_forms(recipe.forms),
        where=validate_where(recipe.where),
        **names,
    )


def _validate_walk(walk: Walk) -> None:
    if not isinstance(walk, Walk):
        raise Invalid(f"walk must be a Walk value, got {walk!r}")
    validate_int("walk_starts", walk.starts, 1, 1000)
    for name in ("named", "onward", "bridge"):
        validate_fraction(f"walk_{name}", getattr(walk, name))
    validate_number("walk_sharpness", walk.sharpness, 0.1, 100)


def validate_kinds(kinds: Sequence[str]) -> tuple[Kind, ...]:
    for kind in validate_names("kinds", kinds):
        if kind not in [choice.value for choice in Kind]:
            raise unknown_name("kind", kind, [choice.value for choice in Kind])
    return tuple(Kind(kind) for kind in kinds)


def _validate_forms(forms: Sequence[str]) -> tuple[Form, ...]:
    for form in validate_names("forms", forms):
        if form not in [choice.value for choice in Form]:
            raise unknown_name("form", form, [choice.value for choice in Form])
    return tuple(Form(form) for form in forms)


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Numbers that replace those of the built-in recipes; None leaves a recipe's value.

    They apply to `search`, and to `context` and `explain` with a built-in recipe. Options of a
    request, agents and recipes passed as values take precedence.
    """

    bm25_weight: float | None = None  # share of BM25 in the fused score
    vector_weight: float | None = None  # share of vector similarity
    sharpness: float | None = None  # packing values an item at score ** sharpness
    depth: int | None = None  # edges that a context follows from a hit
    walk_starts: int | None = None  # these five are the fields of `Walk`
    walk_sharpness: float | None = None
    walk_named: float | None = None
    walk_onward: float | None = None
    walk_bridge: float | None = None
    confidence_floor: float | None = None  # answers below it are reported as doubtful

    @property
    def floor(self) -> float:
        """The confidence below which an answer is reported as doubtful."""
        return DEFAULT_FLOOR if self.confidence_floor is None else self.confidence_floor

    @property
    def changes(self) -> dict[str, float]:
        """The settings that differ from the recipes, by name."""
        values = {name: getattr(self, name) for name in SETTING_NAMES}
        return {name: value for name, value in values.items() if value is not None}

    def apply(self, recipe: Recipe, overrides: Container[str] = ()) -> Recipe:
        """Change the recipe, except for the settings that the request overrides itself."""
        changes = {name: value for name, value in self.changes.items() if name not in overrides}
        if not changes:
            return recipe
        names = ("bm25_weight", "vector_weight", "depth")
        recipe = override_recipe(recipe, {name: changes[name] for name in names if name in changes})
        if recipe.source == "search" and self.depth and "depth" in changes:
            recipe = replace(recipe, depth=self.depth)  # used in mode "walk"
        walk: dict[str, Any] = {
            field.name: changes[f"walk_{field.name}"]
            for field in fields(Walk)
            if f"walk_{field.name}" in changes
        }
        sharpness = changes.get("sharpness", recipe.sharpness)
        return replace(recipe, sharpness=sharpness, walk=replace(recipe.walk, **walk))


DEFAULT_SETTINGS = RetrievalSettings()
SETTING_NAMES = tuple(field.name for field in fields(RetrievalSettings))


def resolve_settings(
    settings: str | Path | Mapping[str, Any] | RetrievalSettings,
) -> RetrievalSettings:
    """Load settings from a file, a mapping or a value, and validate them; "" means the defaults."""
    if isinstance(settings, RetrievalSettings):
        return _validate_settings(settings)
    if isinstance(settings, Mapping):
        return parse_settings(settings)
    if not isinstance(settings, str | Path):
        got = type(settings).__name__
        raise Invalid(f"retrieval must be a file, a mapping or a RetrievalSettings, got {got}")
    return load_settings(settings) if settings else DEFAULT_SETTINGS


def parse_settings(table: Mapping[str, Any]) -> RetrievalSettings:
    for name in table:
        if name not in SETTING_NAMES:
            raise unknown_name("retrieval setting", name, SETTING_NAMES)
    return _validate_settings(RetrievalSettings(**table))


def load_settings(path: str | Path) -> RetrievalSettings:
    """Read the table [retrieval] of a TOML file; other tables are ignored."""
    tables = read_toml(path)
    if not isinstance(tables.get(SETTINGS_TABLE), Mapping):
        available = ", ".join(SETTING_NAMES)
        raise Invalid(f"{path}: no table [{SETTINGS_TABLE}]; available settings: {available}")
    try:
        return parse_settings(tables[SETTINGS_TABLE])
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from None


def _validate_settings(settings: RetrievalSettings) -> RetrievalSettings:
    """Return the settings if recipes with them are valid, so that no request fails later."""
    if settings.confidence_floor is not None:
        validate_fraction("confidence_floor", settings.confidence_floor)
    validate_recipe(settings.apply(Recipe("search")))
    validate_recipe(settings.apply(Recipe("context", "walk", depth=2)))
    return settings
