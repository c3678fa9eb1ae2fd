"""Embeddings of any OpenAI-compatible server: OpenAI, Ollama, vLLM, LiteLLM, TEI."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import httpx
import numpy as np

from knowloom.errors import Invalid
from knowloom.openai_http import OPENAI_URL, OpenAITransport, resolve_settings
from knowloom.ports import Vector
from knowloom.validation import validate_int

# Fits the usual 8,191 tokens in nearly every script; a longer text would fail its whole batch.
MAX_CHARS = 6_000
WINDOW = 8_192  # tokens that most models read


class OpenAIEmbedder:
    """An embedder behind the /embeddings endpoint of a server. Texts are cut at MAX_CHARS.

    Without `dimensions` the first answer decides their number. Some models need a prefix before
    queries, passages or both, such as "query: " and "passage: ".
    """

    name = "openai"

    def __init__(
        self,
        *,
        base_url: str = OPENAI_URL,
        model: str = "text-embedding-3-small",
        api_key: str | None = None,
        dimensions: int | None = None,
        timeout_s: float = 30,
        max_retries: int = 3,
        batch_size: int = 128,
        window: int = WINDOW,
        query_prefix: str = "",
        passage_prefix: str = "",
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        validate_int("openai: batch_size", batch_size, 1)
        validate_int("openai: window", window, 1)
        if dimensions is not None:
            validate_int("openai: dimensions", dimensions, 1)
        self._transport = OpenAITransport(
            base_url,
            "/embeddings",
            model,
            api_key=api_key,
            timeout_s=timeout_s,
            max_retries=max_retries,
            code="embedding_failed",
            sleep=sleep,
        )
        for name, prefix in (("query_prefix", query_prefix), ("passage_prefix", passage_prefix)):
            if not isinstance(prefix, str):
                raise Invalid(f"openai: {name} must be text, got {prefix!r}")
        self._query_prefix, self._passage_prefix = query_prefix, passage_prefix
        self.has_roles = query_prefix != passage_prefix
        self._body: dict[str, object] = {"model": model}
        if dimensions:
            self._body["dimensions"] = dimensions
        self._dimensions = dimensions or 0
        self._batch_size = batch_size
        self.window = min(window, MAX_CHARS // 4)  # four characters a token: longer texts are cut
        self.fingerprint = f"openai:{self._transport.server}:{model}:{dimensions or ''}"
        if query_prefix or passage_prefix:
            self.fingerprint += f":{query_prefix!r}:{passage_prefix!r}"

    @classmethod
    def open(cls, address: str = "", **settings: object) -> OpenAIEmbedder:
        """Open the model of an address such as `nomic-embed-text@http://127.0.0.1:11434/v1`.

        The settings are the arguments of the constructor; the address takes precedence.
        """
        return cls(**resolve_settings(cls, settings, address))

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._transport.description})"

    def close(self) -> None:
        self._transport.close()

    @property
    def dimensions(self) -> int:
        """The configured number, else that of the first answer; it may send a request."""
        if not self._dimensions:
            self.embed(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return self._embed([_sanitise(self._passage_prefix + text) for text in texts], retry=True)

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed queries in one attempt: somebody is waiting for the answer."""
        return self._embed([_sanitise(self._query_prefix + text) for text in texts], retry=False)

    def _embed(self, texts: list[str], *, retry: bool) -> list[Vector]:
        if self._transport.is_closed:
            raise self._transport.error("the embedder is closed")
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch_size):
            vectors += self._embed_batch(texts[start : start + self._batch_size], retry)
        return vectors

    def _embed_batch(self, texts: list[str], retry: bool) -> list[Vector]:
        response = self._transport.post(self._body | {"input": texts}, texts, retry=retry)
        return [self._normalise(numbers) for numbers in self._parse(response, len(texts))]

    def _parse(self, response: httpx.Response, count: int) -> list[object]:
        """Return the raw vectors in the order of the texts, whatever the server's order."""
        try:
            rows = [(row["index"], row["embedding"]) for row in response.json()["data"]]
            numbers = dict(rows)
        except (ValueError, RecursionError) as error:
            raise self._transport.error("the answer is not JSON") from error
        except (KeyError, TypeError) as error:
            raise self._transport.error("the answer lacks data, index or embedding") from error
        if len(rows) != count or numbers.keys() != set(range(count)):
            raise self._transport.error(
                f"expected one embedding for each of {count} texts, got {len(rows)}"
            )
        return [numbers[index] for index in range(count)]

    def _normalise(self, numbers: object) -> Vector:
        try:
            vector = np.array(numbers, np.float64)
        except (TypeError, ValueError, OverflowError):
            # Not chained: the cause quotes the server's answer.
            raise self._transport.error("an embedding is not a list of numbers") from None
        with np.errstate(over="ignore"):
            length = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
        if not 0 < length < np.inf:
            raise self._transport.error("an embedding is zero, infinite or not all numbers")
        self._dimensions = self._dimensions or len(vector)
        if len(vector) != self._dimensions:
            raise self._transport.error(
                f"an embedding has {len(vector)} dimensions instead of {self._dimensions}"
            )
        return (vector / length).astype(np.float32)


def _sanitise(text: str) -> str:
    """Return a text that any server accepts: not empty, not too long, valid UTF-8."""
    return text[:MAX_CHARS].encode(errors="replace").decode() or " "
