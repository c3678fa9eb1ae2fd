"""The indexes: their settings and mappings, and the check that they are knowloom's.

The alias of a layer leads to an index of entries. A second alias leads to the index of the vectors
of one embedder; those of another one replace it. No mapping is ever updated: OpenSearch 2.19 fails
the shards of an index with vectors then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from knowloom.errors import Corrupt, Unavailable
from knowloom.stores.elasticsearch.connection import Connection, Json
from knowloom.text.words import ANALYSER

FORMAT = 1
MARK = "knowloom"  # the key of our values in the mapping's _meta
MAX_RESULTS = 50_000  # hits of a search
VECTOR_FIELD = "vectors.vector"
_SETTINGS = {
    "max_result_window": MAX_RESULTS,
    "mapping.nested_objects.limit": 100_000,
    # Writes refresh the index themselves, once for each batch.
    "refresh_interval": "-1",
    # A write that was under way when its sender gave up must not undo a deletion.
    "gc_deletes": "1h",
}
_TERMS = {"type": "keyword", "doc_values": False}
_FILTERED: Mapping[str, Any] = {
    **{name: {"type": "keyword"} for name in ("space", "id")},
    **{name: _TERMS for name in ("kind", "type", "tags", "subject")},
}
_ENTRIES: Mapping[str, Any] = {
    **_FILTERED,
    "version": {"type": "keyword", "index": False},
    "passage_count": {"type": "integer"},
    "length": {"type": "long"},
    "terms": _TERMS,
    "whole": _TERMS,
    "passages": {"type": "nested", "properties": {"terms": _TERMS}},
}


@dataclass(frozen=True, slots=True)
class EmbedderIndex:
    """The index of the vectors of an embedder; the name is "" if there is none."""

    name: str = ""
    fingerprint: str = ""
    dimensions: int = 0


def vector_alias(connection: Connection) -> str:
    return f"{connection.address.index}-vectors"


def open_index(connection: Connection) -> None:
    """Create the index of the entries unless it exists; refuse that of another program."""
    alias = connection.address.index
    if not _read_mappings(connection, alias):
        body = _definition(connection, _ENTRIES, {})
        # 400: another process has just created it
        index = f"{alias}-entries-{FORMAT}"
        connection.request("PUT", f"/{index}", {**body, "aliases": {alias: {}}}, allow=(400,))
    _read_meta(connection, connection.request("GET", f"/{alias}/_mapping"))


def _read_mappings(connection: Connection, alias: str) -> Json:
    """Return the mappings of the indexes behind an alias, by name; {} if there are none."""
    path = f"/{alias}/_mapping"
    return connection.request("GET", path, allow=(404,), ignore_unavailable="true")


def _definition(connection: Connection, properties: Mapping[str, Any], extra: Json) -> Json:
    settings = {
        **_SETTINGS,
        "number_of_shards": connection.address.shards,
        "number_of_replicas": connection.address.replicas,
    }
    meta = {MARK: {"format": FORMAT, "analyser": ANALYSER, **extra}}
    mapping = {"dynamic": "strict", "_meta": meta, "properties": dict(properties)}
    return {"settings": settings, "mappings": mapping}


def _read_meta(connection: Connection, mappings: Json) -> Json:
    """Return our values of an index; raise Corrupt unless it is one of knowloom's."""
    name = connection.address.name
    if len(mappings) != 1:
        raise Corrupt(f"{name}: the name is an alias of several indexes", "foreign_file")
    meta: Any = next(iter(mappings.values()))["mappings"].get("_meta", {}).get(MARK)
    if not isinstance(meta, dict) or not isinstance(meta.get("format"), int):
        raise Corrupt(f"{name}: the index belongs to another program", "foreign_file")
    if meta["format"] > FORMAT:
        message = f"{name}: the index was written by a newer version of knowloom"
        raise Unavailable(message, "newer_version")
    if meta.get("analyser") != ANALYSER:
        message = f"{name}: the index has terms of another version of knowloom: delete it"
        raise Unavailable(message, "newer_version")
    return dict(meta)


def read_vector_index(connection: Connection) -> EmbedderIndex:
    mappings = _read_mappings(connection, vector_alias(connection))
    if not mappings:
        return EmbedderIndex()
    meta = _read_meta(connection, mappings)
    return EmbedderIndex(next(iter(mappings)), meta["fingerprint"], meta["dimensions"])


def replace_vector_index(
    connection: Connection, before: EmbedderIndex, after: EmbedderIndex, mapping: Json
) -> None:
    """Create the index of other vectors in place of the present one, if there is one."""
    alias = vector_alias(connection)
    text = f"{after.fingerprint}\n{after.dimensions}"
    name = f"{alias}-{sha256(text.encode()).hexdigest()[:16]}"
    fields = {**_FILTERED, "vectors": {"type": "nested", "properties": {"vector": mapping}}}
    values = {"fingerprint": after.fingerprint, "dimensions": after.dimensions}
    connection.request("PUT", f"/{name}", _definition(connection, fields, values), allow=(400,))
    actions: list[Json] = [{"add": {"index": name, "alias": alias}}]
    if before.name:
        actions.append({"remove_index": {"index": before.name}})
    connection.request("POST", "/_aliases", {"actions": actions})
