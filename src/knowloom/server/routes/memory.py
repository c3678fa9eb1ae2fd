"""Routes of memory: remember, search, context, preview, delete. A workspace is a space."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom import tiers
from knowloom.capabilities.memory.memory import Memory
from knowloom.errors import Invalid
from knowloom.server.access_log import collect_warnings
from knowloom.server.dependencies import get_engine, get_key, get_metrics, get_tier
from knowloom.server.schemas.memory import (
    ForgetRequest,
    MemoryContextRequest,
    MemorySearchRequest,
    RememberRequest,
)
from knowloom.wire.memory import (
    memory_context_to_json,
    memory_preview_to_json,
    memory_to_json,
    search_result_to_json,
)

router = APIRouter(prefix="/api/memory", tags=["memory"])


@router.post("/remember", status_code=201)
def remember(request: Request, body: RememberRequest) -> JSONResponse:
    """Store a memory."""
    get_key(request).check_write(body.workspace)
    fields = body.model_dump(exclude={"workspace", "content"})
    fields["speaker"] = body.speaker or None
    with collect_warnings() as notes:
        memory = Memory(get_engine(request), body.workspace).remember(body.content, **fields)
    return JSONResponse(memory_to_json(memory) | {"notes": notes}, 201)


@router.post("/search")
def search(request: Request, body: MemorySearchRequest) -> JSONResponse:
    """Search memories; they are returned in the ranker's order."""
    memory, options = _open_memory(request, body)
    with collect_warnings() as notes:
        results = (
            memory.search(body.query, **options)
            if body.query is not None
            else memory.search_by_vector(body.vector or [], **options)
        )
    rows = [search_result_to_json(result) for result in results]
    return JSONResponse({"memories": rows, "notes": notes})


@router.post("/context")
def context(request: Request, body: MemoryContextRequest) -> JSONResponse:
    """Render the best memories for a prompt."""
    memory, options = _open_memory(request, body)
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
    memory, options = _open_memory(request, body)
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
    get_key(request).check_write(body.workspace)
    deleted = Memory(get_engine(request), body.workspace).forget(body.ids)
    return JSONResponse({"deleted": deleted})


def _open_memory(request: Request, body: MemorySearchRequest) -> tuple[Memory, dict[str, Any]]:
    """Return the memory and the options.

    A key without read access is rejected whether or not the workspace exists.
    """
    get_key(request).check_read([body.workspace])
    tiers.check_full(get_tier(request), "memory")
    if (body.query is None) == (body.vector is None):
        raise Invalid("pass exactly one of query and vector")
    options = body.model_dump(exclude={"workspace", "query", "vector"})
    return Memory(get_engine(request), body.workspace), options
