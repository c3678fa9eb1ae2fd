"""Posting JSON to an OpenAI-compatible server: time limits, retries, and messages that hold neither the key nor the user's text."""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import httpx

from knowloom.caching import cached
from knowloom.errors import Invalid, Unavailable, unknown_name

log = logging.getLogger(__name__)

ADDRESS = re.compile(
    r"(@??[^@]*)(?:@(https?://.+))?"
)  # model@base_url; a model's own name may begin with "@"
OPENAI = "https://api.openai.com/v1"
USUAL_PATH = "/v1"
MAX_MESSAGE_CHARS = 200
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
ECHO_CHARS = 12  # a run of this length that is also in the user's text is taken for an echo of it


class _Passing(Unavailable):
    """A failure that may be gone in a moment."""

    def __init__(self, message: str, code: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message, code)
        self.retry_after_s = retry_after_s


class OpenAITransport:
    """One model behind one path of a server. Every failure is Unavailable with the `code` of its user."""

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
        whole("max_retries", max_retries, 0)
        if (
            isinstance(timeout_s, bool)
            or not isinstance(timeout_s, int | float)
            or not 0 < timeout_s < float("inf")
        ):
            raise Invalid(
                f"openai: timeout_s must be a number of seconds above 0, not {timeout_s!r}"
            )
        for name, value in (("base_url", base_url), ("model", model), ("api_key", api_key or "")):
            if not isinstance(value, str):
                raise Invalid(f"openai: {name} must be text, not {type(value).__name__}")
        self._url = _endpoint(base_url, path)
        self._key = _header_safe(api_key or "")
        self._timeout_s, self._max_retries, self._code, self._sleep = (
            timeout_s,
            max_retries,
            code,
            sleep,
        )
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers, verify=_certificates())
        self.host, self.server = self._url.host, _server(httpx.URL(base_url))
        self.where = f"{model} at {self.host}"

    def close(self) -> None:
        self._client.close()

    @property
    def closed(self) -> bool:
        return self._client.is_closed

    def ask(self, body: Mapping[str, object], texts: Sequence[str]) -> httpx.Response:
        """The first good answer. A refusal is final; what may pass is asked again, up to `max_retries` times, unless the server wants more time for
        that than it may take for an answer. `texts` are what the user wrote: no message repeats them."""
        for retry in range(self._max_retries + 1):
            try:
                return self._post(body, texts)
            except _Passing as failure:
                if retry == self._max_retries or failure.retry_after_s > self._timeout_s:
                    raise Unavailable(str(failure), failure.code) from failure.__cause__
                wait_s = max(failure.retry_after_s, min(FIRST_WAIT_S * 2**retry, MAX_WAIT_S))
                log.warning(
                    "%s; retry %d of %d in %.1f s", failure, retry + 1, self._max_retries, wait_s
                )
                self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def failed(self, problem: str) -> Unavailable:
        return Unavailable(f"{self.where}: {problem}", self._code)

    def _post(self, body: Mapping[str, object], texts: Sequence[str]) -> httpx.Response:
        try:
            response = self._client.post(self._url, json=body)
        except httpx.TimeoutException as error:
            raise _Passing(
                f"{self.where}: no answer within {self._timeout_s:g} s", self._code
            ) from error
        except httpx.TransportError as error:
            raise _Passing(
                f"{self.where}: no connection: {self._presentable(str(error) or type(error).__name__, texts)}",
                self._code,
            ) from error
        except httpx.HTTPError as error:
            raise self.failed(f"the answer is unreadable: {type(error).__name__}") from error
        if not response.is_success:
            raise self._refusal(response, texts)
        return response

    def _refusal(self, response: httpx.Response, texts: Sequence[str]) -> Unavailable:
        problem = f"status {response.status_code}: {self._presentable(_message(response), texts)}"
        if response.status_code == 429 or response.status_code >= 500:
            return _Passing(f"{self.where}: {problem}", self._code, _retry_after_s(response))
        return self.failed(problem)

    def _presentable(self, message: str, texts: Sequence[str]) -> str:
        """One short line without the key and without anything the user wrote."""
        line = " ".join((message.replace(self._key, "[key]") if self._key else message).split())
        if any(_echoes(line[: MAX_MESSAGE_CHARS + ECHO_CHARS], text) for text in texts):
            return "(a message that repeats the text, left out)"
        return line[:MAX_MESSAGE_CHARS]


def address(rest: str) -> dict[str, str]:
    """What stands behind `openai:`, such as `nomic-embed-text@http://127.0.0.1:11434/v1`, as settings."""
    parts = ADDRESS.fullmatch(rest)
    if not parts:
        raise Invalid(
            f"openai: no http address behind {rest.partition('@')[0]!r}; write openai:model@http://host:port/v1"
        )
    named = {"model": parts[1], "base_url": parts[2]}
    return {name: value for name, value in named.items() if value}


def settings(user: type, given: Mapping[str, Any], rest: str) -> dict[str, Any]:
    """What the class is made with: the settings, and what stands behind `openai:`, which wins over them."""
    known = signature(user).parameters
    for name in given:
        if name not in known:
            raise unknown_name("setting of openai", name, known)
    return {**given, **address(rest)}


def whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Invalid(f"openai: {name} must be a whole number of {least} or more, not {value!r}")


@cached("TLS certificates", 1)
def _certificates() -> ssl.SSLContext:
    """Loading them takes 30 ms: once for all."""
    return httpx.create_ssl_context()


def _endpoint(base_url: str, path: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise Invalid(f"openai: the base_url is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise Invalid(
            f"openai: base_url {base_url!r} must begin with http:// or https:// and name a host"
        )
    if url.userinfo:  # it would be seen in every log of the request
        raise Invalid(
            f"openai: the base_url of {url.host} must not hold a password; set the api key"
        )
    return url.copy_with(path=url.path.rstrip("/") + path)


def _server(base: httpx.URL) -> str:
    """Which server of a machine: its host, with the port and the path where they are not the usual ones."""
    port = (
        "" if base.port is None else f":{base.port}"
    )  # None also for the port that the scheme implies
    path = base.path.rstrip("/")
    return f"{base.host}{port}{'' if path == USUAL_PATH else path}"


def _header_safe(key: str) -> str:
    """Refused here, an odd key is not shown; refused by the HTTP client, it would stand in the error."""
    if not re.fullmatch(r"[!-~]*", key.strip()):
        raise Invalid(
            "openai: the api key has characters that no key has (spaces, line breaks or non-ASCII)"
        )
    return key.strip()


def _retry_after_s(response: httpx.Response) -> float:
    """In seconds; 0 if absent or a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else 0.0


def _message(response: httpx.Response) -> str:
    """What the server says went wrong, in the forms that are around."""
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
    """Does the line hold a run of the text? Very short texts are not looked for: they are part of any sentence."""
    text = " ".join(text.split())
    size = min(ECHO_CHARS, len(text))
    return size > 3 and any(
        line[start : start + size] in text for start in range(len(line) - size + 1)
    )
