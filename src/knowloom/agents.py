"""Agents: named sets of recipes with a budget and a format. Files and programs can add more."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from knowloom.errors import Invalid, unknown_name
from knowloom.files import read_text
from knowloom.filters.condition_json import WhereArgument, validate_where, where_to_json
from knowloom.formats.layout import get_layout
from knowloom.model import ContextFormat, Kind
from knowloom.options import CONTEXT_OPTIONS, ContextOptions, check_option_names
from knowloom.recipes import RELEVANCE, Agent, Recipe, Weights
from knowloom.retrieval_settings import MAX_LIMIT, validate_recipe
from knowloom.tiers import Tier, TrustedRecipes, check_custom
from knowloom.validation import (
    find_duplicates,
    validate_bool,
    validate_fraction,
    validate_int,
    validate_name,
    validate_names,
)

OVER_FETCH = 3  # entities scored per entity returned
EXPANDED_ENTITIES = 10  # entities whose edges are followed
SHARES = {"entities": 0.6, "related": 0.2, "relationships": 0.1, "axioms": 0.1}
MAX_RELATIONSHIPS = 100
ALIASES = {  # names of the same options in GraphOptions
    "include_entity_types": "include_types",
    "entity_types": "include_types",
    "exclude_entity_types": "exclude_types",
    "min_relevance_score": "min_score",
    "relationship_depth": "depth",
    "max_properties_per_entity": "max_properties",
}


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of an agent: its entities, what is shown with them, and the size of the context."""

    max_tokens: int = 4000
    include_types: tuple[str, ...] = ()  # empty: all types
    exclude_types: tuple[str, ...] = ()
    min_score: float = 0.5
    include_relationships: bool = True  # neighbours and the edges between entities
    depth: int = 1
    include_axioms: bool = True  # rules for the types of the entities
    max_entities: int = 20  # related items included, unless max_related is set
    max_related: int | None = None  # related items beside the entities; None: what they leave
    format: str = "yaml"
    include_properties: bool = True
    max_properties: int = 10  # per entity
    weights: Weights = RELEVANCE
    where: WhereArgument = None  # conditions that every item fulfils
    description: str = ""


class AgentArguments(TypedDict, total=False):
    """Keyword arguments of `define_agent`: the fields of AgentOptions, and their aliases."""

    max_tokens: int
    include_types: tuple[str, ...]
    exclude_types: tuple[str, ...]
    min_score: float
    include_relationships: bool
    depth: int
    include_axioms: bool
    max_entities: int
    max_related: int | None
    format: str
    include_properties: bool
    max_properties: int
    weights: Weights
    where: WhereArgument
    description: str
    include_entity_types: tuple[str, ...]
    entity_types: tuple[str, ...]
    exclude_entity_types: tuple[str, ...]
    min_relevance_score: float
    relationship_depth: int
    max_properties_per_entity: int


AGENT_OPTIONS = tuple(field.name for field in fields(AgentOptions))


def define_agent(name: str, **options: Unpack[AgentArguments]) -> Agent:
    """Return an agent with the given AgentOptions fields."""
    values = _resolve_aliases(name, options)
    for option in values:
        if option not in AGENT_OPTIONS:
            raise unknown_name("agent option", option, AGENT_OPTIONS)
    return build_agent(name, AgentOptions(**values))


def _resolve_aliases(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    for alias, option in ALIASES.items():
        if alias in options and option in options:
            raise Invalid(f"agent {name!r}: {alias} and {option} are the same option: pass one")
    return {ALIASES.get(option, option): value for option, value in options.items()}


def build_agent(name: str, options: AgentOptions) -> Agent:
    """Validate the options and turn them into recipes."""
    recipes, where = [_entity_recipe(options)], validate_where(options.where)
    depth = validate_int("depth", options.depth, 0, 10)
    if options.max_related is not None:
        validate_int("max_related", options.max_related, 0, MAX_LIMIT)
    if options.include_relationships and depth and options.max_related != 0:
        recipes.append(replace(_related_recipe(options), depth=depth))
    if options.include_relationships:
        share = SHARES["relationships"]
        recipes.append(Recipe("relationships", "links", limit=MAX_RELATIONSHIPS, share=share))
    if options.include_axioms:  # without properties: their text, not their executable form
        axioms = Recipe("axioms", "subjects", kinds=(Kind.RULE,), limit=20, max_properties=0)
        recipes.append(replace(axioms, share=SHARES["axioms"]))
    return Agent(
        validate_name("the name of an agent", name),
        tuple(validate_recipe(replace(recipe, where=where)) for recipe in recipes),
        validate_int("max_tokens", options.max_tokens, 1, 100_000_000),
        get_layout(validate_name("format", options.format)).name,
        options.description,
    )


def _related_recipe(options: AgentOptions) -> Recipe:
    """Return the recipe of the neighbours, which fill up `max_entities` or have a limit."""
    limit = options.max_related
    return Recipe(
        "related",
        "neighbours",
        kinds=tuple(kind for kind in Kind if kind is not Kind.RULE),
        limit=options.max_entities if limit is None else limit,
        starts=EXPANDED_ENTITIES,
        share=SHARES["related"],
        shared_limit=limit is None,
    )


def agent_options(agent: Agent) -> AgentOptions | None:
    """Return the options that an agent was built from; None if it has recipes of its own."""
    recipes = {recipe.name: recipe for recipe in agent.recipes}
    entities, related = recipes.get("entities"), recipes.get("related")
    if entities is None or agent.max_tokens is None:
        return None
    beside = None if related is None or related.shared_limit else related.limit
    options = AgentOptions(
        max_tokens=agent.max_tokens,
        include_types=entities.types,
        exclude_types=entities.exclude_types,
        min_score=entities.min_score,
        include_relationships="relationships" in recipes,
        depth=0 if related is None else related.depth,
        include_axioms="axioms" in recipes,
        max_entities=entities.limit,
        max_related=beside,
        format=agent.format,
        include_properties=entities.max_properties > 0,
        max_properties=entities.max_properties,
        weights=entities.weights,
        where=where_to_json(entities.where) if entities.where else None,
        description=agent.description,
    )
    return options if build_agent(agent.name, options) == agent else None


def _entity_recipe(options: AgentOptions) -> Recipe:
    max_properties = validate_int("max_properties", options.max_properties, 0, MAX_LIMIT)
    return Recipe(
        "entities",
        kinds=(Kind.ENTITY,),
        types=validate_names("include_types", options.include_types),
        exclude_types=validate_names("exclude_types", options.exclude_types),
        limit=validate_int("max_entities", options.max_entities, 1, MAX_LIMIT),
        min_score=validate_fraction("min_score", options.min_score),
        consider=OVER_FETCH,
        max_properties=max_properties if options.include_properties else 0,
        weights=options.weights,
        share=SHARES["entities"],
        required=True,
    )


BUILTIN_AGENTS = {
    "editor": AgentOptions(
        max_entities=30,
        max_tokens=5000,
        min_score=0.4,
        description="writes and edits text; a large, broad context",
    ),
    "simplifier": AgentOptions(
        max_entities=10,
        max_tokens=2000,
        include_types=("Concept", "Term", "Definition"),
        include_axioms=False,
        include_relationships=False,
        min_score=0.6,
        description="simplifies text; definitions of terms only",
    ),
    "tuning": AgentOptions(
        include_types=("Endpoint", "Parameter", "Response", "Schema"),
        description="works on an API; its parts and their rules",
    ),
    "summarizer": AgentOptions(
        max_entities=15,
        max_tokens=3000,
        include_types=("Product", "Component", "Feature", "Service"),
        include_axioms=False,
        description="summarises; the products and components of a text",
    ),
    "copilot": AgentOptions(
        max_entities=25,
        min_score=0.4,
        description="answers and suggests; a bit of everything",
    ),
}
AGENTS = {name: build_agent(name, options) for name, options in BUILTIN_AGENTS.items()}


def resolve_options(
    arguments: Mapping[str, Any], agents: Mapping[str, Agent], tier: Tier
) -> ContextOptions:
    """Return the options of a request, with those of its agent where it sets none.

    Custom agents and recipes need a tier that allows them.
    """
    check_option_names(arguments, CONTEXT_OPTIONS)
    values = {**arguments, "agent": None, "tier": tier}
    if isinstance(arguments.get("format"), ContextFormat):
        check_custom(tier, "custom formats")
    name = arguments.get("agent")
    if name is None:
        if not isinstance(arguments.get("recipe", ""), str | TrustedRecipes):
            check_custom(tier, "custom recipes")
        return ContextOptions(**values)
    if "recipe" in arguments:
        raise Invalid("agent and recipe exclude each other: an agent has its recipes")
    if isinstance(name, Agent):
        check_custom(tier, "custom agents")
    elif not isinstance(name, str) or name not in agents:
        raise unknown_name("agent", name, agents)
    agent = name if isinstance(name, Agent) else agents[name]
    recipes = TrustedRecipes(_set_depth(agent.recipes, arguments.get("depth")))
    defaults = {"max_tokens": agent.max_tokens, "format": agent.format}
    return ContextOptions(**{**defaults, **values, "recipe": recipes})


def _set_depth(recipes: tuple[Recipe, ...], depth: object) -> tuple[Recipe, ...]:
    """Apply the depth of a request to recipes that follow one edge.

    If a recipe follows more, only that one is overridden, as without an agent.
    """
    following = [
        recipe for recipe in recipes if recipe.source in ("neighbours", "walk") and recipe.depth
    ]
    if depth is None or any(recipe.depth > 1 for recipe in following):
        return recipes
    edges = validate_int("depth", depth, 0, 10)
    return tuple(
        replace(recipe, depth=edges) if recipe in following else recipe for recipe in recipes
    )


def parse_agent(name: str, row: object) -> Agent:
    """Return an agent from a table of options, as in a file or a request."""
    if not isinstance(row, Mapping):
        raise Invalid(f"agent {name!r} must be a table of options, got {type(row).__name__}")
    values = _resolve_aliases(name, {str(option): value for option, value in row.items()})
    try:
        for option in ("include_types", "exclude_types"):
            if option in values:
                values[option] = validate_names(option, values[option])
        for option in ("include_relationships", "include_axioms", "include_properties"):
            validate_bool(option, values.get(option, True))
        if "weights" in values:
            values["weights"] = _parse_weights(values["weights"])
        return define_agent(name, **values)
    except Invalid as error:
        raise Invalid(f"agent {name!r}: {error}") from None


def _parse_weights(row: object) -> Weights:
    names = [field.name for field in fields(Weights)]
    if not isinstance(row, Mapping):
        raise Invalid(f"weights must be a table of numbers, got {type(row).__name__}")
    for name in row:
        if name not in names:
            raise unknown_name("weight", name, names)
    return Weights(**{"match": 0.0, **row})


def load_agents(path: str | Path) -> tuple[Agent, ...]:
    """Read the tables [agents.NAME] of a TOML file, or the same in YAML."""
    path = Path(path)
    tables = _parse(path, read_text(path)).get("agents", {})
    if not isinstance(tables, Mapping):
        raise Invalid(f"{path}: agents must be a table of agents, each with its options")
    return tuple(parse_agent(str(name), row) for name, row in tables.items())


def _parse(path: Path, text: str) -> Mapping[str, Any]:
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            import yaml

            tables = yaml.safe_load(text)
        else:
            tables = tomllib.loads(text)
    except Exception as error:
        raise Invalid(f"{path}: neither TOML nor YAML: {error}") from None
    if not isinstance(tables, Mapping):
        raise Invalid(f"{path}: must have a table 'agents'")
    return tables


def resolve_agents(custom: str | Path | Iterable[Agent]) -> dict[str, Agent]:
    """Return the built-in agents and the given ones, which replace those of the same name."""
    if not isinstance(custom, Iterable | str | Path):
        raise Invalid(f"agents must be Agent values or a file, got {type(custom).__name__}")
    if isinstance(custom, str | Path):
        custom = load_agents(custom) if custom else ()
    agents = tuple(custom)
    for agent in agents:
        if not isinstance(agent, Agent):
            raise Invalid(f"agents must be Agent values or a file, got {type(agent).__name__}")
    if duplicates := find_duplicates(agent.name for agent in agents):
        raise Invalid(f"duplicate agent name {duplicates[0]!r}")
    return AGENTS | {agent.name: agent for agent in agents}
