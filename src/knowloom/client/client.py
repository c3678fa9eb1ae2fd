"""`knowloom.Client`: the calls of the engine, answered by a server. A program moves from one to the other by changing a URL."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from knowloom import codec, tiers, validation
from knowloom.client import requests
from knowloom.client.capabilities import Capable
from knowloom.client.memory import RemoteMemory
from knowloom.client.transport import Transport
from knowloom.embedding import Progress
from knowloom.engine import Statistics
from knowloom.errors import (
    NotFound,
)
from knowloom.history import Rollback, State
from knowloom.model import Context, Edge, Hit, Item, Key
from knowloom.recipes import Mode
from knowloom.report import Report
from knowloom.wire import decoding, encoding

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
        return RemoteMemory(self._transport, validation.name("workspace", workspace))

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
            encoding.item(validation.item(one))
            for one in ([items] if isinstance(items, Item) else items)
        ]
        links = [encoding.edge(validation.edge(one)) for one in edges]
        ready = None if vectors is None else [requests.numbers(vector) for vector in vectors]
        asked = {
            "items": rows,
            "edges": links,
            "vectors": ready,
            "embed": embed,
            "expected": requests.expected(expected),
        }
        return self._transport.write("/api/add", asked, decoding.report)

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
                    decoding.report,
                )
                report += replace(
                    answer, skipped=tuple(requests.placed(one, part) for one in answer.skipped)
                )
                done += len(part)
                _tell(progress, what, done, 0)
            _tell(progress, what, done, done)
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
            _count,
        )

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Forget these links; how many were there."""
        return self._transport.write(
            "/api/unlink", {"edges": [requests.link(edge) for edge in edges]}, _count
        )

    def restore(
        self,
        id: str,
        *,
        space: str,
        at: datetime | None = None,
        version: str | None = None,
        edges_of: Sequence[str] | None = None,
        embed: bool = True,
    ) -> Report:
        """Bring an item back with its links; see `Engine.restore`. Without `edges_of`: links of all spaces that the key may write."""
        owners = None if edges_of is None else requests.names("edges_of", edges_of)
        asked = {
            "space": space,
            "id": validation.name("id", id),
            "version": version,
            "edges_of": owners,
            "embed": embed,
        }
        return self._transport.write(
            "/api/restore", asked | {"at": requests.time("at", at)}, decoding.report
        )

    def rollback(
        self,
        to: datetime,
        *,
        spaces: Sequence[str] | None = None,
        dry_run: bool = False,
        embed: bool = True,
    ) -> Rollback:
        """Make the spaces (None: all) what they were at that time; see `Engine.rollback`."""
        names = None if spaces is None else requests.names("spaces", spaces)
        return self._transport.write(
            "/api/rollback",
            {"to": requests.time("to", to), "spaces": names, "dry_run": dry_run, "embed": embed},
            decoding.rollback,
        )

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Make the vectors that are missing, on the server; how many were made. It takes as long as it takes: see `timeout_s`."""
        made = self._transport.write(
            "/api/embed",
            {"spaces": None if spaces is None else requests.names("spaces", spaces)},
            _count,
        )
        _tell(progress, "vectors", made, made)
        return made

    def reindex(self, progress: Progress | None = None) -> int:
        """Make words and vectors anew from the items, on the server; how many vectors were made."""
        made = self._transport.write("/api/reindex", {}, _count)
        _tell(progress, "vectors", made, made)
        return made

    def relink(self, progress: Progress | None = None) -> int:
        """Make the links that knowloom makes itself anew, on the server; how many items were looked at."""
        looked_at = self._transport.write("/api/relink", {}, _count)
        _tell(progress, "links", looked_at, looked_at)
        return looked_at

    # reading

    def get(self, ids: str | Sequence[str], *, space: str) -> list[Item]:
        """The items in the order asked; unknown ids are left out."""
        return self._transport.read(
            "/api/items", {"space": space, "ids": requests.ids(ids)}, _items
        )

    def history(self, id: str, *, space: str, limit: int = 1000) -> list[State]:
        """Everything that happened to an item and its links, newest first, also when it is deleted."""
        return self._transport.read(
            "/api/history",
            {"space": space, "id": validation.name("id", id), "limit": limit},
            decoding.history,
        )

    @staticmethod
    def version(item: Item) -> str:
        """Names the state of a stored item, for `expected`."""
        return codec.version(item)

    def items(
        self,
        spaces: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Iterator[Item]:
        """Every item, ordered by (space, id). Without `spaces`: of all that the key may read."""
        names = self._spaces() if spaces is None else self.known(spaces)
        after: Key | None = None
        while page := self.page(names, limit=PAGE, after=after, kinds=kinds, types=types):
            yield from page
            after = page[-1].key

    def edges(
        self, spaces: Sequence[str] | None = None, *, made: bool | None = False
    ) -> Iterator[Edge]:
        """Every edge of people, of knowloom (`made`) or of both (None), ordered by its key. Without `spaces`: of all that the key may read."""
        names = self._spaces() if spaces is None else self.known(spaces)
        after: Edge | None = None
        while page := self.edge_page(names, limit=PAGE, after=after, made=made):
            yield from page
            after = page[-1]

    def page(
        self,
        spaces: Sequence[str],
        *,
        limit: int = 100,
        after: Key | None = None,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> list[Item]:
        """The next items behind `after`, ordered by (space, id)."""
        asked = {
            "spaces": requests.names("spaces", spaces),
            "limit": limit,
            "kinds": requests.names("kinds", kinds),
            "types": requests.names("types", types),
        }
        return self._transport.read(
            "/api/page",
            asked | {"after": None if after is None else {"space": after[0], "id": after[1]}},
            _items,
        )

    def edge_page(
        self,
        spaces: Sequence[str],
        *,
        limit: int = 100,
        after: Edge | None = None,
        made: bool | None = False,
    ) -> list[Edge]:
        """The next edges behind `after`, ordered by key: people's, knowloom's own (`made`), or both (None)."""
        asked = {
            "spaces": requests.names("spaces", spaces),
            "limit": limit,
            "after": None if after is None else requests.link(after),
            "made": made,
        }
        return self._transport.read(
            "/api/edge_page", asked, lambda row: [decoding.edge(one) for one in row["edges"]]
        )

    def search(
        self,
        text: str,
        *,
        spaces: Sequence[str],
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        exclude_types: Sequence[str] = (),
        tags: Sequence[str] = (),
        subject: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 10,
        mode: Mode = "hybrid",
        min_score: float = 0.0,
        as_of: datetime | None = None,
        now: datetime | None = None,
        vector: Sequence[float] | None = None,
        tier: tiers.Given = None,
    ) -> list[Hit]:
        """The best items, best first. Filters run inside the search: asking for 10 gives 10 if 10 exist."""
        names = {
            "spaces": spaces,
            "kinds": kinds,
            "types": types,
            "exclude_types": exclude_types,
            "tags": tags,
        }
        times = {"created_from": created_from, "created_to": created_to, "as_of": as_of, "now": now}
        numbers = {
            "min_confidence": min_confidence,
            "limit": limit,
            "mode": mode,
            "min_score": min_score,
        }
        asked = (
            {name: requests.names(name, given) for name, given in names.items()}
            | numbers
            | {"query": text, "subject": subject}
        )
        asked |= requests.sendable({**times, "vector": vector}) | requests.tier(tier)
        return self._transport.read(
            requests.route("/api/search", "/api/ask/search", asked), asked, decoding.hits
        )

    def context(self, text: str, *, spaces: Sequence[str], **options: Any) -> Context:
        """The best context for a request, within its budget. Options are those of `Engine.context`."""
        return self._context(
            {"query": text, "spaces": requests.names("spaces", spaces), "remedies": False}
            | requests.options(options)
        )

    def explain(
        self, text: str, *, spaces: Sequence[str], ids: str | Sequence[str] = (), **options: Any
    ) -> Context:
        """The same answer as `context`, where everything left out also says what would bring it in; `ids` are asked about by name."""
        asked = {
            "query": text,
            "spaces": requests.names("spaces", spaces),
            "ids": requests.ids(ids),
            "remedies": True,
        }
        return self._context(asked | requests.options(options))

    def stats(self) -> Statistics:
        return self._transport.read("/api/stats", None, decoding.statistics)

    def verify(self) -> list[str]:
        """What is wrong with the stored data, in words; nothing when all is well."""
        return self._transport.read("/api/verify", None, lambda row: list(row["problems"]))

    def known(self, spaces: Sequence[str]) -> list[str]:
        """The spaces, each once. An unknown one is an error that names those that the key may read."""
        wanted, known = requests.names("spaces", spaces), self._spaces()
        for space in wanted:
            if space not in known:
                raise NotFound(
                    f"no space {space!r}; known: {', '.join(known) or 'none yet'}", "unknown_space"
                )
        return list(dict.fromkeys(wanted))

    def _context(self, asked: Row) -> Context:
        return self._transport.read(
            requests.route("/api/explain", "/api/ask/context", asked), asked, decoding.context
        )

    def _spaces(self) -> list[str]:
        return self._transport.read(
            "/api/spaces", None, lambda row: sorted(one["name"] for one in row["spaces"])
        )


def _tell(progress: Progress | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(what, done, total)


def _items(row: Row) -> list[Item]:
    return [decoding.item(one) for one in row["items"]]


def _count(row: Row) -> int:
    return int(next(row[name] for name in ("deleted", "vectors", "items") if name in row))
