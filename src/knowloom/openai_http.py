"""The transport to OpenAI-compatible servers. Its errors contain neither the key nor user text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import httpx

from knowloom.errors import Invalid, Unavailable, unknown_name
from knowloom.outbound_http import (
    RetryPolicy,
    TransientError,
    retry_after_s,
    ssl_context,
    validate_key,
)
from knowloom.validation import validate_int, validate_positive

# model@base_url; the name of a model may itself begin with "@".
ADDRESS = re.compile(r"(@??[^@]*)(?:@(https?://.+))?")
OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_PATH = "/v1"
MAX_MESSAGE_CHARS = 200
FIRST_WAIT_S = 0.5
ECHO_CHARS = 12  # a run of this length in both the message and the user's text is an echo


class OpenAITransport:
    """A model behind one path of a server. Every failure is Unavailable with `code`."""

    def __init__(
        self,
        base_url: str,
        path: str,
        model: str,
        *,
        api_key: str | None,
        timeout_s: float,
        max_retries: int,
        code: str,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        validate_int("openai: max_retries", max_retries, 0)
        validate_positive("openai: timeout_s", timeout_s)
        for name, value in (("base_url", base_url), ("model", model), ("api_key", api_key or "")):
            if not isinstance(value, str):
                raise Invalid(f"openai: {name} must be text, got {type(value).__name__}")
        self._url = _endpoint(base_url, path)
        self._key = validate_key("openai: api_key", api_key or "")
        self._timeout_s, self._code, self._sleep = timeout_s, code, sleep
        self._retries = RetryPolicy(max_retries, FIRST_WAIT_S, timeout_s)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers, verify=ssl_context())
        self.host, self.server = self._url.host, _server(httpx.URL(base_url))
        self.description = f"{model} at {self.host}"

    def close(self) -> None:
        self._client.close()

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def post(
        self, body: Mapping[str, object], texts: Sequence[str], *, retry: bool = True
    ) -> httpx.Response:
        """Return the first successful response; transient failures are retried.

        `texts` are the user's: no error repeats them. Without `retry`, the error of the only
        attempt says how long the server asks to wait.
        """
        if not retry:
            return self._post_once(body, texts)
        try:
            return self._retries.run(lambda: self._post_once(body, texts), self._sleep)
        except TransientError as error:
            raise Unavailable(str(error), error.code) from error.__cause__

    def error(self, problem: str) -> Unavailable:
        return Unavailable(f"{self.description}: {problem}", self._code)

    def _post_once(self, body: Mapping[str, object], texts: Sequence[str]) -> httpx.Response:
        try:
            response = self._client.post(self._url, json=body)
        except httpx.TimeoutException as error:
            raise self._transient(f"no answer within {self._timeout_s:g} s") from error
        except httpx.TransportError as error:
            reason = self._redact(str(error) or type(error).__name__, texts)
            raise self._transient(f"no connection: {reason}") from error
        except httpx.HTTPError as error:
            raise self.error(f"unreadable answer: {type(error).__name__}") from error
        if not response.is_success:
            raise self._response_error(response, texts)
        return response

    def _response_error(self, response: httpx.Response, texts: Sequence[str]) -> Unavailable:
        status = response.status_code
        problem = f"status {status}: {self._redact(_message(response), texts)}"
        if status == 429 or status >= 500:
            return self._transient(problem, retry_after_s(response))
        return self.error(problem)

    def _transient(self, problem: str, wait_s: float = 0.0) -> TransientError:
        return TransientError(f"{self.description}: {problem}", self._code, retry_after_s=wait_s)

    def _redact(self, message: str, texts: Sequence[str]) -> str:
        """Return one short line without the key and without the user's text."""
        line = " ".join((message.replace(self._key, "[key]") if self._key else message).split())
        if any(_echoes(line[: MAX_MESSAGE_CHARS + ECHO_CHARS], text) for text in texts):
            return "(a message that repeats the text, omitted)"
        return line[:MAX_MESSAGE_CHARS]


def parse_address(address: str) -> dict[str, str]:
    """Parse an address such as `nomic-embed-text@http://127.0.0.1:11434/v1` into settings."""
    parts = ADDRESS.fullmatch(address)
    if not parts:
        model = address.partition("@")[0]
        raise Invalid(
            f"openai: the address of {model!r} must be such as openai:model@http://host:port/v1"
        )
    settings = {"model": parts[1], "base_url": parts[2]}
    return {name: value for name, value in settings.items() if value}


def resolve_settings(adapter: type, settings: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return the arguments of an adapter: its settings, overridden by the address."""
    available = signature(adapter).parameters
    for name in settings:
        if name not in available:
            raise unknown_name("setting of openai", name, available)
    return {**settings, **parse_address(address)}


def _endpoint(base_url: str, path: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise Invalid(f"openai: base_url must be a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        rule = "must begin with http:// or https:// and name a host"
        raise Invalid(f"openai: base_url {rule}, got {base_url!r}")
    if url.userinfo:  # it would be in every log of the request
        raise Invalid(
            f"openai: the base_url of {url.host} must not contain a password: set api_key"
        )
    return url.copy_with(path=url.path.rstrip("/") + path)


def _server(base: httpx.URL) -> str:
    """Return the host, with the port and the path unless they are the default ones."""
    port = "" if base.port is None else f":{base.port}"  # None also for the scheme's own port
    path = base.path.rstrip("/")
    return f"{base.host}{port}{'' if path == DEFAULT_PATH else path}"


def _message(response: httpx.Response) -> str:
    """Return the error message of a response, in any of the forms in use."""
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        return response.text
    match answer:
        case (
            {"error": {"message": str(message)}}
            | {"error": str(message)}
            | {"message": str(message)}
            | {"detail": str(message)}
        ):
            return message
    return str(answer)


def _echoes(line: str, text: str) -> bool:
    """Return True if the line repeats a run of the text; very short texts do not count."""
    text = " ".join(text.split())
    size = min(ECHO_CHARS, len(text))
    starts = range(len(line) - size + 1)
    return size > 3 and any(line[start : start + size] in text for start in starts)
