"""Memory over HTTP: tell, search, build a context, preview it, forget. A workspace is a space; the key must be allowed to read or write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from knowloom import tiers
from knowloom.capabilities.memory.memory import Memory
from knowloom.errors import Invalid
from knowloom.server.access_log import noted
from knowloom.server.dependencies import engine, key_of, metrics, tier_of
from knowloom.server.schemas import (
    Fraction,
    Label,
    Method,
    Model,
    Name,
    Names,
    Shape,
    Text,
    Time,
    example,
)
from knowloom.wire.memory import (
    memory_context_to_json,
    memory_preview_to_json,
    memory_to_json,
    search_result_to_json,
)

Query = Annotated[str, Field(min_length=1, max_length=100_000)]
Vector = Annotated[
    list[float],
    Field(
        min_length=1,
        max_length=10_000,
        description="A ready vector instead of a query: found by meaning alone",
    ),
]
RankerName = Literal["default", "similarity", "recency", "confidence"]
Piece = Annotated[str, Field(max_length=100_000)]

routes = APIRouter(prefix="/api/memory", tags=["memory"])


class RememberRequest(Shape):
    """Something to remember. Telling the same again changes nothing."""

    model_config = example(
        workspace="maya",
        content="Ada moved to Hamburg",
        conversation="c1",
        type="fact",
        confidence=0.9,
    )

    workspace: Name
    content: Annotated[Text, Field(min_length=1)]
    type: Label = ""
    conversation: Name | None = None
    speaker: Annotated[
        Label,
        Field(
            description="Who said it: the memory is found by the name, and shown with it and the time"
        ),
    ] = ""
    confidence: Annotated[Fraction | None, Field(description="null: 0.5")] = None
    metadata: dict[str, Any] = Field({})
    tags: Names = Field([])
    pinned: Annotated[bool, Field(description="Every context begins with it")] = False
    created_at: Annotated[Time | None, Field(description="When it was said; null: now")] = None
    expires_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    supersedes: Names = Field([], description="Memories whose place it takes")
    related: dict[Name, Name] = Field(
        {}, max_length=200, description="Links to other memories: id to type"
    )
    id: Name | None = None


class Ranking(Shape):
    """How much each signal counts."""

    similarity_weight: Fraction = 0.5
    recency_weight: Fraction = 0.3
    confidence_weight: Fraction = 0.2
    access_weight: Fraction = 0.0
    half_life_days: Annotated[
        float | None,
        Field(gt=0, le=1e6, description="Recency halves in this time; null: 1 / (1 + days)"),
    ] = None


class MemorySearchRequest(Shape):
    """Find memories by a query or by a ready vector."""

    model_config = example(
        workspace="maya", query="Where does Ada live?", limit=5, memory_types=["fact", "decision"]
    )

    workspace: Name
    query: Query | None = None
    vector: Vector | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    memory_types: Names = Field([])
    date_from: Time | None = None
    date_to: Time | None = None
    min_confidence: Fraction = 0.0
    conversation_id: Name | None = None
    include_relationships: bool = False
    relationship_depth: Annotated[int, Field(ge=0, le=10)] = 1
    relationship_types: Names = Field([])
    mode: Method = "hybrid"
    min_score: Fraction = 0.0
    ranker: RankerName = "default"
    ranking: Ranking | None = None
    as_of: Time | None = None
    now: Time | None = None


class TemplateBody(Shape):
    """A template of your own. Variables: {{content}}, {{type}}, {{confidence}}, {{timestamp}}, {{score}}."""

    name: Name = "custom"
    header: Piece = ""
    memory_format: Piece = "{{content}}"
    separator: Piece = "\n"
    footer: Piece = ""
    include_metadata: bool = False
    line_break: Piece | None = None


class MemoryContextRequest(MemorySearchRequest):
    """Write the best memories into a prompt."""

    model_config = example(
        workspace="maya",
        query="Where does Ada live?",
        template="chat",
        token_budget=1500,
        include_relationships=True,
    )

    limit: Annotated[
        int | None, Field(ge=1, le=1000, description="null: as many as the budget could hold")
    ] = 10  # type: ignore[assignment]
    template: Annotated[
        Name | TemplateBody, Field(description="chat, detailed, summary, or one of your own")
    ] = "chat"
    token_budget: Annotated[int, Field(ge=0, le=10_000_000)] = 2000
    include_metadata: bool = False
    pinned: Annotated[bool, Field(description="Pinned memories come first, found or not")] = True
    model: Model = "gpt-4"


class ForgetRequest(Shape):
    """Memories to forget, with their links."""

    model_config = example(workspace="maya", ids=["m-0123456789abcdef"])

    workspace: Name
    ids: Annotated[list[Name], Field(min_length=1, max_length=10_000)]


@routes.post("/remember", status_code=201)
def remember(request: Request, asked: RememberRequest) -> JSONResponse:
    """Store a memory."""
    key_of(request).check_write(asked.workspace)
    fields = asked.model_dump(exclude={"workspace", "content"})
    with noted() as notes:
        told = Memory(engine(request), asked.workspace).remember(
            asked.content, **fields | {"speaker": asked.speaker or None}
        )
    return JSONResponse(memory_to_json(told) | {"notes": notes}, 201)


@routes.post("/search")
def search(request: Request, asked: MemorySearchRequest) -> JSONResponse:
    """Memories in the ranker's order."""
    memory, options = _asked(request, asked)
    with noted() as notes:
        found = (
            memory.search(asked.query, **options)
            if asked.query is not None
            else memory.search_by_vector(asked.vector or [], **options)
        )
    return JSONResponse({"memories": [search_result_to_json(one) for one in found], "notes": notes})


@routes.post("/context")
def context(request: Request, asked: MemoryContextRequest) -> JSONResponse:
    """A context ready for a prompt."""
    memory, options = _asked(request, asked)
    with noted() as notes:
        found = (
            memory.build_context(asked.query, **options)
            if asked.query is not None
            else memory.build_context_by_vector(asked.vector or [], **options)
        )
    metrics(request).tokens.inc(found.token_count)
    return JSONResponse(memory_context_to_json(found) | {"notes": notes})


@routes.post("/preview")
def preview(request: Request, asked: MemoryContextRequest) -> JSONResponse:
    """The same context, with what it is made of and what was left out."""
    memory, options = _asked(request, asked)
    with noted() as notes:
        found = (
            memory.preview(asked.query, **options)
            if asked.query is not None
            else memory.preview_by_vector(asked.vector or [], **options)
        )
    return JSONResponse(memory_preview_to_json(found) | {"notes": notes})


@routes.post("/delete")
def delete(request: Request, asked: ForgetRequest) -> JSONResponse:
    """Forget memories; how many there were."""
    key_of(request).check_write(asked.workspace)
    return JSONResponse({"deleted": Memory(engine(request), asked.workspace).forget(asked.ids)})


def _asked(request: Request, asked: MemorySearchRequest) -> tuple[Memory, dict[str, Any]]:
    """The memory and the options. A key that may not read the workspace is refused whether or not there is one."""
    key_of(request).check_read([asked.workspace])
    tiers.check_full(tier_of(request), "memory")
    if (asked.query is None) == (asked.vector is None):
        raise Invalid("either query or vector is needed, and not both")
    options = asked.model_dump(exclude={"workspace", "query", "vector"})
    return Memory(engine(request), asked.workspace), options
