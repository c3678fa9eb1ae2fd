"""Memory over a `knowloom.Client`: the calls of `knowloom.Memory`, answered by a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

from knowloom import codec
from knowloom.capabilities.memory.model import (
    ContextPreview,
    ContextResult,
    Omitted,
    RelatedMemory,
    Remembered,
    SearchResult,
)
from knowloom.client import requests
from knowloom.client.transport import Transport
from knowloom.wire import decoding

Row = dict[str, Any]
T = TypeVar("T")

TIMES = tuple(
    one.name for one in fields(Remembered) if one.name.endswith("_at") or one.name == "valid_from"
)


class RemoteMemory:
    """The memories of one workspace, made by `Client.memory`. Options and answers are those of `knowloom.Memory`; what a search found has no
    `hit`. Templates and ranking options may be given as values; rankers by name."""

    def __init__(self, transport: Transport, workspace: str) -> None:
        self._transport, self._workspace = transport, workspace

    def remember(self, content: str, **fields: Any) -> Remembered:
        """Store a memory. Telling the same again changes nothing."""
        return self._transport.write(
            "/api/memory/remember", self._asked(fields) | {"content": content}, _memory
        )

    def forget(self, ids: str | Sequence[str]) -> int:
        """Delete memories with their links; how many were there."""
        return self._transport.write(
            "/api/memory/delete",
            {"workspace": self._workspace, "ids": requests.ids(ids)},
            lambda row: int(row["deleted"]),
        )

    def search(self, query: str, **options: Any) -> list[SearchResult]:
        return self._transport.read(
            "/api/memory/search", self._asked(options) | {"query": query}, _results
        )

    def search_by_vector(self, vector: Sequence[float], **options: Any) -> list[SearchResult]:
        return self._transport.read(
            "/api/memory/search",
            self._asked(options) | {"vector": requests.numbers(vector)},
            _results,
        )

    def build_context(self, query: str, **options: Any) -> ContextResult:
        return self._transport.read(
            "/api/memory/context", self._asked(options) | {"query": query}, _context
        )

    def build_context_by_vector(self, vector: Sequence[float], **options: Any) -> ContextResult:
        return self._transport.read(
            "/api/memory/context",
            self._asked(options) | {"vector": requests.numbers(vector)},
            _context,
        )

    def preview(self, query: str, **options: Any) -> ContextPreview:
        return self._transport.read(
            "/api/memory/preview", self._asked(options) | {"query": query}, _preview
        )

    def preview_by_vector(self, vector: Sequence[float], **options: Any) -> ContextPreview:
        return self._transport.read(
            "/api/memory/preview",
            self._asked(options) | {"vector": requests.numbers(vector)},
            _preview,
        )

    def _asked(self, options: Mapping[str, Any]) -> Row:
        return {"workspace": self._workspace} | {
            name: _sent(name, value) for name, value in options.items()
        }


def _sent(name: str, value: object) -> object:
    if isinstance(value, datetime):
        return requests.time(name, value)
    if is_dataclass(value) and not isinstance(
        value, type
    ):  # a template or ranking options; the time of the request is an option of its own
        return {field: one for field, one in asdict(value).items() if field != "now"}
    return list(value) if isinstance(value, tuple) else value


def _memory(row: Row) -> Remembered:
    times = {name: None if row[name] is None else codec.text_to_time(row[name]) for name in TIMES}
    return Remembered(**{one.name: row[one.name] for one in fields(Remembered)} | times)


def _result(row: Row) -> SearchResult:
    related = tuple(
        RelatedMemory(_memory(one["memory"]), decoding.edge(one["relationship"]), one["depth"])
        for one in row["relationships"]
    )
    return SearchResult(_memory(row["memory"]), row["score"], row["rank"], related)


def _results(row: Row) -> list[SearchResult]:
    return [_result(one) for one in row["memories"]]


def _context(row: Row) -> ContextResult:
    return ContextResult(
        row["context"], row["token_count"], tuple(_results(row)), row["truncated"], row["template"]
    )


def _preview(row: Row) -> ContextPreview:
    left_out = tuple(
        Omitted(one["id"], one["rank"], one["tokens"], one["reason"]) for one in row["left_out"]
    )
    found = _context(row)
    return ContextPreview(
        found.context,
        found.token_count,
        found.memories,
        found.truncated,
        found.template,
        tuple(row["memory_ids"]),
        row["ranking_scores"],
        row["budget_used"],
        left_out,
    )
