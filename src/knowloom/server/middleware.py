"""What happens to every request: an id, checks of host, origin, size and media type, the key, the rate, a log line, counters."""

from __future__ import annotations

import asyncio
import logging
import secrets
from time import perf_counter

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowloom.errors import Unavailable
from knowloom.server.auth import EVERYBODY, Key, Keyring
from knowloom.server.errors import problem, unforeseen
from knowloom.server.metrics import Metrics
from knowloom.server.rate_limit import Rate
from knowloom.server.settings import Limits

log = logging.getLogger("knowloom.http")

OPEN_PATHS = ("/healthz", "/readyz")  # need no key: whoever starts and stops the process asks
WRITES = ("POST", "PUT", "PATCH", "DELETE")
READABLE = ("/docs", "/openapi.json")  # say how to ask, not what is known
ASSETS = "/docs-assets"  # the scripts of that page
METHODS = ("GET", "HEAD", "OPTIONS", *WRITES)


class Guard:
    """Plain ASGI middleware around the whole application."""

    def __init__(
        self, app: ASGIApp, limits: Limits, keyring: Keyring | None, metrics: Metrics, rate: Rate
    ) -> None:
        self._app = app
        self._limits = limits
        self._keyring = keyring
        self._metrics = metrics
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        given = headers.get("x-request-id", "")
        request_id = (
            given
            if given.isascii() and given.replace("-", "").isalnum() and len(given) <= 64
            else secrets.token_hex(8)
        )
        started = perf_counter()
        seen = {"status": 0}

        async def answering(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        scope.setdefault("state", {})
        try:
            await (self._refusal(scope, headers) or self._app)(
                scope, self._counted(receive), answering
            )
        except ClientDisconnect:
            log.debug("the client of request %s went away", request_id)
        except Exception as error:
            # An answer that has begun is left incomplete: the server then closes the connection, and the client knows.
            answer = unforeseen(error)
            if not seen["status"]:
                await answer(scope, receive, answering)
        finally:
            self._record(scope, request_id, seen["status"] or 499, perf_counter() - started)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """Why a request is not let in, or None."""
        if scope["path"] in OPEN_PATHS:
            scope["state"]["key"] = EVERYBODY
            return None
        host = _name(headers.get("host", ""))
        if "*" not in self._limits.hosts and host not in self._limits.hosts:
            return problem(421, "this server does not answer to that host name", "wrong_host")
        if scope["method"] in WRITES and (
            refused := _cross_site(headers) or self._unfit(scope["path"], headers)
        ):
            return refused
        if scope["path"] in READABLE or scope["path"].startswith(f"{ASSETS}/"):
            return None
        return self._unknown(scope, headers)

    def _unfit(self, path: str, headers: dict[str, str]) -> Response | None:
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return problem(400, "content-length is not a number", "malformed")
        if int(length[:20]) > self._limits.max_body:
            return too_large(self._limits.max_body)
        media = headers.get("content-type", "").split(";")[0].strip().lower()
        has_body = int(length[:20]) > 0 or "transfer-encoding" in headers
        if (
            has_body
            and media != "application/json"
            and not (media == "application/x-ndjson" and path.endswith("/bulk"))
        ):
            return problem(
                415,
                "the body must be application/json; a bulk load may also be application/x-ndjson",
                "unsupported_media_type",
            )
        return None

    def _unknown(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        try:
            key = self._key(headers)
        except Unavailable as error:
            log.error("the keys cannot be read: %s", error)
            return problem(error.status, "the keys cannot be read", error.code)
        if key is None:
            return problem(
                401,
                "a valid key is needed: Authorization: Bearer knowloom_…",
                "key_required",
                headers={"WWW-Authenticate": "Bearer"},
            )
        wait = self._rate.wait_s(key.id)
        if wait > 0:
            return problem(
                429,
                "too many requests with this key",
                "rate_limited",
                headers={"Retry-After": str(int(wait) + 1)},
            )
        scope["state"]["key"] = key
        return None

    def _key(self, headers: dict[str, str]) -> Key | None:
        if self._keyring is None:
            return EVERYBODY
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        secret = secret.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return self._keyring.find(secret) if secret else None

    def _counted(self, receive: Receive) -> Receive:
        """The body, up to the limits of size and time, also when it comes without a length."""
        seen, until, complete = (
            0,
            asyncio.get_running_loop().time() + self._limits.body_timeout_s,
            False,
        )

        async def counted() -> Message:
            nonlocal seen, complete
            try:
                async with asyncio.timeout_at(
                    None if complete else until
                ):  # behind the body comes only the end of the connection
                    message = await receive()
            except TimeoutError:
                # Closed: whoever sends slowly on purpose would else keep the connection.
                raise HTTPException(
                    408,
                    f"the body took more than {self._limits.body_timeout_s:g} seconds",
                    {"Connection": "close"},
                ) from None
            seen, complete = (
                seen + len(message.get("body", b"")),
                not message.get("more_body", False),
            )
            if seen > self._limits.max_body:
                raise HTTPException(413, f"a body may have {self._limits.max_body:,} bytes")
            return message

        return counted

    def _record(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """The route's pattern, not the address: addresses hold names of spaces and items."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        key = scope["state"].get("key")
        self._metrics.requests.labels(route, method, status).inc()
        self._metrics.latency.labels(route).observe(seconds)
        said = {
            "id": request_id,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "key": key.id if key else "-",
        }
        log.info(
            "request %s",
            " ".join(f"{name}={value}" for name, value in said.items()),
            extra={"said": said},
        )


def _cross_site(headers: dict[str, str]) -> Response | None:
    """A page of another site must not write with the user's own browser."""
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
        return problem(403, "writes from another origin are refused", "cross_site")
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return problem(403, "writes from another site are refused", "cross_site")
    return None


def too_large(most: int) -> Response:
    return problem(413, f"a body may have {most:,} bytes", "body_too_large")


def _name(host: str) -> str:
    """A host without its port; addresses of IPv6 without brackets."""
    host = host.strip().lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
