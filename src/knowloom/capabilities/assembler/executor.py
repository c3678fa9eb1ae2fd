"""Strategies at work side by side. One that hangs, fails or floods costs the others nothing, and never keeps the process from ending."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from time import monotonic

from knowloom.capabilities.assembler.collection import collect_hits
from knowloom.capabilities.assembler.model import AssemblyRequest, Strategy, StrategyResult
from knowloom.errors import KnowloomError
from knowloom.model import Problem

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
MAX_STUCK = (
    4  # calls of one strategy that have not come back; it is not called again before one has
)


@dataclass(slots=True)
class _Call:
    """One strategy at work. The thread is a daemon: it dies with the process."""

    strategy: Strategy
    started: float
    done: Event = field(default_factory=Event)
    answer: StrategyResult = field(default_factory=StrategyResult)

    def work(self, request: AssemblyRequest) -> None:
        name = self.strategy.name
        try:
            self.answer = collect_hits(name, self.strategy.get(request), request.max_tokens)
        except KnowloomError as error:
            self.answer = StrategyResult(problem=Problem(name, str(error), error.code))
        except (
            BaseException
        ) as error:  # a strategy is a stranger's code: whatever it raises stays here
            log.warning("strategy %s failed: %s", name, type(error).__name__)
            self.answer = StrategyResult(
                problem=Problem(name, f"{type(error).__name__}: {error}"[:500], "strategy_failed")
            )
        self.answer = replace(self.answer, seconds=monotonic() - self.started)
        self.done.set()


class StrategyExecutor:
    """Calls strategies in threads and waits for each no longer than its time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stuck: dict[str, int] = {}

    def run(
        self, strategies: Sequence[Strategy], request: AssemblyRequest
    ) -> dict[str, StrategyResult]:
        """What each gave, by name. All start at once; the answer takes as long as the slowest, or its time limit."""
        calls = [self._start(strategy, request) for strategy in strategies]
        return {
            strategy.name: self._wait(call, strategy)
            for call, strategy in zip(calls, strategies, strict=True)
        }

    def _start(self, strategy: Strategy, request: AssemblyRequest) -> _Call | None:
        name = strategy.name
        with self._lock:
            if self._stuck.get(name, 0) >= MAX_STUCK:
                return None
            self._stuck[name] = self._stuck.get(name, 0) + 1
        call = _Call(strategy, monotonic())
        Thread(
            target=self._work, args=(call, name, request), name=f"knowloom-{name}", daemon=True
        ).start()
        return call

    def _work(self, call: _Call, name: str, request: AssemblyRequest) -> None:
        try:
            call.work(request)
        finally:
            with self._lock:
                self._stuck[name] -= 1

    def _wait(self, call: _Call | None, strategy: Strategy) -> StrategyResult:
        name, timeout_s = strategy.name, timeout_of(strategy)
        if call is None:
            return StrategyResult(
                problem=Problem(
                    name,
                    f"{MAX_STUCK} earlier calls have not come back: it was not called again",
                    "timeout",
                )
            )
        if not call.done.wait(max(0.0, call.started + timeout_s - monotonic())):
            return StrategyResult(
                problem=Problem(name, f"no answer within {timeout_s:g} s", "timeout")
            )
        return call.answer


def timeout_of(strategy: Strategy) -> float:
    return float(getattr(strategy, "timeout_s", TIMEOUT_S))


def is_required(strategy: Strategy) -> bool:
    return bool(getattr(strategy, "required", False))
