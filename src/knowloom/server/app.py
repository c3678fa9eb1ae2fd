"""The FastAPI application around one engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
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
from knowloom.capabilities.memory.analytics import Analytics
from knowloom.engine import Engine
from knowloom.ports import LLM, LLMSettings
from knowloom.registry import open_llm
from knowloom.server import errors
from knowloom.server.agents.mcp_endpoint import add_endpoint
from knowloom.server.auth import Keyring
from knowloom.server.console import browsing, evaluation, files, health, keys, site
from knowloom.server.jobs import JobBoard
from knowloom.server.limits.rate_limit import RateLimiter
from knowloom.server.limits.turns import KeyTurns
from knowloom.server.metrics import Metrics
from knowloom.server.middleware import DOCS_ASSETS, GuardMiddleware
from knowloom.server.page_headers import content_policy
from knowloom.server.routes import (
    assemble,
    check_answer,
    client_api,
    context,
    graph,
    history,
    ingest,
    knowledge,
    memory,
    operations,
    pages,
    provide,
    query,
    upkeep,
)
from knowloom.server.settings import ServerLimits

DESCRIPTION = """Context for AI agents: the relevant knowledge, within the token budget, with the
reason for every line.

Send an API key as `Authorization: Bearer knowloom_…` (or `X-API-Key`) unless the server has none.
Errors are problem details (RFC 9457)."""
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": title, "content": {errors.MEDIA_TYPE: {"schema": errors.SCHEMA}}}
    for status, title in errors.TITLES.items()
}
# In the order of the documentation page.
FAMILIES = (
    context,
    query,
    provide,
    graph,
    assemble,
    check_answer,
    knowledge,
    ingest,
    pages,
    client_api,
    history,
    memory,
    operations,
    upkeep,
    site,
    browsing,
    files,
    evaluation,
    health,
    keys,
)


def create_app(
    kb: Engine,
    keyring: Keyring | None = None,
    limits: ServerLimits | None = None,
    workers: int = 2,
    rate: RateLimiter | None = None,
    jobs: Path | None = None,
) -> FastAPI:
    """Return the application of an engine.

    `workers` is the number of threads that handle requests; for a store in this process, more
    threads than cores only slow down the event loop. Without a keyring all requests are allowed.
    `rate` is a limiter and `jobs` a folder shared with other processes.
    """
    limits = limits or ServerLimits()
    bearer = HTTPBearer(auto_error=False, description="A key created with `knowloom keys add`")
    app = FastAPI(
        title="knowloom",
        version=__version__,
        description=DESCRIPTION,
        lifespan=_lifespan(workers),
        responses=ERRORS,
        dependencies=[Security(bearer), Depends(errors.reject_unknown_parameters)],
        redirect_slashes=False,
        redoc_url=None,
        docs_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.state.engine, app.state.metrics, app.state.cpu_lock = kb, Metrics(), Lock()
    app.state.keyring, app.state.jobs, app.state.limits = keyring, JobBoard(jobs), limits
    app.state.analytics, app.state.llm = _open_analytics(limits), _open_llm(limits)
    _add_routes(app)
    add_endpoint(app, limits)
    errors.install_handlers(app)
    rate = _share_rate(limits, rate or RateLimiter(limits.requests_per_minute), app.state.metrics)
    app.add_middleware(
        GuardMiddleware,
        limits=limits,
        keyring=keyring,
        metrics=app.state.metrics,
        rate=rate,
        turns=KeyTurns(workers, limits.concurrent_requests),
    )
    return app


def _share_rate(limits: ServerLimits, rate: RateLimiter, metrics: Metrics) -> RateLimiter:
    """Return a limiter that several servers share, if the limits name a Redis."""
    if not limits.rate_limits:
        return rate
    from knowloom.server.limits.redis_limit import RedisRateLimiter

    shared = RedisRateLimiter(limits.requests_per_minute, limits.rate_limits, rate)
    shared.count_degraded = metrics.degraded.labels("rate_limits").inc
    return shared


def _lifespan(workers: int) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return the context of a running application: its threads, and the files that it closes."""

    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = workers
        with ExitStack() as stack:
            for resource in (app.state.analytics, app.state.keyring):
                if resource is not None:
                    stack.enter_context(closing(resource))
            yield

    return run


def _open_analytics(limits: ServerLimits) -> Analytics | None:
    """Open the file with statistics of memory requests, None for none."""
    return Analytics(limits.analytics, limits.analytics_text) if limits.analytics else None


def _open_llm(limits: ServerLimits) -> LLM | None:
    """Open the language model of /api/ingest, None for none."""
    settings: LLMSettings = {"api_key": limits.llm_api_key, "timeout_s": limits.llm_timeout_s}
    return open_llm(limits.llm, **settings) if limits.llm else None


def _add_routes(app: FastAPI) -> None:
    """Add the routes of the API, the documentation page and the files of the console."""
    for family in FAMILIES:
        app.include_router(family.router)
    _add_documentation(app)
    site.mount_files(app)


def _add_documentation(app: FastAPI) -> None:
    """Serve the documentation page with local scripts: it works offline and contacts no CDN."""
    static = Path(fastapi_offline.__file__).parent / "static"
    app.mount(DOCS_ASSETS, StaticFiles(directory=static))

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="knowloom",
            swagger_js_url=f"{DOCS_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{DOCS_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{DOCS_ASSETS}/favicon.png",
        )
        page.headers["Content-Security-Policy"] = content_policy(bytes(page.body).decode())
        return page
