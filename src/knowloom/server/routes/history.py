"""The past over HTTP: the history of an item, restoring it, and rolling spaces back."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from knowloom.history import State, Step
from knowloom.server.auth import Key
from knowloom.server.dependencies import engine, key_of
from knowloom.server.routes.knowledge import ItemId
from knowloom.server.schemas import Name, Names, Shape, Time
from knowloom.wire.knowledge import history_to_json, report_to_json, rollback_to_json

routes = APIRouter(prefix="/api", tags=["knowledge"])

Limit = Annotated[int, Field(ge=1, le=10_000)]


class HistoryRequest(Shape):
    """What happened to an item."""

    space: Name
    id: Name
    limit: Limit = 1000


class RestoreRequest(Shape):
    """An item as it was at a time, in the state of a version, or, when it is deleted, at last."""

    space: Name
    id: Name
    at: Time | None = None
    version: Annotated[str | None, Field(max_length=100)] = None
    edges_of: Annotated[
        Names | None,
        Field(description="Only links that these spaces own; null: of all that the key may write"),
    ] = None
    embed: bool = True


class RollbackRequest(Shape):
    """Spaces as they were at a time."""

    to: Time
    spaces: Annotated[Names | None, Field(description="null: all")] = None
    dry_run: Annotated[bool, Field(description="Only tell what would change")] = False
    embed: bool = True


@routes.get("/items/{id:path}/history")
def item_history(
    request: Request,
    id: ItemId,
    space: Annotated[str, Query(min_length=1, max_length=500)],
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> JSONResponse:
    """Everything that happened to an item and its links, newest first, also when it is deleted."""
    return _history(request, HistoryRequest(space=space, id=id, limit=limit))


@routes.post("/history")
def history(request: Request, body: HistoryRequest) -> JSONResponse:
    """As GET /api/items/{id}/history, for ids that no address can hold."""
    return _history(request, body)


@routes.post("/restore")
def restore(request: Request, body: RestoreRequest) -> JSONResponse:
    """Bring an item back with the links it had then, where both ends exist and the key may write and see them."""
    key = key_of(request)
    key.check_write(body.space)
    for space in body.edges_of or ():
        key.check_write(space)
    owners = (
        body.edges_of
        if body.edges_of is not None
        else key.writable([info.name for info in engine(request).maintenance.stats().spaces])
    )
    report = engine(request).history.restore(
        body.id,
        space=body.space,
        at=body.at,
        version=body.version,
        edges_of=owners,
        embed=body.embed,
    )
    return JSONResponse(report_to_json(report))


@routes.post("/rollback")
def rollback(request: Request, body: RollbackRequest) -> JSONResponse:
    """Make spaces what they were at a time, as new changes, all or nothing. The key must be allowed to write every one of them."""
    key = key_of(request)
    key.check_role("editor")
    for space in (
        [info.name for info in engine(request).maintenance.stats().spaces]
        if body.spaces is None
        else body.spaces
    ):
        key.check_write(space)
    told = engine(request).history.rollback(
        body.to, spaces=body.spaces, dry_run=body.dry_run, embed=body.embed
    )
    return JSONResponse(
        rollback_to_json(
            replace(told, steps=tuple(step for step in told.steps if _may_see(key, step)))
        )
    )


def _history(request: Request, asked: HistoryRequest) -> JSONResponse:
    key = key_of(request)
    key.check_stored([asked.space])
    found = engine(request).history.states(asked.id, space=asked.space, limit=asked.limit)
    return JSONResponse(history_to_json([state for state in found if _may_see(key, state)]))


def _may_see(key: Key, state: State | Step) -> bool:
    """A link is seen by who may read both its ends."""
    spaces = [] if state.edge is None else [state.edge.source_key[0], state.edge.target_key[0]]
    return key.visible(spaces) == spaces
