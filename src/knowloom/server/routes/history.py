"""Routes of the history of items: states, restore and rollback."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from knowloom.history import State, Step
from knowloom.server.dependencies import get_engine, get_key, read_spaces, write_space
from knowloom.server.keys.api_keys import ApiKey
from knowloom.server.routes.knowledge import ItemId
from knowloom.server.schemas.knowledge import HistoryRequest, RestoreRequest, RollbackRequest
from knowloom.wire.knowledge import history_to_json, report_to_json, rollback_to_json

router = APIRouter(prefix="/api", tags=["knowledge"])


@router.get("/items/{id:path}/history")
def item_history(
    request: Request,
    id: ItemId,
    space: Annotated[str | None, Query(min_length=1, max_length=500)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> JSONResponse:
    """Return the states of an item and its links, newest first, even if it was deleted."""
    return history(request, HistoryRequest(space=space, id=id, limit=limit))


@router.post("/history")
def history(request: Request, body: HistoryRequest) -> JSONResponse:
    """Respond as GET /api/items/{id}/history, for ids that a path cannot contain."""
    key = get_key(request)
    (space,) = read_spaces(request, None if body.space is None else [body.space])
    key.check_stored([space])
    states = get_engine(request).history.states(body.id, space=space, limit=body.limit)
    visible = [state for state in states if _can_see(key, state)]
    if key.role != "admin":  # the names of other keys are for admins
        visible = [replace(state, actor="") for state in visible]
    return JSONResponse(history_to_json(visible))


@router.post("/restore")
def restore(request: Request, body: RestoreRequest) -> JSONResponse:
    """Restore an item with the links it had, if both ends exist and the key may write them."""
    key, space = get_key(request), write_space(request, body.space)
    for owner in body.edges_of or ():
        key.check_write(owner)
    owners = body.edges_of
    if owners is None:
        owners = key.writable(_list_spaces(request))
    report = get_engine(request).history.restore(
        body.id,
        space=space,
        at=body.at,
        version=body.version,
        edges_of=owners,
        embed=body.embed,
    )
    return JSONResponse(report_to_json(report))


@router.post("/rollback")
def rollback(request: Request, body: RollbackRequest) -> JSONResponse:
    """Roll spaces back to a time, atomically, as new changes. The key must write all of them."""
    key = get_key(request)
    key.check_role("editor")
    for space in _list_spaces(request) if body.spaces is None else body.spaces:
        key.check_write(space)
    result = get_engine(request).history.rollback(
        body.to, spaces=body.spaces, dry_run=body.dry_run, embed=body.embed
    )
    steps = tuple(step for step in result.steps if _can_see(key, step))
    return JSONResponse(rollback_to_json(replace(result, steps=steps)))


def _list_spaces(request: Request) -> list[str]:
    return [space.name for space in get_engine(request).maintenance.stats().spaces]


def _can_see(key: ApiKey, state: State | Step) -> bool:
    """Return True unless the state is a link with an end that the key may not read."""
    spaces = [] if state.edge is None else [state.edge.source_key[0], state.edge.target_key[0]]
    return key.visible(spaces) == spaces
