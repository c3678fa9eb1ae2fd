"""`/mcp`: the Model Context Protocol over streamable HTTP, under the rights of the request's key.

Every request stands alone, so that any process of the server can answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import to_thread
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from knowloom import tiers
from knowloom.model import Context
from knowloom.server.dependencies import cpu_turn, get_engine, get_key, record_context
from knowloom.server.errors import problem_response
from knowloom.server.keys.api_keys import ALL_SPACES
from knowloom.server.settings import ServerLimits
from knowloom.tracing import limit_time

if TYPE_CHECKING:
    from knowloom.mcp.access import KnowledgeAccess
    from knowloom.mcp.streamable_http import StreamableServer

PATH = "/mcp"
MISSING = "package 'mcp' is not installed: pip install 'knowloom[mcp]'"
T = TypeVar("T")


class McpEndpoint:
    """An ASGI application. The packages of the protocol are imported at the first request."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._server: StreamableServer | None = None
        self.route: Route | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route  # for the log and the metrics
        if scope["method"] != "POST":
            await _refuse_method()(scope, receive, send)
            return
        server = self._server
        try:
            if server is None:
                server = await to_thread.run_sync(self._open_server)
        except ImportError:
            await problem_response(501, MISSING, "missing_extra")(scope, receive, send)
            return
        await server(scope, receive, send)

    def _open_server(self) -> StreamableServer:
        """Open the server, in a thread: the import takes a second."""
        with self._lock:
            if self._server is None:
                from knowloom.mcp.streamable_http import StreamableServer

                limits = self._limits
                self._server = StreamableServer(
                    lambda request: open_access(request, limits), _run_in_thread, limits.max_body
                )
            return self._server


def _refuse_method() -> Response:
    """Answer GET and DELETE: no stream is kept open, and no session."""
    detail = f"{PATH} answers POST only: it keeps no stream open"
    return problem_response(405, detail, "method_not_allowed", headers={"Allow": "POST"})


def open_access(request: Request, limits: ServerLimits) -> KnowledgeAccess:
    """Return the access of a request: spaces, filter, tier and role are those of its key."""
    from knowloom.mcp.access import KnowledgeAccess

    key = get_key(request)

    def record(context: Context) -> None:
        record_context(request, context.tokens, context.degraded)

    return KnowledgeAccess(
        get_engine(request),
        read_only=key.role == "viewer" or not key.writes,
        tier=tiers.tier_of_key(key.tier),
        readable=key.visible,
        writable=key.writable,
        granted=tuple(space for space in key.writes if space != ALL_SPACES),
        reading=lambda: _limit_query(request, limits),
        record=record,
    )


@contextmanager
def _limit_query(request: Request, limits: ServerLimits) -> Iterator[None]:
    """Limit the time of a query, and wait for the turn of one that computes much."""
    with limit_time(limits.query_timeout_s), cpu_turn(request):
        yield


async def _run_in_thread(function: Callable[..., T], /, *arguments: Any) -> T:
    return await to_thread.run_sync(function, *arguments)


def add_endpoint(app: FastAPI, limits: ServerLimits) -> None:
    """Serve the protocol at /mcp."""
    endpoint = McpEndpoint(limits)
    endpoint.route = Route(PATH, endpoint=endpoint)
    app.router.routes.append(endpoint.route)
