"""A TextLayer and VectorLayer on an index of Elasticsearch or OpenSearch.

Each item is one document, which is replaced as a whole. Its external version is the time of the
write, so that a write that arrives late, after its sender gave up, does not undo a later one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from knowloom.errors import Invalid, Unavailable
from knowloom.model import Filter, Key
from knowloom.ports import Candidates, IndexEntry, Vector
from knowloom.stores.elasticsearch import bound_queries
from knowloom.stores.elasticsearch.connection import Connection, Json
from knowloom.stores.elasticsearch.documents import (
    decode_keys,
    document_id,
    encode_entry,
    encode_filter,
    encode_vectors,
)
from knowloom.stores.elasticsearch.index_definition import (
    EmbedderIndex,
    open_index,
    read_vector_index,
    replace_vector_index,
    vector_alias,
)
from knowloom.text.impact_classes import widen_bound

MAX_BULK = 8_000_000  # characters of a request
MAX_ATTEMPTS = 5  # to write a document that others write at the same time
MAX_NEAREST = 10_000  # documents that the engines return for a vector
PAGE = 1000
_EXTERNAL = {"version_type": "external_gte"}
_CURRENT_VERSION = re.compile(r"current version \[(\d+)\]")

DocumentKey = tuple[str, str]  # alias of the index, id
Actions = dict[DocumentKey, Json | None]  # the content of documents; None: delete it


class Dialect(Protocol):
    """The differences between the engines."""

    def vector_mapping(self, dimensions: int) -> Json:
        """Return the mapping of vectors of this size that are compared one by one."""

    def vector_query(self, vector: Vector, clauses: list[Json], size: int) -> Json:
        """Return a search for the nearest documents.

        The score of inner product p is p + 1, and 1 / (1 - p) if p is negative.
        """

    def check_version(self, version: tuple[int, int]) -> str:
        """Return why a server of this version cannot be used; "" if it can."""


class IndexedLayer:
    """Entries in one index."""

    ROLES = ("words", "vectors")

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._connection, self._dialect, self._now_us = connection, dialect, now_us
        self._dimensions = 0  # of the stored vectors, as last read
        self._check_server()
        open_index(connection)

    def _check_server(self) -> None:
        answer = self._connection.request(
            "GET", "/_nodes", allow=(403,), filter_path="nodes.*.version"
        )
        nodes = answer.get("nodes", {})
        for text in sorted({node["version"] for node in nodes.values()}):
            major, minor = (int(part) for part in text.split(".")[:2])
            if reason := self._dialect.check_version((major, minor)):
                name = self._connection.address.name
                raise Unavailable(f"{name}: {reason}, this is {text}", "unsupported_version")

    # writing

    def put(self, entries: Sequence[IndexEntry]) -> None:
        vectors = self._prepare_vectors(entries)
        actions: Actions = {}
        for entry in entries:
            id = document_id(entry.item.key)
            if vectors.name:  # the vectors first: the version stands for both
                actions[vector_alias(self._connection), id] = encode_vectors(entry)
            actions[self._connection.address.index, id] = encode_entry(entry)
        self._write(actions)

    def remove(self, keys: Sequence[Key]) -> None:
        aliases = [self._connection.address.index]
        if read_vector_index(self._connection).name:
            aliases.append(vector_alias(self._connection))
        self._write({(alias, document_id(key)): None for key in keys for alias in aliases})

    def _prepare_vectors(self, entries: Sequence[IndexEntry]) -> EmbedderIndex:
        """Return the index of the vectors; replace that of another embedder by a new one."""
        stored = read_vector_index(self._connection)
        models = {
            (entry.fingerprint, entry.vectors.shape[1])
            for entry in entries
            if entry.vectors is not None
        }
        if len(models) > 1:
            raise Invalid(f"entries must have vectors of one embedder, got {sorted(models)}")
        if not models or (stored.fingerprint, stored.dimensions) in models:
            return stored
        ((fingerprint, dimensions),) = models
        mapping = self._dialect.vector_mapping(dimensions)
        current = EmbedderIndex("", fingerprint, dimensions)
        replace_vector_index(self._connection, stored, current, mapping)
        return read_vector_index(self._connection)

    def _write(self, actions: Actions) -> None:
        """Write documents and make them visible to searches; later versions are replaced, too."""
        self._connection.check_open()
        versions = dict.fromkeys(actions, self._now_us())
        for _ in range(MAX_ATTEMPTS):
            if not versions:
                self._refresh({alias for alias, _ in actions})
                return
            versions = self._write_once(actions, versions)
        raise Unavailable(
            f"{self._connection.address.name}: {len(versions)} documents are written by others",
            "busy",
        )

    def _write_once(
        self, actions: Actions, versions: Mapping[DocumentKey, int]
    ) -> dict[DocumentKey, int]:
        """Write documents with these versions; return higher ones of those that have a later one.

        The clock of another machine may be ahead; the mirror makes sure that the last state wins.
        """
        retries: dict[DocumentKey, int] = {}
        for keys, lines in _chunks(actions, versions):
            for key, result in zip(keys, self._connection.bulk(lines), strict=True):
                status = result["status"]
                if status < 300 or (status == 404 and "error" not in result):
                    continue
                reason = result["error"]["reason"]
                match = _CURRENT_VERSION.search(reason)
                if status != 409 or match is None:
                    raise self._connection.describe(status, reason)
                retries[key] = int(match[1]) + 1
        return retries

    def _refresh(self, aliases: Set[str]) -> None:
        if not aliases:
            return
        result = self._connection.request("POST", f"/{','.join(sorted(aliases))}/_refresh")
        if result["_shards"]["failed"]:
            name = self._connection.address.name
            raise Unavailable(f"{name}: some shards were not refreshed", "unreachable")

    # reading

    def _search(self, body: Json) -> Json:
        return self._connection.search(self._connection.address.index, body)

    def indexed_spaces(self) -> list[str]:
        spaces: list[str] = []
        pages: Json = {"size": PAGE, "sources": [{"space": {"terms": {"field": "space"}}}]}
        while True:
            body = {"size": 0, "aggs": {"spaces": {"composite": pages}}}
            page = self._search(body)["aggregations"]["spaces"]
            spaces += [bucket["key"]["space"] for bucket in page["buckets"]]
            if "after_key" not in page:
                return sorted(spaces)
            pages["after"] = page["after_key"]

    def versions(self, space: str, after: str, limit: int) -> list[tuple[str, str]]:
        body: Json = {
            "query": {"bool": {"filter": [{"term": {"space": space}}]}},
            "sort": [{"id": "asc"}],
            "size": limit,
            "_source": False,
            "docvalue_fields": ["id", "version"],
        }
        if after:
            body["search_after"] = [after]
        hits = self._search(body)["hits"]["hits"]
        return [(hit["fields"]["id"][0], hit["fields"]["version"][0]) for hit in hits]

    def match_text(self, text: str, only: Filter, limit: int) -> Candidates:
        return bound_queries.match_text(self._connection, text, only, limit)

    def match_vector(self, vector: Vector, only: Filter, limit: int) -> Candidates:
        """Compare the vectors of all items one by one: nothing is missed."""
        if not self._has_vectors(len(vector)) or not only.spaces:
            return Candidates()
        size, clauses = min(limit + 1, MAX_NEAREST), encode_filter(only)
        nearest = {**self._dialect.vector_query(vector, clauses, size), "size": size}
        all = {"query": {"bool": {"filter": clauses}}, "size": 0, "track_total_hits": True}
        counted, result = self._connection.search_all(
            vector_alias(self._connection), [all, {**nearest, **bound_queries.KEY_FIELDS}]
        )
        hits, considered = result["hits"]["hits"], counted["hits"]["total"]["value"]
        if len(hits) < size:
            return Candidates(decode_keys(hits), 0.0, considered)
        last = hits[-1]["_score"]
        return Candidates(decode_keys(hits), widen_bound(max(0.0, last - 1)), considered)

    def _has_vectors(self, dimensions: int) -> bool:
        """Return False if there are none; raise Invalid if they have other dimensions.

        The dimensions are read again only if they differ: vectors of others would be queued.
        """
        self._connection.check_open()
        if self._dimensions != dimensions:
            self._dimensions = read_vector_index(self._connection).dimensions
        if self._dimensions not in (0, dimensions):
            rule = f"{self._dimensions} dimensions, as the stored ones"
            raise Invalid(f"a vector must have {rule}, got {dimensions}")
        return self._dimensions > 0

    def reading(self) -> AbstractContextManager[object]:
        self._connection.check_open()
        return nullcontext()

    def close(self) -> None:
        self._connection.close()


def _chunks(
    actions: Actions, versions: Mapping[DocumentKey, int]
) -> Iterator[tuple[list[DocumentKey], list[str]]]:
    """Yield documents that have a version and the lines of their request, of bounded size."""
    keys: list[DocumentKey] = []
    lines: list[str] = []
    size = 0
    for key, version in versions.items():
        document = actions[key]
        action = "delete" if document is None else "index"
        target = {"_index": key[0], "_id": key[1], "version": version, **_EXTERNAL}
        added = [json.dumps({action: target})]
        if document is not None:
            added.append(json.dumps(document))
        if keys and size + sum(map(len, added)) > MAX_BULK:
            yield keys, lines
            keys, lines, size = [], [], 0
        keys.append(key)
        lines += added
        size += sum(map(len, added))
    if keys:
        yield keys, lines
