"""How long each step of a request took. Spans add up by name and come back in the answer's stats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

_timings: ContextVar[dict[str, float] | None] = ContextVar("timings", default=None)


@contextmanager
def traced() -> Iterator[dict[str, float]]:
    """Collect the spans of the block, in milliseconds by name."""
    timings: dict[str, float] = {}
    token = _timings.set(timings)
    try:
        yield timings
    finally:
        _timings.reset(token)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Time a step; costs next to nothing when nobody is collecting."""
    timings = _timings.get()
    started = perf_counter()
    try:
        yield
    finally:
        if timings is not None:
            timings[name] = timings.get(name, 0.0) + (perf_counter() - started) * 1000
