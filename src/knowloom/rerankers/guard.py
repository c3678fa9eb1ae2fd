"""A guard in front of a reranker: a deadline, checks of its answer, and a pause after failures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock, Thread

from knowloom.errors import Unavailable
from knowloom.ports import Reranker

CODE = "rerank"
TIMEOUT_S = 5.0  # of one request
MAX_FAILURES = 3  # in a row, before a pause
PAUSE_S = 30.0  # without calls, before the reranker is tried again
MAX_PAUSE_S = 120.0  # if a server asks for a longer one


class RerankGuard:
    """A reranker whose every failure is Unavailable, at the latest after `timeout_s` seconds."""

    def __init__(
        self, reranker: Reranker, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reranker, self._timeout_s, self._clock = reranker, timeout_s, clock
        self._lock = Lock()
        self._failures, self._paused_until = 0, 0.0

    @property
    def name(self) -> str:
        return self._reranker.name

    @property
    def fingerprint(self) -> str:
        return self._reranker.fingerprint

    def close(self) -> None:
        close = getattr(self._reranker, "close", None)
        if close is not None:
            close()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self._check_pause()
        try:
            scores = self._check_scores(self._call(query, texts), len(texts))
        except Exception as error:
            self._record_failure(getattr(error, "retry_after_s", 0.0))
            if isinstance(error, Unavailable):
                raise Unavailable(str(error), CODE) from error
            raise self._error(f"failed: {type(error).__name__}") from error
        self._failures = 0
        return scores

    def _call(self, query: str, texts: Sequence[str]) -> object:
        result: Future[object] = Future()

        def run() -> None:
            try:
                result.set_result(self._reranker.rerank(query, texts))
            except BaseException as error:  # raised again by the thread that waits
                result.set_exception(error)

        # A thread of its own, as a hanging call cannot be ended; pauses limit their number.
        Thread(target=run, daemon=True).start()
        try:
            return result.result(self._timeout_s)
        except TimeoutError:
            raise self._error(f"did not answer within {self._timeout_s:g} s") from None

    def _check_scores(self, scores: object, count: int) -> list[float]:
        try:
            numbers = [float(score) for score in scores]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            raise self._error("must return a number for each text") from None
        if len(numbers) != count:
            raise self._error(f"returned {len(numbers)} scores for {count} texts")
        for number in numbers:
            if not (math.isfinite(number) and 0 <= number <= 1):
                raise self._error(f"must return scores from 0 to 1, got {number:g}")
        return numbers

    def _check_pause(self) -> None:
        wait_s = self._paused_until - self._clock()
        if wait_s > 0:
            problem = f"failed {self._failures} times in a row; it is tried again in {wait_s:.0f} s"
            raise self._error(problem)

    def _record_failure(self, pause_s: float) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= MAX_FAILURES or pause_s:
                wait_s = min(max(pause_s, PAUSE_S if not pause_s else 0.0), MAX_PAUSE_S)
                self._paused_until = self._clock() + wait_s

    def _error(self, problem: str) -> Unavailable:
        return Unavailable(f"reranker {self.name!r} {problem}", CODE)
