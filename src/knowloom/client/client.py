"""`knowloom.Client`: the calls of the engine, answered by a server. A program moves from one to the other by changing a URL."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from knowloom import validation
from knowloom.client import requests
from knowloom.client.capabilities import Capable
from knowloom.client.history import RemoteHistory
from knowloom.client.maintenance import RemoteMaintenance, read_count, report_progress
from knowloom.client.memory import RemoteMemory
from knowloom.client.transport import Transport
from knowloom.embedding import Progress
from knowloom.errors import (
    NotFound,
)
from knowloom.model import Context, Edge, Hit, Item, Key
from knowloom.options import ContextArguments, SearchArguments
from knowloom.report import Report
from knowloom.wire.contexts import context_from_json, hits_from_json
from knowloom.wire.knowledge import (
    edge_from_json,
    edge_to_json,
    item_from_json,
    item_to_json,
    report_from_json,
)

log = logging.getLogger(__name__)

PAGE = 1000  # items or edges per request while listing

Row = dict[str, Any]
T = TypeVar("T")


class Client(Capable):
    """Open until `close` or the end of a `with` block; may be used by several threads. Takes and gives the values of the engine and
    raises its errors. What only reads is asked again when the server does not answer, up to `max_retries` times."""

    _transport: Transport

    def __init__(
        self, url: str, *, key: str = "", timeout_s: float = 30.0, max_retries: int = 2
    ) -> None:
        self._transport = Transport(url, key, timeout_s=timeout_s, max_retries=max_retries)
        self.maintenance = RemoteMaintenance(self._transport)
        self.history = RemoteHistory(self._transport)

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def memory(self, workspace: str) -> RemoteMemory:
        """The memories of a workspace on the server: the calls of `knowloom.Memory` that ask, tell and forget."""
        return RemoteMemory(self._transport, validation.validate_name("workspace", workspace))

    # writing

    def add(
        self,
        items: Item | Iterable[Item],
        edges: Iterable[Edge] = (),
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        embed: bool = True,
        expected: Mapping[Key, str] | None = None,
    ) -> Report:
        """Store items and edges in one write: all of them, or none with the reason. See `Engine.add`."""
        rows = [
            item_to_json(validation.validate_item(one))
            for one in ([items] if isinstance(items, Item) else items)
        ]
        links = [edge_to_json(validation.validate_edge(one)) for one in edges]
        ready = None if vectors is None else [requests.numbers(vector) for vector in vectors]
        asked = {
            "items": rows,
            "edges": links,
            "vectors": ready,
            "embed": embed,
            "expected": requests.expected(expected),
        }
        return self._transport.write("/api/add", asked, report_from_json)

    def load(
        self,
        source: str | Path | Mapping[str, Any],
        *,
        space: str | None = None,
        embed: bool = True,
        progress: Progress | None = None,
    ) -> Report:
        """Store what a file, a folder or a dict on this machine holds, in several requests. Bad rows are skipped and reported."""
        rows, report = requests.Rows(source, space), Report()
        for what, parts in (("items", rows.items()), ("edges", rows.edges())):
            done = 0
            for part in parts:
                answer = self._transport.write(
                    "/api/load",
                    {what: [one.row for one in part], "embed": embed, "layered": part[0].layered},
                    report_from_json,
                )
                report += replace(
                    answer, skipped=tuple(requests.placed(one, part) for one in answer.skipped)
                )
                done += len(part)
                report_progress(progress, what, done, 0)
            report_progress(progress, what, done, done)
        return replace(
            report,
            skipped=(*rows.skipped, *report.skipped),
            problems=tuple(dict.fromkeys(report.problems)),
        )

    def delete(
        self, ids: str | Sequence[str], *, space: str, expected: Mapping[Key, str] | None = None
    ) -> int:
        """Forget items with their words, vectors and edges; how many were there."""
        return self._transport.write(
            "/api/delete",
            {"space": space, "ids": requests.ids(ids), "expected": requests.expected(expected)},
            read_count,
        )

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Forget these links; how many were there."""
        return self._transport.write(
            "/api/unlink", {"edges": [requests.link(edge) for edge in edges]}, read_count
        )

    def reindex(self, progress: Progress | None = None) -> int:
        """Make words and vectors anew from the items, on the server; how many vectors were made."""
        made = self._transport.write("/api/reindex", {}, read_count)
        report_progress(progress, "vectors", made, made)
        return made

    # reading

    def get(self, ids: str | Sequence[str], *, space: str) -> list[Item]:
        """The items in the order asked; unknown ids are left out."""
        return self._transport.read(
            "/api/items", {"space": space, "ids": requests.ids(ids)}, _items
        )

    def items(
        self,
        spaces: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        limit: int | None = None,
        after: Key | None = None,
    ) -> Iterator[Item]:
        """Iterate over the items of the spaces (None: of all readable ones) by (space, id).

        `limit` and `after`, the key of the last item seen, give one page.
        """
        body = {
            "spaces": self._resolve_spaces(spaces, limit),
            "kinds": requests.names("kinds", kinds),
            "types": requests.names("types", types),
        }
        if limit is not None:
            return iter(self._item_page(body, limit, after))
        return self._iterate_items(body, after)

    def edges(
        self,
        spaces: Sequence[str] | None = None,
        *,
        automatic: bool | None = False,
        limit: int | None = None,
        after: Edge | None = None,
    ) -> Iterator[Edge]:
        """Iterate over explicit edges, automatic ones (True) or both (None), ordered by key.

        `limit` and `after`, the last edge seen, give one page.
        """
        body = {"spaces": self._resolve_spaces(spaces, limit), "made": automatic}
        if limit is not None:
            return iter(self._edge_page(body, limit, after))
        return self._iterate_edges(body, after)

    def search(
        self, text: str, *, spaces: Sequence[str], **options: Unpack[SearchArguments]
    ) -> list[Hit]:
        """Return the best items, best first. Filters apply before `limit`; see `Engine.search`."""
        body = {"query": text, "spaces": requests.names("spaces", spaces)}
        body |= requests.search_options(options)
        return self._transport.read(
            requests.route("/api/search", "/api/ask/search", body), body, hits_from_json
        )

    def context(
        self, text: str, *, spaces: Sequence[str], **options: Unpack[ContextArguments]
    ) -> Context:
        """The best context for a request, within its budget. Options are those of `Engine.context`."""
        return self._context(
            {"query": text, "spaces": requests.names("spaces", spaces), "remedies": False}
            | requests.options(options)
        )

    def explain(
        self,
        text: str,
        *,
        spaces: Sequence[str],
        ids: str | Sequence[str] = (),
        **options: Unpack[ContextArguments],
    ) -> Context:
        """The same answer as `context`, where everything left out also says what would bring it in; `ids` are asked about by name."""
        asked = {
            "query": text,
            "spaces": requests.names("spaces", spaces),
            "ids": requests.ids(ids),
            "remedies": True,
        }
        return self._context(asked | requests.options(options))

    def verify(self) -> list[str]:
        """What is wrong with the stored data, in words; nothing when all is well."""
        return self._transport.read("/api/verify", None, lambda row: list(row["problems"]))

    def _iterate_items(self, body: Row, after: Key | None) -> Iterator[Item]:
        while page := self._item_page(body, PAGE, after):
            yield from page
            after = page[-1].key

    def _item_page(self, body: Row, limit: int, after: Key | None) -> list[Item]:
        start = None if after is None else {"space": after[0], "id": after[1]}
        return self._transport.read("/api/page", {**body, "limit": limit, "after": start}, _items)

    def _iterate_edges(self, body: Row, after: Edge | None) -> Iterator[Edge]:
        while page := self._edge_page(body, PAGE, after):
            yield from page
            after = page[-1]

    def _edge_page(self, body: Row, limit: int, after: Edge | None) -> list[Edge]:
        start = None if after is None else requests.link(after)
        return self._transport.read(
            "/api/edge_page", {**body, "limit": limit, "after": start}, _edges
        )

    def _resolve_spaces(self, spaces: Sequence[str] | None, limit: int | None) -> list[str]:
        """Return the readable spaces, or the given ones; the server validates those of a page."""
        if spaces is not None and limit is not None:
            return requests.names("spaces", spaces)
        readable = self._spaces()
        if spaces is None:
            return readable
        names = list(dict.fromkeys(requests.names("spaces", spaces)))
        for name in names:
            if name not in readable:
                available = ", ".join(readable) or "none yet"
                raise NotFound(f"unknown space {name!r}; available: {available}", "unknown_space")
        return names

    def _context(self, asked: Row) -> Context:
        return self._transport.read(
            requests.route("/api/explain", "/api/ask/context", asked), asked, context_from_json
        )

    def _spaces(self) -> list[str]:
        return self._transport.read(
            "/api/spaces", None, lambda row: sorted(one["name"] for one in row["spaces"])
        )


def _items(row: Row) -> list[Item]:
    return [item_from_json(one) for one in row["items"]]


def _edges(row: Row) -> list[Edge]:
    return [edge_from_json(edge) for edge in row["edges"]]
