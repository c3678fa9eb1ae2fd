"""Routes of items and edges: create, read, replace, delete, list, bulk load and export."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from knowloom import codec, validation
from knowloom.engine import restrict
from knowloom.errors import Conflict, Invalid, NotFound
from knowloom.filters.expressions import parse_expressions
from knowloom.model import Edge, Item, Key
from knowloom.server import bulk
from knowloom.server.dependencies import get_engine, get_key, secrets_policy, visible_edges
from knowloom.server.errors import LenientJSONResponse
from knowloom.server.schemas.fields import SecretsPolicy, WhereTexts
from knowloom.server.schemas.knowledge import EdgeBody, ItemBody
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import edge_to_json, item_to_json, report_to_json

SpaceName = Annotated[str, Path(min_length=1, max_length=500)]
ItemId = Annotated[str, Path(min_length=1, max_length=500)]
IfMatch = Annotated[
    str | None, Header(description="The version the item must still have, from its ETag")
]
Policy = Annotated[SecretsPolicy, Query()]
PageLimit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=2000, description="`next` of the previous page")]
MAX_SPOOLED = 10_000_000  # bytes of an export in memory; a larger one is a temporary file
EXPORT_BLOCK = 100_000  # characters

router = APIRouter(prefix="/api", tags=["knowledge"])


class NdjsonResponse(StreamingResponse):
    media_type = bulk.NDJSON


class PreconditionFailed(Conflict):
    """The item changed after the request's version was read."""

    status = 412
    code = "changed"


@router.get("/spaces")
def list_spaces(request: Request) -> JSONResponse:
    """List the spaces that the key may read, with their sizes."""
    spaces = get_engine(request).maintenance.stats().spaces
    visible = set(get_key(request).visible([space.name for space in spaces]))
    names = ("name", "items") if get_key(request).where else ("name", "items", "edges", "digest")
    rows = [
        {name: getattr(space, name) for name in names} for space in spaces if space.name in visible
    ]
    return JSONResponse({"spaces": rows})


@router.post("/spaces/{space}/items", status_code=201)
def create_item(
    request: Request, space: SpaceName, body: ItemBody, secrets: Policy = None
) -> JSONResponse:
    """Create an item. Its id must not exist yet; PUT replaces."""
    get_key(request).check_write(space)
    if body.version is not None:
        raise Invalid("version: a new item has none; PUT replaces an existing one")
    item = _parse_item(body, space)
    try:
        policy = secrets_policy(request, secrets)
        report = get_engine(request).add(item, expected={item.key: ""}, secrets=policy)
    except Conflict as error:
        message = f"item {item.id!r} already exists in space {space!r}; PUT replaces it"
        raise Conflict(message, "exists") from error
    return _write_response(request, item, 201, report.problems)


@router.get("/spaces/{space}/items")
def list_items(
    request: Request,
    space: SpaceName,
    limit: PageLimit = 100,
    cursor: Cursor = None,
    type: Annotated[list[str] | None, Query(max_length=200)] = None,
    where: Annotated[WhereTexts | None, Query()] = None,
) -> JSONResponse:
    """List the items of a space ordered by id, a page at a time."""
    get_key(request).check_stored([space])
    position = _decode_cursor(cursor, 1)
    after = (space, position[0]) if position else None
    conditions = parse_expressions(where or ())
    items = list(
        get_engine(request).items(
            [space], limit=limit + 1, after=after, types=type or (), where=conditions
        )
    )
    following = _encode_cursor([items[limit - 1].id]) if len(items) > limit else None
    rows = [_versioned_item(item) for item in items[:limit]]
    return JSONResponse({"items": rows, "next": following})


@router.get("/spaces/{space}/items/{id:path}")
def read_item(request: Request, space: SpaceName, id: ItemId) -> JSONResponse:
    """Return an item with its version."""
    get_key(request).check_stored([space])
    return _item_response(_get_item(request, space, id))


@router.put("/spaces/{space}/items/{id:path}")
def replace_item(
    request: Request,
    space: SpaceName,
    id: ItemId,
    body: ItemBody,
    if_match: IfMatch = None,
    secrets: Policy = None,
) -> JSONResponse:
    """Create or replace an item. With If-Match, only if it still has that version."""
    get_key(request).check_write(space)
    item = _parse_item(body, space)
    if item.id != id:
        raise Invalid(f"id in the body must match the path, got {item.id!r} and {id!r}")
    with _precondition():
        expected = _expected_version(request, item.key, if_match or body.version)
        policy = secrets_policy(request, secrets)
        report = get_engine(request).add(item, expected=expected, secrets=policy)
    return _write_response(request, item, 200, report.problems)


@router.delete("/spaces/{space}/items/{id:path}", status_code=204)
def delete_item(
    request: Request, space: SpaceName, id: ItemId, if_match: IfMatch = None
) -> Response:
    """Delete an item, its vector and its edges."""
    get_key(request).check_write(space)
    _get_item(request, space, id)
    with _precondition():
        expected = _expected_version(request, (space, id), if_match)
        get_engine(request).delete(id, space=space, expected=expected)
    return Response(status_code=204)


async def _read_body(request: Request) -> bytes:
    return await request.body()


@router.post("/spaces/{space}/bulk", openapi_extra=bulk.OPENAPI_BODY)
def load(
    request: Request,
    space: SpaceName,
    body: Annotated[bytes, Depends(_read_body)],
    secrets: Policy = None,
) -> JSONResponse:
    """Store many items and edges: JSON rows, three layers as JSON, or JSON Lines.

    Invalid rows are reported and skipped. Loading the same rows again changes nothing.
    """
    key = get_key(request)
    key.check_write(space)
    parsed = bulk.parse_body(body, request.headers.get("content-type", ""))

    def find_fault(row: JsonObject) -> str:
        if (row.get("space") or space) != space:
            return f"space must be {space!r}, as in the path"
        target = row.get("target_space") or space
        return "" if key.visible([target]) else "the key may not read the space of the target"

    parsed.reject(find_fault)
    policy = secrets_policy(request, secrets)
    report = get_engine(request).load(
        parsed.source, space=space, embed=parsed.embed, secrets=policy
    )
    return LenientJSONResponse(report_to_json(parsed.locate(report)))


@router.get("/spaces/{space}/edges")
def list_edges(
    request: Request, space: SpaceName, limit: PageLimit = 100, cursor: Cursor = None
) -> JSONResponse:
    """List the edges that a space owns, a page at a time."""
    get_key(request).check_stored([space])
    position = _decode_cursor(cursor, 4)
    after = None
    if position:
        source, target, type, target_space = position
        after = Edge(source, target, type, space=space, target_space=target_space)
    edges = visible_edges(request, [space], limit + 1, after)
    following = None
    if len(edges) > limit:
        last = edges[limit - 1]
        following = _encode_cursor([last.source, last.target, last.type, last.target_space])
    return JSONResponse({"edges": _edges_to_json(request, edges[:limit]), "next": following})


@router.post("/spaces/{space}/edges", status_code=201)
def create_edge(request: Request, space: SpaceName, body: EdgeBody) -> JSONResponse:
    """Create or replace the edge between two existing items with these ends and type."""
    edge = _parse_edge(request, space, body)
    get_engine(request).add([], [edge])
    return JSONResponse(_edges_to_json(request, [edge])[0], 201)


@router.post("/spaces/{space}/edges/delete")
def delete_edge(request: Request, space: SpaceName, body: EdgeBody) -> JSONResponse:
    """Delete the edge with these ends and type."""
    edge = _parse_edge(request, space, body)
    return JSONResponse({"deleted": get_engine(request).delete_edges([edge])})


@router.get("/export", response_class=NdjsonResponse)
def export(
    request: Request,
    space: Annotated[list[str], Query(min_length=1, max_length=200)],
    where: Annotated[WhereTexts | None, Query()] = None,
) -> StreamingResponse:
    """Export spaces as JSON Lines, items first; a bulk load reads them back.

    With `where`, only the items that fulfil the conditions and the edges between them. Edges to
    spaces that the key may not read are left out.
    """
    get_key(request).check_stored(space)
    engine = get_engine(request)
    if where:
        engine = restrict(engine, parse_expressions(where))
    engine.reader.resolve_spaces(space)
    # Written at once, from one snapshot: a slow client must not hold it open.
    file = SpooledTemporaryFile(MAX_SPOOLED, "w+", encoding="utf-8", newline="\n")  # noqa: SIM115
    targets = get_key(request).visible(engine.reader.filled_spaces())
    engine.maintenance.export(
        file,  # type: ignore[arg-type]  # a text stream
        spaces=space,
        target_spaces=targets,
    )
    file.seek(0)

    def blocks() -> Iterator[str]:
        with file:
            while block := file.read(EXPORT_BLOCK):
                yield block

    return NdjsonResponse(blocks())


def _parse_item(body: ItemBody, space: str) -> Item:
    if body.space not in (None, space):
        raise Invalid(f"space in the body must match the path, got {body.space!r} and {space!r}")
    names = (name for name in ItemBody.model_fields if name not in ("space", "version"))
    return validation.item_from_row({name: getattr(body, name) for name in names}, space)


def _parse_edge(request: Request, space: str, body: EdgeBody) -> Edge:
    key = get_key(request)
    key.check_write(space)
    row = {name: getattr(body, name) for name in EdgeBody.model_fields}
    edge = validation.edge_from_row(row, space)
    key.check_read([edge.target_key[0]])
    return edge


def _edges_to_json(request: Request, edges: Sequence[Edge]) -> list[JsonObject]:
    """Return the edges; ends that are numbered items are integers, as in the items themselves."""
    ends: dict[str, list[str]] = {}
    for space, id in (key for edge in edges for key in (edge.source_key, edge.target_key)):
        if id.lstrip("-").isdecimal():
            ends.setdefault(space, []).append(id)
    numbered = {
        item.key
        for space, ids in ends.items()
        for item in get_engine(request).get(ids, space=space)
        if item.numbered
    }
    rows = []
    for edge in edges:
        keys = (("source", edge.source_key), ("target", edge.target_key))
        numbers = {name: int(key[1]) for name, key in keys if key in numbered}
        rows.append(edge_to_json(edge) | numbers)
    return rows


def _get_item(request: Request, space: str, id: str) -> Item:
    items = get_engine(request).get(id, space=space)
    if not items:
        raise NotFound(f"no item {id!r} in space {space!r}")
    return items[0]


def _write_response(
    request: Request, item: Item, status: int, problems: Sequence[str]
) -> JSONResponse:
    response = _item_response(_get_item(request, item.space, item.id), status)
    if problems:
        response.headers["Warning"] = (
            f'199 knowloom "{len(problems)} problems: the item is stored but not embedded"'
        )
    return response


def _item_response(item: Item, status: int = 200) -> JSONResponse:
    return JSONResponse(_versioned_item(item), status, {"ETag": f'"{codec.version(item)}"'})


def _versioned_item(item: Item) -> JsonObject:
    return item_to_json(item) | {"version": codec.version(item)}


@contextmanager
def _precondition() -> Iterator[None]:
    """Raise PreconditionFailed for a version mismatch."""
    try:
        yield
    except Conflict as error:
        if error.code != "version_mismatch":
            raise
        raise PreconditionFailed(f"{error}; read the item again") from error


def _expected_version(request: Request, key: Key, if_match: str | None) -> dict[Key, str] | None:
    """Return the version an item must still have.

    Of several versions in If-Match it is the stored one, if listed; "*" matches any.
    """
    if if_match is None:
        return None
    versions = [name.strip().removeprefix("W/").strip('"') for name in if_match.split(",")]
    if versions != ["*"] and len(versions) == 1:
        return {key: versions[0]}
    stored = codec.version(_get_item(request, *key))
    return {key: stored if stored in versions or versions == ["*"] else versions[0]}


def _encode_cursor(parts: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _decode_cursor(cursor: str | None, size: int) -> list[str] | None:
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, RecursionError):
        parts = None
    is_list = isinstance(parts, list) and len(parts) == size
    if not is_list or not all(isinstance(part, str) for part in parts):
        raise Invalid("cursor must be `next` of a previous page")
    return list(validation.validate_names("cursor", parts))
