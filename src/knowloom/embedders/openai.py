"""Any OpenAI-compatible /embeddings endpoint: OpenAI, Ollama, vLLM, LiteLLM, TEI."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import numpy as np

from knowloom import openai_http
from knowloom.ports import Vector

MAX_CHARS = 6_000  # fits the usual 8,191 tokens in nearly every script; a longer text would make its whole batch fail


class OpenAI:
    """Unit vectors from a server. Texts are cut at MAX_CHARS. Without `dimensions` the first answer decides how many there are."""

    name = "openai"

    def __init__(
        self,
        *,
        base_url: str = openai_http.OPENAI,
        model: str = "text-embedding-3-small",
        api_key: str | None = None,
        dimensions: int | None = None,
        timeout_s: float = 30,
        max_retries: int = 3,
        batch_size: int = 128,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        openai_http.whole("batch_size", batch_size, 1)
        if dimensions is not None:
            openai_http.whole("dimensions", dimensions, 1)
        self._remote = openai_http.Remote(
            base_url,
            "/embeddings",
            model,
            api_key=api_key,
            timeout_s=timeout_s,
            max_retries=max_retries,
            code="embedding_failed",
            sleep=sleep,
        )
        self._asked: dict[str, object] = {"model": model} | (
            {"dimensions": dimensions} if dimensions else {}
        )
        self._dimensions = dimensions or 0
        self._batch_size = batch_size
        self.fingerprint = f"openai:{self._remote.server}:{model}:{dimensions or ''}"

    @classmethod
    def open(cls, rest: str = "", **settings: Any) -> OpenAI:
        """From what stands behind `openai:`, such as `nomic-embed-text@http://127.0.0.1:11434/v1`. The settings are the
        constructor's; what the address says wins over them."""
        return cls(**openai_http.settings(cls, settings, rest))

    def __repr__(self) -> str:
        return f"OpenAI({self._remote.where})"

    def close(self) -> None:
        self._remote.close()

    @property
    def dimensions(self) -> int:
        """As configured, else as in the first answer; asks the server for one if there was none yet."""
        if not self._dimensions:
            self.embed(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self._remote.closed:
            raise self._remote.failed("the embedder was closed")
        sendable = [_sendable(text) for text in texts]
        starts = range(0, len(sendable), self._batch_size)
        return [
            vector
            for start in starts
            for vector in self._embed_batch(sendable[start : start + self._batch_size])
        ]

    def _embed_batch(self, texts: list[str]) -> list[Vector]:
        return [
            self._unit(numbers)
            for numbers in self._rows(
                self._remote.ask(self._asked | {"input": texts}, texts), len(texts)
            )
        ]

    def _rows(self, response: httpx.Response, count: int) -> list[object]:
        """The raw vectors in the order of the texts, whatever order the server chose."""
        try:
            rows = [(row["index"], row["embedding"]) for row in response.json()["data"]]
            numbers = dict(rows)
        except (ValueError, RecursionError) as error:
            raise self._remote.failed("the answer is not JSON") from error
        except (KeyError, TypeError) as error:
            raise self._remote.failed("the answer lacks data, index or embedding") from error
        if len(rows) != count or numbers.keys() != set(range(count)):
            raise self._remote.failed(
                f"{len(rows)} embeddings for {count} texts, or not one for each"
            )
        return [numbers[index] for index in range(count)]

    def _unit(self, numbers: object) -> Vector:
        try:
            vector = np.array(numbers, np.float64)
        except (
            TypeError,
            ValueError,
            OverflowError,
        ):  # not chained: it quotes what the server sent
            raise self._remote.failed("an embedding is not a list of numbers") from None
        with np.errstate(over="ignore"):
            length = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
        if not 0 < length < np.inf:
            raise self._remote.failed("an embedding is zero, infinite or not all numbers")
        self._dimensions = self._dimensions or len(vector)
        if len(vector) != self._dimensions:
            raise self._remote.failed(
                f"an embedding has {len(vector)} dimensions instead of {self._dimensions}"
            )
        return (vector / length).astype(np.float32)


def _sendable(text: str) -> str:
    """What any server accepts: not empty, not too long, valid UTF-8."""
    return text[:MAX_CHARS].encode(errors="replace").decode() or " "
