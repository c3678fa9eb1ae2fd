"""Routes that read an item page by page, and list its neighbours."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from knowloom.capabilities.related import find_related
from knowloom.server.dependencies import get_engine, get_key
from knowloom.server.routes.knowledge import ItemId
from knowloom.server.schemas.fields import Model, Names, Strict
from knowloom.server.schemas.knowledge import (
    PageNumber,
    PageResponse,
    PageTokens,
    PassageNumber,
    ReadRequest,
    RelatedRequest,
)
from knowloom.wire.contexts import hits_to_json
from knowloom.wire.knowledge import page_to_json

router = APIRouter(prefix="/api", tags=["knowledge"])


@router.get("/items/{id:path}/read", response_model=PageResponse)
def read_page(
    request: Request,
    id: ItemId,
    space: Annotated[Names | None, Query()] = None,
    page: PageNumber = 1,
    max_tokens: PageTokens = 2000,
    passage: PassageNumber | None = None,
    model: Model = "gpt-4",
    strict: Strict = False,
) -> JSONResponse:
    """Return a page of an item, of whole passages within `max_tokens`.

    `next` is the number of the next page. Without `space` the id is looked up in all spaces that
    the key may read.
    """
    body = ReadRequest(
        id=id,
        spaces=space,
        page=page,
        max_tokens=max_tokens,
        passage=passage,
        model=model,
        strict=strict,
    )
    return read(request, body)


@router.post("/read", response_model=PageResponse)
def read(request: Request, body: ReadRequest) -> JSONResponse:
    """Respond as GET /api/items/{id}/read, for ids that a path cannot contain."""
    page = get_engine(request).read(
        str(body.id),
        space=_stored_spaces(request, body.spaces),
        page=body.page,
        max_tokens=body.max_tokens,
        passage=body.passage,
        model=body.model,
        strict=body.strict,
    )
    return JSONResponse(page_to_json(page))


@router.post("/related")
def related(request: Request, body: RelatedRequest) -> JSONResponse:
    """Return the items that edges connect with an item, heaviest first; `via` is the reason.

    Without `spaces` they are looked up in all spaces that the key may read.
    """
    spaces = _stored_spaces(request, body.spaces)
    hits = find_related(get_engine(request), str(body.id), space=spaces, limit=body.limit)
    return JSONResponse(hits_to_json(hits))


def _stored_spaces(request: Request, spaces: list[str] | None) -> list[str]:
    """Return the spaces of a request, or all that the key may read, as they are stored."""
    key = get_key(request)
    if spaces is None:
        spaces = key.visible(get_engine(request).reader.resolve_spaces())
    key.check_stored(spaces)
    return spaces
