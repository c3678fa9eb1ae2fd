"""What a route can ask of its request: the engine, the key, the counters."""

from __future__ import annotations

from fastapi import Request

from weft import tiers
from weft.engine import Engine
from weft.surfaces.http.access import Key
from weft.surfaces.http.metrics import Metrics
from weft.tiers import Tier


def engine(request: Request) -> Engine:
    found: Engine = request.app.state.engine
    return found


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
