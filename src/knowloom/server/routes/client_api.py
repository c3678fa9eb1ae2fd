"""Routes for `knowloom.Client`: atomic writes, batch reads, queries with precomputed vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom import validation
from knowloom.model import Edge, Key
from knowloom.server.dependencies import (
    check_vector_size,
    get_engine,
    get_key,
    read_spaces,
    secrets_policy,
    visible_edges,
    write_space,
)
from knowloom.server.errors import LenientJSONResponse
from knowloom.server.routes import query
from knowloom.server.schemas.client_api import (
    AddRequest,
    ClientContextRequest,
    ClientSearchRequest,
    DeleteRequest,
    EdgePageRequest,
    EdgeReference,
    ExpectedVersion,
    ItemReference,
    ItemsRequest,
    LoadRequest,
    PageRequest,
    UnlinkRequest,
)
from knowloom.wire.knowledge import edge_to_json, item_to_json, report_to_json
from knowloom.wire.recipes import recipe_from_json

router = APIRouter(prefix="/api")


@router.post("/add", tags=["knowledge"])
def add(request: Request, body: AddRequest) -> JSONResponse:
    """Store items and edges in one atomic write."""
    default = _default_space(request, [*body.items, *body.edges])
    items = [validation.item_from_row(row, default) for row in body.items]
    edges = [validation.edge_from_row(row, default) for row in body.edges]
    spaces = [*(item.space for item in items), *(edge.space for edge in edges)]
    _check_write(request, spaces, edges, body.expected)
    if body.vectors:
        check_vector_size(request)
    report = get_engine(request).add(
        items,
        edges,
        vectors=body.vectors,
        embed=body.embed,
        expected=_parse_versions(body.expected),
        secrets=secrets_policy(request, body.secrets),
    )
    return JSONResponse(report_to_json(report))


@router.post("/load", tags=["knowledge"])
def load(request: Request, body: LoadRequest) -> JSONResponse:
    """Store many items and edges of any spaces; loading the same rows again changes nothing."""
    key = get_key(request)
    key.check_role("editor")
    rows = [*body.items, *body.edges]
    default = _default_space(request, rows)
    for space in sorted({str(row.get("space", default)) for row in rows}):
        key.check_write(space)
    key.check_read(sorted({str(row["target_space"]) for row in rows if row.get("target_space")}))
    source = {"items": body.items, "edges": body.edges, "layered": body.layered}
    policy = secrets_policy(request, body.secrets, body.documents)
    report = get_engine(request).load(source, space=default, embed=body.embed, secrets=policy)
    return LenientJSONResponse(report_to_json(report))


@router.post("/delete", tags=["knowledge"])
def delete(request: Request, body: DeleteRequest) -> JSONResponse:
    """Delete items with their vectors and edges; return how many existed."""
    space = write_space(request, body.space)
    _check_write(request, [space], (), body.expected)
    expected = _parse_versions(body.expected)
    deleted = get_engine(request).delete(body.ids, space=space, expected=expected)
    return JSONResponse({"deleted": deleted})


@router.post("/unlink", tags=["knowledge"])
def unlink(request: Request, body: UnlinkRequest) -> JSONResponse:
    """Delete edges by their ends and type; return how many existed."""
    edges = [_parse_edge(reference) for reference in body.edges]
    _check_write(request, [edge.space for edge in edges], edges, ())
    return JSONResponse({"deleted": get_engine(request).delete_edges(edges)})


@router.post("/items", tags=["knowledge"])
def get_items(request: Request, body: ItemsRequest) -> JSONResponse:
    """Return items in the order of `ids`; unknown ids are left out."""
    (space,) = read_spaces(request, None if body.space is None else [body.space])
    get_key(request).check_stored([space])
    items = get_engine(request).get(body.ids, space=space)
    return JSONResponse({"items": [item_to_json(item) for item in items]})


@router.post("/page", tags=["knowledge"])
def page(request: Request, body: PageRequest) -> JSONResponse:
    """Return the next items of several spaces, ordered by (space, id)."""
    get_key(request).check_stored(body.spaces)
    items = get_engine(request).items(
        body.spaces,
        limit=body.limit,
        after=None if body.after is None else _parse_key(body.after),
        kinds=body.kinds,
        types=body.types,
        where=body.where,
    )
    return JSONResponse({"items": [item_to_json(item) for item in items]})


@router.post("/edge_page", tags=["knowledge"])
def edge_page(request: Request, body: EdgePageRequest) -> JSONResponse:
    """Return the next edges of several spaces, ordered by key."""
    get_key(request).check_stored(body.spaces)
    after = None if body.after is None else _parse_edge(body.after)
    edges = visible_edges(request, body.spaces, body.limit, after, body.automatic)
    return JSONResponse({"edges": [edge_to_json(edge) for edge in edges]})


@router.post("/ask/context", tags=["context"])
def ask_context(request: Request, body: ClientContextRequest) -> JSONResponse:
    """Respond as /api/explain, with whole recipes, other weights or a precomputed vector."""
    options = query.context_options(request, body)
    if not isinstance(body.recipe, str):
        options["recipe"] = [recipe_from_json(row) for row in body.recipe]
    return query.explain_response(request, body, options)


@router.post("/ask/search", tags=["context"])
def ask_search(request: Request, body: ClientSearchRequest) -> JSONResponse:
    """Respond as /api/search, with a precomputed vector."""
    return query.search(request, body)


def _default_space(request: Request, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the space of rows that name none; None if all do."""
    names = {row.get("space") for row in rows}
    return write_space(request, None, list(map(str, names - {None}))) if None in names else None


def _check_write(
    request: Request,
    spaces: Sequence[str],
    edges: Sequence[Edge],
    expected: Sequence[ExpectedVersion],
) -> None:
    """Check write access to the spaces, read access to edge targets and expected items."""
    key = get_key(request)
    key.check_role("editor")
    for space in sorted(set(spaces)):
        key.check_write(space)
    targets = {edge.target_key[0] for edge in edges}
    key.check_read(sorted(targets | {version.space for version in expected}))


def _parse_versions(expected: Sequence[ExpectedVersion]) -> dict[Key, str]:
    return {_parse_key(version): version.version for version in expected}


def _parse_key(reference: ItemReference) -> Key:
    space = validation.validate_name("space", reference.space)
    return (space, validation.validate_name("id", reference.id))


def _parse_edge(reference: EdgeReference) -> Edge:
    for name in EdgeReference.model_fields:
        validation.validate_name(name, getattr(reference, name))
    return Edge(
        reference.source,
        reference.target,
        reference.type,
        space=reference.space,
        target_space=reference.target_space,
    )
