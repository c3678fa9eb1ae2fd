"""Routes of memory: remember, search, search_many, context, preview, delete.

A workspace is a space.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom import tiers
from knowloom.capabilities.memory.memory import Memory
from knowloom.errors import Invalid
from knowloom.server.access_log import collect_warnings
from knowloom.server.dependencies import (
    get_engine,
    get_metrics,
    get_tier,
    read_spaces,
    write_space,
)
from knowloom.server.schemas.memory import (
    ForgetRequest,
    MemoryContextRequest,
    MemorySearchManyRequest,
    MemorySearchOptionsBody,
    MemorySearchRequest,
    RememberRequest,
)
from knowloom.wire.memory import (
    memories_to_json,
    memory_context_to_json,
    memory_preview_to_json,
    memory_to_json,
)

router = APIRouter(prefix="/api/memory", tags=["memory"])


@router.post("/remember", status_code=201)
def remember(request: Request, body: RememberRequest) -> JSONResponse:
    """Store a memory."""
    workspace = write_space(request, body.workspace)
    fields = body.model_dump(exclude={"workspace", "content"})
    fields["speaker"] = body.speaker or None
    with collect_warnings() as notes:
        memory = Memory(get_engine(request), workspace).remember(body.content, **fields)
    return JSONResponse(memory_to_json(memory) | {"notes": notes}, 201)


@router.post("/search")
def search(request: Request, body: MemorySearchRequest) -> JSONResponse:
    """Search memories; they are returned in the ranker's order."""
    memory, options = _open_query(request, body)
    with collect_warnings() as notes:
        results = (
            memory.search(body.query, **options)
            if body.query is not None
            else memory.search_by_vector(body.vector or [], **options)
        )
    return JSONResponse(memories_to_json(results) | {"notes": notes})


@router.post("/search_many")
def search_many(request: Request, body: MemorySearchManyRequest) -> JSONResponse:
    """Search memories by several queries; the results are in their order."""
    memory = _open_memory(request, body)
    options = body.model_dump(exclude={"workspace", "queries"})
    with collect_warnings() as notes:
        results = memory.search_many(body.queries, **options)
    return JSONResponse(
        {"results": [memories_to_json(answer) for answer in results], "notes": notes}
    )


@router.post("/context")
def context(request: Request, body: MemoryContextRequest) -> JSONResponse:
    """Render the best memories for a prompt."""
    memory, options = _open_query(request, body)
    with collect_warnings() as notes:
        result = (
            memory.build_context(body.query, **options)
            if body.query is not None
            else memory.build_context_by_vector(body.vector or [], **options)
        )
    get_metrics(request).tokens.inc(result.token_count)
    return JSONResponse(memory_context_to_json(result) | {"notes": notes})


@router.post("/preview")
def preview(request: Request, body: MemoryContextRequest) -> JSONResponse:
    """Return the same context with its sources and the memories left out."""
    memory, options = _open_query(request, body)
    with collect_warnings() as notes:
        result = (
            memory.preview(body.query, **options)
            if body.query is not None
            else memory.preview_by_vector(body.vector or [], **options)
        )
    return JSONResponse(memory_preview_to_json(result) | {"notes": notes})


@router.post("/delete")
def delete(request: Request, body: ForgetRequest) -> JSONResponse:
    """Delete memories; return how many existed."""
    workspace = write_space(request, body.workspace)
    deleted = Memory(get_engine(request), workspace).forget(body.ids)
    return JSONResponse({"deleted": deleted})


def _open_query(request: Request, body: MemorySearchRequest) -> tuple[Memory, dict[str, Any]]:
    """Return the memory and the options of a request with a query or a vector."""
    memory = _open_memory(request, body)
    if (body.query is None) == (body.vector is None):
        raise Invalid("pass exactly one of query and vector")
    return memory, body.model_dump(exclude={"workspace", "query", "vector"})


def _open_memory(request: Request, body: MemorySearchOptionsBody) -> Memory:
    """Return the memory under the tier of the key.

    A key without read access is rejected whether or not the workspace exists.
    """
    (workspace,) = read_spaces(request, None if body.workspace is None else [body.workspace])
    tier = get_tier(request)
    tiers.check_full(tier, "memory")
    return Memory(get_engine(request), workspace, tier=tier)
