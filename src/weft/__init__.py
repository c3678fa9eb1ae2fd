"""weft keeps what an organisation knows and weaves the best of it into each prompt, within the token budget.

import weft
kb = weft.open("knowledge.db")
kb.load("examples/harbor/support.jsonl", space="support")
print(kb.context("How do I process a refund?", spaces=["support"], max_tokens=800).text)
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from weft.capabilities.feed import merge_feed
    from weft.capabilities.provider.provide import Provider
    from weft.capabilities.provider.values import Entry, Provision, Relation, Retrieval
    from weft.engine import Engine, Statistics
    from weft.errors import Conflict, Corrupt, Forbidden, Invalid, MissingExtra, NotFound, Unavailable, WeftError
    from weft.ingest.notes import Ingested
    from weft.ingest.prepare import Report
    from weft.ingest.read import Skipped
    from weft.model import Context, Edge, Fragment, Hit, Item, Kind, LeftOut, Problem
    from weft.ports import LLM, Embedder
    from weft.recipes import Recipe, Weights
    from weft.surfaces.client import Client
    from weft.templates.sandbox import Limits
    from weft.templates.template import Template

__version__ = "0.1.0"
__all__ = [
    "Client",
    "Conflict",
    "Context",
    "Corrupt",
    "Edge",
    "Engine",
    "Entry",
    "Forbidden",
    "Fragment",
    "Hit",
    "Ingested",
    "Invalid",
    "Item",
    "Kind",
    "LeftOut",
    "Limits",
    "MissingExtra",
    "NotFound",
    "Problem",
    "Provider",
    "Provision",
    "Recipe",
    "Relation",
    "Report",
    "Retrieval",
    "Skipped",
    "Statistics",
    "Template",
    "Unavailable",
    "WeftError",
    "Weights",
    "merge_feed",
    "open",
    "open_llm",
]


_HOMES = {
    "weft.capabilities.feed": ("merge_feed",),
    "weft.capabilities.provider.provide": ("Provider",),
    "weft.capabilities.provider.values": ("Entry", "Provision", "Relation", "Retrieval"),
    "weft.engine": ("Engine", "Statistics"),
    "weft.errors": ("Conflict", "Corrupt", "Forbidden", "Invalid", "MissingExtra", "NotFound", "Unavailable", "WeftError"),
    "weft.ingest.notes": ("Ingested",),
    "weft.ingest.prepare": ("Report",),
    "weft.ingest.read": ("Skipped",),
    "weft.model": ("Context", "Edge", "Fragment", "Hit", "Item", "Kind", "LeftOut", "Problem"),
    "weft.recipes": ("Recipe", "Weights"),
    "weft.surfaces.client": ("Client",),
    "weft.templates.sandbox": ("Limits",),
    "weft.templates.template": ("Template",),
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


def open(
    url: str,
    *,
    embedder: str | Embedder | None = "minilm",
    embedder_settings: dict[str, Any] | None = None,
    links: Sequence[str] | None = None,
    secrets: str = "refuse",
    secret_rules: str | Path | None = None,
    **roles: str,
) -> Engine:
    """Open knowledge: a path such as "knowledge.db", "memory:", or a URL. `words=`, `vectors=`, `graph=` put a role elsewhere.
    `embedder` is a name ("minilm", "openai:MODEL", "openai:MODEL@URL"), an object, or None for words only. `links` are the kinds of
    links weft makes itself: ["shared_tag", "similar", "mentions", "refers_to", "shares", "foreign_key"], some of them, [] for none; by
    default as before, at first all.
    What holds a secret is refused, unless `secrets` is "allow"; `secret_rules` is a TOML file with rules of your own."""
    from weft.engine import Engine
    from weft.ingest.secret_rules import chosen
    from weft.registry import open_embedder, open_stores

    rules = chosen(secrets, secret_rules)
    if isinstance(embedder, str):
        embedder = None if embedder == "none" else open_embedder(embedder, **(embedder_settings or {}))
    return Engine(open_stores(str(url), roles), embedder, secrets=rules, links=links)


def open_llm(name: str, **settings: Any) -> LLM:
    """A language model for `Engine.ingest`: "openai:MODEL" or "openai:MODEL@URL" for any OpenAI-compatible server. Settings: api_key,
    temperature=0.0 (None: the server's), timeout_s=120, retries=3."""
    from weft.registry import open_llm

    return open_llm(name, **settings)
