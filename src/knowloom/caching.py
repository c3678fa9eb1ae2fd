"""Bounded caches, each registered under a name, so that one place lists and clears them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")

MEMO_BOUND = 65_536  # entries of a MemoDict


class Cache(Protocol):
    """The operations that listing and clearing need."""

    def __len__(self) -> int: ...

    def clear(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The state of all caches of one name; `bound` limits each, `size` is their sum.

    `hits` is None where counting them would slow the cache down.
    """

    name: str
    bound: int
    instances: int
    size: int
    hits: int | None = None


_bounds: dict[str, int] = {}
_functions: dict[str, Any] = {}  # the lru_cache wrappers, by name
_instances: dict[str, WeakValueDictionary[int, Any]] = {}
_numbers = count()  # `WeakSet` would need hashable caches, and a dict is not


def cached(name: str, bound: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache the results of a module-level function, the `bound` most recently used ones."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        _bounds[name] = bound
        _functions[name] = wrapper = lru_cache(maxsize=bound)(function)
        return wrapper  # type: ignore[return-value]

    return decorate


def register(name: str, bound: int, cache: Cache) -> None:
    """List the cache for as long as somebody refers to it; caches of one name share a bound."""
    _bounds[name] = bound
    _instances.setdefault(name, WeakValueDictionary())[next(_numbers)] = cache


def list_caches() -> list[CacheStats]:
    """Return the state of every cache of this process, ordered by name."""
    return [_stats(name) for name in sorted(_bounds)]


def clear() -> None:
    """Empty every cache of this process; the next calls compute their results again."""
    for function in list(_functions.values()):
        function.cache_clear()
    for caches in list(_instances.values()):
        for cache in list(caches.values()):
            cache.clear()


def _stats(name: str) -> CacheStats:
    if name in _functions:
        info = _functions[name].cache_info()
        return CacheStats(name, _bounds[name], 1, info.currsize, info.hits)
    caches = list(_instances[name].values())
    return CacheStats(name, _bounds[name], len(caches), sum(map(len, caches)))


class TwoGenerationCache(Generic[K, V]):
    """A bounded two-generation cache that approximates LRU at the cost of a dictionary lookup.

    When the younger generation is full it replaces the older one, whose values are dropped unless
    they were read meanwhile. Threads may share it; a race loses a value at worst.
    """

    def __init__(self, name: str, bound: int, size_of: Callable[[V], int] | None = None) -> None:
        """Keep values up to a total size of `bound`; a value larger than half of it is not kept.

        Without `size_of` each value counts as 1.
        """
        self._half = bound // 2
        self._size_of = size_of
        self._size = 0
        self._younger: dict[K, V] = {}
        self._older: dict[K, V] = {}
        register(name, bound, self)

    def get(self, key: K) -> V | None:
        value = self._younger.get(key)
        if value is None:
            value = self._older.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        size = 1 if self._size_of is None else self._size_of(value)
        if size > self._half:
            return
        if self._size + size > self._half:
            self._younger, self._older, self._size = {}, self._younger, 0
        self._younger[key] = value
        self._size += size

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def __iter__(self) -> Iterator[K]:
        """Iterate over a copy of the keys."""
        return iter([*self._younger, *self._older])

    def clear(self) -> None:
        self._younger, self._older, self._size = {}, {}, 0


class MemoDict(dict[str, T]):
    """A dictionary that computes the value of a missing text; it is emptied when full.

    Values must be strings, numbers and plain tuples of them: the garbage collector does not
    traverse those, while traversing the entries of an `lru_cache` took a tenth of linking.
    """

    def __init__(self, name: str, compute: Callable[[str], T], bound: int = MEMO_BOUND) -> None:
        self._compute = compute
        self._bound = bound
        register(name, bound, self)

    def __missing__(self, text: str) -> T:
        if len(self) >= self._bound:
            self.clear()
        value = self[text] = self._compute(text)
        return value


@dataclass(frozen=True, slots=True)
class Caching:
    """The limits of the embedding cache, in memory and, if a path is given, in a file.

    Vectors expire after `ttl_s` seconds; None: never.
    """

    max_size: int = 10_000
    ttl_s: float | None = None
    path: str = ""
    disk_size: int = 1_000_000
