"""Turns of API keys: one key cannot take all workers, nor queue requests without end."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class TooManyRequests(Exception):
    """A key has as many requests as it may have, running or waiting."""


@dataclass(slots=True)
class _Queue:
    running: Semaphore
    length: int = 0  # of those running and waiting


@dataclass(slots=True)
class RequestTurn:
    """The turn of one request, from the end of its body to the start of its response.

    A client that sends or reads slowly keeps no other request of its key waiting.
    """

    _running: Semaphore
    _is_held: bool = False

    async def wait(self) -> None:
        """Wait until the key has a free place."""
        if not self._is_held:
            await self._running.acquire()
            self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._running.release()


@dataclass(slots=True)
class KeyTurns:
    """At most `running` requests of a key run at a time; others of the key wait.

    Requests of other keys thus wait behind a few of a busy key, not behind all of them. `limit`
    bounds those that run and wait together, 0 for no limit.
    """

    running: int
    limit: int
    _queues: dict[str, _Queue] = field(default_factory=dict)

    @contextmanager
    def turn(self, key: str, limit: int | None = None) -> Iterator[RequestTurn]:
        """Yield the turn of a request; raise TooManyRequests beyond the limit."""
        limit = self.limit if limit is None else limit
        queue = self._queues.setdefault(key, _Queue(Semaphore(self.running)))
        if limit and queue.length >= limit:
            raise TooManyRequests
        queue.length += 1
        turn = RequestTurn(queue.running)
        try:
            yield turn
        finally:
            turn.release()
            queue.length -= 1
            if not queue.length:
                self._queues.pop(key, None)
