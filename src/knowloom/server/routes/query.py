"""Routes that ask: context, search, explain; and those that watch the process: health, readiness, metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from knowloom.model import Context, Hit, Item, LeftOut
from knowloom.server.access_log import noted
from knowloom.server.auth import Key
from knowloom.server.dependencies import engine, key_of, metrics, tier_of, turn
from knowloom.server.routes import context as context_answer
from knowloom.server.schemas import ContextRequest, ContextResponse, ExplainRequest, SearchRequest
from knowloom.wire.contexts import context_to_json, hits_to_json

routes = APIRouter()


@routes.post("/api/context", response_model=ContextResponse, tags=["context"])
def context(request: Request, asked: ContextRequest) -> JSONResponse:
    """The best context for a request: entry points, related nodes, entities, within one token budget."""
    key_of(request).check_read(asked.tenant_ids)
    with turn(request):
        found, body = context_answer.answer(engine(request), asked, tier_of(request, asked.tier))
        _count(request, found)
        return JSONResponse(body)


@routes.post("/api/search", tags=["context"])
def search(request: Request, asked: SearchRequest) -> JSONResponse:
    """Items by words and meaning, best first, with the numbers behind each score."""
    key_of(request).check_read(asked.spaces)
    given = asked.model_dump(exclude={"query", "spaces", "tier"}) | {
        "tier": tier_of(request, asked.tier)
    }
    with turn(request), noted() as notes:
        found = engine(request).search(asked.query, spaces=asked.spaces, **given)
    return JSONResponse(hits_to_json(found, notes))


@routes.post("/api/explain", tags=["context"])
def explain(request: Request, asked: ExplainRequest) -> JSONResponse:
    """A context with the reason for every line, and for every absent one why not and what would bring it in."""
    return explained(request, asked, options(request, asked))


def explained(request: Request, asked: ExplainRequest, given: dict[str, Any]) -> JSONResponse:
    """The context of a request with these options, and no word of what its key may not read."""
    key_of(request).check_read(asked.spaces)
    kb = engine(request)
    with turn(request):
        if asked.remedies or asked.ids:
            found = _discreet(
                kb.explain(asked.query, spaces=asked.spaces, ids=asked.ids, **given),
                key_of(request),
            )
        else:
            found = kb.context(asked.query, spaces=asked.spaces, **given)
    _count(request, found)
    return JSONResponse(
        context_to_json(found)
        | {"timings_ms": {name: round(value, 3) for name, value in found.stats.timings.items()}}
    )


def options(request: Request, asked: ExplainRequest) -> dict[str, Any]:
    """The options of a context: what an agent has of its own is not given unless the request says it."""
    unsaid = {"recipe", "max_tokens", "format"} - asked.model_fields_set if asked.agent else set()
    given = asked.model_dump(
        exclude={"query", "spaces", "ids", "remedies", "max_tokens", "tier"} | unsaid,
        exclude_none=True,
    )
    budget = {} if "max_tokens" in unsaid else {"max_tokens": asked.max_tokens}
    return given | budget | {"tier": tier_of(request, asked.tier)}


@routes.get("/healthz", tags=["operations"])
async def healthz() -> JSONResponse:
    """The process is alive. Answered by the event loop itself, however busy the workers are."""
    return JSONResponse({"status": "ok"})


@routes.get("/readyz", tags=["operations"])
def readyz(request: Request) -> JSONResponse:
    """The knowledge can be read."""
    engine(request).reader.resolve_spaces([])
    return JSONResponse({"status": "ready"})


@routes.get("/metrics", tags=["operations"], response_class=PlainTextResponse)
async def show_metrics(request: Request) -> PlainTextResponse:
    """Counters for Prometheus. Where keys are needed, this needs one of an admin."""
    key_of(request).check_role("admin")
    return PlainTextResponse(metrics(request).text(), media_type="text/plain; version=0.0.4")


def _discreet(found: Context, key: Key) -> Context:
    """What lies in spaces that the key may not read does not exist for it."""
    told = [
        one
        if not one.hit.item.space or key.visible([one.hit.item.space])
        else LeftOut(Hit(Item(one.hit.item.id, ""), 0.0), "", "no such item is stored")
        for one in found.left_out
    ]
    return replace(found, left_out=tuple(told))


def _count(request: Request, found: Context) -> None:
    metrics(request).tokens.inc(found.tokens)
    for one in found.degraded:
        metrics(request).degraded.labels(one.code).inc()
