"""weft keeps what an organisation knows and weaves the best of it into each prompt, within the token budget.

    import weft
    kb = weft.open("knowledge.db")
    kb.load("examples/harbor/support.jsonl", space="support")
    print(kb.context("How do I process a refund?", spaces=["support"], max_tokens=800).text)
"""

from __future__ import annotations

from typing import Any

from weft.engine import Engine, Statistics
from weft.errors import Conflict, Corrupt, Forbidden, Invalid, MissingExtra, NotFound, Unavailable, WeftError
from weft.ingest.prepare import Report
from weft.ingest.read import Skipped
from weft.model import Context, Edge, Fragment, Hit, Item, Kind, LeftOut, Problem
from weft.ports import Embedder
from weft.recipes import Recipe, Weights
from weft.registry import open_embedder, open_stores

__version__ = "0.1.0"
__all__ = [
    "Conflict",
    "Context",
    "Corrupt",
    "Edge",
    "Engine",
    "Forbidden",
    "Fragment",
    "Hit",
    "Invalid",
    "Item",
    "Kind",
    "LeftOut",
    "MissingExtra",
    "NotFound",
    "Problem",
    "Recipe",
    "Report",
    "Skipped",
    "Statistics",
    "Unavailable",
    "WeftError",
    "Weights",
    "open",
]


def open(url: str, *, embedder: str | Embedder | None = "minilm", embedder_settings: dict[str, Any] | None = None, **roles: str) -> Engine:  # noqa: A001
    """Open knowledge: a path such as "knowledge.db", "memory:", or a URL. `words=`, `vectors=`, `graph=` put a role elsewhere.
    `embedder` is a name ("minilm", "openai:MODEL", "openai:MODEL@URL"), an object, or None for words only."""
    if isinstance(embedder, str):
        embedder = None if embedder == "none" else open_embedder(embedder, **(embedder_settings or {}))
    return Engine(open_stores(str(url), roles), embedder)
