"""weft keeps what an organisation knows and weaves the best of it into each prompt, within the token budget.

import weft
kb = weft.open("knowledge.db")
kb.load("examples/harbor/support.jsonl", space="support")
print(kb.context("How do I process a refund?", spaces=["support"], max_tokens=800).text)
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.axioms.space import Checked
    from weft.axioms.values import Axiom, Violation
    from weft.capabilities.axioms import load_axioms
    from weft.capabilities.graph.documents import Document, LinkedEntity
    from weft.capabilities.graph.options import GraphOptions
    from weft.capabilities.graph.provider import GraphContext
    from weft.capabilities.graph.rankers import SignalRanker, TermRanker
    from weft.capabilities.graph.values import GraphAnswer
    from weft.engine import Engine, Statistics
    from weft.errors import Conflict, Corrupt, Forbidden, Invalid, MissingExtra, NotFound, Unavailable, WeftError
    from weft.ingest.prepare import Report
    from weft.ingest.read import Skipped
    from weft.model import Context, Edge, Fragment, Hit, Item, Kind, LeftOut, Problem
    from weft.ports import Embedder
    from weft.recipes import Recipe, Weights
    from weft.surfaces.client import Client

__version__ = "0.1.0"
__all__ = [
    "Axiom",
    "Checked",
    "Client",
    "Conflict",
    "Context",
    "Corrupt",
    "Document",
    "Edge",
    "Engine",
    "Forbidden",
    "Fragment",
    "GraphAnswer",
    "GraphContext",
    "GraphOptions",
    "Hit",
    "Invalid",
    "Item",
    "Kind",
    "LeftOut",
    "LinkedEntity",
    "MissingExtra",
    "NotFound",
    "Problem",
    "Recipe",
    "Report",
    "SignalRanker",
    "Skipped",
    "Statistics",
    "TermRanker",
    "Unavailable",
    "Violation",
    "WeftError",
    "Weights",
    "load_axioms",
    "open",
]


_HOMES = {
    "weft.axioms.space": ("Checked",),
    "weft.axioms.values": ("Axiom", "Violation"),
    "weft.capabilities.axioms": ("load_axioms",),
    "weft.capabilities.graph.documents": ("Document", "LinkedEntity"),
    "weft.capabilities.graph.options": ("GraphOptions",),
    "weft.capabilities.graph.provider": ("GraphContext",),
    "weft.capabilities.graph.rankers": ("SignalRanker", "TermRanker"),
    "weft.capabilities.graph.values": ("GraphAnswer",),
    "weft.engine": ("Engine", "Statistics"),
    "weft.errors": ("Conflict", "Corrupt", "Forbidden", "Invalid", "MissingExtra", "NotFound", "Unavailable", "WeftError"),
    "weft.ingest.prepare": ("Report",),
    "weft.ingest.read": ("Skipped",),
    "weft.model": ("Context", "Edge", "Fragment", "Hit", "Item", "Kind", "LeftOut", "Problem"),
    "weft.recipes": ("Recipe", "Weights"),
    "weft.surfaces.client": ("Client",),
}
_EXTRAS = {"weft.surfaces.client": "client"}


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used, so that `weft --help` does not wait for numpy."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(_module(home), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def _module(home: str) -> ModuleType:
    try:
        return import_module(home)
    except ImportError as error:
        if home not in _EXTRAS:
            raise
        from weft.errors import MissingExtra

        raise MissingExtra(f"a package that is not installed is needed ({error.name}): pip install 'weft[{_EXTRAS[home]}]'") from error


def open(url: str, *, embedder: str | Embedder | None = "minilm", embedder_settings: dict[str, Any] | None = None, **roles: str) -> Engine:
    """Open knowledge: a path such as "knowledge.db", "memory:", or a URL. `words=`, `vectors=`, `graph=` put a role elsewhere.
    `embedder` is a name ("minilm", "openai:MODEL", "openai:MODEL@URL"), an object, or None for words only."""
    from weft.engine import Engine
    from weft.registry import open_embedder, open_stores

    if isinstance(embedder, str):
        embedder = None if embedder == "none" else open_embedder(embedder, **(embedder_settings or {}))
    return Engine(open_stores(str(url), roles), embedder)
