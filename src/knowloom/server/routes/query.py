"""POST /api/search, POST /api/explain and POST /api/diff."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom.capabilities.differences import diff_contexts
from knowloom.context.explain import explain_other_space
from knowloom.errors import Invalid
from knowloom.model import Context
from knowloom.options import ContextArguments
from knowloom.server.access_log import collect_warnings
from knowloom.server.dependencies import (
    cpu_turn,
    get_engine,
    get_key,
    get_tier,
    read_spaces,
    record_context,
    record_problems,
)
from knowloom.server.keys.api_keys import ApiKey
from knowloom.server.schemas.context import DiffRequest, ExplainRequest, SearchRequest
from knowloom.server.schemas.fields import parse_format
from knowloom.server.schemas.turns import turn_options
from knowloom.wire.context_diffs import diff_to_json, parse_context
from knowloom.wire.contexts import context_to_json, hits_to_json, timings_to_json

router = APIRouter(prefix="/api", tags=["context"])

AGENT_OPTIONS = frozenset(("recipe", "max_tokens", "format"))  # an agent has its own
ROUTE_OPTIONS = frozenset(("query", "spaces", "ids", "remedies", "max_tokens", "tier"))


@router.post("/search")
def search(request: Request, body: SearchRequest) -> JSONResponse:
    """Search items by words and vectors, best first, with the signals behind each score."""
    spaces = read_spaces(request, body.spaces)
    options = body.model_dump(exclude={"query", "spaces", "tier"})
    options["tier"] = get_tier(request, body.tier)
    with cpu_turn(request), collect_warnings() as notes:
        hits = get_engine(request).search(body.query, spaces=spaces, **options)
    record_problems(request, hits.degraded)
    return JSONResponse(hits_to_json(hits, notes))


@router.post("/explain")
def explain(request: Request, body: ExplainRequest) -> JSONResponse:
    """Build a context with the reason for each item shown, and a remedy for each one left out."""
    return explain_response(request, body, context_options(request, body))


def explain_response(
    request: Request, body: ExplainRequest, options: ContextArguments
) -> JSONResponse:
    """Build the context of a request without revealing items that its key cannot read."""
    spaces, engine = read_spaces(request, body.spaces), get_engine(request)
    with cpu_turn(request):
        if body.remedies or body.ids:
            context = engine.explain(body.query, spaces=spaces, ids=body.ids, **options)
            context = _redact(context, get_key(request))
        else:
            context = engine.context(body.query, spaces=spaces, **options)
    record_context(request, context.tokens, context.degraded)
    timings = timings_to_json(context.stats.timings)
    return JSONResponse(context_to_json(context) | {"timings_ms": timings})


@router.post("/diff")
def diff(request: Request, body: DiffRequest) -> JSONResponse:
    """Compare two contexts by items and bytes: two requests, or contexts as /api/explain sent."""
    sides = {
        "before": (body.before, body.before_context),
        "after": (body.after, body.after_context),
    }
    contexts = []
    for name, (query, row) in sides.items():
        if (query is None) == (row is None):
            raise Invalid(f"pass exactly one of {name} and {name}_context")
        built = parse_context(f"{name}_context", row) if query is None else _build(request, query)
        contexts.append(built)
    return JSONResponse(diff_to_json(diff_contexts(*contexts)))


def _build(request: Request, body: ExplainRequest) -> Context:
    spaces, options = read_spaces(request, body.spaces), context_options(request, body)
    with cpu_turn(request):
        context = get_engine(request).context(body.query, spaces=spaces, **options)
    record_context(request, context.tokens, context.degraded)
    return context


def context_options(request: Request, body: ExplainRequest) -> ContextArguments:
    """Return the options of a context; an agent's own settings apply unless they were sent."""
    omitted = AGENT_OPTIONS - body.model_fields_set if body.agent else frozenset()
    options = body.model_dump(exclude={*ROUTE_OPTIONS, *omitted}, exclude_none=True)
    if "max_tokens" not in omitted:
        options["max_tokens"] = body.max_tokens
    if "format" in options:
        options["format"] = parse_format(body.format)
    options |= turn_options(body)
    options["tier"] = get_tier(request, body.tier)
    return cast(ContextArguments, options)


def _redact(context: Context, key: ApiKey) -> Context:
    """Report items in spaces that the key cannot read as missing."""
    left_out = tuple(
        omission
        if not omission.hit.item.space or key.visible([omission.hit.item.space])
        else explain_other_space(omission.hit.item.id, "")
        for omission in context.left_out
    )
    return replace(context, left_out=left_out)
