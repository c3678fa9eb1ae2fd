"""Run strategies in parallel threads.

A strategy that hangs, fails or returns too much does not affect the others, nor does it keep the
process from exiting.
"""

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
MAX_STUCK = 4  # running calls of a strategy beyond which it is not called again


@dataclass(slots=True)
class _Call:
    """A call of a strategy in a daemon thread, which ends with the process."""

    strategy: Strategy
    started: float
    done: Event = field(default_factory=Event)
    result: StrategyResult = field(default_factory=StrategyResult)

    def run(self, request: AssemblyRequest) -> None:
        name = self.strategy.name
        try:
            self.result = collect_hits(name, self.strategy.get(request), request.max_tokens)
        except KnowloomError as error:
            self.result = StrategyResult(problem=Problem.from_error(name, error))
        except BaseException as error:  # third-party code: whatever it raises stays here
            log.warning("strategy %s failed: %s", name, type(error).__name__)
            reason = f"{type(error).__name__}: {error}"[:500]
            self.result = StrategyResult(problem=Problem(name, reason, "strategy_failed"))
        self.result = replace(self.result, seconds=monotonic() - self.started)
        self.done.set()


class StrategyExecutor:
    """Calls strategies in threads and waits for each until its timeout."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: dict[str, int] = {}

    def run(
        self, strategies: Sequence[Strategy], request: AssemblyRequest
    ) -> dict[str, StrategyResult]:
        """Start all strategies at once and return their results by name."""
        calls = [self._start(strategy, request) for strategy in strategies]
        return {
            strategy.name: self._wait(call, strategy)
            for call, strategy in zip(calls, strategies, strict=True)
        }

    def _start(self, strategy: Strategy, request: AssemblyRequest) -> _Call | None:
        name = strategy.name
        with self._lock:
            if self._running.get(name, 0) >= MAX_STUCK:
                return None
            self._running[name] = self._running.get(name, 0) + 1
        call = _Call(strategy, monotonic())
        Thread(
            target=self._run, args=(call, name, request), name=f"knowloom-{name}", daemon=True
        ).start()
        return call

    def _run(self, call: _Call, name: str, request: AssemblyRequest) -> None:
        try:
            call.run(request)
        finally:
            with self._lock:
                self._running[name] -= 1

    def _wait(self, call: _Call | None, strategy: Strategy) -> StrategyResult:
        timeout_s = timeout_of(strategy)
        if call is None:
            reason = f"not called: {MAX_STUCK} earlier calls have not returned"
        elif call.done.wait(max(0.0, call.started + timeout_s - monotonic())):
            return call.result
        else:
            reason = f"no answer within {timeout_s:g} s"
        return StrategyResult(problem=Problem(strategy.name, reason, "timeout"))


def timeout_of(strategy: Strategy) -> float:
    return float(getattr(strategy, "timeout_s", TIMEOUT_S))


def is_required(strategy: Strategy) -> bool:
    return bool(getattr(strategy, "required", False))
