"""What a route can ask of its request: the engine, the key, the counters."""

from __future__ import annotations

from fastapi import Request

from weft.engine import Engine
from weft.surfaces.http.access import Key
from weft.surfaces.http.metrics import Metrics


def engine(request: Request) -> Engine:
    found: Engine = request.app.state.engine
    return found


def metrics(request: Request) -> Metrics:
    found: Metrics = request.app.state.metrics
    return found


def key_of(request: Request) -> Key:
    """The key the guard let in."""
    found: Key = request.state.key
    return found
