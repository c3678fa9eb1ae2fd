"""Knowledge over HTTP: create, read, update, delete, list and bulk load of items and edges, and export."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from weft import codec
from weft.errors import Conflict, Invalid, NotFound
from weft.ingest import check
from weft.model import Edge, Item
from weft.surfaces import wire
from weft.surfaces.http.shapes import BulkRequest, EdgeBody, ItemBody
from weft.surfaces.http.state import engine, key_of

Space = Annotated[str, Path(min_length=1, max_length=500)]
ItemId = Annotated[str, Path(min_length=1, max_length=500)]
IfMatch = Annotated[str | None, Header(description="The version the item must still have, as its ETag")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=2000, description="`next` of the page before")]

routes = APIRouter(prefix="/api", tags=["knowledge"])


@routes.get("/spaces")
def list_spaces(request: Request) -> JSONResponse:
    """The spaces this key may read, and what they hold."""
    infos = engine(request).stats().spaces
    visible = set(key_of(request).visible([info.name for info in infos]))
    return JSONResponse({"spaces": [{"name": one.name, "items": one.items, "edges": one.edges, "digest": one.digest} for one in infos if one.name in visible]})


@routes.post("/spaces/{space}/items", status_code=201)
def create_item(request: Request, space: Space, body: ItemBody) -> JSONResponse:
    """A new item. One with this id must not exist: PUT replaces."""
    key_of(request).check_write(space)
    item = _item(body, space)
    try:
        report = engine(request).add(item, expected={item.key: ""})
    except Conflict as error:
        raise Conflict(f"item {item.id!r} exists already in space {space!r}: PUT replaces it", "exists") from error
    return _stored(request, item, 201, report.problems)


@routes.get("/spaces/{space}/items")
def list_items(
    request: Request, space: Space, limit: Limit = 100, cursor: Cursor = None, type: Annotated[list[str] | None, Query(max_length=200)] = None
) -> JSONResponse:
    """The items of a space, ordered by id, a page at a time."""
    key_of(request).check_read([space])
    after = _after(cursor, 1)
    found = engine(request).page([space], limit=limit, after=(space, after[0]) if after else None, types=type or ())
    following = _cursor([found[-1].id]) if len(found) == limit else None
    return JSONResponse({"items": [_row(item) for item in found], "next": following})


@routes.get("/spaces/{space}/items/{id:path}")
def read_item(request: Request, space: Space, id: ItemId) -> JSONResponse:
    key_of(request).check_read([space])
    return _answer(_found(request, space, id))


@routes.put("/spaces/{space}/items/{id:path}")
def replace_item(request: Request, space: Space, id: ItemId, body: ItemBody, if_match: IfMatch = None) -> JSONResponse:
    """The item as given, whether or not there was one. With If-Match only if nobody changed it since it was read."""
    key_of(request).check_write(space)
    item = _item(body, space)
    if item.id != id:
        raise Invalid(f"the id {item.id!r} in the body is not the one in the address, {id!r}")
    expected = {item.key: _version(if_match)} if if_match is not None else None
    report = engine(request).add(item, expected=expected)
    return _stored(request, item, 200, report.problems)


@routes.delete("/spaces/{space}/items/{id:path}", status_code=204)
def delete_item(request: Request, space: Space, id: ItemId, if_match: IfMatch = None) -> Response:
    """Forget an item with its words, its vector and every edge that touches it."""
    key_of(request).check_write(space)
    _found(request, space, id)
    engine(request).delete(id, space=space, expected={(space, id): _version(if_match)} if if_match is not None else None)
    return Response(status_code=204)


@routes.post("/spaces/{space}/bulk")
def bulk(request: Request, space: Space, body: BulkRequest) -> JSONResponse:
    """Store many items and edges; loading the same again changes nothing."""
    key_of(request).check_write(space)
    for row in [*body.items, *body.edges]:
        if row.get("space", space) != space:
            raise Invalid(f"a row names space {row['space']!r}; this address is of space {space!r}")
    for row in body.edges:
        if row.get("target_space"):
            key_of(request).check_read([str(row["target_space"])])
    report = engine(request).load({"items": body.items, "edges": body.edges}, space=space)
    return JSONResponse(wire.report(report))


@routes.get("/spaces/{space}/edges")
def list_edges(request: Request, space: Space, limit: Limit = 100, cursor: Cursor = None) -> JSONResponse:
    """The edges that a space owns, a page at a time."""
    key_of(request).check_read([space])
    after = _after(cursor, 4)
    edge = Edge(after[0], after[1], after[2], space=space, target_space=after[3]) if after else None
    found = engine(request).edge_page([space], limit=limit, after=edge)
    following = _cursor([found[-1].source, found[-1].target, found[-1].type, found[-1].target_space]) if len(found) == limit else None
    return JSONResponse({"edges": [wire.edge(one) for one in found], "next": following})


@routes.post("/spaces/{space}/edges", status_code=201)
def create_edge(request: Request, space: Space, body: EdgeBody) -> JSONResponse:
    """A link between two items that exist. One with the same ends and type is replaced."""
    edge = _edge(request, space, body)
    engine(request).add([], [edge])
    return JSONResponse(wire.edge(edge), 201)


@routes.post("/spaces/{space}/edges/delete")
def delete_edge(request: Request, space: Space, body: EdgeBody) -> JSONResponse:
    """Forget a link, named by its ends and type."""
    return JSONResponse({"deleted": engine(request).delete_edges([_edge(request, space, body)])})


@routes.get("/export")
def export(request: Request, space: Annotated[list[str], Query(min_length=1, max_length=200)]) -> StreamingResponse:
    """Everything in the spaces as JSON Lines, items first; a bulk load reads it back."""
    key_of(request).check_read(space)
    kb = engine(request)
    kb.known(space)

    def lines() -> Iterator[str]:
        for item in kb.items(space):
            yield codec.to_json(wire.item(item)) + "\n"
        for edge in kb.edges(space):
            yield codec.to_json(wire.edge(edge)) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _item(body: ItemBody, space: str) -> Item:
    return check.item_from_row(body.model_dump(exclude_none=True), space)


def _edge(request: Request, space: str, body: EdgeBody) -> Edge:
    key_of(request).check_write(space)
    edge = check.edge_from_row(body.model_dump(exclude_none=True), space)
    key_of(request).check_read([edge.target_key[0]])
    return edge


def _found(request: Request, space: str, id: str) -> Item:
    found = engine(request).get(id, space=space)
    if not found:
        raise NotFound(f"no item {id!r} in space {space!r}")
    return found[0]


def _stored(request: Request, item: Item, status: int, problems: tuple[str, ...]) -> JSONResponse:
    answer = _answer(_found(request, item.space, item.id), status)
    if problems:
        answer.headers["Warning"] = f'199 weft "{len(problems)} problems: the item is stored but not embedded"'
    return answer


def _answer(item: Item, status: int = 200) -> JSONResponse:
    return JSONResponse(_row(item), status, {"ETag": f'"{codec.version(item)}"'})


def _row(item: Item) -> dict[str, Any]:
    return wire.item(item) | {"version": codec.version(item)}


def _version(if_match: str) -> str:
    return if_match.strip().removeprefix("W/").strip('"')


def _cursor(parts: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _after(cursor: str | None, size: int) -> list[str] | None:
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != size or not all(isinstance(part, str) for part in parts):
        raise Invalid("cursor is not one that this server gave out")
    return parts
