"""POST /api/provide: what is known for a request, by prompt section."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from knowloom.capabilities.provider.provider import Provider
from knowloom.server.dependencies import engine, key_of, metrics, tier_of
from knowloom.server.schemas import (
    Fraction,
    Label,
    Method,
    Model,
    Name,
    Names,
    ProblemNote,
    Shape,
    TierName,
    Time,
)
from knowloom.wire.provision import provision_to_json

routes = APIRouter()

Tokens = Annotated[int, Field(ge=0, le=10_000_000)]
EXAMPLE: dict[str, Any] = {
    "query": "How do I process a refund request?",
    "spaces": ["support", "shared"],
    "max_tokens": 800,
    "caps": {"skills": 200},
}


class ProvideRequest(Shape):
    """Ask for knowledge by prompt section. `max_tokens` is for all sections together, `caps` for single ones."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    query: Annotated[str, Field(max_length=100_000)]
    spaces: Annotated[list[Name], Field(min_length=1, max_length=200)]
    entity_id: Annotated[
        Name | None, Field(description="The entity the agent works for, such as user:maya")
    ] = None
    max_tokens: Annotated[
        Tokens | None, Field(description="For all sections together; null: no limit")
    ] = 2000
    caps: dict[Label, Tokens] = Field(
        default_factory=dict, max_length=200, description="Tokens by section, at most"
    )
    model: Model = "gpt-4"
    metadata_info_type: Annotated[Name, Field(description="The section of profiles")] = (
        "user_profile"
    )
    top_k: Annotated[int, Field(ge=1, le=1000, description="Pieces that the search may give")] = 10
    types: Names = Field(default_factory=list)
    tags: Names = Field(default_factory=list)
    mode: Method = "hybrid"
    min_score: Fraction = 0.0
    scope: Annotated[
        Literal["entity", "all"],
        Field(description="Search the entity's pieces and those of nobody, or all"),
    ] = "entity"
    graph_traversal_depth: Annotated[int, Field(ge=0, le=10)] = 2
    graph_limit: Annotated[int, Field(ge=1, le=1000)] = 50
    edge_types: Names = Field(default_factory=list)
    as_of: Time | None = None
    now: Time | None = None
    tier: TierName | None = None


class ProvideResponse(BaseModel):
    sections: Annotated[dict[str, str], Field(description="Text by section, ready for a prompt")]
    tokens: int
    token_counter: str
    entity_id: str | None
    pieces: list[dict[str, Any]]
    graph_context: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    degraded: list[ProblemNote]


@routes.post("/api/provide", response_model=ProvideResponse, tags=["context"])
def provide(request: Request, asked: ProvideRequest) -> JSONResponse:
    """What is known for a request by prompt section: the entity's profile, pieces found by words and meaning, and its links."""
    key_of(request).check_read(asked.spaces)
    options = asked.model_dump(exclude={"query", "now", "as_of", "tier"}) | {
        "tier": tier_of(request, asked.tier)
    }
    found = Provider(engine(request), **options).provide(
        asked.query, now=asked.now, as_of=asked.as_of
    )
    metrics(request).tokens.inc(found.tokens)
    for one in found.degraded:
        metrics(request).degraded.labels(one.code).inc()
    return JSONResponse(provision_to_json(found))
