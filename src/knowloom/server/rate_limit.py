"""How often a key may ask, in one process or in several that serve together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import blake2b
from multiprocessing.context import BaseContext
from threading import Lock
from time import monotonic
from typing import Any, Protocol


class Buckets(Protocol):
    """Two numbers by key: the requests used up, and when that was; 0 and 0 for a new one."""

    def __getitem__(self, key: str) -> tuple[float, float]: ...

    def __setitem__(self, key: str, value: tuple[float, float]) -> None: ...


class Rate:
    """A bucket of requests per key: it fills at the allowed rate and holds a minute's worth."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: Buckets = _Own()
        self._lock: AbstractContextManager[Any] = Lock()

    @classmethod
    def shared(cls, per_minute: int, processes: BaseContext) -> Rate:
        """One that several processes count down together."""
        rate = cls(per_minute)
        rate._buckets, rate._lock = _Shared(processes), processes.Lock()
        return rate

    def wait_s(self, key: str) -> float:
        """0 when the request may go on; else how long the caller should wait."""
        if not self._per_minute:
            return 0.0
        now = self._clock()
        with self._lock:
            used, since = self._buckets[key]
            used = max(0.0, used - (now - since) * self._per_minute / 60)
            left = self._per_minute - used
            self._buckets[key] = (used + 1 if left >= 1 else used, now)
        return 0.0 if left >= 1 else (1 - left) * 60 / self._per_minute


class _Own(dict[str, tuple[float, float]]):
    def __missing__(self, key: str) -> tuple[float, float]:
        return (0.0, 0.0)


class _Shared:
    """A table in memory that processes share: a key's place is where its name hashes to, or the next free one."""

    PLACES = 4096  # keys that can be told apart; should there be more, the last ones share a bucket

    def __init__(self, processes: BaseContext) -> None:
        self._names = processes.RawArray("Q", self.PLACES)
        self._used, self._since = (
            processes.RawArray("d", self.PLACES),
            processes.RawArray("d", self.PLACES),
        )

    def _place(self, key: str) -> int:
        name = (
            int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) | 1
        )  # 0 marks a free place
        for step in range(self.PLACES):
            place = (name + step) % self.PLACES
            if self._names[place] in (0, name):
                self._names[place] = name
                return place
        return name % self.PLACES

    def __getitem__(self, key: str) -> tuple[float, float]:
        place = self._place(key)
        return (self._used[place], self._since[place])

    def __setitem__(self, key: str, value: tuple[float, float]) -> None:
        place = self._place(key)
        self._used[place], self._since[place] = value
