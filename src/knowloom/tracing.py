"""Timings of the steps of a request. Spans of one name add up and are part of its stats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic, perf_counter

from knowloom.errors import DeadlineExceeded

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
_timings: ContextVar[dict[str, float] | None] = ContextVar("timings", default=None)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Let the steps of the block raise DeadlineExceeded after so many seconds; 0 for no limit."""
    token = _deadline.set(monotonic() + seconds if seconds else None)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_deadline() -> None:
    """Raise DeadlineExceeded if the time of the request is up."""
    deadline = _deadline.get()
    if deadline is not None and monotonic() > deadline:
        raise DeadlineExceeded("the request takes too long: ask for less")


def remaining_s() -> float | None:
    """Return the seconds until the deadline, at least 0; None without one."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - monotonic())


@contextmanager
def collect_timings() -> Iterator[dict[str, float]]:
    """Collect the spans of the block, in milliseconds by name."""
    timings: dict[str, float] = {}
    token = _timings.set(timings)
    try:
        yield timings
    finally:
        _timings.reset(token)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Time a step; it costs next to nothing outside of `collect_timings`.

    Raise DeadlineExceeded if the time of the request is up.
    """
    check_deadline()
    timings = _timings.get()
    started = perf_counter()
    try:
        yield
    finally:
        if timings is not None:
            timings[name] = timings.get(name, 0.0) + (perf_counter() - started) * 1000
