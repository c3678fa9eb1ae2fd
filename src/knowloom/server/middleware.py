"""Middleware around every request: id, host and origin checks, limits, key, log line, metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from contextlib import AbstractContextManager
from time import perf_counter

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowloom.errors import Unavailable
from knowloom.server.auth import Keyring
from knowloom.server.cors import CorsPolicy
from knowloom.server.errors import internal_error, problem_response
from knowloom.server.keys.api_keys import ANONYMOUS, ApiKey
from knowloom.server.limits.rate_limit import RateLimiter, request_cost
from knowloom.server.limits.turns import KeyTurns, RequestTurn, TooManyRequests
from knowloom.server.metrics import Metrics
from knowloom.server.page_headers import add_headers
from knowloom.server.settings import ServerLimits, parse_origins
from knowloom.tracing import limit_time

log = logging.getLogger("knowloom.http")

PROBE_PATHS = ("/healthz", "/readyz")  # without a key and under any host name, for orchestrators
PUBLIC_PATHS = ("/", "/docs", "/openapi.json")  # pages that reveal no knowledge
DOCS_ASSETS, CONSOLE_ASSETS = "/docs-assets", "/console"
# Queries, which have a time limit: all other requests are short, or must be finished.
QUERY_PATHS = frozenset(
    f"/api/{name}"
    for name in (
        "ask/context ask/search assemble check check_answer context diff explain graph "
        "memory/context memory/preview memory/search memory/search_many provide search"
    ).split()
)
HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/@]*)(?::[0-9]{1,5})?")
WRITE_METHODS = ("POST", "PUT", "PATCH", "DELETE")
METHODS = ("GET", "HEAD", "OPTIONS", *WRITE_METHODS)
CLIENT_CLOSED = 499  # the status in the log of a request whose client disconnected

MAX_LOOKUPS = 4  # of keys in a database at the same time

Headers = dict[str, str]


class GuardMiddleware:
    """Plain ASGI middleware that checks, limits, logs and counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        limits: ServerLimits,
        keyring: Keyring | None,
        metrics: Metrics,
        rate: RateLimiter,
        turns: KeyTurns,
    ) -> None:
        self._app = app
        self._limits = limits
        self._keyring = keyring
        self._metrics = metrics
        self._rate = rate
        self._turns = turns
        self._lookups = CapacityLimiter(MAX_LOOKUPS)
        self._cors = CorsPolicy(parse_origins(limits.cors_origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        request_id = _request_id(headers)
        started = perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = add_headers(list(message["headers"]), request_id)
                message["headers"] += self._cors.response_headers(headers.get("origin"))
            await send(message)

        scope.setdefault("state", {})
        try:
            response = await self._reject(scope, headers)
            if response is None:
                await self._run(scope, headers, receive, send_with_headers)
            else:
                await response(scope, receive, send_with_headers)
        except ClientDisconnect:
            log.debug("client of request %s disconnected", request_id)
        except Exception as error:
            failure = internal_error(error)
            # A response that has begun stays incomplete: the server closes the connection.
            if not status:
                await failure(scope, receive, send_with_headers)
        finally:
            self._record(scope, request_id, status or CLIENT_CLOSED, perf_counter() - started)

    async def _run(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        """Let the application answer when it is the turn of the request's key."""
        key = scope["state"].get("key", ANONYMOUS)
        limit = 0 if key is ANONYMOUS else None
        try:
            with self._turns.turn(key.id, limit) as turn, self._limit_time(scope["path"]):

                async def send_and_release(message: Message) -> None:
                    turn.release()
                    await send(message)

                if not _has_body(headers) and scope["path"] not in PROBE_PATHS:
                    await turn.wait()
                receive = self._limit_body(receive, turn, key.id, headers)
                await self._app(scope, receive, send_and_release)
        except TooManyRequests:
            detail = f"the key has {self._limits.concurrent_requests} requests under way"
            code, retry = "too_many_requests", {"Retry-After": "1"}
            await problem_response(429, detail, code, headers=retry)(scope, receive, send)

    def _limit_time(self, path: str) -> AbstractContextManager[None]:
        """Limit the time of queries: writes and maintenance are always finished."""
        return limit_time(self._limits.query_timeout_s if path in QUERY_PATHS else 0)

    async def _reject(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the error response of a request that is not allowed, else None."""
        path = scope["path"]
        if path in PROBE_PATHS:
            scope["state"]["key"] = ANONYMOUS
            return None
        hosts = self._limits.hosts
        if not HOST.fullmatch(headers.get("host", "").strip()):
            return problem_response(400, "the header Host is malformed", "malformed")
        if "*" not in hosts and _host_name(headers.get("host", "")) not in hosts:
            return problem_response(421, "unknown host name; see --allow-host", "wrong_host")
        if (preflight := self._cors.answer_preflight(scope["method"], headers)) is not None:
            return preflight
        if scope["method"] in WRITE_METHODS:
            is_allowed = self._cors.allows(headers.get("origin"))
            response = None if is_allowed else _reject_cross_site(headers)
            response = response or self._reject_body(path, headers)
            if response is not None:
                return response
        if path in PUBLIC_PATHS or path.startswith((f"{DOCS_ASSETS}/", f"{CONSOLE_ASSETS}/")):
            return None
        return await self._authenticate(scope, headers)

    def _reject_body(self, path: str, headers: Headers) -> Response | None:
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return problem_response(400, "content-length is not a number", "malformed")
        size = int(length[:20])
        if size > self._limits.max_body:
            return problem_response(413, self._too_large(), "body_too_large")
        media_type = headers.get("content-type", "").split(";")[0].strip().lower()
        is_lines = media_type == "application/x-ndjson" and path.endswith("/bulk")
        has_body = size > 0 or "transfer-encoding" in headers
        if has_body and media_type != "application/json" and not is_lines:
            detail = "body must be application/json, or application/x-ndjson for a bulk load"
            return problem_response(415, detail, "unsupported_media_type")
        return None

    async def _authenticate(self, scope: Scope, headers: Headers) -> Response | None:
        """Store the key of a request in its scope, or return the error response."""
        try:
            key = await self._find_key(headers)
        except Unavailable as error:
            log.error("cannot read keys: %s", error)
            detail = "cannot read keys; see the server log"
            return problem_response(error.status, detail, error.code)
        if key is None:
            detail = "a valid key is required: Authorization: Bearer knowloom_…"
            challenge = {"WWW-Authenticate": "Bearer"}
            return problem_response(401, detail, "key_required", headers=challenge)
        length = headers.get("content-length", "0")[:20]
        cost = request_cost(int(length) if length.isdecimal() else 0)
        wait_s = await self._count_request(key.id, cost)
        if wait_s > 0:
            retry = {"Retry-After": str(int(wait_s) + 1)}
            detail = "too many requests, or too large ones, with this key"
            return problem_response(429, detail, "rate_limited", headers=retry)
        scope["state"]["key"] = key
        return None

    async def _count_request(self, key: str, cost: float) -> float:
        """Return the seconds that a request must wait, 0 if it is allowed."""
        if self._rate.is_remote:
            return await asyncio.to_thread(self._rate.wait_s, key, cost)
        return self._rate.wait_s(key, cost)

    async def _find_key(self, headers: Headers) -> ApiKey | None:
        if self._keyring is None or self._keyring.is_open():
            return ANONYMOUS
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        secret = secret.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not secret:
            return None
        if self._keyring.file is not None:
            return self._keyring.find(secret)
        # Threads of its own: those of requests may all be waiting for the same database.
        return await to_thread.run_sync(self._keyring.find, secret, limiter=self._lookups)

    def _limit_body(
        self, receive: Receive, turn: RequestTurn, key: str, headers: Headers
    ) -> Receive:
        """Return `receive` with limits of size and time, which also hold for chunked bodies.

        The body that is complete waits for its turn.
        """
        is_chunked = "transfer-encoding" in headers
        timeout_s = self._limits.body_timeout_s
        deadline: float | None = asyncio.get_running_loop().time() + timeout_s
        size = 0

        async def receive_limited() -> Message:
            nonlocal size, deadline
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                # Closing frees the connection: the client may be slow on purpose.
                detail = f"the body took more than {timeout_s:g} seconds"
                raise HTTPException(408, detail, {"Connection": "close"}) from None
            before, size = size, size + len(message.get("body", b""))
            cost = request_cost(size) - request_cost(before)
            if is_chunked and cost and await self._count_request(key, cost):
                raise HTTPException(429, "too many bytes with this key", {"Connection": "close"})
            if not message.get("more_body", False):
                deadline = None  # only the disconnect follows, which may take long
                if _has_body(headers) and message["type"] == "http.request":
                    await turn.wait()
            if size > self._limits.max_body:
                raise HTTPException(413, self._too_large())
            return message

        return receive_limited

    def _too_large(self) -> str:
        return f"body must have at most {self._limits.max_body:,} bytes"

    def _record(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """Log and count a request by its route pattern: paths contain names of spaces and items."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        key = scope["state"].get("key")
        self._metrics.requests.labels(route, method, status).inc()
        self._metrics.latency.labels(route).observe(seconds)
        fields = {
            "id": request_id,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "key": key.id if key else "-",
        }
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        passed_probe = route in PROBE_PATHS and status < 400
        level = logging.DEBUG if passed_probe else logging.INFO
        log.log(level, "request %s", text, extra={"fields": fields})


def _request_id(headers: Headers) -> str:
    """Return the client's request id if it is short and harmless, else a new one."""
    id = headers.get("x-request-id", "")
    is_safe = id.isascii() and id.replace("-", "").isalnum() and len(id) <= 64
    return id if is_safe else secrets.token_hex(8)


def _reject_cross_site(headers: Headers) -> Response | None:
    """Reject writes that a page of another site makes with the user's browser."""
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
        return problem_response(403, "writes from another origin are refused", "cross_site")
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return problem_response(403, "writes from another site are refused", "cross_site")
    return None


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _host_name(host: str) -> str:
    """Return a host without its port; an IPv6 address without brackets."""
    host = host.strip().lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
