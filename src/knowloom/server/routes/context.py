"""POST /api/context: from the request's fields to recipes, and from the context to the response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom.context.packing import SEE_ALSO
from knowloom.conversation.earlier_turns import list_shown
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.model import SHOWN_BEFORE, Chosen, Citation, Context, Form, Item, Key, Kind
from knowloom.options import ContextArguments
from knowloom.recipes import Recipe
from knowloom.server.dependencies import (
    cpu_turn,
    get_engine,
    get_tier,
    read_spaces,
    record_context,
)
from knowloom.server.schemas.context import ContextRequest, ContextResponse
from knowloom.server.schemas.fields import parse_format
from knowloom.server.schemas.turns import has_turns, turn_options
from knowloom.tiers import Tier, TrustedRecipes
from knowloom.wire import JsonObject
from knowloom.wire.contexts import (
    citation_to_json,
    passage_to_json,
    problem_to_json,
    timings_to_json,
)
from knowloom.wire.turns import shown_to_json

router = APIRouter(prefix="/api", tags=["context"])

SCHEMA_TYPES = ("schema_index", "schema_field")
EXAMPLE_TYPES = ("example",)
# Entities have a part of their own, and profiles are fetched by id.
ENTRY_KINDS = tuple(kind for kind in Kind if kind not in (Kind.ENTITY, Kind.PROFILE))
ENTITY_LIMIT = 10
SHARES = {"entry_points": 0.6, "context": 0.3, "entities": 0.1}
SEARCH_SOURCES = ("bm25", "vector", "hybrid")
# Fields that a request for an agent may set, by the option they become.
AGENT_FIELDS = {
    "format": "format",
    "max_tokens": "max_tokens",
    "min_score": "min_score",
    "search_method": "mode",
    "tags": "tags",
}
NEUTRAL_FIELDS = {
    "after",
    "agent",
    "as_of",
    "citations",
    "fence",
    "min_answer_confidence",
    "new_tokens",
    "now",
    "paths",
    "query",
    "rerank",
    "seen",
    "strict",
    "tenant_ids",
    "tier",
    "token_model",
    "where",
}
RECIPE_FIELDS = set(ContextRequest.model_fields) - NEUTRAL_FIELDS - set(AGENT_FIELDS)
# Fields that override the server's retrieval settings, by the option they become.
TUNED_FIELDS = {
    "bm25_weight": "bm25_weight",
    "vector_weight": "vector_weight",
    "max_depth": "depth",
}

POINTERS = (SEE_ALSO, SHOWN_BEFORE)
# Links to entities are no expansion.
NOT_EXPANDED = {"nodes_expanded": 0, "max_depth_reached": 0}

ChosenByPart = dict[str, tuple[Chosen, ...]]


@router.post("/context", response_model=ContextResponse)
def context(request: Request, body: ContextRequest) -> JSONResponse:
    """Build the best context for a request within one token budget.

    It consists of entry points, related nodes and entities.
    """
    spaces = read_spaces(request, body.tenant_ids)
    with cpu_turn(request):
        engine, tier = get_engine(request), get_tier(request, body.tier)
        result = build_context(engine, body, spaces, tier)
        record_context(request, result.tokens, result.degraded)
        return JSONResponse(_response_to_json(engine, body, result))


def build_context(
    engine: Engine, body: ContextRequest, spaces: Sequence[str], tier: Tier
) -> Context:
    """Build the context. Without a format, tokens are counted on the items as JSON."""
    options = _agent_options(body) if body.agent else _recipe_options(engine, body)
    options |= {
        "model": body.token_model,
        "strict": body.strict,
        "tier": tier,
        "paths": body.paths,
        "citations": body.citations,
        "fence": body.fence,
        "min_answer_confidence": body.min_answer_confidence,
        "where": body.where,
        "rerank": body.rerank,
    }
    options |= {"as_of": body.as_of, "now": body.now}
    options |= turn_options(body)
    return engine.context(body.query, spaces=spaces, **options)


def _agent_options(body: ContextRequest) -> ContextArguments:
    """Return the options of a request for an agent; fields that the agent defines are rejected."""
    if conflicts := sorted(body.model_fields_set & RECIPE_FIELDS):
        names = ", ".join(conflicts)
        raise Invalid(f"agent {body.agent!r} defines {names}; omit these fields or the agent")
    options: ContextArguments = {"agent": body.agent}
    for name in sorted(body.model_fields_set & set(AGENT_FIELDS)):
        value = parse_format(body.format) if name == "format" else getattr(body, name)
        if value is not None:
            options[AGENT_FIELDS[name]] = value  # type: ignore[literal-required]
    return options


def _recipe_options(engine: Engine, body: ContextRequest) -> ContextArguments:
    """Return recipes with the server's retrieval settings, except those that the request sets."""
    overrides = {
        option: getattr(body, name)
        for name, option in TUNED_FIELDS.items()
        if name in body.model_fields_set
    }
    tuned = [engine.retrieval.apply(recipe, overrides) for recipe in build_recipes(body)]
    return {
        "recipe": TrustedRecipes(tuned),
        "max_tokens": body.max_tokens,
        "format": parse_format(body.format) or "json",
    }


def build_recipes(body: ContextRequest) -> list[Recipe]:
    """Return the recipes of a request.

    Shares of the budget are 60 % for entry points, 30 % for related nodes and 10 % for entities;
    unused shares go to the others. Nodes found by a walk have no guaranteed share.
    """
    recipes = [_entry_recipe(body)]
    if _follows_links(body):
        recipes.append(_expansion_recipe(body))
    if body.include_entities:
        recipes.append(
            Recipe(
                "entities",
                "neighbours",
                kinds=(Kind.ENTITY,),
                limit=ENTITY_LIMIT,
                depth=1,
                starts=body.entry_limit + 20,
                named=True,
                share=SHARES["entities"],
            )
        )
    return recipes


def _follows_links(body: ContextRequest) -> bool:
    return body.expand and bool(body.max_depth)


def _entry_recipe(body: ContextRequest) -> Recipe:
    types = tuple(body.entry_types or ())
    return Recipe(
        "entry_points",
        kinds=() if types else ENTRY_KINDS,
        types=types,
        exclude_types=() if types else _excluded_types(body),
        tags=tuple(body.tags or ()),
        mode=body.search_method,
        bm25_weight=body.bm25_weight,
        vector_weight=body.vector_weight,
        limit=body.entry_limit,
        min_score=body.min_score,
        share=SHARES["entry_points"],
        required=True,
    )


def _excluded_types(body: ContextRequest) -> tuple[str, ...]:
    """Return the types that a request must ask for by a flag or by name."""
    return (() if body.include_schemas else SCHEMA_TYPES) + (
        () if body.include_examples else EXAMPLE_TYPES
    )


def _expansion_recipe(body: ContextRequest) -> Recipe:
    types = tuple(body.expansion_types or ())
    return Recipe(
        "context",
        body.expansion,
        kinds=() if types else tuple(kind for kind in Kind if kind is not Kind.ENTITY),
        types=types,
        exclude_types=() if types else _excluded_types(body),
        limit=body.context_limit,
        depth=body.max_depth,
        starts=body.entry_limit,
        share=0.0 if body.expansion == "walk" else SHARES["context"],
    )


def _response_to_json(engine: Engine, body: ContextRequest, context: Context) -> JsonObject:
    parts = _split_by_source(context) if body.agent else _split_by_fragment(context)
    ids = _public_ids(engine, context, parts["context"])
    cited = {"citations": [_citation_to_json(citation, ids) for citation in context.citations]}
    turns = _turns_to_json(context) if has_turns(body) else {}
    return (
        (cited if body.citations else {})
        | turns
        | {
            "entry_points": [
                _node_to_json(chosen) | {"match_source": chosen.hit.match_source}
                for chosen in parts["entry_points"]
            ],
            "context": [
                _node_to_json(chosen) | _path_to_json(chosen, ids) for chosen in parts["context"]
            ],
            "entities": [_entity_to_json(chosen.hit.item) for chosen in parts["entities"]],
            SEE_ALSO: [_pointer_to_json(chosen) for chosen in parts[SEE_ALSO]],
            "stats": _stats_to_json(context, parts, is_agent=body.agent is not None)
            | ({} if _follows_links(body) else NOT_EXPANDED),
            "confidence": context.confidence,
            "truncated": context.truncated,
            "degraded": [problem_to_json(problem) for problem in context.degraded],
            "left_out": [
                {
                    "id": public_id(omission.hit.item),
                    "space": omission.hit.item.space,
                    "part": omission.fragment,
                    "score": omission.hit.score,
                    "tokens": omission.tokens,
                    "reason": omission.reason,
                }
                for omission in context.left_out
            ],
            "digest": context.digest,
            "text": context.text if body.format or body.agent else None,
        }
    )


def _turns_to_json(context: Context) -> JsonObject:
    """Return what later requests of a conversation need, and names of what was shown before."""
    pointers = [part.chosen for part in context.fragments if part.name == SHOWN_BEFORE]
    rows = [_pointer_to_json(chosen) for blocks in pointers for chosen in blocks]
    shown = shown_to_json(list_shown(context))
    return {"prefix": context.prefix, "shown": shown, SHOWN_BEFORE: rows}


def _citation_to_json(citation: Citation, ids: Mapping[Key, int | str]) -> JsonObject:
    return citation_to_json(citation) | {"id": ids[citation.space, citation.id]}


def _split_by_fragment(context: Context) -> ChosenByPart:
    fragments = {fragment.name: fragment for fragment in context.fragments}
    names = (*SHARES, SEE_ALSO)
    return {name: fragments[name].chosen if name in fragments else () for name in names}


def _split_by_source(context: Context) -> ChosenByPart:
    """Return search results, items reached from them, and the entities among both."""
    parts = [part.chosen for part in context.fragments if part.name not in POINTERS]
    items = [chosen for part in parts for chosen in part]
    return {
        "entry_points": tuple(
            chosen for chosen in items if chosen.hit.match_source in SEARCH_SOURCES
        ),
        "context": tuple(
            chosen for chosen in items if chosen.hit.match_source not in SEARCH_SOURCES
        ),
        "entities": tuple(chosen for chosen in items if chosen.hit.item.kind is Kind.ENTITY),
        SEE_ALSO: _split_by_fragment(context)[SEE_ALSO],
    }


def _chosen_items(context: Context) -> Iterable[Chosen]:
    return (chosen for fragment in context.fragments for chosen in fragment.chosen)


def public_id(item: Item) -> int | str:
    """Return the id as the user stored it: an integer or text."""
    return int(item.id) if item.numbered else item.id


def _public_ids(
    engine: Engine, context: Context, reached: Sequence[Chosen]
) -> dict[Key, int | str]:
    """Return the ids of all items on the paths; the few that the context lacks are looked up."""
    hits = [chosen.hit for chosen in _chosen_items(context)]
    hits += [omission.hit for omission in context.left_out]
    ids = {hit.item.key: public_id(hit.item) for hit in hits}
    missing: dict[str, set[str]] = {}
    for space, id in (key for chosen in reached for key in chosen.hit.path if key not in ids):
        missing.setdefault(space, set()).add(id)
    for space in sorted(missing):
        items = engine.get(sorted(missing[space]), space=space)
        ids |= {item.key: public_id(item) for item in items}
    return ids


def _node_to_json(chosen: Chosen) -> JsonObject:
    item = chosen.hit.item
    content: dict[str, Any] = {}
    if chosen.form is Form.WHOLE:
        content = ({"text": item.text} if item.text else {}) | item.shown_properties
    elif chosen.form is Form.EXCERPT:
        content = {"text": join_runs(excerpt_runs(chosen.hit, chosen.passages))}
    has_summary = chosen.form in (Form.WHOLE, Form.SUMMARY)
    ranges = [passage_to_json(passage) for passage in chosen.passages]
    return ({"passages": ranges} if ranges else {}) | {
        "id": public_id(item),
        "space": item.space,
        "node_type": item.type,
        "type": item.type,
        "title": item.title,
        "summary": (item.summary or None) if has_summary else None,
        "content": content,
        "tags": list(item.tags),
        "score": chosen.hit.score,
        "form": chosen.form.value,
        "tokens": chosen.tokens,
    }


def _pointer_to_json(chosen: Chosen) -> JsonObject:
    item, score = chosen.hit.item, chosen.hit.score
    names = {"id": public_id(item), "space": item.space, "node_type": item.type, "type": item.type}
    return names | {"title": item.title, "score": score, "tokens": chosen.tokens}


def _path_to_json(chosen: Chosen, ids: dict[Key, int | str]) -> JsonObject:
    hit = chosen.hit
    return {
        "distance": hit.distance,
        "path": [ids.get(key, key[1]) for key in hit.path],
        "edge_type": hit.edge.type if hit.edge else None,
    } | ({"via": hit.via} if hit.via else {})


def _entity_to_json(item: Item) -> JsonObject:
    schemas = item.properties.get("related_schemas", [])
    return {
        "id": public_id(item),
        "space": item.space,
        "title": item.name,
        "entity_path": str(item.properties.get("entity_path", "")),
        "related_schemas": [str(schema) for schema in schemas] if isinstance(schemas, list) else [],
    }


def _count_tokens(context: Context, is_agent: bool) -> dict[str, int]:
    """Return the tokens of each part, which add up to those of the context.

    `other` are those of separators between parts; a tokenizer may also join tokens there.
    """
    used = {fragment.name: fragment.tokens for fragment in context.fragments}
    if not is_agent:
        names = {"entry_points": "entry_points", "context": "context_nodes", "entities": "entities"}
        parts = {label: used.pop(name, 0) for name, label in names.items()}
        used = parts | {SEE_ALSO: used.pop(SEE_ALSO, 0)} | used
    other = context.tokens - sum(used.values())
    return used | ({"other": other} if other else {})


def _stats_to_json(context: Context, parts: ChosenByPart, is_agent: bool) -> JsonObject:
    stats = context.stats
    return {
        "nodes_searched": stats.searched,
        "nodes_matched": stats.matched,
        "candidates": stats.candidates,
        "nodes_expanded": stats.expanded,
        "max_depth_reached": stats.max_depth,
        "entry_points_found": len(parts["entry_points"]),
        "context_nodes_found": len(parts["context"]),
        "total_tokens": context.tokens,
        "tokens_used": _count_tokens(context, is_agent),
        "token_counter": stats.token_counter,
        "optimality_gap": stats.optimality_gap,
        "timings_ms": timings_to_json(stats.timings),
    }
