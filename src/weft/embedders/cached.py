"""An embedder that remembers: texts seen lately are not embedded again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock

import numpy as np

from weft.errors import Invalid
from weft.ports import Embedder, Vector

CacheKey = tuple[str, bytes]
"""The embedder's fingerprint and the text's digest: the cache holds no text and never answers with another model's vector."""


class Cached:
    """The `max_size` vectors used last, for any embedder; safe to share between threads. The vectors are read-only.
    A text asked for twice in one call is a miss and a hit."""

    def __init__(self, embedder: Embedder, max_size: int = 10_000) -> None:
        if max_size < 1:
            raise Invalid(f"cache: max_size {max_size} must be 1 or more")
        self.hits = self.misses = 0
        self._embedder, self._max_size = embedder, max_size
        self._vectors: OrderedDict[CacheKey, Vector] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        fingerprint = self.fingerprint
        keys = [(fingerprint, _digest(text)) for text in texts]
        known = self._recall(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        self._count(len(texts), len(missing))
        if missing:
            # Outside the lock: other threads go on reading while the model works.
            fresh = [_frozen(vector) for vector in self._embedder.embed(list(missing.values()))]
            known |= self._remember(dict(zip(missing, fresh, strict=True)))
        return [known[key] for key in keys]

    def _recall(self, keys: Iterable[CacheKey]) -> dict[CacheKey, Vector]:
        known = {}
        with self._lock:
            for key in keys:
                if key in self._vectors:
                    self._vectors.move_to_end(key)
                    known[key] = self._vectors[key]
        return known

    def _remember(self, fresh: dict[CacheKey, Vector]) -> dict[CacheKey, Vector]:
        with self._lock:
            self._vectors |= fresh
            while len(self._vectors) > self._max_size:
                self._vectors.popitem(last=False)
        return fresh

    def _count(self, asked: int, missing: int) -> None:
        with self._lock:
            self.hits += asked - missing
            self.misses += missing


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _frozen(vector: Vector) -> Vector:
    """A copy, so that neither the caller nor the embedder can change what is remembered."""
    copy = np.array(vector, np.float32)
    copy.setflags(write=False)
    return copy
