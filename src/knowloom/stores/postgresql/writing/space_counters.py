"""The spaces of a write: locked in order, with their counters and the changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from knowloom import codec
from knowloom.model import AUTOMATIC
from knowloom.stores.postgresql.term_segments import (
    BLOCK_SLOTS,
    TAIL_SLOTS,
    merge_segments,
    write_segment,
)

Connection = psycopg.Connection[Any]

LARGE_WRITE = 100  # items; the server itself renews its statistics after many small writes
GROWTH = 2
COUNTERS = (
    *("next_no", "next_slot", "items", "documents", "length", "edges", "links"),
    *("digest", "links_digest", "tail_slot", "block_slot", "epoch"),
)


@dataclass
class SpaceCounters:
    """A locked space: its counters, and the changes of one write, stored at the end."""

    no: int
    name: str
    version: int  # the one that this write makes
    next_no: int
    next_slot: int
    items: int
    documents: int
    length: int
    edges: int
    links: int
    digest: int
    links_digest: int
    tail_slot: int
    block_slot: int
    epoch: int
    is_changed: bool = False
    dirty: dict[str, str | None] = field(default_factory=dict)  # id -> `dirty.before`
    passages: dict[int, Mapping[str, int]] = field(default_factory=dict)  # slot -> term -> count

    def mark(self, id: str, before: str | None) -> None:
        """Mark an item as dirty; the first state other than '' (unchanged) is kept."""
        self.is_changed = True
        if self.dirty.get(id, "") == "":
            self.dirty[id] = before

    def count_edge(self, edge: Mapping[str, Any], sign: int) -> None:
        """Add (1) or subtract (-1) an edge in the form of `codec.edge_to_dict`."""
        self.is_changed = True
        number = sign * codec.fingerprint(edge)
        if edge.get("origin") == AUTOMATIC:
            self.links, self.links_digest = self.links + sign, self.links_digest + number
        else:
            self.edges, self.digest = self.edges + sign, self.digest + number

    def count_passages(self, lengths: Iterable[int], sign: int) -> None:
        """Add (1) or subtract (-1) the passages of an item."""
        for length in lengths:
            self.documents += sign
            self.length += sign * length

    def take_slots(self, count: int) -> int:
        """Return the first of so many new slots."""
        self.next_slot += count
        return self.next_slot - count

    def renumber(self) -> None:
        """Begin again with the first slot: all items get new ones."""
        self.next_slot = self.tail_slot = self.block_slot = 0
        self.epoch, self.is_changed = self.version, True

    def store(self, connection: Connection) -> None:
        """Write the terms, the dirty marks and the counters."""
        if self.passages:
            write_segment(connection.execute, self.no, self.passages)
            self._merge(connection)
            self.passages.clear()
        mark_dirty(connection, self.no, self.dirty)
        counts = [getattr(self, name) for name in COUNTERS]
        values = [
            codec.format_digest(value) if name.endswith("digest") else value
            for name, value in zip(COUNTERS, counts, strict=True)
        ]
        columns = ", ".join(f"{name} = %s" for name in ("version", *COUNTERS))
        query = f"UPDATE space SET {columns} WHERE no = %s"
        connection.execute(query.encode(), (self.version, *values, self.no))

    def _merge(self, connection: Connection) -> None:
        """Keep the number of segments small, however small the writes are."""
        if self.next_slot - self.tail_slot >= TAIL_SLOTS:
            is_block = self.next_slot - self.block_slot >= BLOCK_SLOTS
            merge_segments(
                connection.execute, self.no, self.block_slot if is_block else self.tail_slot
            )
            self.tail_slot = self.next_slot
            if is_block:
                self.block_slot = self.next_slot


def mark_dirty(connection: Connection, no: int, dirty: Mapping[str, str | None]) -> None:
    """Store dirty marks; an unchanged item ('') that changes later gets its state before that."""
    if dirty:
        ids = sorted(dirty)
        connection.execute(
            """INSERT INTO dirty SELECT %s, * FROM unnest(%s::text[], %s::text[])
            ON CONFLICT (space, id) DO UPDATE SET before = excluded.before
            WHERE dirty.before = ''""",
            (no, ids, [dirty[id] for id in ids]),
        )


def create_spaces(connection: Connection, names: Iterable[str]) -> None:
    """Create missing spaces, in order, so that no two writers wait for each other."""
    connection.execute(
        """INSERT INTO space(name) SELECT new.name FROM unnest(%s::text[]) AS new(name)
        WHERE NOT EXISTS (SELECT 1 FROM space WHERE space.name = new.name)
        ORDER BY new.name ON CONFLICT DO NOTHING""",
        (sorted(set(names)),),
    )


def lock_spaces(
    connection: Connection, names: Iterable[str] | None = None
) -> dict[str, SpaceCounters]:
    """Lock existing spaces (None: all) in the order of their names."""
    where = "" if names is None else "WHERE name = ANY(%s)"
    values: Sequence[object] = () if names is None else (sorted(set(names)),)
    query = f"SELECT no, name, version, {', '.join(COUNTERS)} FROM space {where} "
    rows = connection.execute((query + "ORDER BY name FOR UPDATE").encode(), values)
    return {row[1]: _decode(row) for row in rows}


def _decode(row: Sequence[Any]) -> SpaceCounters:
    no, name, version, *values = row
    counters = dict(zip(COUNTERS, values, strict=True))
    for digest in ("digest", "links_digest"):
        counters[digest] = int(counters[digest], 16)
    return SpaceCounters(no, name, version + 1, **counters)


def analyse(connection: Connection, written: int, tables: str, expected: int) -> None:
    """Renew the statistics of tables after a large write, if the first has many more rows.

    By the statistics of an empty table, the server would look up rows by the wrong index, and read
    the whole space for each.
    """
    if written >= LARGE_WRITE:
        query = "SELECT reltuples FROM pg_class WHERE oid = %s::regclass"
        ((rows,),) = connection.execute(query, (tables.split(", ")[0],)).fetchall()
        if expected > GROWTH * max(rows, LARGE_WRITE):
            connection.execute(f"ANALYZE {tables}".encode())
