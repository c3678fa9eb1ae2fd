"""An embedder that remembers: texts seen lately are not embedded again, and with a file, not by the next process either."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from threading import Lock

import numpy as np

from knowloom.embedders.disk_cache import Kept
from knowloom.errors import Invalid, KnowloomError, Unavailable
from knowloom.ports import Caching, Embedder, Vector

FAILED = "embedding_failed"

CacheKey = tuple[str, bytes]
"""The embedder's fingerprint and the text's digest: the cache holds no text and never answers with another model's vector."""


def on_disk(caching: Caching) -> Kept | None:
    """The file of a cache, if it has one."""
    return Kept(caching.path, caching.disk_size, caching.ttl_s) if caching.path else None


class Cached:
    """The `max_size` vectors used last, none older than `ttl_s` seconds, for any embedder; safe to share between threads. The vectors are
    read-only. A text asked for twice in one call is a miss and a hit. `disk` is asked for what is not in memory."""

    def __init__(
        self,
        embedder: Embedder,
        max_size: int = 10_000,
        ttl_s: float | None = None,
        disk: Kept | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_size < 1:
            raise Invalid(f"cache: max_size {max_size} must be 1 or more")
        if ttl_s is not None and not ttl_s > 0:
            raise Invalid(f"cache: ttl_s {ttl_s} must be above 0")
        self.hits = self.misses = 0
        self._embedder, self._max_size, self._ttl_s, self._disk, self._clock = (
            embedder,
            max_size,
            ttl_s,
            disk,
            clock,
        )
        self._vectors: OrderedDict[CacheKey, tuple[Vector, float]] = OrderedDict()
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

    def clear(self) -> None:
        """Forget every vector, in memory and on disk."""
        with self._lock:
            self._vectors.clear()
        if self._disk is not None:
            self._disk.clear()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        fingerprint = self.fingerprint
        keys = [(fingerprint, _digest(text)) for text in texts]
        known = self._recall(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing and self._disk is not None:
            found = {key: _frozen(vector) for key, vector in self._disk.get(missing).items()}
            known |= self._remember(found)
            missing = {key: text for key, text in missing.items() if key not in found}
        self._count(len(texts), len(missing))
        if missing:
            # Outside the lock: other threads go on reading while the model works.
            fresh = dict(zip(missing, self.made(list(missing.values())), strict=True))
            known |= self._remember(fresh)
            if self._disk is not None:
                self._disk.put(fresh)
        return [known[key] for key in keys]

    def made(self, texts: list[str]) -> list[Vector]:
        """What the embedder makes of the texts now, whatever is remembered. Embedders may come from anywhere: one that fails in a way of its own is
        Unavailable, and what is no vector goes no further."""
        try:
            vectors = [_frozen(vector) for vector in self._embedder.embed(texts)]
        except KnowloomError:
            raise
        except Exception as error:  # its message may repeat a text
            raise Unavailable(
                f"embedder {self.name!r} failed: {type(error).__name__}", FAILED
            ) from error
        if len(vectors) != len(texts):
            raise Unavailable(
                f"embedder {self.name!r} gave {len(vectors)} vectors for {len(texts)} texts", FAILED
            )
        for vector in vectors:
            if vector.ndim != 1 or not 0 < float(np.linalg.norm(vector)) < np.inf:
                raise Unavailable(
                    f"embedder {self.name!r} gave what is no vector: numbers that are not finite, none, or nothing but 0",
                    FAILED,
                )
        return vectors

    def _recall(self, keys: Iterable[CacheKey]) -> dict[CacheKey, Vector]:
        known = {}
        oldest = 0.0 if self._ttl_s is None else self._clock() - self._ttl_s
        with self._lock:
            for key in keys:
                if key in self._vectors:
                    vector, at = self._vectors[key]
                    if self._ttl_s is not None and at < oldest:
                        del self._vectors[key]
                        continue
                    self._vectors.move_to_end(key)
                    known[key] = vector
        return known

    def _remember(self, fresh: dict[CacheKey, Vector]) -> dict[CacheKey, Vector]:
        now = self._clock()
        with self._lock:
            self._vectors |= {key: (vector, now) for key, vector in fresh.items()}
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
