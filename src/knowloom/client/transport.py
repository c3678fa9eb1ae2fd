"""HTTP connection to a server: authentication, retries, and error responses as knowloom errors."""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

from knowloom import codec
from knowloom.caching import cached
from knowloom.errors import (
    Conflict,
    Corrupt,
    EmbeddingError,
    Forbidden,
    Invalid,
    KnowloomError,
    MissingExtra,
    NotFound,
    SearchError,
    Unavailable,
)
from knowloom.wire import JsonObject

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.2  # before the first retry; doubled for each further one
# Below the usual 5 s of servers: a write must not be sent on a connection that is being closed.
KEEP_ALIVE_S = 3.0
_ERRORS: dict[int, type[KnowloomError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    501: MissingExtra,
}
_SERVER_ERRORS: dict[str, type[KnowloomError]] = {
    error.code: error for error in (Corrupt, EmbeddingError, SearchError)
}

T = TypeVar("T")


class Transport:
    """Send requests to one server and decode its responses. Safe to share between threads."""

    def __init__(self, url: str, key: str, *, timeout_s: float, max_retries: int) -> None:
        if max_retries < 0:
            raise Invalid(f"max_retries must be >= 0, got {max_retries}")
        if not timeout_s > 0:
            raise Invalid(f"timeout_s must be > 0, got {timeout_s}")
        self.url = _normalize_url(url)
        self._key, self._timeout_s, self._max_retries = _validate_key(key), timeout_s, max_retries
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._http = httpx.Client(
            headers=headers,
            timeout=timeout_s,
            limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
            verify=_ssl_context(),
        )

    def close(self) -> None:
        self._http.close()

    def read(self, path: str, body: JsonObject | None, decode: Callable[[JsonObject], T]) -> T:
        """Send a request that changes nothing: it is retried after any transient failure."""
        return self._decode(self._send(path, body, is_idempotent=True), decode)

    def write(self, path: str, body: JsonObject, decode: Callable[[JsonObject], T]) -> T:
        """Send a write: it is retried only if the server did not process it."""
        return self._decode(self._send(path, body, is_idempotent=False), decode)

    def _send(self, path: str, body: JsonObject | None, is_idempotent: bool) -> httpx.Response:
        content = None if body is None else _encode(body)
        for retry in range(self._max_retries + 1):
            try:
                return self._request(path, content)
            except _TransientError as failure:
                wait_s = max(failure.wait_s, FIRST_WAIT_S * 2**retry)
                can_retry = is_idempotent or failure.was_rejected
                if retry == self._max_retries or wait_s > self._timeout_s or not can_retry:
                    error_class = _error_class(503, failure.code)
                    raise error_class(str(failure), failure.code) from failure.__cause__
                log.warning(
                    "%s: %s; retry %d of %d in %.1f s",
                    *(path, failure.code, retry + 1, self._max_retries, wait_s),
                )
                time.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def _request(self, path: str, content: bytes | None) -> httpx.Response:
        method = "GET" if content is None else "POST"
        try:
            response = self._http.request(method, self.url + path, content=content)
        except httpx.TimeoutException as error:
            message = f"{self.url}: no response within {self._timeout_s:g} s"
            raise _TransientError(message, "timeout") from error
        except httpx.HTTPError as error:
            reason = error or type(error).__name__
            raise _TransientError(f"{self.url}: connection failed: {reason}") from error
        if not response.is_success:
            raise self._error(response)
        return response

    def _error(self, response: httpx.Response) -> KnowloomError:
        """Return the error that the engine would raise, built from the problem details."""
        status = response.status_code
        try:
            problem = response.json()
            detail, code = str(problem["detail"]), str(problem["code"])
        except (ValueError, RecursionError, KeyError, TypeError):
            detail, code = f"{self.url} returned status {status}; it is not a knowloom server", ""
        if self._key:
            detail = detail.replace(self._key, "[key]")
        if status in (429, 503):
            return _TransientError(detail, code, _retry_after_s(response), status == 429)
        return _error_class(status, code)(detail, code)

    def _decode(self, response: httpx.Response, decode: Callable[[JsonObject], T]) -> T:
        try:
            return decode(response.json())
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"{self.url} returned a response that this version of knowloom cannot read"
            ) from error


class _TransientError(Unavailable):
    """A failure worth retrying. `was_rejected`: the server did nothing, so a write is safe too."""

    def __init__(
        self, message: str, code: str = "", wait_s: float = 0.0, was_rejected: bool = False
    ) -> None:
        super().__init__(message, code)
        self.wait_s, self.was_rejected = wait_s, was_rejected


def _error_class(status: int, code: str) -> type[KnowloomError]:
    if status in _ERRORS:
        return _ERRORS[status]
    if status < 500:
        return Invalid if status >= 400 else Unavailable
    return _SERVER_ERRORS.get(code, Unavailable)


def _encode(body: JsonObject) -> bytes:
    try:
        return codec.to_json(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the request cannot be encoded as JSON: {error}") from None


@cached("client TLS certificates", 1)
def _ssl_context() -> ssl.SSLContext:
    """Return the context shared by all clients: loading the certificates takes 30 ms."""
    return httpx.create_ssl_context()


def _normalize_url(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise Invalid("invalid server URL; expected one such as http://localhost:8765") from None
    if parsed.userinfo:  # it would be in every log of the request
        raise Invalid(f"the URL of {parsed.host} must not contain a password: pass it as key=")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Invalid(f"a server URL must be http:// or https:// with a host, got {url!r}")
    return str(parsed.copy_with(query=None, fragment=None)).rstrip("/")


def _validate_key(key: str) -> str:
    """Return the key without surrounding blanks; a bad one is not quoted in the error.

    The HTTP client would quote it.
    """
    if not re.fullmatch(r"[!-~]*", key.strip()):
        raise Invalid("key must not contain spaces, line breaks or non-ASCII characters")
    return key.strip()


def _retry_after_s(response: httpx.Response) -> float:
    """Return the Retry-After header in seconds; 0 if it is absent or a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else 0.0
