"""Recipes and agents as JSON, and the recipes of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

from knowloom import validation
from knowloom.errors import Invalid, unknown_name
from knowloom.filters.condition_json import validate_where, where_to_json
from knowloom.model import Form
from knowloom.recipes import Agent, Recipe, Walk, Weights
from knowloom.wire import JsonObject

if TYPE_CHECKING:
    from knowloom.agents import AgentOptions

RECIPE_LISTS = ("kinds", "types", "exclude_types", "tags", "edge_types", "forms")


def recipes_to_json(table: Mapping[str, Sequence[Recipe]]) -> JsonObject:
    rows = [
        {"name": name, "parts": [_recipe_summary(recipe) for recipe in table[name]]}
        for name in sorted(table)
    ]
    return {"recipes": rows}


def agent_to_json(agent: Agent) -> JsonObject:
    """Return an agent with its parts; `config` are its options, null for recipes of its own."""
    # Imported here because the command line loads this module at startup.
    from knowloom.agents import agent_options

    options = agent_options(agent)
    return {
        "name": agent.name,
        "description": agent.description,
        "max_tokens": agent.max_tokens,
        "format": agent.format,
        "config": None if options is None else _agent_options_to_json(options),
        "parts": [_agent_part_to_json(recipe) for recipe in agent.recipes],
    }


def _agent_options_to_json(options: AgentOptions) -> JsonObject:
    """Return the options as `parse_agent` reads them."""
    row = asdict(options)
    lists = {name: list(row[name]) for name in ("include_types", "exclude_types")}
    weights = {name: weight for name, weight in row["weights"].items() if weight}
    return row | lists | {"weights": weights}


def _agent_part_to_json(recipe: Recipe) -> JsonObject:
    return _recipe_summary(recipe) | {
        "types": list(recipe.types),
        "exclude_types": list(recipe.exclude_types),
        "min_score": recipe.min_score,
        "max_properties": recipe.max_properties,
        "weights": {name: weight for name, weight in asdict(recipe.weights).items() if weight},
    }


def _recipe_summary(recipe: Recipe) -> JsonObject:
    return {
        "name": recipe.name,
        "source": recipe.source,
        "kinds": [kind.value for kind in recipe.kinds],
        "mode": recipe.mode,
        "limit": recipe.limit,
        "depth": recipe.depth,
        "share": recipe.share,
        "required": recipe.required,
    } | ({"where": where_to_json(recipe.where)} if recipe.where else {})


def recipe_to_json(recipe: Recipe) -> JsonObject:
    """Return every field of a recipe."""
    row = asdict(replace(recipe, where=()))
    return row | {"where": where_to_json(recipe.where) if recipe.where else {}}


def recipe_from_json(row: JsonObject) -> Recipe:
    """Return a recipe that a program sent: untrusted, so its field names and lists are checked.

    The engine checks its numbers and names.
    """
    values = _known_fields(row, Recipe) | {
        "weights": Weights(**_known_fields(row.get("weights", {}), Weights)),
        "walk": Walk(**_known_fields(row.get("walk", {}), Walk)),
    }
    if "name" not in values:
        raise Invalid("a recipe needs a name")
    for name in RECIPE_LISTS:
        if name in values:
            values[name] = validation.validate_names(name, values[name])
    values["where"] = validate_where(values.get("where"))
    forms = [form.value for form in Form]
    for form in values.get("forms", ()):
        if form not in forms:
            raise unknown_name("form", form, forms)
    if "forms" in values:
        values["forms"] = tuple(map(Form, values["forms"]))
    return Recipe(**values)


def _known_fields(row: object, kind: type[Recipe] | type[Weights] | type[Walk]) -> JsonObject:
    if not isinstance(row, Mapping):
        raise Invalid(f"{kind.__name__.lower()} must be an object, got {type(row).__name__}")
    names = [field.name for field in fields(kind)]
    for name in row:
        if name not in names:
            raise unknown_name(f"field of a {kind.__name__}", name, names)
    return dict(row)
