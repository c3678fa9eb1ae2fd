"""Arguments of client calls as the JSON of requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowloom import codec, tiers, validation
from knowloom.conversation.earlier_turns import validate_after, validate_seen
from knowloom.errors import Invalid
from knowloom.filters.condition_json import validate_where, where_to_json
from knowloom.model import Edge, Key
from knowloom.options import (
    CONTEXT_OPTIONS,
    SEARCH_OPTIONS,
    check_option_names,
    parse_search_options,
)
from knowloom.recipes import RECIPES, Agent, Recipe
from knowloom.wire import JsonObject
from knowloom.wire.contexts import format_to_json
from knowloom.wire.recipes import recipe_to_json
from knowloom.wire.turns import earlier_to_json, shown_to_json

TIMES = ("as_of", "created_from", "created_to", "now")
NAME_LISTS = ("kinds", "types", "exclude_types", "tags")
PROGRAM_OPTIONS = {"bm25_weight", "vector_weight", "vector"}  # not accepted by public routes


def encode_context_options(options: Mapping[str, Any]) -> JsonObject:
    check_option_names(options, CONTEXT_OPTIONS)
    agent = options.get("agent")
    plain = {name: value for name, value in options.items() if name not in ("agent", "tier")}
    if isinstance(agent, Agent):
        plain = _expand_agent(agent, plain)
    elif agent is not None:
        plain["agent"] = agent
    if "format" in plain:
        plain["format"] = format_to_json(plain["format"])
    if plain.get("seen") is not None:
        plain["seen"] = shown_to_json(validate_seen(plain["seen"]))
    if plain.get("after") is not None:
        plain["after"] = earlier_to_json(validate_after(plain["after"]))
    if "recipe" in plain:
        plain["recipe"] = _encode_recipes(plain["recipe"])
    return encode_options(plain) | encode_tier(options.get("tier"))


def encode_search_options(arguments: Mapping[str, Any]) -> JsonObject:
    options = parse_search_options(arguments)
    values = {name: getattr(options, name) for name in SEARCH_OPTIONS if name != "tier"}
    values |= {name: encode_names(name, values[name]) for name in NAME_LISTS}
    return encode_options(values) | encode_tier(options.tier)


def encode_options(options: Mapping[str, Any]) -> JsonObject:
    """Return the options with times as text and the vector as floats, each only if it is set."""
    encoded = (*TIMES, "vector", "where")
    row = {name: value for name, value in options.items() if name not in encoded}
    for name in TIMES:
        if options.get(name) is not None:
            row[name] = encode_time(name, options[name])
    if options.get("vector") is not None:
        row["vector"] = encode_vector(options["vector"])
    return row | encode_where(options.get("where"))


def encode_where(where: object) -> JsonObject:
    """Return the conditions of a request, if it has any."""
    conditions = validate_where(where)
    return {"where": where_to_json(conditions)} if conditions else {}


def encode_tier(tier: tiers.TierArgument) -> JsonObject:
    """Return the requested tier; the server restricts it to that of the key."""
    return {} if tier is None else {"tier": tiers.resolve_tier(tier).name}


def _expand_agent(agent: Agent, options: Mapping[str, Any]) -> JsonObject:
    """Return the options with the recipes, budget and format of an agent defined by the caller."""
    if "recipe" in options:
        raise Invalid("agent and recipe exclude each other: an agent has its own recipes")
    defaults = {"max_tokens": agent.max_tokens, "format": agent.format}
    return {**defaults, **options, "recipe": list(agent.recipes)}


def _encode_recipes(recipe: object) -> object:
    if isinstance(recipe, str):
        return recipe
    parts = recipe if isinstance(recipe, list | tuple) else ()
    if not parts or not all(isinstance(part, Recipe) for part in parts):
        names = ", ".join(sorted(RECIPES))
        raise Invalid(f"recipe must be one of {names} or a list of Recipe, got {recipe!r}")
    return [recipe_to_json(part) for part in parts]


def select_route(public: str, full: str, body: JsonObject) -> str:
    """Return the public route, or the one that also accepts options for programs."""
    has_program_options = bool(PROGRAM_OPTIONS & set(body))
    has_recipes = not isinstance(body.get("recipe", ""), str)
    return full if has_program_options or has_recipes else public


def encode_time(name: str, value: object) -> str | None:
    return None if value is None else codec.time_to_text(validation.validate_time(name, value))


def encode_vector(vector: Sequence[float]) -> list[float]:
    validation.validate_vector(vector)
    return [float(number) for number in vector]


def encode_names(field: str, names: Iterable[str]) -> list[str]:
    return list(validation.validate_names(field, names))


def encode_spaces(spaces: Sequence[str] | None) -> JsonObject:
    """Return the spaces of a request; without them the server uses the only one of the key."""
    return {} if spaces is None else {"spaces": encode_names("spaces", spaces)}


def encode_ids(ids: str | Sequence[str]) -> list[str]:
    return encode_names("ids", [ids] if isinstance(ids, str) else ids)


def encode_versions(expected: Mapping[Key, str] | None) -> list[JsonObject]:
    return [
        {"space": space, "id": id, "version": version}
        for (space, id), version in (expected or {}).items()
    ]


def encode_edge_key(edge: Edge) -> JsonObject:
    names = ("source", "target", "type", "space", "target_space")
    return {name: getattr(edge, name) for name in names}
