"""Cross-origin requests: which pages of other sites may call the server from a browser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from knowloom.server.page_headers import RawHeaders
from knowloom.server.settings import ANY_ORIGIN

METHODS = "GET, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = (
    "accept, authorization, content-type, if-match, if-none-match, last-event-id, "
    "mcp-protocol-version, mcp-session-id, x-api-key, x-request-id"
)
EXPOSED_HEADERS = "etag, retry-after, www-authenticate, x-request-id"
MAX_AGE_S = 600  # that a browser remembers what is allowed


@dataclass(frozen=True, slots=True)
class CorsPolicy:
    """The origins that are allowed, such as "https://app.example.com"; "*" is any."""

    origins: tuple[str, ...] = ()

    def allows(self, origin: str | None) -> bool:
        return origin is not None and (ANY_ORIGIN in self.origins or origin.lower() in self.origins)

    def response_headers(self, origin: str | None) -> RawHeaders:
        """Return the headers of a response; cookies are never allowed, as there are none."""
        if not self.origins:
            return []
        vary: RawHeaders = [(b"vary", b"Origin")]
        if origin is None or not self.allows(origin):
            return vary
        return [
            *vary,
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", EXPOSED_HEADERS.encode()),
        ]

    def answer_preflight(self, method: str, headers: Mapping[str, str]) -> Response | None:
        """Return the answer to the question of a browser what it may send, None if it is none."""
        is_question = method == "OPTIONS" and "access-control-request-method" in headers
        if not is_question or not self.allows(headers.get("origin")):
            return None
        allowed = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": REQUEST_HEADERS,
            "Access-Control-Max-Age": str(MAX_AGE_S),
        }
        return Response(status_code=204, headers=allowed)
