"""Agents: named ways to ask, each a tuple of recipes with a budget and a format. They are data; a file or a program adds more."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from knowloom import validation
from knowloom.errors import Invalid, NotFound, Unavailable, unknown_name
from knowloom.formats.layout import get_layout
from knowloom.model import Kind
from knowloom.options import CONTEXT_OPTIONS, ContextOptions, check_option_names
from knowloom.recipes import RELEVANCE, Agent, Recipe, Weights
from knowloom.retrieval_settings import MAX_LIMIT, validate_recipe
from knowloom.tiers import Tier, TrustedRecipes, check_custom
from knowloom.validation import validate_fraction, validate_int

OVER_FETCH = 3  # times the entities wanted are scored
FOLLOWED = 10  # of the entities found, the links of so many are followed
SHARES = {"entities": 0.6, "related": 0.2, "relationships": 0.1, "axioms": 0.1}
MAX_RELATIONSHIPS = 100
ALSO = {  # what GraphOptions calls the same
    "include_entity_types": "include_types",
    "entity_types": "include_types",
    "exclude_entity_types": "exclude_types",
    "min_relevance_score": "min_score",
    "relationship_depth": "depth",
    "max_properties_per_entity": "max_properties",
}


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What one agent wants to know: which entities, how many, how sure, and what belongs to them."""

    max_tokens: int = 4000
    include_types: tuple[str, ...] = ()  # none: all
    exclude_types: tuple[str, ...] = ()
    min_score: float = 0.5
    include_relationships: bool = True  # what links lead to, and the links themselves
    depth: int = 1
    include_axioms: bool = True  # rules for the types found
    max_entities: int = 20
    format: str = "yaml"
    include_properties: bool = True
    max_properties: int = 10  # of one entity
    weights: Weights = RELEVANCE
    description: str = ""


def define_agent(name: str, **options: Any) -> Agent:
    """An agent from the fields of AgentOptions."""
    known = [one.name for one in fields(AgentOptions)]
    given = _named(name, options)
    for option in given:
        if option not in known:
            raise unknown_name(f"option of the agent {name!r}", option, known)
    return build_agent(name, AgentOptions(**given))


def _named(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by their names here; those of a graph context will do as well."""
    for also, own in ALSO.items():
        if also in options and own in options:
            raise Invalid(f"agent {name!r}: {also} and {own} are the same option: give one of them")
    return {ALSO.get(option, option): value for option, value in options.items()}


def build_agent(name: str, asked: AgentOptions) -> Agent:
    """The agent with these options, all of them checked."""
    validation.validate_name("the name of an agent", name)
    properties = (
        validate_int("max_properties", asked.max_properties, 0, MAX_LIMIT)
        if asked.include_properties
        else 0
    )
    entities = Recipe(
        "entities",
        kinds=(Kind.ENTITY,),
        types=validation.validate_names("include_types", asked.include_types),
        exclude_types=validation.validate_names("exclude_types", asked.exclude_types),
        limit=validate_int("max_entities", asked.max_entities, 1, MAX_LIMIT),
        min_score=validate_fraction("min_score", asked.min_score),
        consider=OVER_FETCH,
        max_properties=properties,
        weights=asked.weights,
        share=SHARES["entities"],
        required=True,
    )
    depth = validate_int("depth", asked.depth, 0, 10)
    kinds = tuple(kind for kind in Kind if kind is not Kind.RULE)
    related = Recipe(
        "related",
        "neighbours",
        kinds=kinds,
        limit=asked.max_entities,
        depth=depth,
        starts=FOLLOWED,
        share=SHARES["related"],
    )
    axioms = Recipe(
        "axioms", "subjects", kinds=(Kind.RULE,), limit=20, max_properties=0, share=SHARES["axioms"]
    )  # in words, not as they are run
    told = Recipe("relationships", "links", limit=MAX_RELATIONSHIPS, share=SHARES["relationships"])
    linked = [*([related] if depth else []), told] if asked.include_relationships else []
    recipes = (entities, *linked, *([axioms] if asked.include_axioms else []))
    budget = validate_int("max_tokens", asked.max_tokens, 1, 100_000_000)
    return Agent(
        name,
        tuple(validate_recipe(one) for one in recipes),
        budget,
        get_layout(validation.validate_name("format", asked.format)).name,
        asked.description,
    )


AGENTS: dict[str, Agent] = {
    one.name: one
    for one in (
        define_agent(
            "editor",
            max_entities=30,
            max_tokens=5000,
            min_score=0.4,
            description="writes and changes text; wants to know much",
        ),
        define_agent(
            "simplifier",
            max_entities=10,
            max_tokens=2000,
            include_types=("Concept", "Term", "Definition"),
            include_axioms=False,
            include_relationships=False,
            min_score=0.6,
            description="puts things simply; wants what words mean",
        ),
        define_agent(
            "tuning",
            include_types=("Endpoint", "Parameter", "Response", "Schema"),
            description="works on an API; wants its parts and their rules",
        ),
        define_agent(
            "summarizer",
            max_entities=15,
            max_tokens=3000,
            include_types=("Product", "Component", "Feature", "Service"),
            include_axioms=False,
            description="sums up; wants what the text is about",
        ),
        define_agent(
            "copilot",
            max_entities=25,
            min_score=0.4,
            description="answers and suggests; wants a bit of everything",
        ),
    )
}


def resolve_options(
    arguments: Mapping[str, Any], table: Mapping[str, Agent], tier: Tier
) -> ContextOptions:
    """Return the options of a request, with those of its agent where it sets none.

    Custom agents and recipes need a tier that allows them.
    """
    check_option_names(arguments, CONTEXT_OPTIONS)
    values = {**arguments, "agent": None, "tier": tier}
    name = arguments.get("agent")
    if name is None:
        if not isinstance(arguments.get("recipe", ""), str | TrustedRecipes):
            check_custom(tier, "custom recipes")
        return ContextOptions(**values)
    if "recipe" in arguments:
        raise Invalid("agent and recipe exclude each other: an agent has its recipes")
    if isinstance(name, Agent):
        check_custom(tier, "custom agents")
    elif not isinstance(name, str) or name not in table:
        raise unknown_name("agent", name, table)
    agent = name if isinstance(name, Agent) else table[name]
    recipes = TrustedRecipes(_follow_to(agent.recipes, arguments.get("depth")))
    defaults = {"max_tokens": agent.max_tokens, "format": agent.format}
    return ContextOptions(**{**defaults, **values, "recipe": recipes})


def _follow_to(recipes: tuple[Recipe, ...], depth: object) -> tuple[Recipe, ...]:
    """An agent that follows one link at most follows as many as a request asks for. Where a recipe follows more by itself, it alone is
    changed, as without an agent (see request.overridden)."""
    following = [one for one in recipes if one.source in ("neighbours", "walk") and one.depth]
    if depth is None or any(one.depth > 1 for one in following):
        return recipes
    links = validate_int("depth", depth, 0, 10)
    return tuple(replace(one, depth=links) if one in following else one for one in recipes)


def parse_agent(name: str, row: object) -> Agent:
    """An agent from a table of options, as a file or a request has it."""
    if not isinstance(row, Mapping):
        raise Invalid(f"agent {name!r} must be a table of options, not {type(row).__name__}")
    values = _named(name, {str(option): value for option, value in row.items()})
    for option in ("include_types", "exclude_types"):
        if option in values:
            values[option] = validation.validate_names(option, values[option])
    for option in ("include_relationships", "include_axioms", "include_properties"):
        if not isinstance(values.get(option, True), bool):
            raise Invalid(f"agent {name!r}: {option} must be true or false, not {values[option]!r}")
    if "weights" in values:
        values["weights"] = _weights(name, values["weights"])
    try:
        return define_agent(name, **values)
    except Invalid as error:
        raise Invalid(f"agent {name!r}: {error}") from None


def _weights(name: str, given: object) -> Weights:
    known = [one.name for one in fields(Weights)]
    if not isinstance(given, Mapping):
        raise Invalid(
            f"agent {name!r}: weights must be a table of numbers, not {type(given).__name__}"
        )
    for signal in given:
        if signal not in known:
            raise unknown_name(f"weight of the agent {name!r}", signal, known)
    return Weights(**{"match": 0.0, **given})


def load_agents(path: str | Path) -> tuple[Agent, ...]:
    """The agents of a file: TOML with tables [agents.NAME], or the same in YAML."""
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise NotFound(f"no file {str(path)!r} with agents", "no_file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{str(path)!r} cannot be read: {type(error).__name__}") from error
    tables = _parsed(path, text).get("agents", {})
    if not isinstance(tables, Mapping):
        raise Invalid(f"{path}: agents must be a table of agents, each with its options")
    return tuple(parse_agent(str(name), row) for name, row in tables.items())


def _parsed(path: Path, text: str) -> Mapping[str, Any]:
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            import yaml

            found = yaml.safe_load(text)
        else:
            found = tomllib.loads(text)
    except Exception as error:
        raise Invalid(f"{path}: neither TOML nor YAML with agents: {error}") from None
    if not isinstance(found, Mapping):
        raise Invalid(f"{path}: must hold a table 'agents'")
    return found


def resolve_agents(more: str | Path | Iterable[Agent]) -> dict[str, Agent]:
    """The agents that come with knowloom and these; those with the same name take their place."""
    if not isinstance(more, Iterable | str | Path):
        raise Invalid(f"agents are Agent values or a file, not {type(more).__name__}")
    own = (load_agents(more) if more else ()) if isinstance(more, str | Path) else tuple(more)
    for one in own:
        if not isinstance(one, Agent):
            raise Invalid(f"agents are Agent values or a file, not {type(one).__name__}")
    if twice := validation.find_duplicates(one.name for one in own):
        raise Invalid(f"two agents have the name {twice[0]!r}")
    return AGENTS | {one.name: one for one in own}
