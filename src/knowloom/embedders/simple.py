"""Embedders of the common shape {embed, embed_batch, dimensions, model}, as an `Embedder`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knowloom.errors import Invalid
from knowloom.ports import Vector


class SimpleEmbedder:
    """An object whose `embed` takes one text and whose `embed_batch` takes many.

    `dimensions` and `model` are attributes or methods; the model is the fingerprint. An
    `embed_query` for one query, as LangChain has it, is used if it exists.
    """

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.name = str(_read(embedder, "model"))
        if not self.name.strip():
            raise Invalid(f"the model of an embedder must be a name, got {self.name!r}")
        self.fingerprint = f"simple:{type(embedder).__name__}:{self.name}"
        self.has_roles = callable(getattr(embedder, "embed_query", None))
        if isinstance(window := getattr(embedder, "window", None), int):
            self.window = window

    @property
    def dimensions(self) -> int:
        return int(_read(self._embedder, "dimensions"))

    def close(self) -> None:
        close = getattr(self._embedder, "close", None)
        if callable(close):
            close()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [np.asarray(row, np.float32) for row in self._embedder.embed_batch(list(texts))]

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        if self.has_roles:
            return [np.asarray(self._embedder.embed_query(text), np.float32) for text in texts]
        if len(texts) == 1:
            return [np.asarray(self._embedder.embed(texts[0]), np.float32)]
        return self.embed(texts)


def _read(embedder: Any, name: str) -> Any:
    value = getattr(embedder, name)
    return value() if callable(value) else value
