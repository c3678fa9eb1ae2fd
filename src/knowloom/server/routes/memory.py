"""Routes of memory: remember, search, search_many, context, preview, delete, analytics.

A workspace is a space.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom import tiers
from knowloom.capabilities.memory.analytics import Analytics
from knowloom.capabilities.memory.memory import Memory
from knowloom.errors import Conflict, Invalid
from knowloom.server.access_log import collect_warnings
from knowloom.server.dependencies import (
    get_engine,
    get_key,
    get_tier,
    read_spaces,
    record_context,
    refuse_filter,
    write_space,
)
from knowloom.server.schemas.fields import Name
from knowloom.server.schemas.memory import (
    ForgetRequest,
    MemoryContextRequest,
    MemorySearchManyRequest,
    MemorySearchOptionsBody,
    MemorySearchRequest,
    RememberRequest,
)
from knowloom.wire.memory import (
    memory_context_to_json,
    memory_preview_to_json,
    memory_to_json,
    search_results_to_json,
    summaries_to_json,
)

router = APIRouter(prefix="/api/memory", tags=["memory"])

MAX_RECORDED = 10_000  # queries in a response, the newest ones


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
    return JSONResponse(search_results_to_json(results) | {"notes": notes})


@router.post("/search_many")
def search_many(request: Request, body: MemorySearchManyRequest) -> JSONResponse:
    """Search memories by several queries; the results are in their order."""
    memory = _open_memory(request, body)
    options = body.model_dump(exclude={"workspace", "queries"})
    with collect_warnings() as notes:
        results = memory.search_many(body.queries, **options)
    return JSONResponse(
        {"results": [search_results_to_json(answer) for answer in results], "notes": notes}
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
    record_context(request, result.token_count, result.degraded)
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


@router.get("/analytics")
def analytics(request: Request, workspace: Name | None = None) -> JSONResponse:
    """Summarise the recorded requests of the workspaces that the key may read."""
    refuse_filter(request, "read analytics: they count hidden memories, too")
    key, rows = get_key(request), _get_analytics(request).summaries()
    tiers.check_full(get_tier(request), "memory")
    if workspace is not None:
        key.check_read([workspace])
    visible = key.visible([row.workspace for row in rows] if workspace is None else [workspace])
    return JSONResponse(summaries_to_json([row for row in rows if row.workspace in visible]))


@router.get("/queries")
def queries(
    request: Request, workspace: Name | None = None, found_nothing: bool = False
) -> JSONResponse:
    """Return the recorded queries of a workspace, oldest first; for admins."""
    get_key(request).check_role("admin")
    refuse_filter(request, "read the queries of others")
    (space,) = read_spaces(request, None if workspace is None else [workspace])
    recorded = _get_analytics(request)
    if not recorded.keep_text:
        raise Conflict('queries are not recorded: set analytics_text to "yes"', "no_analytics")
    texts = recorded.queries(space, found_nothing=found_nothing)
    return JSONResponse({"queries": texts[-MAX_RECORDED:]})


def _get_analytics(request: Request) -> Analytics:
    recorded: Analytics | None = request.app.state.analytics
    if recorded is None:
        message = "analytics are off: start the server with the setting analytics"
        raise Conflict(message, "no_analytics")
    return recorded


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
    recorded = request.app.state.analytics
    return Memory(get_engine(request), workspace, tier=tier, analytics=recorded)
