"""Knowledge over HTTP: create, read, update, delete, list and bulk load of items and edges, and export."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from knowloom import codec, validation
from knowloom.errors import Conflict, Invalid, NotFound
from knowloom.model import Edge, Item, Key
from knowloom.server.dependencies import engine, key_of
from knowloom.server.errors import Json
from knowloom.server.routes import bulk
from knowloom.server.schemas import EdgeBody, ItemBody
from knowloom.wire.knowledge import edge_to_json, item_to_json, report_to_json

Space = Annotated[str, Path(min_length=1, max_length=500)]
ItemId = Annotated[str, Path(min_length=1, max_length=500)]
IfMatch = Annotated[
    str | None, Header(description="The version the item must still have, as its ETag")
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=2000, description="`next` of the page before")]

routes = APIRouter(prefix="/api", tags=["knowledge"])


@routes.get("/spaces")
def list_spaces(request: Request) -> JSONResponse:
    """The spaces this key may read, and what they hold."""
    infos = engine(request).maintenance.stats().spaces
    visible = set(key_of(request).visible([info.name for info in infos]))
    return JSONResponse(
        {
            "spaces": [
                {"name": one.name, "items": one.items, "edges": one.edges, "digest": one.digest}
                for one in infos
                if one.name in visible
            ]
        }
    )


@routes.post("/spaces/{space}/items", status_code=201)
def create_item(request: Request, space: Space, body: ItemBody) -> JSONResponse:
    """A new item. One with this id must not exist: PUT replaces."""
    key_of(request).check_write(space)
    if body.version is not None:
        raise Invalid("version: a new item has none; PUT changes the one that was read")
    item = _item(body, space)
    try:
        report = engine(request).add(item, expected={item.key: ""})
    except Conflict as error:
        raise Conflict(
            f"item {item.id!r} exists already in space {space!r}: PUT replaces it", "exists"
        ) from error
    return _stored(request, item, 201, report.problems)


@routes.get("/spaces/{space}/items")
def list_items(
    request: Request,
    space: Space,
    limit: Limit = 100,
    cursor: Cursor = None,
    type: Annotated[list[str] | None, Query(max_length=200)] = None,
) -> JSONResponse:
    """The items of a space, ordered by id, a page at a time."""
    key_of(request).check_stored([space])
    after = _after(cursor, 1)
    start = (space, after[0]) if after else None
    found = list(engine(request).items([space], limit=limit + 1, after=start, types=type or ()))
    following = _cursor([found[limit - 1].id]) if len(found) > limit else None
    return JSONResponse({"items": [_row(item) for item in found[:limit]], "next": following})


@routes.get("/spaces/{space}/items/{id:path}")
def read_item(request: Request, space: Space, id: ItemId) -> JSONResponse:
    key_of(request).check_stored([space])
    return _answer(_found(request, space, id))


@routes.put("/spaces/{space}/items/{id:path}")
def replace_item(
    request: Request, space: Space, id: ItemId, body: ItemBody, if_match: IfMatch = None
) -> JSONResponse:
    """The item as given, whether or not there was one. With If-Match only if nobody changed it since it was read."""
    key_of(request).check_write(space)
    item = _item(body, space)
    if item.id != id:
        raise Invalid(f"the id {item.id!r} in the body is not the one in the address, {id!r}")
    with _unchanged():
        report = engine(request).add(
            item, expected=_expected(request, item.key, if_match or body.version)
        )
    return _stored(request, item, 200, report.problems)


@routes.delete("/spaces/{space}/items/{id:path}", status_code=204)
def delete_item(request: Request, space: Space, id: ItemId, if_match: IfMatch = None) -> Response:
    """Forget an item with its words, its vector and every edge that touches it."""
    key_of(request).check_write(space)
    _found(request, space, id)
    with _unchanged():
        engine(request).delete(id, space=space, expected=_expected(request, (space, id), if_match))
    return Response(status_code=204)


async def _body(request: Request) -> bytes:
    return await request.body()


@routes.post("/spaces/{space}/bulk", openapi_extra=bulk.BODY)
def load(request: Request, space: Space, body: Annotated[bytes, Depends(_body)]) -> JSONResponse:
    """Store many items and edges, as JSON (rows, or `metadata`, `pieces` and `graph`) or as JSON Lines.
    Rows that are not right are reported and skipped; the rest is stored. Loading the same again changes nothing."""
    key = key_of(request)
    key.check_write(space)
    rows = bulk.rows(body, request.headers.get("content-type", ""))

    def wrong(row: dict[str, Any]) -> str:
        if (row.get("space") or space) != space:
            return f"this address is of space {space!r}"
        target = row.get("target_space") or space
        return "" if key.visible([target]) else "the key may not read the space of the target"

    rows.refuse(wrong)
    report = engine(request).load(rows.source, space=space, embed=rows.embed)
    return Json(report_to_json(rows.told(report)))


@routes.get("/spaces/{space}/edges")
def list_edges(
    request: Request, space: Space, limit: Limit = 100, cursor: Cursor = None
) -> JSONResponse:
    """The edges that a space owns, a page at a time."""
    key_of(request).check_stored([space])
    after = _after(cursor, 4)
    edge = Edge(after[0], after[1], after[2], space=space, target_space=after[3]) if after else None
    found = list(engine(request).edges([space], limit=limit + 1, after=edge))
    last = found[limit - 1] if len(found) > limit else None
    following = _cursor([last.source, last.target, last.type, last.target_space]) if last else None
    return JSONResponse({"edges": _edge_rows(request, found[:limit]), "next": following})


@routes.post("/spaces/{space}/edges", status_code=201)
def create_edge(request: Request, space: Space, body: EdgeBody) -> JSONResponse:
    """A link between two items that exist. One with the same ends and type is replaced."""
    edge = _edge(request, space, body)
    engine(request).add([], [edge])
    return JSONResponse(_edge_rows(request, [edge])[0], 201)


@routes.post("/spaces/{space}/edges/delete")
def delete_edge(request: Request, space: Space, body: EdgeBody) -> JSONResponse:
    """Forget a link, named by its ends and type."""
    return JSONResponse({"deleted": engine(request).delete_edges([_edge(request, space, body)])})


class Lines(StreamingResponse):
    media_type = bulk.LINES


@routes.get("/export", response_class=Lines)
def export(
    request: Request, space: Annotated[list[str], Query(min_length=1, max_length=200)]
) -> StreamingResponse:
    """Everything in the spaces as JSON Lines, items first; a bulk load reads it back."""
    key_of(request).check_stored(space)
    kb = engine(request)
    kb.reader.resolve_spaces(space)

    rows = chain(
        (item_to_json(item) for item in kb.items(space)),
        (edge_to_json(edge) for edge in kb.edges(space)),
    )

    def blocks() -> Iterator[str]:
        while block := "".join(codec.to_json(row) + "\n" for row in islice(rows, 200)):
            yield block

    return Lines(blocks())


def _item(body: ItemBody, space: str) -> Item:
    if body.space not in (None, space):
        raise Invalid(f"space: the one in the body is not the one in the address, {space!r}")
    return validation.item_from_row(
        {
            name: getattr(body, name)
            for name in ItemBody.model_fields
            if name not in ("space", "version")
        },
        space,
    )


def _edge(request: Request, space: str, body: EdgeBody) -> Edge:
    key_of(request).check_write(space)
    edge = validation.edge_from_row(
        {name: getattr(body, name) for name in EdgeBody.model_fields}, space
    )
    key_of(request).check_read([edge.target_key[0]])
    return edge


def _edge_rows(request: Request, edges: Sequence[Edge]) -> list[dict[str, Any]]:
    """Ends that came as numbers are given back as numbers, like the items themselves."""
    ends: dict[str, list[str]] = {}
    for space, id in (key for edge in edges for key in (edge.source_key, edge.target_key)):
        if id.lstrip("-").isdecimal():
            ends.setdefault(space, []).append(id)
    numbered = {
        item.key
        for space, ids in ends.items()
        for item in engine(request).get(ids, space=space)
        if item.numbered
    }
    rows = []
    for edge in edges:
        numbers = {
            name: int(key[1])
            for name, key in (("source", edge.source_key), ("target", edge.target_key))
            if key in numbered
        }
        rows.append(edge_to_json(edge) | numbers)
    return rows


def _found(request: Request, space: str, id: str) -> Item:
    found = engine(request).get(id, space=space)
    if not found:
        raise NotFound(f"no item {id!r} in space {space!r}")
    return found[0]


def _stored(request: Request, item: Item, status: int, problems: tuple[str, ...]) -> JSONResponse:
    answer = _answer(_found(request, item.space, item.id), status)
    if problems:
        answer.headers["Warning"] = (
            f'199 knowloom "{len(problems)} problems: the item is stored but not embedded"'
        )
    return answer


def _answer(item: Item, status: int = 200) -> JSONResponse:
    return JSONResponse(_row(item), status, {"ETag": f'"{codec.version(item)}"'})


def _row(item: Item) -> dict[str, Any]:
    return item_to_json(item) | {"version": codec.version(item)}


class Changed(Conflict):
    """What the request was based on is no longer so."""

    status = 412
    code = "changed"


@contextmanager
def _unchanged() -> Iterator[None]:
    try:
        yield
    except Conflict as error:
        if error.code != "version_mismatch":
            raise
        raise Changed(f"{error}: read it again") from error


def _expected(request: Request, key: Key, wanted: str | None) -> dict[Key, str] | None:
    """The version an item must still have: the only one that was named, or of several the one it has; * is any."""
    if wanted is None:
        return None
    names = [name.strip().removeprefix("W/").strip('"') for name in wanted.split(",")]
    if names != ["*"] and len(names) == 1:
        return {key: names[0]}
    stored = codec.version(_found(request, *key))
    return {key: stored if stored in names or names == ["*"] else names[0]}


def _cursor(parts: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _after(cursor: str | None, size: int) -> list[str] | None:
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, RecursionError):
        parts = None
    if (
        not isinstance(parts, list)
        or len(parts) != size
        or not all(isinstance(part, str) for part in parts)
    ):
        raise Invalid("cursor is not one that this server gave out")
    return list(validation.validate_names("cursor", parts))
