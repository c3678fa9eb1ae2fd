"""Names to adapters. A class is imported only when it is asked for; a missing package becomes advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from weft.errors import Invalid, MissingExtra, unknown
from weft.ports import LLM, Embedder, Stores

# Plug-ins add to these through the entry point groups "weft.stores", "weft.embedders" and "weft.llms".
STORES = {"memory": "weft.stores.memory:MemoryStore", "sqlite": "weft.stores.sqlite.store:SqliteStore"}
EMBEDDERS = {"minilm": "weft.embedders.minilm:MiniLM", "openai": "weft.embedders.openai:OpenAI"}
LLMS = {"openai": "weft.llms.openai:OpenAI"}
ROLES = ("items", "words", "vectors", "graph")

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):")  # two letters or more: "C:" is a drive


def open_stores(url: str, roles: Mapping[str, str]) -> Stores:
    """One URL for everything; `words=`, `vectors=`, `graph=` move a role elsewhere. Each URL is opened once."""
    for role in roles:
        if role not in ROLES:
            raise unknown("role", role, ROLES)
    opened: dict[str, Any] = {}
    for role in ROLES:
        where = roles.get(role, url)
        if where not in opened:
            opened[where] = open_store(where)
    return Stores(*(opened[roles.get(role, url)] for role in ROLES))


def open_store(url: str) -> Any:
    """Open "knowledge.db", "sqlite:///path", "memory:" or any scheme that an installed plug-in offers."""
    if not isinstance(url, str) or not url:
        raise Invalid(f"a store is named by a path or a URL, not by {url!r}")
    found = _SCHEME.match(url)
    scheme, rest = (found[1], url[found.end() :]) if found else ("sqlite", url)
    # As elsewhere: sqlite:///relative.db and sqlite:////absolute.db
    return _load("store", "weft.stores", STORES, scheme).open(rest.removeprefix("///" if scheme == "sqlite" else "//"))


def open_embedder(name: str, **settings: Any) -> Embedder:
    """Open "minilm", "openai:model@url" or what a plug-in offers."""
    scheme, _, rest = name.partition(":")
    embedder: Embedder = _load("embedder", "weft.embedders", EMBEDDERS, scheme).open(rest, **settings)
    return embedder


def open_llm(name: str, **settings: Any) -> LLM:
    """Open "openai:model", "openai:model@url" or what a plug-in offers."""
    if not isinstance(name, str) or not name:
        raise Invalid(f"an LLM is named like openai:model or openai:model@url, not by {name!r}")
    scheme, _, rest = name.partition(":")
    llm: LLM = _load("LLM", "weft.llms", LLMS, scheme).open(rest, **settings)
    return llm


def _load(what: str, group: str, table: Mapping[str, str], name: str) -> Any:
    known = {point.name: point.value for point in entry_points(group=group)} | dict(table)
    if name not in known:
        raise unknown(what, name, known)
    module, _, attribute = known[name].partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise MissingExtra(f"{what} {name!r} needs a package that is not installed ({error.name}): pip install 'weft[{name}]'") from error
