"""Names to adapters. A class is imported only when it is asked for; a missing package becomes advice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, getattr_static, signature
from typing import Any

from knowloom.errors import Invalid, MissingExtra, invalid_store_url, unknown_name
from knowloom.ports import LLM, Embedder, NameFinder, Stores
from knowloom.stores.composite.store import CompositeStore

# Plug-ins add to these through the entry point groups "knowloom.stores", "knowloom.embedders", "knowloom.llms" and "knowloom.names".
STORES = {
    "file": "knowloom.stores.file.store:FileStore",
    "memory": "knowloom.stores.memory.store:MemoryStore",
    "networkx": "knowloom.stores.networkx:NetworkxStore",
    "sqlite": "knowloom.stores.sqlite.store:SqliteStore",
}
EMBEDDERS = {
    "minilm": "knowloom.embedders.minilm:MiniLM",
    "openai": "knowloom.embedders.openai:OpenAIEmbedder",
}
LLMS = {"openai": "knowloom.llms.openai:OpenAIChat"}
NAMES = {"spacy": "knowloom.ner.spacy:SpacyNames"}
ROLES = ("items", "metadata", "words", "vectors", "graph")

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):")  # two letters or more: "C:" is a drive


def open_stores(url: str, roles: Mapping[str, str]) -> Stores:
    """One URL for everything; `metadata=` (profiles), `words=`, `vectors=`, `graph=` move a role elsewhere. Each URL is opened once."""
    for role in roles:
        if role not in ROLES:
            raise unknown_name("role", role, ROLES)
    where = {role: roles.get(role, url) for role in ROLES}
    where["metadata"] = roles.get("metadata", where["items"])
    for address in where.values():
        if not isinstance(address, str):
            raise invalid_store_url(address)
    shared = [
        role
        for role in ROLES
        if where["metadata"] != where["items"]
        and role != "metadata"
        and where[role] == where["metadata"]
    ]
    if shared:
        raise Invalid(
            f"metadata and {shared[0]} cannot both be at {where['metadata']!r}: give the profiles a place of their own, or that of the items"
        )
    opened: dict[str, Any] = {}
    with ExitStack() as stack:
        for address in where.values():
            if address not in opened:
                opened[address] = open_store(
                    address, [one for one in ROLES if where[one] == address]
                )
                stack.callback(opened[address].close)
        stack.pop_all()
    if len(opened) == 1:
        return Stores(*[opened[where["items"]]] * 4)
    apart = opened[where["metadata"]] if where["metadata"] != where["items"] else None
    layers = CompositeStore(
        opened[where["items"]],
        opened[where["words"]],
        opened[where["vectors"]],
        opened[where["graph"]],
        apart,
    )
    return Stores(layers, layers, layers, layers, layers)


def open_store(url: str, roles: Sequence[str] = ()) -> Any:
    """Open "knowledge.db", "sqlite:///path", "memory:" or any scheme that an installed plug-in offers, to play these roles."""
    found = _SCHEME.match(url)
    scheme, rest = (found[1], url[found.end() :]) if found else ("sqlite", url)
    # As elsewhere: sqlite:///relative.db and sqlite:////absolute.db
    if scheme == "sqlite" and not rest.removeprefix("///").strip():
        raise invalid_store_url(url)
    adapter = _load("store", "knowloom.stores", STORES, scheme)
    possible = getattr(adapter, "ROLES", ROLES)
    for role in roles:
        if role not in possible:
            raise Invalid(
                f"{url!r} cannot play {role!r}; a store of this kind plays: {', '.join(possible)}"
            )
    return adapter.open(rest.removeprefix("///" if scheme == "sqlite" else "//"))


def chosen_embedder(
    given: str | Embedder | None, settings: Mapping[str, Any] | None
) -> Embedder | None:
    """The embedder that a name opens with the settings, or the object itself; None for "none"."""
    if not isinstance(settings, Mapping | None):
        raise Invalid(f"the settings of an embedder are a dict, not {settings!r}")
    if isinstance(given, str):
        return None if given == "none" else open_embedder(given, **(settings or {}))
    if given is not None and (
        lacks := _lacking(given, ("name", "dimensions", "fingerprint", "embed"))
    ):
        raise Invalid(
            f"an embedder is a name such as minilm or openai:MODEL, an object that embeds, or None, not {given!r}, which has no {lacks[0]}"
        )
    return given


def chosen_names(given: str | NameFinder | None, builtin: str) -> NameFinder | str | None:
    """What a name opens, or the object itself."""
    if isinstance(given, str):
        return given if given == builtin else open_names(given)
    if given is not None and (lacks := _lacking(given, ("fingerprint", "find"))):
        raise Invalid(
            f"names are found by {builtin!r}, by a pipeline such as spacy:en_core_web_sm or by an object, not by {given!r}, which has no {lacks[0]}"
        )
    return given


def _lacking(given: object, needed: Sequence[str]) -> list[str]:
    """What an object does not have. Nothing is asked for its value: to tell its dimensions, an embedder may ask a server."""
    if hasattr(type(given), "__getattr__"):  # it may have anything
        return []
    return [name for name in needed if getattr_static(given, name, None) is None]


def open_embedder(name: str, **settings: Any) -> Embedder:
    """Open "minilm", "openai:model@url" or what a plug-in offers."""
    scheme, _, rest = name.partition(":")
    opener = _load("embedder", "knowloom.embedders", EMBEDDERS, scheme).open
    takes = signature(opener).parameters
    for setting in settings:
        if setting not in takes and not any(
            one.kind is Parameter.VAR_KEYWORD for one in takes.values()
        ):
            raise unknown_name(f"setting of {scheme}", setting, list(takes)[1:])
    embedder: Embedder = opener(rest, **settings)
    return embedder


def open_llm(name: str, **settings: Any) -> LLM:
    """Open "openai:model", "openai:model@url" or what a plug-in offers."""
    if not isinstance(name, str) or not name:
        raise Invalid(f"an LLM is named like openai:model or openai:model@url, not by {name!r}")
    scheme, _, rest = name.partition(":")
    llm: LLM = _load("LLM", "knowloom.llms", LLMS, scheme).open(rest, **settings)
    return llm


def open_names(name: str) -> NameFinder:
    """Open "spacy:PIPELINE" or what a plug-in offers."""
    if not isinstance(name, str) or not name:
        raise Invalid(
            f"names are found by 'builtin' or by a pipeline such as spacy:en_core_web_sm, not by {name!r}"
        )
    scheme, _, rest = name.partition(":")
    finder: NameFinder = _load("finder of names", "knowloom.names", NAMES, scheme).open(rest)
    return finder


def _load(what: str, group: str, table: Mapping[str, str], name: str) -> Any:
    known = {point.name: point.value for point in entry_points(group=group)} | dict(table)
    if name not in known:
        raise unknown_name(what, name, known)
    module, _, attribute = known[name].partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise MissingExtra(
            f"{what} {name!r} needs a package that is not installed ({error.name}): pip install 'knowloom[{name}]'"
        ) from error
