"""Timings of the steps of a request. Spans of one name add up and are part of its stats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

_timings: ContextVar[dict[str, float] | None] = ContextVar("timings", default=None)


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
    """Time a step; it costs next to nothing outside of `collect_timings`."""
    timings = _timings.get()
    started = perf_counter()
    try:
        yield
    finally:
        if timings is not None:
            timings[name] = timings.get(name, 0.0) + (perf_counter() - started) * 1000
