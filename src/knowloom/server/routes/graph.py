"""POST /api/graph: graph contexts; POST /api/check: spaces checked against their axioms."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom.capabilities.graph.documents import Document, LinkedEntity
from knowloom.capabilities.graph.graph_context import GraphContext
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.errors import Invalid
from knowloom.server.dependencies import (
    get_engine,
    get_key,
    get_tier,
    read_spaces,
    record_context,
)
from knowloom.server.schemas.fields import parse_format
from knowloom.server.schemas.graph import CheckRequest, GraphDocumentBody, GraphRequest
from knowloom.tiers import Tier
from knowloom.wire.axioms import check_to_json
from knowloom.wire.contexts import timings_to_json
from knowloom.wire.graph import graph_to_json

router = APIRouter(prefix="/api", tags=["context"])

OPTIONS = (*(field.name for field in fields(GraphOptions)), "as_of", "now")


@router.post("/graph")
def graph(request: Request, body: GraphRequest) -> JSONResponse:
    """Return entities with their relationships, axioms and claims within one token budget."""
    provider = GraphContext(get_engine(request), read_spaces(request, body.spaces))
    answer = _build_graph(provider, body, get_tier(request, body.tier))
    record_context(request, answer.tokens, answer.degraded)
    timings = timings_to_json(answer.stats.timings)
    return JSONResponse(graph_to_json(answer) | {"timings_ms": timings})


@router.post("/check")
def check(request: Request, body: CheckRequest) -> JSONResponse:
    """Check the entities, relationships and claims of spaces against their axioms."""
    key, engine = get_key(request), get_engine(request)
    spaces = body.spaces
    if spaces is None:
        spaces = key.visible(engine.reader.resolve_spaces())
    key.check_stored(spaces)
    return JSONResponse(check_to_json(engine.check(spaces)))


def _build_graph(provider: GraphContext, body: GraphRequest, tier: Tier) -> GraphAnswer:
    subjects = (body.query, body.entities, body.document)
    if sum(subject is not None for subject in subjects) != 1:
        raise Invalid("pass exactly one of query, entities and document")
    options: dict[str, Any] = {name: getattr(body, name) for name in OPTIONS}
    options |= {"tier": tier, "format": parse_format(body.format)}
    if body.entities is not None:
        if body.vector is not None:
            raise Invalid("vector requires a query or a document: entities are not searched")
        return provider.for_entities(body.entities, **options)
    if body.document is not None:
        document = _parse_document(body.document)
        return provider.for_document(document, vector=body.vector, **options)
    return provider.for_query(body.query or "", vector=body.vector, **options)


def _parse_document(body: GraphDocumentBody) -> Document:
    links = tuple(
        LinkedEntity(link.mention, link.entity_id, link.confidence) for link in body.linked_entities
    )
    selection = None if body.selection is None else (body.selection[0], body.selection[1])
    return Document(body.id, body.title, body.content, links, selection)
