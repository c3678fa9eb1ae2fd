"""HTTP connection to a server: authentication, retries, and error responses as knowloom errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import httpx

from knowloom import codec
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
from knowloom.outbound_http import (
    RetryPolicy,
    TransientError,
    retry_after_s,
    ssl_context,
    validate_key,
)
from knowloom.validation import validate_int, validate_positive
from knowloom.wire import JsonObject

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
        validate_int("max_retries", max_retries, 0)
        validate_positive("timeout_s", timeout_s)
        self.url = _normalize_url(url)
        self._retries = RetryPolicy(max_retries, FIRST_WAIT_S, timeout_s)
        self._key, self._timeout_s = validate_key("key", key), timeout_s
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._http = httpx.Client(
            headers=headers,
            timeout=timeout_s,
            limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
            verify=ssl_context(),
        )

    def close(self) -> None:
        self._http.close()

    def read(self, path: str, body: JsonObject | None, decode: Callable[[JsonObject], T]) -> T:
        """Send a request that changes nothing: it is retried after any transient failure."""
        return self._decode(self._send(path, body, is_idempotent=True), decode)

    def write(self, path: str, body: JsonObject, decode: Callable[[JsonObject], T]) -> T:
        """Send a write: it is retried only if the server did not process it."""
        return self._decode(self._send(path, body, is_idempotent=False), decode)

    def read_text(self, path: str) -> str:
        """Return the UTF-8 body of a response that is no JSON document."""
        return self._send(path, None, is_idempotent=True).content.decode()

    def _send(self, path: str, body: JsonObject | None, is_idempotent: bool) -> httpx.Response:
        content = None if body is None else _encode(body)
        try:
            return self._retries.run(lambda: self._request(path, content, is_idempotent))
        except TransientError as failure:
            raise error_class(503, failure.code)(str(failure), failure.code) from failure.__cause__

    def _request(self, path: str, content: bytes | None, is_idempotent: bool) -> httpx.Response:
        method = "GET" if content is None else "POST"
        try:
            response = self._http.request(method, self.url + path, content=content)
        except httpx.TimeoutException as error:
            message = f"{self.url}: no response within {self._timeout_s:g} s"
            raise _transient(path, message, "timeout", is_final=not is_idempotent) from error
        except httpx.HTTPError as error:
            reason = error or type(error).__name__
            message = f"{self.url}: connection failed: {reason}"
            raise _transient(path, message, "", is_final=not is_idempotent) from error
        if not response.is_success:
            raise self._error(response, path, is_idempotent)
        return response

    def _error(self, response: httpx.Response, path: str, is_idempotent: bool) -> KnowloomError:
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
            # With 429 the server did nothing, so that retrying a write is safe too.
            is_final = not is_idempotent and status != 429
            return _transient(path, detail, code, retry_after_s(response), is_final=is_final)
        return error_class(status, code)(detail, code)

    def _decode(self, response: httpx.Response, decode: Callable[[JsonObject], T]) -> T:
        try:
            return decode(response.json())
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"{self.url} returned a response that this version of knowloom cannot read"
            ) from error


def _transient(
    path: str, message: str, code: str, wait_s: float = 0.0, *, is_final: bool
) -> TransientError:
    """Return an error whose log line has no text of the user's."""
    summary = f"{path}: {code or TransientError.code}"
    return TransientError(message, code, retry_after_s=wait_s, is_final=is_final, summary=summary)


def error_class(status: int, code: str) -> type[KnowloomError]:
    """Return the class of the error that a response with this status and code stands for."""
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
