"""Embedding queries: their own method, a short deadline, and a circuit breaker for dead servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition, Thread

from knowloom.errors import Conflict, Unavailable
from knowloom.ports import Embedder, Vector
from knowloom.validation import validate_positive

QUERY_TIMEOUT_S = 2.0
MAX_FAILURES = 5  # calls into a dead provider
PAUSE_S = 30.0  # before it is probed again
MAX_PAUSE_S = 120.0  # if it asks for a longer one, by Retry-After


def has_roles(embedder: Embedder) -> bool:
    """Return True if the embedder has other vectors for queries than for passages."""
    return bool(getattr(embedder, "has_roles", hasattr(embedder, "embed_queries")))


def embed_queries(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Embed queries by their own method if the embedder has one, else like passages."""
    method: Callable[[Sequence[str]], list[Vector]]
    method = getattr(embedder, "embed_queries", embedder.embed)
    return method(texts)


class CircuitBreaker:
    """A gate in front of a provider: it closes after `MAX_FAILURES` calls without a success.

    After a pause one call may pass; its success opens the gate again. Until the provider has
    answered, calls under way count as failures, so that many threads cannot flood a dead one; the
    others wait for their turn.
    """

    def __init__(self, pause_s: float = PAUSE_S, clock: Callable[[], float] = time.monotonic):
        self._pause_s, self._clock = pause_s, clock
        self._changed = Condition()
        self._is_healthy = False  # the last call succeeded
        self._failures = self._running = 0
        self._closed_until: float | None = None

    def enter(self, name: str, timeout_s: float) -> None:
        """Wait until a call may begin; raise Unavailable if the gate is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed() or self._has_room(), timeout_s)
            if self._is_closed():
                wait_s = max((self._closed_until or 0.0) - self._clock(), 0.0)
                raise Unavailable(
                    f"embedder {name!r} failed {self._failures} times in a row; "
                    f"it is tried again in {wait_s:.0f} s",
                    "embedder_paused",
                )
            if not self._has_room():
                raise _timeout_error(name, timeout_s)
            self._running += 1

    def leave(self, *, failed: bool, pause_s: float = 0.0) -> None:
        """Record the end of a call. `pause_s`: the provider asked for a pause."""
        with self._changed:
            self._running -= 1
            self._is_healthy = not failed
            self._failures = self._failures + 1 if failed else 0
            if not failed:
                self._closed_until = None
            elif self._failures >= MAX_FAILURES or pause_s:
                pause_s = min(max(pause_s, self._pause_s), MAX_PAUSE_S)
                self._closed_until = self._clock() + pause_s
            self._changed.notify_all()

    def _is_closed(self) -> bool:
        if self._closed_until is None:
            return False
        return self._running > 0 or self._clock() < self._closed_until  # one probe at a time

    def _has_room(self) -> bool:
        if self._is_healthy or self._closed_until is not None:
            return True
        return self._failures + self._running < MAX_FAILURES


class WrappedEmbedder:
    """The identity of another embedder, for subclasses that change how texts are embedded."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.has_roles = has_roles(embedder)

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint


class QueryGuard(WrappedEmbedder):
    """An embedder whose queries end after `timeout_s` seconds, one attempt each.

    Passages are embedded as before: writes have time for retries. Embedders that work in this
    process, `is_local`, cannot hang and are not guarded.
    """

    def __init__(
        self,
        embedder: Embedder,
        timeout_s: float = QUERY_TIMEOUT_S,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        super().__init__(embedder)
        self._timeout_s = validate_positive("query_timeout_s", timeout_s)
        self._breaker = breaker or CircuitBreaker()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return self._embedder.embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        deadline = time.monotonic() + self._timeout_s
        self._breaker.enter(self.name, self._timeout_s)
        result: Future[list[Vector]] = Future()
        # A thread of its own, as a hanging call cannot be ended; the breaker limits their number.
        Thread(target=self._call, args=(texts, result), daemon=True).start()
        try:
            vectors = result.result(deadline - time.monotonic())
        except TimeoutError:  # the wait, or one that the embedder raised
            self._breaker.leave(failed=True)
            raise _timeout_error(self.name, self._timeout_s) from None
        except Conflict:  # the provider works, with another model
            self._breaker.leave(failed=False)
            raise
        except BaseException as error:
            self._breaker.leave(failed=True, pause_s=getattr(error, "retry_after_s", 0.0))
            raise
        self._breaker.leave(failed=False)
        return vectors

    def _call(self, texts: Sequence[str], result: Future[list[Vector]]) -> None:
        try:
            result.set_result(embed_queries(self._embedder, texts))
        except BaseException as error:  # raised again by the thread that waits
            result.set_exception(error)


def _timeout_error(name: str, timeout_s: float) -> Unavailable:
    return Unavailable(
        f"embedder {name!r} did not answer within {timeout_s:g} s", "embedding_timeout"
    )
