"""Vectors of texts in Redis, for several servers. Its defects slow embedding down, no more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from knowloom.embedders.disk_cache import CacheKey, decode_vector
from knowloom.errors import KnowloomError, hide_secrets
from knowloom.keyvalue.redis_address import parse_redis_address
from knowloom.keyvalue.redis_client import RedisClient
from knowloom.ports import Vector

log = logging.getLogger(__name__)

TIMEOUT_S = 0.5  # unless the URL has one: embedding again is faster than a longer wait
CHUNK = 500
T = TypeVar("T")


class RedisCache:
    """A hash for each text, with a vector per model; it expires after `ttl_s` seconds.

    The server bounds the number of vectors: set its `maxmemory` and an eviction policy such as
    `allkeys-lru`. `problem` reports the last failure.
    """

    def __init__(self, url: str, ttl_s: float | None = None) -> None:
        address = parse_redis_address(url)
        if "timeout=" not in url:
            address = replace(address, timeout_s=TIMEOUT_S, connect_timeout_s=TIMEOUT_S)
        self._client = RedisClient(address)
        self._name, self._ttl_s = hide_secrets(url), ttl_s
        self._prefix = f"{address.prefix}:vectors"
        self.problem = ""

    def _key(self, digest: bytes) -> str:
        return f"{self._prefix}:{digest.hex()}"

    def get(self, keys: Iterable[CacheKey]) -> dict[CacheKey, Vector]:
        """Return the stored vectors of the keys; missing ones are left out."""
        requested = list(keys)

        def read() -> dict[CacheKey, Vector]:
            vectors: dict[CacheKey, Vector] = {}
            for page in _pages(requested):
                rows = self._client.read(
                    [("HGET", self._key(digest), model) for model, digest in page]
                )
                decoded = zip(page, map(decode_vector, rows), strict=True)
                vectors |= {key: vector for key, vector in decoded if vector is not None}
            if vectors:
                self._client.write("INCRBY", f"{self._prefix}:hits", len(vectors))
            return vectors

        default: dict[CacheKey, Vector] = {}
        return self._try(read, default)

    def put(self, vectors: Mapping[CacheKey, Vector]) -> None:
        """Store vectors."""
        commands: list[tuple[Any, ...]] = []
        for (model, digest), vector in vectors.items():
            data = np.asarray(vector, np.float32).tobytes()
            commands.append(("HSET", self._key(digest), model, data))
            if self._ttl_s is not None:
                commands.append(("PEXPIRE", self._key(digest), int(self._ttl_s * 1000) or 1))
        self._write(commands)

    def counts(self) -> tuple[int, int]:
        """Return the number of texts with vectors, and of hits since the cache was created."""

        def read() -> tuple[int, int]:
            hits = self._client.read([("GET", f"{self._prefix}:hits")])[0]
            return sum(1 for _ in self._text_keys()), int(hits or 0)

        return self._try(read, (0, 0))

    def _text_keys(self) -> Iterable[bytes]:
        return self._client.scan(f"{self._prefix}:{'[0-9a-f]' * 64}")

    def clear(self, model: str | None = None) -> None:
        """Delete the vectors of a model, by default all."""

        def write() -> None:
            for page in _pages(list(self._text_keys())):
                command = ("DEL",) if model is None else ("HDEL",)
                field = () if model is None else (model,)
                self._client.write_all([(*command, key, *field) for key in page])

        self._try(write, None)

    def forget(self, digests: Iterable[bytes]) -> None:
        """Delete the vectors of texts by their digests, of all models."""
        self._write([("DEL", self._key(digest)) for digest in digests])

    def close(self) -> None:
        self._client.close()

    def _write(self, commands: list[tuple[Any, ...]]) -> None:
        def write() -> None:
            for page in _pages(commands):
                self._client.write_all(page)

        self._try(write, None)

    def _try(self, work: Callable[[], T], default: T) -> T:
        """Return the result of the work, or the default: no failure of a cache is fatal."""
        try:
            result = work()
        except KnowloomError as error:
            problem = f"embedding cache {self._name!r}: {error}"
            if problem != self.problem:
                log.warning("%s", problem)
            self.problem = problem
            return default
        self.problem = ""
        return result


def _pages(values: list[T]) -> Iterable[list[T]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
