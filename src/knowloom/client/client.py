"""`knowloom.Client`: the calls of the engine over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

from knowloom import validation
from knowloom.client.capabilities import RemoteCapabilities
from knowloom.client.history import RemoteHistory
from knowloom.client.ingestion import WAIT_S, ingest_remotely
from knowloom.client.maintenance import RemoteMaintenance, read_count, report_progress
from knowloom.client.memory import RemoteMemory
from knowloom.client.requests import (
    encode_context_options,
    encode_edge_key,
    encode_ids,
    encode_names,
    encode_search_options,
    encode_spaces,
    encode_vector,
    encode_versions,
    encode_where,
    select_route,
)
from knowloom.client.transport import Transport
from knowloom.client.upload import UploadSource, batch_options, locate_skipped
from knowloom.context.item_pages import ItemPage
from knowloom.errors import unknown_space
from knowloom.filters.condition_json import WhereArgument
from knowloom.loading import readers
from knowloom.model import Context, Edge, Hits, Item, Key
from knowloom.options import ContextArguments, ReadArguments, SearchArguments, fill_space
from knowloom.ports import Progress
from knowloom.report import Report
from knowloom.structuring.pipeline import IngestArguments, Ingested
from knowloom.wire import JsonObject
from knowloom.wire.contexts import context_from_json, hits_from_json
from knowloom.wire.knowledge import (
    edge_from_json,
    edge_to_json,
    item_from_json,
    item_to_json,
    page_from_json,
    report_from_json,
)

PAGE_SIZE = 1000  # items or edges per request while iterating


class Client(RemoteCapabilities):
    """A connection to a server, open until `close` or the end of a `with` block. Thread-safe.

    It takes and returns the values of the engine and raises its errors, so that a program moves
    from one to the other by changing a URL. Reads are retried up to `max_retries` times; writes
    only if the server has not processed them.
    """

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

    def memory(self, workspace: str | None = None) -> RemoteMemory:
        """Return the memories of a workspace on the server; None: of the only space of the key."""
        if workspace is not None:
            validation.validate_name("workspace", workspace)
        return RemoteMemory(self._transport, workspace)

    # Writing

    def add(
        self,
        items: Item | Iterable[Item],
        edges: Iterable[Edge] = (),
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        embed: bool = True,
        expected: Mapping[Key, str] | None = None,
        secrets: str | None = None,
    ) -> Report:
        """Store items and edges in one write, all or nothing. See `Engine.add`."""
        rows = [items] if isinstance(items, Item) else items
        new = fill_space(rows, (), self._readable_spaces)
        links = fill_space(edges, new, self._readable_spaces)
        body = {
            "items": [item_to_json(validation.validate_item(item)) for item in new],
            "edges": [edge_to_json(validation.validate_edge(edge)) for edge in links],
            "vectors": None if vectors is None else [encode_vector(vector) for vector in vectors],
            "embed": embed,
            "expected": encode_versions(expected),
            **({} if secrets is None else {"secrets": secrets}),
        }
        return self._transport.write("/api/add", body, report_from_json)

    def load(
        self,
        source: str | Path | Mapping[str, Any],
        *,
        space: str | None = None,
        embed: bool = True,
        secrets: str | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Store a local file, folder or dict, in several requests.

        Invalid rows are skipped and reported.
        """
        default = readers.default_space(source, space, self._choose_space)
        upload, report = UploadSource(source, space, default), Report()
        for step, batches in (("items", upload.items()), ("edges", upload.edges())):
            done = 0
            for batch in batches:
                rows = [row.row for row in batch]
                body = {step: rows, "embed": embed, **batch_options(batch[0], secrets)}
                part = self._transport.write("/api/load", body, report_from_json)
                skipped = tuple(locate_skipped(row, batch) for row in part.skipped)
                report += replace(part, skipped=skipped)
                done += len(batch)
                report_progress(progress, step, done, 0)
            report_progress(progress, step, done, done)
        return replace(
            report,
            skipped=(*upload.skipped, *report.skipped),
            problems=tuple(dict.fromkeys(report.problems)),
        )

    def delete(
        self,
        ids: str | Sequence[str],
        *,
        space: str | None = None,
        expected: Mapping[Key, str] | None = None,
    ) -> int:
        """Delete items with their index entries, vectors and edges; return the number deleted."""
        body = {"space": space, "ids": encode_ids(ids), "expected": encode_versions(expected)}
        return self._transport.write("/api/delete", body, read_count)

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Delete these edges; return the number deleted."""
        body = {"edges": [encode_edge_key(edge) for edge in edges]}
        return self._transport.write("/api/unlink", body, read_count)

    def reindex(self, progress: Progress | None = None) -> int:
        """Rebuild the keyword index and the vectors; return the number of vectors."""
        count = self._transport.write("/api/reindex", {}, read_count)
        report_progress(progress, "vectors", count, count)
        return count

    # Reading

    def get(self, ids: str | Sequence[str], *, space: str | None = None) -> list[Item]:
        """Return the items in the order of the ids; unknown ids are left out."""
        body = {"space": space, "ids": encode_ids(ids)}
        return self._transport.read("/api/items", body, _items_from_json)

    def read(
        self, id: str, *, space: str | Sequence[str] | None = None, **options: Unpack[ReadArguments]
    ) -> ItemPage:
        """Return a page of an item's text; see `Engine.read`.

        None looks in all spaces that the key may read.
        """
        spaces = [space] if isinstance(space, str) else space
        body: JsonObject = {"id": validation.validate_name("id", id), **options}
        if spaces is not None:
            body["spaces"] = encode_names("spaces", spaces)
        return self._transport.read("/api/read", body, page_from_json)

    def items(
        self,
        spaces: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        where: WhereArgument = None,
        limit: int | None = None,
        after: Key | None = None,
    ) -> Iterator[Item]:
        """Iterate over the items of the spaces (None: of all readable ones) by (space, id).

        `limit` and `after`, the key of the last item seen, give one page.
        """
        body = {
            "spaces": self._resolve_spaces(spaces, limit),
            "kinds": encode_names("kinds", kinds),
            "types": encode_names("types", types),
        } | encode_where(where)
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
        self, text: str, *, spaces: Sequence[str] | None = None, **options: Unpack[SearchArguments]
    ) -> Hits:
        """Return the best items, best first. Filters apply before `limit`; see `Engine.search`."""
        body = {"query": text} | encode_spaces(spaces) | encode_search_options(options)
        route = select_route("/api/search", "/api/ask/search", body)
        return self._transport.read(route, body, hits_from_json)

    def ingest(
        self,
        text: str,
        *,
        space: str | None = None,
        entity: str | None = None,
        embed: bool = True,
        wait_s: float = WAIT_S,
        progress: Progress | None = None,
        **options: Unpack[IngestArguments],
    ) -> Ingested:
        """Structure free text with the language model of the server, and store the result.

        It waits for the job up to `wait_s` seconds. The record is a folder on the server.
        """
        return ingest_remotely(
            self._transport,
            text,
            space=space,
            entity=entity,
            embed=embed,
            wait_s=wait_s,
            progress=progress,
            **options,
        )

    def context(
        self, text: str, *, spaces: Sequence[str] | None = None, **options: Unpack[ContextArguments]
    ) -> Context:
        """Return the best context for a request, within its budget. See `Engine.context`."""
        body = {"query": text, "remedies": False} | encode_spaces(spaces)
        return self._context(body | encode_context_options(options))

    def explain(
        self,
        text: str,
        *,
        spaces: Sequence[str] | None = None,
        ids: str | Sequence[str] = (),
        **options: Unpack[ContextArguments],
    ) -> Context:
        """Return the same context as `context`, with a remedy for everything that was left out.

        `ids` are items whose absence is explained even if they are no candidates.
        """
        body = {"query": text, "ids": encode_ids(ids), "remedies": True} | encode_spaces(spaces)
        return self._context(body | encode_context_options(options))

    def verify(self) -> list[str]:
        """Return the problems of the stored data; empty if there are none."""
        return self._transport.read("/api/verify", None, lambda row: list(row["problems"]))

    # Pages and spaces

    def _iterate_items(self, body: JsonObject, after: Key | None) -> Iterator[Item]:
        while page := self._item_page(body, PAGE_SIZE, after):
            yield from page
            after = page[-1].key

    def _item_page(self, body: JsonObject, limit: int, after: Key | None) -> list[Item]:
        start = None if after is None else {"space": after[0], "id": after[1]}
        body = {**body, "limit": limit, "after": start}
        return self._transport.read("/api/page", body, _items_from_json)

    def _iterate_edges(self, body: JsonObject, after: Edge | None) -> Iterator[Edge]:
        while page := self._edge_page(body, PAGE_SIZE, after):
            yield from page
            after = page[-1]

    def _edge_page(self, body: JsonObject, limit: int, after: Edge | None) -> list[Edge]:
        start = None if after is None else encode_edge_key(after)
        body = {**body, "limit": limit, "after": start}
        return self._transport.read("/api/edge_page", body, _edges_from_json)

    def _resolve_spaces(self, spaces: Sequence[str] | None, limit: int | None) -> list[str]:
        """Return the readable spaces, or the given ones; the server validates those of a page."""
        if spaces is not None and limit is not None:
            return encode_names("spaces", spaces)
        readable = self._readable_spaces()
        if spaces is None:
            return readable
        names = list(dict.fromkeys(encode_names("spaces", spaces)))
        for name in names:
            if name not in readable:
                raise unknown_space(name, readable)
        return names

    def _choose_space(self, space: str | None) -> str:
        return validation.choose_space(self._readable_spaces()) if space is None else space

    def _readable_spaces(self) -> list[str]:
        return sorted(self.spaces())

    def _context(self, body: JsonObject) -> Context:
        route = select_route("/api/explain", "/api/ask/context", body)
        return self._transport.read(route, body, context_from_json)


def _items_from_json(row: JsonObject) -> list[Item]:
    return [item_from_json(item) for item in row["items"]]


def _edges_from_json(row: JsonObject) -> list[Edge]:
    return [edge_from_json(edge) for edge in row["edges"]]
