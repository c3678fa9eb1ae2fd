"""An embedder with a cache: in memory, and with a file also across processes."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock

import numpy as np

from knowloom.caching import Caching, register
from knowloom.embedders.calibration import CalibratedEmbedder
from knowloom.embedders.disk_cache import MAX_LENGTH_ERROR, CacheKey, DiskCache, PersistentCache
from knowloom.embedders.queries import WrappedEmbedder, embed_queries
from knowloom.errors import KnowloomError, Unavailable
from knowloom.ports import Embedder, Vector
from knowloom.validation import validate_int, validate_positive

FAILED = "embedding_failed"
QUERIES = "#query"  # after the fingerprint, if queries have vectors of their own


def open_disk_cache(caching: Caching) -> PersistentCache | None:
    """Open the file or the Redis server of a cache, if it has one."""
    if caching.path.startswith(("redis://", "rediss://")):
        from knowloom.embedders.redis_cache import RedisCache

        return RedisCache(caching.path, caching.ttl_s)
    return DiskCache(caching.path, caching.disk_size, caching.ttl_s) if caching.path else None


class CachedEmbedder(WrappedEmbedder):
    """Any embedder with an LRU cache of `max_size` vectors, none older than `ttl_s` seconds.

    Safe to share between threads; the vectors are read-only. A text that occurs twice in one call
    is a miss and a hit. `disk` is read for vectors that are not in memory.
    """

    def __init__(
        self,
        embedder: Embedder,
        max_size: int = 10_000,
        ttl_s: float | None = None,
        disk: PersistentCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        validate_int("cache: max_size", max_size, 1)
        if ttl_s is not None:
            validate_positive("cache: ttl_s", ttl_s)
        super().__init__(embedder)
        self.hits = self.misses = 0
        self.is_calibrated = bool(getattr(embedder, "is_calibrated", False))
        self.is_local = bool(getattr(embedder, "is_local", False))
        self._disk = disk
        self._memory = _ExpiringCache(max_size, ttl_s, clock)
        self._lock = Lock()

    def clear(self) -> None:
        """Delete every vector, in memory and on disk."""
        self._memory.clear()
        if self._disk is not None:
            self._disk.clear()

    def forget(self) -> None:
        """Delete the vectors of this embedder: another model has its name now."""
        self._memory.clear()
        if self._disk is not None:
            for model in (self.fingerprint, self.fingerprint + QUERIES):
                self._disk.clear(model)

    def forget_texts(self, texts: Sequence[str]) -> None:
        """Delete the vectors of these texts in memory."""
        self._memory.forget({digest_text(text) for text in texts})

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return self._embed(self.fingerprint, texts, self.compute)

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed queries. Without a method of their own, they share the vectors of passages."""
        model = self.fingerprint + QUERIES if self.has_roles else self.fingerprint
        return self._embed(model, texts, self.compute_queries)

    def _embed(
        self, model: str, texts: Sequence[str], compute: Callable[[list[str]], list[Vector]]
    ) -> list[Vector]:
        keys = [(model, digest_text(text)) for text in texts]
        vectors = self._memory.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing and self._disk is not None:
            stored = {key: _freeze(vector) for key, vector in self._disk.get(missing).items()}
            self._memory.put(stored)
            vectors |= stored
            missing = {key: text for key, text in missing.items() if key not in stored}
        self._count(len(texts), len(missing))
        if missing:
            # Outside the lock: other threads go on reading while the model works.
            fresh = dict(zip(missing, compute(list(missing.values())), strict=True))
            self._memory.put(fresh)
            vectors |= fresh
            if self._disk is not None:
                self._disk.put(fresh)
        return [vectors[key] for key in keys]

    def compute(self, texts: list[str]) -> list[Vector]:
        """Embed the texts without the cache.

        Embedders may be plug-ins: an unexpected error becomes Unavailable, and so does a result
        that is not a list of vectors.
        """
        return self._check(self._embedder.embed, texts)

    def compute_queries(self, texts: list[str]) -> list[Vector]:
        """Embed queries without the cache; see `compute`."""
        return self._check(partial(embed_queries, self._embedder), texts)

    def _check(
        self, embed: Callable[[Sequence[str]], list[Vector]], texts: list[str]
    ) -> list[Vector]:
        try:
            vectors = [_freeze(vector) for vector in embed(texts)]
        except KnowloomError:
            raise
        except Exception as error:  # its message may repeat a text
            reason = type(error).__name__
            raise Unavailable(f"embedder {self.name!r} failed: {reason}", FAILED) from error
        if len(vectors) != len(texts):
            counts = f"{len(vectors)} vectors for {len(texts)} texts"
            raise Unavailable(f"embedder {self.name!r} returned {counts}", FAILED)
        if len({vector.shape for vector in vectors}) > 1:
            sizes = sorted({len(vector) if vector.ndim else 0 for vector in vectors})
            raise Unavailable(f"embedder {self.name!r} returned vectors of {sizes} numbers", FAILED)
        return [self._normalise(vector) for vector in vectors]

    def _normalise(self, vector: Vector) -> Vector:
        """Return the vector with unit length, unchanged if it has it already."""
        exact = vector.astype(np.float64)
        length = float(np.linalg.norm(exact)) if vector.ndim == 1 else 0.0
        if not 0 < length < np.inf:
            what = "an invalid vector: it must have finite numbers, not all of them 0"
            raise Unavailable(f"embedder {self.name!r} returned {what}", FAILED)
        if abs(length - 1) < MAX_LENGTH_ERROR:
            return vector
        return _freeze((exact / length).astype(np.float32))

    def _count(self, texts: int, missing: int) -> None:
        with self._lock:
            self.hits += texts - missing
            self.misses += missing


def calibrate_in_memory(embedder: Embedder) -> Embedder:
    """Return an embedder on the common scale, for uses without a store."""
    if getattr(embedder, "is_calibrated", False):
        return embedder
    return CalibratedEmbedder(CachedEmbedder(embedder), _MemoryCalibrations())


class _MemoryCalibrations:
    """Calibrations that end with the process."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def calibration(self, fingerprint: str) -> bytes:
        return self._data.get(fingerprint, b"")

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        self._data.setdefault(fingerprint, data)


class _ExpiringCache:
    """An LRU cache of vectors with a time to live, safe to share between threads."""

    def __init__(self, max_size: int, ttl_s: float | None, clock: Callable[[], float]) -> None:
        self._max_size, self._ttl_s, self._clock = max_size, ttl_s, clock
        self._vectors: OrderedDict[CacheKey, tuple[Vector, float]] = OrderedDict()
        self._lock = Lock()
        register("embeddings", max_size, self)

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, keys: Iterable[CacheKey]) -> dict[CacheKey, Vector]:
        vectors = {}
        oldest = 0.0 if self._ttl_s is None else self._clock() - self._ttl_s
        with self._lock:
            for key in keys:
                if key in self._vectors:
                    vector, time_stored = self._vectors[key]
                    if self._ttl_s is not None and time_stored < oldest:
                        del self._vectors[key]
                        continue
                    self._vectors.move_to_end(key)
                    vectors[key] = vector
        return vectors

    def put(self, vectors: Mapping[CacheKey, Vector]) -> None:
        now = self._clock()
        with self._lock:
            self._vectors |= {key: (vector, now) for key, vector in vectors.items()}
            while len(self._vectors) > self._max_size:
                self._vectors.popitem(last=False)

    def forget(self, digests: Container[bytes]) -> None:
        with self._lock:
            for key in [key for key in self._vectors if key[1] in digests]:
                del self._vectors[key]

    def clear(self) -> None:
        with self._lock:
            self._vectors.clear()


def digest_text(text: str) -> bytes:
    """Return the key of a text in the cache."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _freeze(vector: Vector) -> Vector:
    """Return a read-only copy: neither the caller nor the embedder can change the cached one."""
    copy = np.array(vector, np.float32)
    copy.setflags(write=False)
    return copy
