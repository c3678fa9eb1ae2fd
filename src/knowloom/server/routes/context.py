"""POST /api/context: from the request's fields to recipes, and from the context to the answer's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.model import Chosen, Context, Form, Item, Key, Kind
from knowloom.recipes import Recipe
from knowloom.server.schemas import ContextRequest
from knowloom.tiers import Tier, TrustedRecipes

ENTRY_TYPES = ("faq", "playbook", "permission_rule", "concept")
SCHEMA_TYPES = ("schema_index", "schema_field")
EXAMPLE_TYPES = ("example",)
ENTITY_LIMIT = 10
SAID = {
    "format": "format",
    "max_tokens": "max_tokens",
    "min_score": "min_score",
    "search_method": "mode",
    "tags": "tags",
}  # also of an agent
SHAPING = frozenset(ContextRequest.model_fields) - {
    "agent",
    "as_of",
    "now",
    "paths",
    "query",
    "tenant_ids",
    "tier",
    "token_model",
    *SAID,
}
SHARES = {"entry_points": 0.6, "context": 0.3, "entities": 0.1}


def recipes(asked: ContextRequest) -> list[Recipe]:
    """Entry points 60, context 30, entities 10: shares, not walls. What a walk finds has no sure share: it is worth what the walk says."""
    unwanted = (() if asked.include_schemas else SCHEMA_TYPES) + (
        () if asked.include_examples else EXAMPLE_TYPES
    )
    wanted = (
        ENTRY_TYPES
        + (SCHEMA_TYPES if asked.include_schemas else ())
        + (EXAMPLE_TYPES if asked.include_examples else ())
    )
    found = [
        Recipe(
            "entry_points",
            types=wanted if asked.entry_types is None else tuple(asked.entry_types),
            tags=tuple(asked.tags or ()),
            mode=asked.search_method,
            bm25_weight=asked.bm25_weight,
            vector_weight=asked.vector_weight,
            limit=asked.entry_limit,
            min_score=asked.min_score,
            share=SHARES["entry_points"],
            required=True,
        )
    ]
    if asked.expand and asked.max_depth:
        types = () if asked.expansion_types is None else tuple(asked.expansion_types)
        excluded = () if types else unwanted
        kinds = tuple(kind for kind in Kind if kind is not Kind.ENTITY)
        found.append(
            Recipe(
                "context",
                asked.expansion,
                kinds=() if types else kinds,
                types=types,
                exclude_types=excluded,
                limit=asked.context_limit,
                depth=asked.max_depth,
                starts=asked.entry_limit,
                share=0.0 if asked.expansion == "walk" else SHARES["context"],
            )
        )
    if asked.include_entities:
        found.append(
            Recipe(
                "entities",
                "neighbours",
                kinds=(Kind.ENTITY,),
                limit=ENTITY_LIMIT,
                depth=1,
                starts=asked.entry_limit + 20,
                named=True,
                share=SHARES["entities"],
            )
        )
    return found


def _tuned(kb: Engine, asked: ContextRequest) -> list[Recipe]:
    """The recipes with the server's numbers of retrieval, but for those that the request says itself."""
    names = {"bm25_weight": "bm25_weight", "vector_weight": "vector_weight", "max_depth": "depth"}
    said = {
        option: getattr(asked, name)
        for name, option in names.items()
        if name in asked.model_fields_set
    }
    return [kb.retrieval.apply(one, said) for one in recipes(asked)]


def answer(kb: Engine, asked: ContextRequest, tier: Tier) -> tuple[Context, dict[str, Any]]:
    """The context and its shape on the wire. Without a format tokens are counted on the items as JSON."""
    context = kb.context(
        asked.query,
        spaces=asked.tenant_ids,
        model=asked.token_model,
        as_of=asked.as_of,
        now=asked.now,
        tier=tier,
        **(
            _of_agent(asked)
            if asked.agent
            else {
                "recipe": TrustedRecipes(_tuned(kb, asked)),
                "max_tokens": asked.max_tokens,
                "format": asked.format or "json",
            }
        ),
        paths=asked.paths,
    )
    chosen = _by_agent(context) if asked.agent else _by_part(context)
    ids = _public_ids(kb, context, chosen["context"])
    body = {
        "entry_points": [
            _node(one) | {"match_source": one.hit.match_source} for one in chosen["entry_points"]
        ],
        "context": [_node(one) | _way(one, ids) for one in chosen["context"]],
        "entities": [_entity(one.hit.item) for one in chosen["entities"]],
        "stats": _stats(context, {name: len(found) for name, found in chosen.items()}),
        "degraded": [
            {"part": one.part, "code": one.code, "reason": one.reason} for one in context.degraded
        ],
        "left_out": [
            {
                "id": public_id(one.hit.item),
                "part": one.fragment,
                "score": one.hit.score,
                "tokens": one.tokens,
                "reason": one.reason,
            }
            for one in context.left_out
        ],
        "digest": context.digest,
        "text": context.text if asked.format or asked.agent else None,
    }
    return context, body


def _of_agent(asked: ContextRequest) -> dict[str, Any]:
    """The options of a request that an agent makes: what it has of its own is not asked for twice."""
    if shaped := sorted(asked.model_fields_set & SHAPING):
        raise Invalid(
            f"{', '.join(shaped)}: the agent {asked.agent!r} has its own; leave them out, or the agent"
        )
    said = {SAID[name]: getattr(asked, name) for name in sorted(asked.model_fields_set & set(SAID))}
    return {"agent": asked.agent} | {
        name: value for name, value in said.items() if value is not None
    }


def _by_part(context: Context) -> dict[str, tuple[Chosen, ...]]:
    parts = {fragment.name: fragment for fragment in context.fragments}
    return {name: parts[name].chosen if name in parts else () for name in SHARES}


def _by_agent(context: Context) -> dict[str, tuple[Chosen, ...]]:
    """What was searched for, what was reached from there, and of both the entities."""
    every = [one for fragment in context.fragments for one in fragment.chosen]
    searched = [one.hit.match_source in ("bm25", "vector", "hybrid") for one in every]
    return {
        "entry_points": tuple(one for one, found in zip(every, searched, strict=True) if found),
        "context": tuple(one for one, found in zip(every, searched, strict=True) if not found),
        "entities": tuple(one for one in every if one.hit.item.kind is Kind.ENTITY),
    }


def public_id(item: Item) -> int | str:
    """An id that came as a number is given back as one."""
    return int(item.id) if item.numbered else item.id


def _node(one: Chosen) -> dict[str, Any]:
    item = one.hit.item
    whole = one.form is Form.WHOLE
    return {
        "id": public_id(item),
        "node_type": item.type,
        "title": item.title,
        "summary": (item.summary or None) if one.form is not Form.POINTER else None,
        "content": ({"text": item.text} if item.text else {}) | item.shown_properties
        if whole
        else {},
        "tags": list(item.tags),
        "score": one.hit.score,
        "form": one.form.value,
        "tokens": one.tokens,
    }


def _way(one: Chosen, ids: dict[Key, int | str]) -> dict[str, Any]:
    return {
        "distance": one.hit.distance,
        "path": [ids.get(key, key[1]) for key in one.hit.path],
        "edge_type": one.hit.edge.type if one.hit.edge else None,
    } | ({"via": one.hit.via} if one.hit.via else {})


def _public_ids(kb: Engine, context: Context, reached: Sequence[Chosen]) -> dict[Key, int | str]:
    """The ids of every item on a path. Most are in the answer; the few others are looked up."""
    items = [one.hit.item for fragment in context.fragments for one in fragment.chosen] + [
        one.hit.item for one in context.left_out
    ]
    ids = {item.key: public_id(item) for item in items}
    absent = {key for one in reached for key in one.hit.path if key not in ids}
    for space in sorted({space for space, _ in absent}):
        ids |= {
            item.key: public_id(item)
            for item in kb.get(sorted(id for of, id in absent if of == space), space=space)
        }
    return ids


def _entity(item: Item) -> dict[str, Any]:
    schemas = item.properties.get("related_schemas", [])
    return {
        "id": public_id(item),
        "title": item.name,
        "entity_path": str(item.properties.get("entity_path", "")),
        "related_schemas": [str(one) for one in schemas] if isinstance(schemas, list) else [],
    }


def _stats(context: Context, counts: dict[str, int]) -> dict[str, Any]:
    used = {fragment.name: fragment.tokens for fragment in context.fragments}
    return {
        "nodes_searched": context.stats.searched,
        "nodes_expanded": context.stats.expanded,
        "max_depth_reached": context.stats.max_depth,
        "entry_points_found": counts["entry_points"],
        "context_nodes_found": counts["context"],
        "total_tokens": context.tokens,
        "tokens_used": {
            "entry_points": used.get("entry_points", 0),
            "context_nodes": used.get("context", 0),
            "entities": used.get("entities", 0),
        },
        "token_counter": context.stats.token_counter,
        "optimality_gap": context.stats.optimality_gap,
        "timings_ms": {name: round(value, 3) for name, value in context.stats.timings.items()},
    }
