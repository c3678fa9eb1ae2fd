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
    """Return Prometheus metrics. Requires the role admin if there are keys."""
    get_key(request).check_role("admin")
    text = get_metrics(request).render()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@router.get("/api/stats")
def stats(request: Request) -> JSONResponse:
    """Return the size of every space. Requires the role admin."""
    get_key(request).check_role("admin")
    return JSONResponse(statistics_to_json(get_engine(request).maintenance.stats()))


@router.get("/api/verify")
def verify(request: Request) -> JSONResponse:
    """Verify the stored data and list its problems. Requires the role admin."""
    get_key(request).check_role("admin")
    problems = get_engine(request).verify()
    return JSONResponse({"ok": not problems, "problems": problems})


@router.post("/api/embed")
def embed(request: Request, body: EmbedRequest) -> JSONResponse:
    """Embed the items that have no vector. Requires the role admin."""
    get_key(request).check_role("admin")
    return JSONResponse({"vectors": get_engine(request).maintenance.embed(body.spaces)})


@router.post("/api/relink")
def relink(request: Request) -> JSONResponse:
    """Rebuild the automatic edges. Requires the role admin."""
    get_key(request).check_role("admin")
    return JSONResponse({"items": get_engine(request).maintenance.relink()})


@router.post("/api/reindex")
def reindex(request: Request) -> JSONResponse:
    """Rebuild the text index and the vectors from the items. Requires the role admin."""
    get_key(request).check_role("admin")
    return JSONResponse({"vectors": get_engine(request).reindex()})
