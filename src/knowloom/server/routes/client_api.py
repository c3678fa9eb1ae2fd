"""Routes for programs that hold a `knowloom.Client`: whole writes, reads of many at once, and the upkeep of the stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from knowloom import validation
from knowloom.model import Edge, Key
from knowloom.server.dependencies import engine, key_of
from knowloom.server.errors import Json
from knowloom.server.routes import query
from knowloom.server.schemas import ExplainRequest, Name, Names, SearchRequest, Shape, Weight
from knowloom.wire.contexts import recipe_from_json
from knowloom.wire.knowledge import edge_to_json, item_to_json, report_to_json, statistics_to_json

routes = APIRouter(prefix="/api")

Rows = list[dict[str, Any]]
Count = Annotated[int, Field(ge=1, le=10_000)]


class Place(Shape):
    """What names an item."""

    space: Name
    id: Name


class Expected(Place):
    """The version an item must still have; "" when it must be new."""

    version: Annotated[str, Field(max_length=100)]


class AddRequest(Shape):
    """One write: all of it, or nothing. Every row names its space."""

    items: Rows = Field([], max_length=10_000)
    edges: Rows = Field([], max_length=50_000)
    vectors: Annotated[
        list[list[float]] | None, Field(description="Ready vectors, one for each item")
    ] = None
    embed: bool = True
    expected: list[Expected] = Field([], max_length=10_000)


class LoadRequest(Shape):
    """Many items and edges, every row with its space. Rows that are not right are reported and skipped."""

    items: Rows = Field([], max_length=10_000)
    edges: Rows = Field([], max_length=50_000)
    embed: bool = True
    layered: bool = Field(
        False,
        description="The rows come from three layers: a node and a profile of one entity are joined",
    )


class ItemsRequest(Shape):
    """Some items of a space, by id."""

    space: Name
    ids: Annotated[list[Name], Field(max_length=10_000)]


class DeleteRequest(ItemsRequest):
    expected: list[Expected] = Field([], max_length=10_000)


class Link(Shape):
    """What names an edge."""

    source: Name
    target: Name
    type: Name
    space: Name
    target_space: str = ""


class UnlinkRequest(Shape):
    edges: Annotated[list[Link], Field(max_length=50_000)]


class PageRequest(Shape):
    """A page of items of several spaces, behind `after`."""

    spaces: Names
    limit: Count = 100
    after: Place | None = None
    kinds: Names = Field([])
    types: Names = Field([])


class EdgePageRequest(Shape):
    spaces: Names
    limit: Count = 100
    after: Link | None = None
    made: bool | None = Field(
        False,
        description="Only edges that knowloom made (true), only people's (false), or both (null)",
    )


class AskRequest(ExplainRequest):
    """What an explanation takes, and what only programs send: a ready vector, the weights of the searches, recipes of their own."""

    recipe: Name | Annotated[Rows, Field(min_length=1, max_length=50)] = "knowledge"  # type: ignore[assignment]
    bm25_weight: Weight | None = None
    vector_weight: Weight | None = None
    vector: list[float] | None = None


class AskSearchRequest(SearchRequest):
    """What a search takes, and a ready vector."""

    vector: list[float] | None = None


class EmbedRequest(Shape):
    spaces: Annotated[Names | None, Field(description="null: all")] = None


@routes.post("/add", tags=["knowledge"])
def add(request: Request, body: AddRequest) -> JSONResponse:
    """Store items and edges in one write: all of them, or none with the reason."""
    items = [validation.item_from_row(row, None) for row in body.items]
    edges = [validation.edge_from_row(row, None) for row in body.edges]
    _check_writes(
        request,
        [*(item.space for item in items), *(edge.space for edge in edges)],
        edges,
        body.expected,
    )
    return JSONResponse(
        report_to_json(
            engine(request).add(
                items,
                edges,
                vectors=body.vectors,
                embed=body.embed,
                expected=_versions(body.expected),
            )
        )
    )


@routes.post("/load", tags=["knowledge"])
def load(request: Request, body: LoadRequest) -> JSONResponse:
    """Store many items and edges of any spaces; loading the same again changes nothing."""
    key = key_of(request)
    key.check_role("editor")
    rows = [*body.items, *body.edges]
    for space in sorted({str(row.get("space")) for row in rows}):
        key.check_write(space)
    key.check_read(sorted({str(row["target_space"]) for row in rows if row.get("target_space")}))
    return Json(
        report_to_json(
            engine(request).load(
                {"items": body.items, "edges": body.edges, "layered": body.layered},
                embed=body.embed,
            )
        )
    )


@routes.post("/delete", tags=["knowledge"])
def delete(request: Request, body: DeleteRequest) -> JSONResponse:
    """Forget items with their words, vectors and edges; says how many were there."""
    _check_writes(request, [body.space], (), body.expected)
    return JSONResponse(
        {
            "deleted": engine(request).delete(
                body.ids, space=body.space, expected=_versions(body.expected)
            )
        }
    )


@routes.post("/unlink", tags=["knowledge"])
def unlink(request: Request, body: UnlinkRequest) -> JSONResponse:
    """Forget edges, named by their ends and type; says how many were there."""
    edges = [_edge(one) for one in body.edges]
    _check_writes(request, [edge.space for edge in edges], edges, ())
    return JSONResponse({"deleted": engine(request).delete_edges(edges)})


@routes.post("/items", tags=["knowledge"])
def get_items(request: Request, body: ItemsRequest) -> JSONResponse:
    """Items in the order asked; unknown ids are left out."""
    key_of(request).check_stored([body.space])
    return JSONResponse(
        {"items": [item_to_json(one) for one in engine(request).get(body.ids, space=body.space)]}
    )


@routes.post("/page", tags=["knowledge"])
def page(request: Request, body: PageRequest) -> JSONResponse:
    """The next items of several spaces, ordered by (space, id)."""
    key_of(request).check_stored(body.spaces)
    after = None if body.after is None else _key(body.after)
    found = engine(request).items(
        body.spaces, limit=body.limit, after=after, kinds=body.kinds, types=body.types
    )
    return JSONResponse({"items": [item_to_json(one) for one in found]})


@routes.post("/edge_page", tags=["knowledge"])
def edge_page(request: Request, body: EdgePageRequest) -> JSONResponse:
    """The next edges of several spaces, ordered by key."""
    key_of(request).check_stored(body.spaces)
    found = engine(request).edges(
        body.spaces,
        limit=body.limit,
        after=None if body.after is None else _edge(body.after),
        automatic=body.made,
    )
    return JSONResponse({"edges": [edge_to_json(one) for one in found]})


@routes.post("/ask/context", tags=["context"])
def ask_context(request: Request, body: AskRequest) -> JSONResponse:
    """As /api/explain, with recipes given whole, with other weights, or with a ready vector."""
    options = query.options(request, body)
    if not isinstance(body.recipe, str):
        options["recipe"] = [recipe_from_json(row) for row in body.recipe]
    return query.explained(request, body, options)


@routes.post("/ask/search", tags=["context"])
def ask_search(request: Request, body: AskSearchRequest) -> JSONResponse:
    """As /api/search, with a ready vector."""
    return query.search(request, body)


@routes.get("/stats", tags=["operations"])
def stats(request: Request) -> JSONResponse:
    """What the stores hold. Needs the role admin, as it tells of every space."""
    key_of(request).check_role("admin")
    return JSONResponse(statistics_to_json(engine(request).maintenance.stats()))


@routes.get("/verify", tags=["operations"])
def verify(request: Request) -> JSONResponse:
    """What is wrong with the stored data, in words. Needs the role admin."""
    key_of(request).check_role("admin")
    problems = engine(request).verify()
    return JSONResponse({"ok": not problems, "problems": problems})


@routes.post("/embed", tags=["operations"])
def embed(request: Request, body: EmbedRequest) -> JSONResponse:
    """Make the vectors that are missing. Needs the role admin."""
    key_of(request).check_role("admin")
    return JSONResponse({"vectors": engine(request).maintenance.embed(body.spaces)})


@routes.post("/relink", tags=["operations"])
def relink(request: Request) -> JSONResponse:
    """Make the links that knowloom makes itself anew. Needs the role admin."""
    key_of(request).check_role("admin")
    return JSONResponse({"items": engine(request).maintenance.relink()})


@routes.post("/reindex", tags=["operations"])
def reindex(request: Request) -> JSONResponse:
    """Make words and vectors anew from the items. Needs the role admin."""
    key_of(request).check_role("admin")
    return JSONResponse({"vectors": engine(request).reindex()})


def _check_writes(
    request: Request, spaces: Sequence[str], edges: Sequence[Edge], expected: Sequence[Expected]
) -> None:
    """A write needs its spaces; where a link leads and what is expected is read."""
    key = key_of(request)
    key.check_role("editor")
    for space in sorted(set(spaces)):
        key.check_write(space)
    key.check_read(sorted({edge.target_key[0] for edge in edges} | {one.space for one in expected}))


def _versions(expected: Sequence[Expected]) -> dict[Key, str]:
    return {_key(one): one.version for one in expected}


def _key(place: Place) -> Key:
    return (
        validation.validate_name("space", place.space),
        validation.validate_name("id", place.id),
    )


def _edge(link: Link) -> Edge:
    for name in Link.model_fields:
        validation.validate_name(name, getattr(link, name))
    return Edge(
        link.source, link.target, link.type, space=link.space, target_space=link.target_space
    )
