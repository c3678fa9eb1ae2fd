"""The embedding cache and the rate limits of several servers in Redis."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from knowloom import Invalid
from knowloom.caching import Caching
from knowloom.embedders.cache import CachedEmbedder, digest_text, open_disk_cache
from knowloom.embedders.disk_cache import PersistentCache
from knowloom.server.limits.redis_limit import RedisRateLimiter
from redis_data import empty
from servers.redis import Cluster, Redis, SecuredRedis


class CountingEmbedder:
    """Vectors that depend on the first letter, and the texts that were embedded."""

    name, dimensions, fingerprint = "counting", 2, "counting-1"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: list[str]) -> list[np.ndarray]:
        self.texts += texts
        return [np.array([1, 0] if text < "m" else [0, 1], np.float32) for text in texts]


def open_cache(url: str, ttl_s: float | None = None) -> PersistentCache:
    cache = open_disk_cache(Caching(path=url, ttl_s=ttl_s))
    assert cache is not None
    return cache


def test_two_processes_share_the_vectors_of_texts(redis_server: Redis) -> None:
    empty(redis_server)
    first, second = CountingEmbedder(), CountingEmbedder()
    caches = [open_cache(redis_server.url) for _ in range(2)]
    CachedEmbedder(first, disk=caches[0]).embed(["apple", "zebra", "*3\r\n$3"])
    vectors = CachedEmbedder(second, disk=caches[1]).embed(["zebra", "apple", "*3\r\n$3", "new"])
    assert (second.texts, [list(vector) for vector in vectors[:2]]) == (["new"], [[0, 1], [1, 0]])
    assert caches[1].counts() == (4, 3)
    caches[0].forget([digest_text("apple")])
    caches[0].clear("another model")
    assert caches[1].counts() == (3, 3)
    caches[0].clear("counting-1")
    assert caches[1].counts()[0] == 0
    for cache in caches:
        cache.close()


def test_vectors_are_cached_on_a_cluster(redis_cluster: Cluster) -> None:
    empty(*redis_cluster.nodes)
    cache = open_cache(f"{redis_cluster.nodes[1].url}?cluster=true", ttl_s=60)
    texts = [f"text {number}" for number in range(50)]
    CachedEmbedder(CountingEmbedder(), disk=cache).embed(texts)
    other = CountingEmbedder()
    CachedEmbedder(other, disk=cache).embed(texts)
    assert (other.texts, cache.problem, cache.counts()) == ([], "", (50, 50))
    cache.clear()
    assert cache.counts()[0] == 0
    cache.close()


def test_a_cache_that_fails_only_slows_embedding_down(
    redis_server: Redis, secured_redis: SecuredRedis
) -> None:
    empty(redis_server)
    stopped = open_cache(redis_server.url)
    redis_server.pause()
    denied = open_cache(secured_redis.url.replace("//", "//:canary@"))
    try:
        for cache in (stopped, denied):
            embedder = CountingEmbedder()
            CachedEmbedder(embedder, disk=cache).embed(["apple"])
            assert embedder.texts == ["apple"] and cache.problem
    finally:
        redis_server.resume()
    assert "canary" not in denied.problem and "check the user" in denied.problem
    redis_server.kill()
    assert stopped.get([("m", b"d")]) == {} and stopped.problem
    redis_server.start()
    stopped.close()
    denied.close()


def test_an_invalid_address_of_a_cache_is_refused() -> None:
    with pytest.raises(Invalid, match="unknown option of a Redis URL 'clutser'"):
        open_cache("redis://localhost?clutser=true")


def test_servers_share_the_limit_of_a_key(redis_server: Redis) -> None:
    empty(redis_server)
    servers = [RedisRateLimiter(6, redis_server.url) for _ in range(3)]
    allowed = [servers[number % 3].wait_s("key\r\n1") == 0 for number in range(9)]
    assert allowed == [True] * 6 + [False] * 3
    assert 0 < servers[0].wait_s("key\r\n1") <= 10
    assert servers[1].wait_s("another") == 0
    assert RedisRateLimiter(0, redis_server.url).wait_s("key\r\n1") == 0


def test_without_redis_each_server_limits_by_itself(
    redis_server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    empty(redis_server)
    failures: list[int] = []
    limiter = RedisRateLimiter(3, redis_server.url)
    limiter.count_degraded = lambda: failures.append(1)
    redis_server.kill()
    with caplog.at_level(logging.WARNING):
        allowed = [limiter.wait_s("k") == 0 for _ in range(4)]
    assert (allowed, limiter.is_degraded, len(failures)) == ([True] * 3 + [False], True, 4)
    assert len(caplog.records) == 1 and "per server" in caplog.text
    redis_server.start()
    assert limiter.wait_s("k") == 0 and not limiter.is_degraded
