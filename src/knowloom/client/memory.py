"""Memory on a server: the calls of `knowloom.Memory` over a `knowloom.Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, Unpack
from urllib.parse import urlencode

from knowloom.capabilities.memory.analytics import Summary
from knowloom.capabilities.memory.model import (
    ContextPreview,
    ContextResult,
    Remembered,
    SearchResults,
)
from knowloom.capabilities.memory.options import (
    MAX_QUERIES,
    MemoryContextArguments,
    MemoryFields,
    MemorySearchArguments,
    validate_queries,
)
from knowloom.client.requests import encode_ids, encode_time, encode_vector, encode_where
from knowloom.client.transport import Transport
from knowloom.wire import JsonObject
from knowloom.wire.memory import (
    memory_context_from_json,
    memory_from_json,
    memory_preview_from_json,
    search_results_from_json,
    summaries_from_json,
)


class RemoteMemory:
    """The memories of one workspace, as returned by `Client.memory`.

    Options and results are those of `knowloom.Memory`, except that results have no `hit`.
    Templates and ranking options may be values; rankers are given by name.
    """

    def __init__(self, transport: Transport, workspace: str | None) -> None:
        self._transport, self._workspace = transport, workspace

    def remember(
        self,
        content: str,
        *,
        supersedes: str | Sequence[str] = (),
        related: Mapping[str, str] | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Remembered:
        """Store a memory. Storing the same one again changes nothing."""
        body = self._body(fields) | {"content": content}
        if supersedes:
            body["supersedes"] = encode_ids(supersedes)
        if related:
            body["related"] = dict(related)
        return self._transport.write("/api/memory/remember", body, memory_from_json)

    def forget(self, ids: str | Sequence[str]) -> int:
        """Delete memories with their links; return the number deleted."""
        body = {"workspace": self._workspace, "ids": encode_ids(ids)}
        return self._transport.write("/api/memory/delete", body, lambda row: int(row["deleted"]))

    def search(self, query: str, **options: Unpack[MemorySearchArguments]) -> SearchResults:
        body = self._body(options) | {"query": query}
        return self._transport.read("/api/memory/search", body, search_results_from_json)

    def search_by_vector(
        self, vector: Sequence[float], **options: Unpack[MemorySearchArguments]
    ) -> SearchResults:
        body = self._body(options) | {"vector": encode_vector(vector)}
        return self._transport.read("/api/memory/search", body, search_results_from_json)

    def search_many(
        self, queries: Sequence[str], **options: Unpack[MemorySearchArguments]
    ) -> list[SearchResults]:
        """Return the results of each query; they are embedded in batches."""
        texts, results = validate_queries(queries), list[SearchResults]()
        for start in range(0, len(texts), MAX_QUERIES):
            body = self._body(options) | {"queries": texts[start : start + MAX_QUERIES]}
            results += self._transport.read(
                "/api/memory/search_many",
                body,
                lambda row: [search_results_from_json(answer) for answer in row["results"]],
            )
        return results

    def build_context(self, query: str, **options: Unpack[MemoryContextArguments]) -> ContextResult:
        body = self._body(options) | {"query": query}
        return self._transport.read("/api/memory/context", body, memory_context_from_json)

    def build_context_by_vector(
        self, vector: Sequence[float], **options: Unpack[MemoryContextArguments]
    ) -> ContextResult:
        body = self._body(options) | {"vector": encode_vector(vector)}
        return self._transport.read("/api/memory/context", body, memory_context_from_json)

    def preview(self, query: str, **options: Unpack[MemoryContextArguments]) -> ContextPreview:
        body = self._body(options) | {"query": query}
        return self._transport.read("/api/memory/preview", body, memory_preview_from_json)

    def preview_by_vector(
        self, vector: Sequence[float], **options: Unpack[MemoryContextArguments]
    ) -> ContextPreview:
        body = self._body(options) | {"vector": encode_vector(vector)}
        return self._transport.read("/api/memory/preview", body, memory_preview_from_json)

    def analytics(self) -> list[Summary]:
        """Summarise the requests of the workspace that the server recorded."""
        path = self._address("/api/memory/analytics")
        return self._transport.read(path, None, summaries_from_json)

    def recorded_queries(self, *, found_nothing: bool = False) -> list[str]:
        """Return the queries that the server recorded, oldest first; for keys of admins."""
        path = self._address("/api/memory/queries", found_nothing=str(found_nothing).lower())
        return self._transport.read(path, None, lambda row: list(row["queries"]))

    def _address(self, path: str, **parameters: str) -> str:
        if self._workspace is not None:
            parameters["workspace"] = self._workspace
        return f"{path}?{urlencode(parameters)}"

    def _body(self, options: Mapping[str, Any]) -> JsonObject:
        values = {name: _encode(name, value) for name, value in options.items() if name != "where"}
        return {"workspace": self._workspace} | values | encode_where(options.get("where"))


def _encode(name: str, value: object) -> object:
    if isinstance(value, datetime):
        return encode_time(name, value)
    if is_dataclass(value) and not isinstance(value, type):  # a template, or ranking options
        # The time of a request is not part of its ranking options.
        return {field: setting for field, setting in asdict(value).items() if field != "now"}
    return list(value) if isinstance(value, tuple) else value
