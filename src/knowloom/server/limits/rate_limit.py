"""Rate limits per API key, in one process or shared by several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from multiprocessing.context import BaseContext
from threading import Lock
from time import monotonic
from typing import Protocol

LOCK_TIMEOUT_S = 0.25
BYTES_PER_UNIT = 20_000  # of a body that cost as much as a request without one


class Buckets(Protocol):
    """A table of (requests used, time of the last request) by key; (0, 0) for a new key."""

    def __getitem__(self, key: str) -> tuple[float, float]: ...

    def __setitem__(self, key: str, value: tuple[float, float]) -> None: ...


class TimedLock(Protocol):
    """A lock of threads or of processes."""

    def acquire(self, *, timeout: float) -> bool: ...

    def release(self) -> None: ...


class RateLimiter:
    """A token bucket per key: it refills at the allowed rate and holds a minute's worth."""

    is_remote = False  # True if `wait_s` waits for the network

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: Buckets = _LocalBuckets()
        self._lock: TimedLock = Lock()

    @classmethod
    def shared(cls, per_minute: int, processes: BaseContext) -> RateLimiter:
        """Return a limiter whose buckets are in memory shared by several processes."""
        limiter = cls(per_minute)
        limiter._buckets, limiter._lock = _SharedBuckets(processes), processes.Lock()
        return limiter

    def wait_s(self, key: str, cost: float = 1) -> float:
        """Count a request; return 0 if it is allowed, else the seconds to wait.

        A request that costs more than a minute's worth needs a full bucket.
        """
        if not self._per_minute:
            return 0.0
        cost = min(cost, self._per_minute)
        now = self._clock()
        # It is held for microseconds: whoever holds it longer was killed, and never releases it.
        self._lock.acquire(timeout=LOCK_TIMEOUT_S)
        try:
            used, since = self._buckets[key]
            used = max(0.0, used - (now - since) * self._per_minute / 60)
            left = self._per_minute - used
            self._buckets[key] = (used + cost if left >= cost else used, now)
        finally:
            with suppress(ValueError, RuntimeError):  # another process released it meanwhile
                self._lock.release()
        return 0.0 if left >= cost else (cost - left) * 60 / self._per_minute


def request_cost(size: int) -> float:
    """Return the cost of a request with a body of so many bytes: 1, and 1 more per 20 kB."""
    return 1 + size // BYTES_PER_UNIT


class _LocalBuckets(dict[str, tuple[float, float]]):
    def __missing__(self, key: str) -> tuple[float, float]:
        return (0.0, 0.0)


class _SharedBuckets:
    """A hash table in shared memory with linear probing."""

    SLOTS = 4096  # if there are more keys, the last ones share a bucket

    def __init__(self, processes: BaseContext) -> None:
        self._hashes = processes.RawArray("Q", self.SLOTS)
        self._used = processes.RawArray("d", self.SLOTS)
        self._since = processes.RawArray("d", self.SLOTS)

    def _slot(self, key: str) -> int:
        digest = blake2b(key.encode(), digest_size=8).digest()
        hash = int.from_bytes(digest) | 1  # 0 marks a free slot
        for step in range(self.SLOTS):
            slot = (hash + step) % self.SLOTS
            if self._hashes[slot] in (0, hash):
                self._hashes[slot] = hash
                return slot
        return hash % self.SLOTS

    def __getitem__(self, key: str) -> tuple[float, float]:
        slot = self._slot(key)
        return (self._used[slot], self._since[slot])

    def __setitem__(self, key: str, value: tuple[float, float]) -> None:
        slot = self._slot(key)
        self._used[slot], self._since[slot] = value
