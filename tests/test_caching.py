"""Caches: the bound holds, recently used values stay, and every cache is listed by name."""

from __future__ import annotations

import gc
from typing import Any

from knowloom import caching
from knowloom.caching import MemoDict, TwoGenerationCache, cached


def cache_of(bound: int, **settings: Any) -> TwoGenerationCache[Any, Any]:
    return TwoGenerationCache("test", bound, **settings)


def test_a_value_in_use_stays_however_many_others_are_stored() -> None:
    cache = cache_of(10)
    cache.put("hot", 0)
    for number in range(1000):
        cache.put(number, number)
        assert cache.get("hot") == 0
        assert len(cache) == len(list(cache)) <= 10
    assert cache.get(5) is None


def test_the_values_stored_last_are_there() -> None:
    cache = cache_of(10)
    for number in range(100):
        cache.put(number, number)
        recent = list(range(max(0, number - 2), number + 1))
        assert [cache.get(key) for key in recent] == recent


def test_sizes_are_those_of_the_values() -> None:
    cache = cache_of(100, size_of=len)
    for number in range(50):
        cache.put(number, "x" * (number % 30))
        sizes = [len(cache._younger.get(key) or cache._older.get(key) or "") for key in cache]
        assert sum(sizes) <= 100


def test_a_value_that_is_too_large_is_not_stored_and_displaces_nothing() -> None:
    cache = cache_of(10, size_of=len)
    cache.put("a", "xxx")
    cache.put("b", "x" * 6)
    assert (cache.get("a"), cache.get("b")) == ("xxx", None)


def test_a_second_value_replaces_the_first() -> None:
    cache = cache_of(4)
    for key in "abc":  # from "c" on, the others belong to the older generation
        cache.put(key, 1)
    cache.put("a", 2)
    assert cache.get("a") == 2
    cache.put("d", 1)
    cache.put("e", 1)
    assert cache.get("a") == 2


def test_a_cleared_cache_is_empty() -> None:
    cache = cache_of(4)
    for key in "abc":
        cache.put(key, key)
    cache.clear()
    assert [cache.get(key) for key in "abc"] == [None] * 3
    assert list(cache) == []


def test_a_memo_computes_each_value_once_and_is_emptied_when_full() -> None:
    computed: list[str] = []
    memo = MemoDict("test memo", lambda text: computed.append(text) or len(text), bound=2)
    assert [memo[word] for word in ("a", "bb", "a", "ccc", "a")] == [1, 2, 1, 3, 1]
    assert computed == ["a", "bb", "ccc", "a"] and len(memo) <= 2


def test_caches_are_listed_with_their_bounds_and_emptied_together() -> None:
    square = cached("test squares", 3)(lambda number: number * number)
    memo = MemoDict("test lengths", len, bound=5)
    other = MemoDict("test lengths", len, bound=5)
    assert [square(2), square(2), memo["abc"], other["a"], other["ab"]] == [4, 4, 3, 1, 2]
    stats = {cache.name: cache for cache in caching.list_caches()}
    assert stats["test squares"] == caching.CacheStats("test squares", 3, 1, 1, hits=1)
    assert stats["test lengths"] == caching.CacheStats("test lengths", 5, 2, 3)
    caching.clear()
    assert (len(memo), len(other)) == (0, 0)
    assert {cache.size for cache in caching.list_caches() if cache.name.startswith("test")} == {0}


def test_a_deleted_cache_is_no_longer_listed() -> None:
    cache = TwoGenerationCache[str, str]("test lifetime", 4)
    cache.put("a", "b")
    del cache
    gc.collect()
    (stats,) = (stats for stats in caching.list_caches() if stats.name == "test lifetime")
    assert (stats.instances, stats.size) == (0, 0)
