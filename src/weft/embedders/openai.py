"""Any OpenAI-compatible /embeddings endpoint: OpenAI, Ollama, vLLM, LiteLLM, TEI."""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import httpx
import numpy as np

from weft.errors import Invalid, Unavailable
from weft.ports import Vector

log = logging.getLogger(__name__)

ADDRESS = re.compile(r"(@??[^@]*)(?:@(https?://.+))?")  # model@base_url; a model's own name may begin with "@"
MAX_CHARS = 6_000  # fits the usual 8,191 tokens in nearly every script; a longer text would make its whole batch fail
MAX_MESSAGE_CHARS = 200
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
ECHO_CHARS = 12  # a run of this length that is also in the user's text is taken for an echo of it


class _Passing(Unavailable):
    """A failure that may be gone in a moment."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message, code="embedding_failed")
        self.retry_after_s = retry_after_s


class OpenAI:
    """Unit vectors from a server. Texts are cut at MAX_CHARS. Without `dimensions` the first answer decides how many there are."""

    name = "openai"

    def __init__(
        self,
        *,
        base_url: str = "https://api.openai.com/v1",
        model: str = "text-embedding-3-small",
        api_key: str | None = None,
        dimensions: int | None = None,
        timeout_s: float = 30,
        max_retries: int = 3,
        batch_size: int = 128,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if batch_size < 1 or max_retries < 0 or (dimensions is not None and dimensions < 1):
            raise Invalid(f"openai: {batch_size=} and {dimensions=} must be 1 or more, {max_retries=} 0 or more")
        self._url = _endpoint(base_url)
        self._key = _header_safe(api_key or "")
        self._asked: dict[str, object] = {"model": model} | ({"dimensions": dimensions} if dimensions else {})
        self._dimensions = dimensions or 0
        self._timeout_s, self._max_retries, self._batch_size, self._sleep = timeout_s, max_retries, batch_size, sleep
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers, verify=_certificates())
        self._where = f"{model} at {self._url.host}"
        self.fingerprint = f"openai:{self._url.host}:{model}:{dimensions or ''}"

    @classmethod
    def open(cls, rest: str = "", **settings: Any) -> OpenAI:
        """From what stands behind `openai:`, such as `nomic-embed-text@http://127.0.0.1:11434/v1`. The settings are the
        constructor's; what the address says wins over them."""
        parts = ADDRESS.fullmatch(rest)
        if not parts:
            raise Invalid(f"openai: no http address behind {rest.partition('@')[0]!r}; write openai:model@http://host:port/v1")
        named = {"model": parts[1], "base_url": parts[2]}
        return cls(**settings | {name: value for name, value in named.items() if value})

    def __repr__(self) -> str:
        return f"OpenAI({self._where})"

    def close(self) -> None:
        self._client.close()

    @property
    def dimensions(self) -> int:
        """As configured, else as in the first answer; asks the server for one if there was none yet."""
        if not self._dimensions:
            self.embed(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self._client.is_closed:
            raise self._failed("the embedder was closed")
        sendable = [_sendable(text) for text in texts]
        starts = range(0, len(sendable), self._batch_size)
        return [vector for start in starts for vector in self._embed_batch(sendable[start : start + self._batch_size])]

    def _embed_batch(self, texts: list[str]) -> list[Vector]:
        return [self._unit(numbers) for numbers in self._rows(self._ask(texts), len(texts))]

    def _ask(self, texts: list[str]) -> httpx.Response:
        """The first good answer. A refusal is final; what may pass is asked again, up to `max_retries` times."""
        for retry in range(self._max_retries):
            try:
                return self._post(texts)
            except _Passing as failure:
                wait_s = min(max(failure.retry_after_s, FIRST_WAIT_S * 2**retry), MAX_WAIT_S)
                log.warning("%s; retry %d of %d in %.1f s", failure, retry + 1, self._max_retries, wait_s)
                self._sleep(wait_s)
        return self._post(texts)

    def _post(self, texts: list[str]) -> httpx.Response:
        try:
            response = self._client.post(self._url, json=self._asked | {"input": texts})
        except httpx.TimeoutException as error:
            raise _Passing(f"{self._where}: no answer within {self._timeout_s:g} s") from error
        except httpx.TransportError as error:
            raise _Passing(f"{self._where}: no connection: {self._presentable(str(error) or type(error).__name__, texts)}") from error
        except httpx.HTTPError as error:
            raise self._failed(f"the answer is unreadable: {type(error).__name__}") from error
        if not response.is_success:
            raise self._refusal(response, texts)
        return response

    def _refusal(self, response: httpx.Response, texts: list[str]) -> Unavailable:
        problem = f"status {response.status_code}: {self._presentable(_message(response), texts)}"
        if response.status_code == 429 or response.status_code >= 500:
            return _Passing(f"{self._where}: {problem}", _retry_after_s(response))
        return self._failed(problem)

    def _presentable(self, message: str, texts: list[str]) -> str:
        """One short line without the key and without anything the user wrote."""
        line = " ".join((message.replace(self._key, "[key]") if self._key else message).split())
        if any(_echoes(line[: MAX_MESSAGE_CHARS + ECHO_CHARS], text) for text in texts):
            return "(a message that repeats the text, left out)"
        return line[:MAX_MESSAGE_CHARS]

    def _rows(self, response: httpx.Response, count: int) -> list[object]:
        """The raw vectors in the order of the texts, whatever order the server chose."""
        try:
            rows = [(row["index"], row["embedding"]) for row in response.json()["data"]]
            numbers = dict(rows)
        except (ValueError, RecursionError) as error:
            raise self._failed("the answer is not JSON") from error
        except (KeyError, TypeError) as error:
            raise self._failed("the answer lacks data, index or embedding") from error
        if len(rows) != count or numbers.keys() != set(range(count)):
            raise self._failed(f"{len(rows)} embeddings for {count} texts, or not one for each")
        return [numbers[index] for index in range(count)]

    def _unit(self, numbers: object) -> Vector:
        try:
            vector = np.array(numbers, np.float64)
        except (TypeError, ValueError, OverflowError):  # not chained: it quotes what the server sent
            raise self._failed("an embedding is not a list of numbers") from None
        with np.errstate(over="ignore"):
            length = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
        if not 0 < length < np.inf:
            raise self._failed("an embedding is zero, infinite or not all numbers")
        self._dimensions = self._dimensions or len(vector)
        if len(vector) != self._dimensions:
            raise self._failed(f"an embedding has {len(vector)} dimensions instead of {self._dimensions}")
        return (vector / length).astype(np.float32)

    def _failed(self, problem: str) -> Unavailable:
        return Unavailable(f"{self._where}: {problem}", code="embedding_failed")


@cache
def _certificates() -> ssl.SSLContext:
    """Loading them takes 30 ms: once for all embedders."""
    return httpx.create_ssl_context()


def _endpoint(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise Invalid(f"openai: the base_url is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise Invalid(f"openai: base_url {base_url!r} must begin with http:// or https:// and name a host")
    if url.userinfo:  # it would be seen in every log of the request
        raise Invalid(f"openai: the base_url of {url.host} must not hold a password; set the api key")
    return url.copy_with(path=url.path.rstrip("/") + "/embeddings")


def _header_safe(key: str) -> str:
    """Refused here, an odd key is not shown; refused by the HTTP client, it would stand in the error."""
    if not re.fullmatch(r"[!-~]*", key.strip()):
        raise Invalid("openai: the api key has characters that no key has (spaces, line breaks or non-ASCII)")
    return key.strip()


def _sendable(text: str) -> str:
    """What any server accepts: not empty, not too long, valid UTF-8."""
    return text[:MAX_CHARS].encode(errors="replace").decode() or " "


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
        case {"error": {"message": str(message)}} | {"error": str(message)} | {"message": str(message)} | {"detail": str(message)}:
            return message
    return str(answer)


def _echoes(line: str, text: str) -> bool:
    """Does the line hold a run of the text? Very short texts are not looked for: they are part of any sentence."""
    text = " ".join(text.split())
    size = min(ECHO_CHARS, len(text))
    return size > 3 and any(line[start : start + size] in text for start in range(len(line) - size + 1))
