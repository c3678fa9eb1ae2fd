"""The whole application around one engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import anyio.to_thread
import fastapi_offline
from fastapi import Depends, FastAPI, Security
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles

from knowloom import __version__
from knowloom.engine import Engine
from knowloom.server import errors
from knowloom.server.auth import Keyring
from knowloom.server.metrics import Metrics
from knowloom.server.middleware import ASSETS, Guard
from knowloom.server.rate_limit import Rate
from knowloom.server.routes import (
    assemble,
    check_answer,
    client_api,
    graph,
    history,
    knowledge,
    memory,
    provide,
    query,
)
from knowloom.server.settings import Limits

ABOUT = """Context for AI agents: the right knowledge, exactly within the token budget, with the reason for every line.

Send a key as `Authorization: Bearer knowloom_…` (or `X-API-Key`) unless the server is open. Errors are problem details (RFC 9457)."""
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": title, "content": {errors.MEDIA_TYPE: {"schema": errors.PROBLEM}}}
    for status, title in errors.TITLES.items()
}


def create(
    kb: Engine,
    keyring: Keyring | None = None,
    limits: Limits | None = None,
    workers: int = 2,
    rate: Rate | None = None,
) -> FastAPI:
    """`workers` threads answer requests: as many as the machine has cores for a store in this process, as more would only
    make the event loop wait. Without a keyring everybody may do everything. `rate` is one that several processes share."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = workers
        yield

    app = FastAPI(
        title="knowloom",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        responses=ERRORS,
        dependencies=[
            Security(HTTPBearer(auto_error=False, description="A key made by `knowloom keys add`")),
            Depends(errors.known_parameters),
        ],
        redirect_slashes=False,
        redoc_url=None,
        docs_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.state.engine, app.state.metrics, app.state.turn = kb, Metrics(), Lock()
    app.include_router(query.routes)
    app.include_router(provide.routes)
    app.include_router(graph.routes)
    app.include_router(assemble.routes)
    app.include_router(check_answer.routes)
    app.include_router(knowledge.routes)
    app.include_router(client_api.routes)
    app.include_router(history.routes)
    app.include_router(memory.routes)
    _add_documentation(app)
    errors.install(app)
    limits = limits or Limits()
    app.add_middleware(
        Guard,
        limits=limits,
        keyring=keyring,
        metrics=app.state.metrics,
        rate=rate or Rate(limits.requests_per_minute),
    )
    return app


def _add_documentation(app: FastAPI) -> None:
    """The page that shows every route. Its scripts come from here: it works without a network, and tells nobody who reads it."""
    app.mount(ASSETS, StaticFiles(directory=Path(fastapi_offline.__file__).parent / "static"))

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="knowloom",
            swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{ASSETS}/favicon.png",
        )
