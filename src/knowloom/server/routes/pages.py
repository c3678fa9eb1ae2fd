"""Routes that read an item page by page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from knowloom.server.dependencies import get_engine, get_key
from knowloom.server.routes.knowledge import ItemId
from knowloom.server.schemas.fields import Model, Names, Strict
from knowloom.server.schemas.knowledge import (
    PageNumber,
    PageResponse,
    PageTokens,
    PassageNumber,
    ReadRequest,
)
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
    key, engine = get_key(request), get_engine(request)
    spaces = body.spaces
    if spaces is None:
        spaces = key.visible(engine.reader.resolve_spaces())
    key.check_stored(spaces)
    page = engine.read(
        str(body.id),
        space=spaces,
        page=body.page,
        max_tokens=body.max_tokens,
        passage=body.passage,
        model=body.model,
        strict=body.strict,
    )
    return JSONResponse(page_to_json(page))
