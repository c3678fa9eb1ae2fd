"""Names of adapters. A class is imported on first use; a missing package becomes advice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, getattr_static, signature
from typing import Any, Unpack

from knowloom.errors import (
    Invalid,
    MissingExtra,
    hide_secrets,
    invalid_store_url,
    unknown_name,
)
from knowloom.ports import LLM, Embedder, KeyTable, LLMSettings, NameFinder, Reranker, Stores
from knowloom.stores.composite.layers import Layer, is_index_layer
from knowloom.stores.composite.store import CompositeStore

# Plug-ins add to these through the entry point groups "knowloom.stores", "knowloom.embedders",
# "knowloom.llms", "knowloom.rerankers" and "knowloom.names".
STORES = {
    "bolt": "knowloom.stores.neo4j.store:BoltStore",
    "elasticsearch": "knowloom.stores.elasticsearch.elasticsearch_dialect:ElasticsearchLayer",
    "file": "knowloom.stores.file.store:FileStore",
    "fts5": "knowloom.stores.sqlite.fulltext.fts5_layer:Fts5Layer",
    "lancedb": "knowloom.stores.lancedb:LanceLayer",
    "memory": "knowloom.stores.memory.store:MemoryStore",
    "neo4j": "knowloom.stores.neo4j.store:Neo4jStore",
    "networkx": "knowloom.stores.networkx:NetworkxStore",
    "opensearch": "knowloom.stores.elasticsearch.opensearch_dialect:OpenSearchLayer",
    "postgresql": "knowloom.stores.postgresql.store:PostgresqlStore",
    "redis": "knowloom.stores.redis.store:RedisStore",
    "rediss": "knowloom.stores.redis.store:EncryptedRedisStore",
    "sqlite": "knowloom.stores.sqlite.store:SqliteStore",
}
EMBEDDERS = {
    "bge-small": "knowloom.embedders.bge:BgeSmall",
    "minilm": "knowloom.embedders.minilm:MiniLM",
    "onnx": "knowloom.embedders.onnx:OnnxEmbedder",
    "openai": "knowloom.embedders.openai:OpenAIEmbedder",
}
SIMPLE_EMBEDDER = ("embed", "embed_batch", "dimensions", "model")  # another common shape
LLMS = {"openai": "knowloom.llms.openai:OpenAIChat"}
RERANKERS = {
    "cohere": "knowloom.rerankers.servers:CohereReranker",
    "jina": "knowloom.rerankers.servers:JinaReranker",
    "onnx": "knowloom.rerankers.cross_encoder:OnnxReranker",
    "tei": "knowloom.rerankers.servers:TeiReranker",
}
NAME_FINDERS = {"spacy": "knowloom.ner.spacy:SpacyNames"}
ROLES = ("items", "metadata", "words", "vectors", "graph")

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):")  # two letters or more: "C:" is a drive


def open_stores(url: str, roles: Mapping[str, str]) -> Stores:
    """Open one URL for all roles; `metadata` (profiles), `words`, `vectors`, `graph` may differ.

    Each URL is opened once. A layer whose file is damaged is opened as soon as it can be read.
    """
    urls = _resolve_urls(url, roles)
    opened: dict[str, Any] = {}
    with ExitStack() as stack:
        for store_url in urls.values():
            if store_url not in opened:
                played = [role for role in ROLES if urls[role] == store_url]
                if "items" in played:
                    opened[store_url] = open_store(store_url, played)
                else:
                    reopen = partial(open_store, store_url, played)
                    is_layer = is_index_layer(_find_adapter(store_url))
                    opened[store_url] = Layer(store_url, played, reopen, is_layer)
                stack.callback(opened[store_url].close)
        stack.pop_all()
    stores = {role: opened[store_url] for role, store_url in urls.items()}
    if len(opened) == 1:
        return Stores(*[stores["items"]] * 4)
    profiles = stores["metadata"] if urls["metadata"] != urls["items"] else None
    composite = CompositeStore(
        stores["items"], stores["words"], stores["vectors"], stores["graph"], profiles
    )
    return Stores(composite, composite, composite, composite, composite)


def check_roles(url: str, roles: Mapping[str, str]) -> None:
    """Raise Invalid for roles that cannot be opened together."""
    for role, store_url in _resolve_urls(url, roles).items():
        if role not in (supported := getattr(_find_adapter(store_url), "ROLES", ROLES)):
            names = ", ".join(supported)
            raise Invalid(f"{hide_secrets(store_url)!r} cannot store {role}; it supports: {names}")


def _resolve_urls(url: str, roles: Mapping[str, str]) -> dict[str, str]:
    for role in roles:
        if role not in ROLES:
            raise unknown_name("role", role, ROLES)
    urls = {role: roles.get(role, url) for role in ROLES}
    metadata = urls["metadata"] = roles.get("metadata", urls["items"])
    for store_url in urls.values():
        if not isinstance(store_url, str):
            raise invalid_store_url(store_url)
    if metadata != urls["items"]:
        for role in ROLES:
            if role != "metadata" and urls[role] == metadata:
                remedy = "store the profiles apart, or with the items"
                shown = hide_secrets(metadata)
                raise Invalid(f"metadata and {role} must not both be {shown!r}: {remedy}")
    return urls


def open_store(url: str, roles: Sequence[str] = ()) -> Any:
    """Open "knowledge.db", "sqlite:///path", "memory:" or a scheme of a plug-in for these roles."""
    path, adapter = _find_path(url), _find_adapter(url)
    supported = getattr(adapter, "ROLES", ROLES)
    for role in roles:
        if role not in supported:
            shown, roles = hide_secrets(url), ", ".join(supported)
            raise Invalid(f"{shown!r} cannot store {role}; it supports: {roles}")
    return adapter.open(path)


def _find_path(url: str) -> str:
    """Return the URL without its scheme."""
    scheme, path = _split_scheme(url)
    # As elsewhere: sqlite:///relative.db and sqlite:////absolute.db
    if scheme == "sqlite" and not path.removeprefix("///").strip():
        raise invalid_store_url(url)
    return path.removeprefix("///" if scheme == "sqlite" else "//")


def has_key_table(url: str) -> bool:
    """Return True if the store behind a URL is a database that has API keys too."""
    match = _SCHEME.match(url)
    return match is not None and hasattr(_load_store(match[1]), "open_keys")


def open_key_table(url: str) -> KeyTable:
    """Open the API keys in the database of a store; raise Invalid for other stores."""
    if not has_key_table(url):
        raise Invalid(f"{hide_secrets(url)!r} has no table of API keys", "unsupported")
    scheme, _, path = url.partition(":")
    table: KeyTable = _load_store(scheme).open_keys(path.removeprefix("//"))
    return table


def _split_scheme(url: str) -> tuple[str, str]:
    match = _SCHEME.match(url)
    return (match[1], url[match.end() :]) if match else ("sqlite", url)


def _find_adapter(url: str) -> Any:
    return _load("store", "knowloom.stores", STORES, _split_scheme(url)[0])


def load_restorer(url: str) -> Any:
    """Return the store class that restores backups to this URL; raise Invalid for other stores."""
    adapter = _find_adapter(url)
    if not hasattr(adapter, "restore"):
        raise Invalid(
            f"a backup can be restored to an SQLite file only, got {url!r}", "unsupported"
        )
    return adapter


def unpack_profiles(data: bytes, url: str, overwrite: bool) -> AbstractContextManager[None]:
    """Return a block at whose end the profiles of a backup are restored to this URL."""
    adapter = _find_adapter(url)
    if not hasattr(adapter, "unpack"):
        raise Invalid(
            f"profiles can be restored to an SQLite file or a folder (file:), got "
            f"{hide_secrets(url)!r}",
            "unsupported",
        )
    block: AbstractContextManager[None] = adapter.unpack(data, _find_path(url), overwrite)
    return block


def resolve_embedder(
    embedder: str | Embedder | None, settings: Mapping[str, Any] | None
) -> Embedder | None:
    """Return the embedder, opened with the settings if it is a name; None for "none"."""
    if not isinstance(settings, Mapping | None):
        raise Invalid(f"embedder settings must be a dict, got {settings!r}")
    if isinstance(embedder, str):
        return None if embedder == "none" else open_embedder(embedder, **(settings or {}))
    if embedder is None:
        return None
    missing = _missing_attributes(embedder, ("name", "dimensions", "fingerprint", "embed"))
    if missing and not _missing_attributes(embedder, SIMPLE_EMBEDDER):
        simple: Embedder = import_module("knowloom.embedders.simple").SimpleEmbedder(embedder)
        return simple
    if missing:
        rule = "a name such as minilm or openai:MODEL, an Embedder or None"
        raise Invalid(f"embedder must be {rule}, got {embedder!r} without {missing[0]!r}")
    return embedder


def resolve_reranker(
    reranker: str | Reranker | None, settings: Mapping[str, Any] | None
) -> Reranker | None:
    """Return the reranker, opened with the settings if it is a name; None for "none" and ""."""
    if not isinstance(settings, Mapping | None):
        raise Invalid(f"rerank settings must be a dict, got {settings!r}")
    if reranker is None or reranker in ("", "none"):
        return None
    if isinstance(reranker, str):
        return open_reranker(reranker, **(settings or {}))
    if missing := _missing_attributes(reranker, ("name", "fingerprint", "rerank")):
        rule = "a name such as onnx:FOLDER or cohere:MODEL, a Reranker or None"
        raise Invalid(f"rerank must be {rule}, got {reranker!r} without {missing[0]!r}")
    return reranker


def resolve_name_finder(finder: str | NameFinder | None, builtin: str) -> NameFinder | str | None:
    """Return the name finder, opened if it is a name other than `builtin`."""
    if isinstance(finder, str):
        return finder if finder == builtin else open_name_finder(finder)
    if finder is not None and (missing := _missing_attributes(finder, ("fingerprint", "find"))):
        rule = f"{builtin!r}, a pipeline such as spacy:en_core_web_sm or a NameFinder"
        raise Invalid(f"names must be {rule}, got {finder!r} without {missing[0]!r}")
    return finder


def _missing_attributes(value: object, names: Sequence[str]) -> list[str]:
    """Return the missing attributes without reading any: `dimensions` may send a request."""
    if hasattr(type(value), "__getattr__"):  # it may have any attribute
        return []
    return [name for name in names if getattr_static(value, name, None) is None]


def open_embedder(name: str, **settings: object) -> Embedder:
    """Open "minilm", "openai:model@url" or an embedder of a plug-in."""
    scheme, _, address = name.partition(":")
    opener = _load("embedder", "knowloom.embedders", EMBEDDERS, scheme).open
    embedder: Embedder = opener(address, **_check_settings(scheme, opener, settings))
    return embedder


def _check_settings(
    scheme: str, opener: Callable[..., object], settings: Mapping[str, object]
) -> Mapping[str, object]:
    """Return the settings of an adapter; raise Invalid for unknown ones."""
    parameters = signature(opener).parameters
    accepts_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    for setting in settings:
        if setting not in parameters and not accepts_any:
            raise unknown_name(f"setting of {scheme}", setting, list(parameters)[1:])
    return settings


def open_reranker(name: str, **settings: object) -> Reranker:
    """Open "onnx:FOLDER", "cohere:MODEL", "jina:MODEL", "tei:URL" or one of a plug-in."""
    scheme, _, address = name.partition(":")
    opener = _load("reranker", "knowloom.rerankers", RERANKERS, scheme).open
    reranker: Reranker = opener(address, **_check_settings(scheme, opener, settings))
    return reranker


def open_llm(name: str, **settings: Unpack[LLMSettings]) -> LLM:
    """Open "openai:model", "openai:model@url" or an LLM of a plug-in."""
    if not isinstance(name, str) or not name:
        raise Invalid(f"an LLM must be openai:model or openai:model@url, got {name!r}")
    scheme, _, address = name.partition(":")
    llm: LLM = _load("LLM", "knowloom.llms", LLMS, scheme).open(address, **settings)
    return llm


def open_name_finder(name: str) -> NameFinder:
    """Open "spacy:PIPELINE" or a name finder of a plug-in."""
    if not isinstance(name, str) or not name:
        rule = "'builtin' or a pipeline such as spacy:en_core_web_sm"
        raise Invalid(f"names must be {rule}, got {name!r}")
    scheme, _, address = name.partition(":")
    adapter = _load("name finder", "knowloom.names", NAME_FINDERS, scheme)
    finder: NameFinder = adapter.open(address)
    return finder


def _load_store(scheme: str) -> Any:
    return _load("store", "knowloom.stores", STORES, scheme)


def _load(what: str, group: str, table: Mapping[str, str], name: str) -> Any:
    available = {point.name: point.value for point in entry_points(group=group)} | dict(table)
    if name not in available:
        raise unknown_name(what, name, available)
    module, _, attribute = available[name].partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        remedy = f"pip install 'knowloom[{name}]'"
        raise MissingExtra(
            f"{what} {name!r} needs a package that is not installed ({error.name}): {remedy}"
        ) from error
