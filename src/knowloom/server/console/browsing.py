"""Routes to look around: pages of items without their texts, facets, and neighbours by links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from knowloom import codec, validation
from knowloom.model import Filter, Item, Key
from knowloom.retrieval_settings import validate_kinds
from knowloom.server.dependencies import get_engine, get_key
from knowloom.server.schemas.client_api import ItemReference
from knowloom.server.schemas.fields import Fraction, Names, RequestModel, SpaceNames, examples
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import edge_to_json

router = APIRouter(prefix="/api", tags=["knowledge"])

MAX_COUNTED = 20_000  # items that facets are counted over
MAX_VALUES = 200  # of a facet, the most frequent ones
SNIPPET = 160  # characters
MAX_NODES = 2000


class BrowseRequest(RequestModel):
    """A page of items, ordered by space and id."""

    model_config = examples({"spaces": ["support"], "types": ["faq"], "limit": 100})

    spaces: SpaceNames = None
    kinds: Names = Field([])
    types: Names = Field([])
    tags: Names = Field([], description="At least one of them")
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    after: ItemReference | None = None


class FacetsRequest(RequestModel):
    """The items to count, by kind, type and tag."""

    model_config = examples({"spaces": ["support"]})

    spaces: SpaceNames = None


class NeighboursRequest(RequestModel):
    """Items whose links are followed by one step."""

    model_config = examples({"items": [{"space": "support", "id": "process-a-refund"}]})

    items: Annotated[list[ItemReference], Field(min_length=1, max_length=MAX_NODES)]
    spaces: SpaceNames = None
    types: Names = Field([], description="Types of links; none: all")
    min_weight: Fraction = 0.0
    automatic: bool | None = None
    limit: Annotated[int, Field(ge=1, le=500, description="Links per item and direction")] = 25


@router.post("/browse")
def browse(request: Request, body: BrowseRequest) -> JSONResponse:
    """List items without their texts; `next` is `after` of the next page."""
    only = Filter(
        tuple(_spaces(request, body.spaces)),
        validate_kinds(body.kinds),
        validation.validate_names("types", body.types),
        tags=validation.validate_names("tags", body.tags),
    )
    after = None if body.after is None else (body.after.space, str(body.after.id))
    reader = get_engine(request).reader
    items = list(reader.iterate_items(only, body.limit + 1, after))
    last = items[body.limit - 1] if len(items) > body.limit else None
    following = None if last is None else {"space": last.space, "id": last.id}
    rows = [_item_row(item) for item in items[: body.limit]]
    return JSONResponse({"items": rows, "next": following})


@router.post("/facets")
def facets(request: Request, body: FacetsRequest) -> JSONResponse:
    """Count the items of spaces by kind, type and tag; `complete` is false if there are more."""
    only = Filter(tuple(_spaces(request, body.spaces)))
    items = list(get_engine(request).reader.iterate_items(only, MAX_COUNTED + 1, None))
    counted = items[:MAX_COUNTED]
    return JSONResponse(
        {
            "items": len(counted),
            "complete": len(items) <= MAX_COUNTED,
            "spaces": _count(item.space for item in counted),
            "kinds": _count(item.kind.value for item in counted),
            "types": _count(item.type for item in counted if item.type),
            "tags": _count(tag for item in counted for tag in item.tags),
        }
    )


@router.post("/neighbours")
def neighbours(request: Request, body: NeighboursRequest) -> JSONResponse:
    """Return items with the links that touch them, and the items at the other ends."""
    spaces = _spaces(request, body.spaces)
    keys: list[Key] = [(item.space, str(item.id)) for item in body.items]
    get_key(request).check_stored(sorted({space for space, _ in keys}))
    with get_engine(request).reader.snapshot() as stores:
        edges = stores.graph.edges_of(
            keys,
            spaces,
            validation.validate_names("types", body.types),
            body.limit,
            body.min_weight,
            body.automatic,
        )
        ends = {key for edge in edges for key in (edge.source_key, edge.target_key)} - set(keys)
        items = stores.items.get([*keys, *sorted(ends)])
    stored = {item.key for item in items}
    shown = [edge for edge in edges if {edge.source_key, edge.target_key} <= stored]
    return JSONResponse(
        {
            "items": [_item_row(item) for item in items],
            "edges": [edge_to_json(edge) for edge in shown],
        }
    )


def _spaces(request: Request, names: list[str] | None) -> list[str]:
    """Return the requested spaces, by default all that the key may read."""
    key, reader = get_key(request), get_engine(request).reader
    spaces = key.visible(reader.resolve_spaces()) if names is None else names
    key.check_stored(spaces)
    return list(spaces) if names is None else list(reader.resolve_spaces(names))


def _item_row(item: Item) -> JsonObject:
    text = item.summary or item.text
    return {
        "id": item.id,
        "space": item.space,
        "kind": item.kind.value,
        "type": item.type,
        "title": item.title,
        "tags": list(item.tags),
        "snippet": text[:SNIPPET],
        "size": len(item.text),
        "updated_at": None if item.updated_at is None else codec.time_to_text(item.updated_at),
    }


def _count(values: Iterable[str]) -> list[JsonObject]:
    """Return the most frequent values, then by name."""
    counts = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"value": value, "count": count} for value, count in counts[:MAX_VALUES]]
