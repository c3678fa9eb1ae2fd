"""POST /api/graph: graph context for a query, for entities or for a document; POST /api/check: a space against its axioms."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from knowloom.capabilities.graph.documents import Document, LinkedEntity
from knowloom.capabilities.graph.graph_context import GraphContext
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.errors import Invalid
from knowloom.server.dependencies import engine, key_of, metrics, tier_of
from knowloom.server.schemas import (
    Format,
    Fraction,
    Label,
    Method,
    Model,
    Name,
    Names,
    Shape,
    TierName,
    Time,
    Types,
)
from knowloom.tiers import Tier
from knowloom.wire.axioms import check_to_json
from knowloom.wire.graph import graph_to_json

routes = APIRouter()
OPTIONS = tuple(one.name for one in fields(GraphOptions))

EXAMPLES: list[Any] = [
    {
        "query": "Kestrel tent warranty",
        "spaces": ["shared"],
        "include_claims": True,
        "max_tokens": 1000,
    },
    {
        "entities": ["tidewater", "gangway"],
        "spaces": ["shared"],
        "relationship_depth": 2,
        "format": "yaml",
    },
    {
        "document": {
            "id": "notes",
            "content": "Gangway pays refunds that were approved in Tidewater.",
        },
        "spaces": ["shared"],
    },
]


class LinkBody(Shape):
    """A mention in a document, and the entity it was linked to, if it was."""

    mention: Label
    entity_id: Name | None = None
    confidence: Fraction = 1.0


class DocumentBody(Shape):
    """A document with what it is linked to. `selection` is [start, end] in characters of the content."""

    id: Label = ""
    title: Annotated[str, Field(max_length=10_000)] = ""
    content: Annotated[str, Field(max_length=10_000_000)] = ""
    linked_entities: Annotated[list[LinkBody], Field(max_length=10_000, default_factory=list)]
    selection: Annotated[
        list[Annotated[int, Field(ge=0)]] | None, Field(min_length=2, max_length=2)
    ] = None


class GraphRequest(Shape):
    """Ask for the entities a request is about. Exactly one of query, entities and document."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})

    spaces: Names
    query: Annotated[str | None, Field(max_length=100_000)] = None
    entities: Annotated[Names | None, Field(description="Ids, in the order wanted")] = None
    document: DocumentBody | None = None
    max_tokens: Annotated[int | None, Field(ge=0, le=10_000_000, description="null: no limit")] = (
        2000
    )
    max_entities: Annotated[int, Field(ge=0, le=1000)] = 20
    entity_types: Annotated[Types | None, Field(description="null: all")] = None
    exclude_entity_types: Annotated[Names, Field(default_factory=list)]
    min_relevance_score: Fraction = 0.1
    include_relationships: bool = True
    relationship_depth: Annotated[int, Field(ge=0, le=10)] = 1
    max_relationships: Annotated[int, Field(ge=0, le=1000)] = 100
    include_axioms: bool = True
    include_claims: bool = False
    max_claims_per_entity: Annotated[int, Field(ge=0, le=1000)] = 3
    include_violations: Annotated[bool, Field(description="Also as notes in the text")] = False
    format: Format = "markdown"
    include_properties: bool = True
    max_properties_per_entity: Annotated[int, Field(ge=0, le=1000)] = 10
    include_property_descriptions: bool = False
    include_entity_ids: bool = False
    entity_separator: Annotated[str, Field(max_length=200)] = "\n"
    ranker: Literal["signals", "terms"] = "terms"
    preferred_types: Annotated[Names, Field(default_factory=list)]
    mode: Method = "hybrid"
    model: Model = "gpt-4"
    as_of: Time | None = None
    now: Time | None = None
    vector: Annotated[
        list[float] | None,
        Field(max_length=10_000, description="A ready vector of the query or the document"),
    ] = None
    tier: TierName | None = None


class CheckRequest(Shape):
    """Check all that the spaces hold against their axioms."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spaces": ["shared"]}]})

    spaces: Names


@routes.post("/api/graph", tags=["context"])
def graph(request: Request, asked: GraphRequest) -> JSONResponse:
    """Entities with their relationships, rules and claims, within one token budget; and what breaks a rule."""
    key_of(request).check_read(asked.spaces)
    found = _answer(
        GraphContext(engine(request), asked.spaces), asked, tier_of(request, asked.tier)
    )
    metrics(request).tokens.inc(found.tokens)
    for one in found.degraded:
        metrics(request).degraded.labels(one.code).inc()
    return JSONResponse(
        graph_to_json(found)
        | {"timings_ms": {name: round(value, 3) for name, value in found.stats.timings.items()}}
    )


@routes.post("/api/check", tags=["context"])
def check(request: Request, asked: CheckRequest) -> JSONResponse:
    """Every entity, relationship and claim of the spaces against the axioms stored there."""
    key_of(request).check_stored(asked.spaces)
    return JSONResponse(check_to_json(engine(request).check(asked.spaces)))


def _answer(provider: GraphContext, asked: GraphRequest, tier: Tier) -> GraphAnswer:
    if sum(one is not None for one in (asked.query, asked.entities, asked.document)) != 1:
        raise Invalid("give exactly one of query, entities and document")
    options: dict[str, Any] = {
        name: getattr(asked, name) for name in (*OPTIONS, "as_of", "now")
    } | {"tier": tier}
    if asked.entities is not None:
        if asked.vector is not None:
            raise Invalid("a vector goes with a query or a document: entities are not searched for")
        return provider.for_entities(asked.entities, **options)
    if asked.document is not None:
        return provider.for_document(_document(asked.document), vector=asked.vector, **options)
    return provider.for_query(asked.query or "", vector=asked.vector, **options)


def _document(body: DocumentBody) -> Document:
    links = tuple(
        LinkedEntity(link.mention, link.entity_id, link.confidence) for link in body.linked_entities
    )
    selection = None if body.selection is None else (body.selection[0], body.selection[1])
    return Document(body.id, body.title, body.content, links, selection)
