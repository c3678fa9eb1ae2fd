"""What a route can ask of its request: the engine, the key, the counters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request

from knowloom import tiers
from knowloom.engine import Engine
from knowloom.server.auth import Key
from knowloom.server.metrics import Metrics
from knowloom.tiers import Tier


def engine(request: Request) -> Engine:
    found: Engine = request.app.state.engine
    return found


@contextmanager
def turn(request: Request) -> Iterator[None]:
    """One question at a time, where answering it is nothing but computing: two at once would take turns every few milliseconds, and both
    take as long as both together. Requests that wait for others, or write, do not wait for a turn."""
    if not engine(request).asks_nobody:
        yield
        return
    with request.app.state.turn:
        yield


def metrics(request: Request) -> Metrics:
    found: Metrics = request.app.state.metrics
    return found


def tier_of(request: Request, asked: str | None = None) -> Tier:
    """The tier of the key. A request may ask for less."""
    return tiers.lower(tiers.stored(key_of(request).tier), asked)


def key_of(request: Request) -> Key:
    """The key the guard let in."""
    found: Key = request.state.key
    return found
