"""Routes that monitor and maintain a server: health, readiness, metrics, statistics, rebuilds."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from knowloom.server.dependencies import get_engine, get_key, get_metrics
from knowloom.server.schemas.client_api import EmbedRequest
from knowloom.wire.knowledge import statistics_to_json

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> JSONResponse:
    """Report that the process is alive; the event loop responds even if all workers are busy."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    """Report that the stores can be read, and how many items have no vector yet."""
    missing = get_engine(request).maintenance.stats().without_vector
    return JSONResponse({"status": "ready", "without_vector": missing})


@router.get("/metrics", response_class=PlainTextResponse)
async def show_metrics(request: Request) -> PlainTextResponse:
    """Return Prometheus metrics. Requires an admin of all spaces if there are keys."""
    get_key(request).check_all("read")
    text = get_metrics(request).render()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@router.get("/api/stats")
def stats(request: Request) -> JSONResponse:
    """Return the sizes of the spaces that the key may read. Requires the role admin."""
    key = get_key(request)
    key.check_role("admin")
    engine = get_engine(request)
    statistics = engine.maintenance.stats()
    names = key.visible([space.name for space in statistics.spaces])
    if len(names) < len(statistics.spaces):
        statistics = engine.maintenance.stats(names)
    return JSONResponse(statistics_to_json(statistics))


@router.get("/api/verify")
def verify(request: Request) -> JSONResponse:
    """Verify the stored data and list its problems. Requires an admin of all spaces."""
    get_key(request).check_all("read")
    problems = get_engine(request).verify()
    return JSONResponse({"ok": not problems, "problems": problems})


@router.post("/api/embed")
def embed(request: Request, body: EmbedRequest) -> JSONResponse:
    """Embed the items that have no vector, by default of all spaces that an admin may write."""
    key, engine = get_key(request), get_engine(request)
    key.check_role("admin")
    spaces = body.spaces
    if spaces is None:
        spaces = key.writable(engine.reader.filled_spaces())
    for space in spaces:
        key.check_write(space)
    return JSONResponse({"vectors": engine.maintenance.embed(spaces)})


@router.post("/api/relink")
def relink(request: Request) -> JSONResponse:
    """Rebuild the automatic edges. Requires an admin of all spaces."""
    get_key(request).check_all("write")
    return JSONResponse({"items": get_engine(request).maintenance.relink()})


@router.post("/api/reindex")
def reindex(request: Request) -> JSONResponse:
    """Rebuild the text index and the vectors from the items. Requires an admin of all spaces."""
    get_key(request).check_all("write")
    return JSONResponse({"vectors": get_engine(request).reindex()})
