"""The rows that a batch writes, collected and stored in one statement per table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import psycopg

from knowloom import codec
from knowloom.model import Edge, EdgeKey, Item
from knowloom.stores.postgresql.item_rows import (
    edge_key,
    encode_edge,
    encode_item,
    encode_record,
)
from knowloom.stores.postgresql.writing.space_counters import SpaceCounters

Connection = psycopg.Connection[Any]
PassageTerms = Sequence[Mapping[str, int]]  # the counts of the terms of each passage

_NO_EDGE = (None, None, None)
_REMOVE = """DELETE FROM {table} USING unnest(%s::integer[], %s::integer[]) AS gone(space, no)
    WHERE {table}.space = gone.space AND {table}.no = gone.no"""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as it is stored: its number, the lengths of its passages, and if it has vectors."""

    no: int
    item: Item
    lengths: tuple[int, ...]
    has_vector: bool


class BatchRows:
    """Collects the rows of one write."""

    def __init__(self, at: datetime | None = None, actor: str = "") -> None:
        self._at, self._actor = at, actor
        self._items: list[tuple[int, int, str, str, str]] = []
        self._records: list[tuple[int, int, int, bytes, bytes]] = []
        self._removed: list[tuple[int, int, int]] = []  # space, number, version
        self._without_vectors: list[tuple[int, int]] = []
        self._moved: list[tuple[int, int]] = []  # items that keep their vectors
        self._changes: list[tuple[Any, ...]] = []
        self.changed_edges: set[EdgeKey] = set()

    def put(
        self,
        space: SpaceCounters,
        no: int,
        item: Item,
        passages: tuple[int, list[int]],
        has_vector: bool,
    ) -> None:
        """Add an item with the first slot and the lengths of its passages."""
        first, lengths = passages
        self._items.append((space.no, no, item.id, *encode_item(item)))
        record = encode_record(item, no, first, len(lengths), space.version, has_vector)
        data = np.array(lengths, "<u4").tobytes()
        self._records.append((space.no, no, space.version, record, data))

    def remove(self, space: SpaceCounters, no: int) -> None:
        """Delete an item with its vectors."""
        self._removed.append((space.no, no, space.version))
        self._without_vectors.append((space.no, no))

    def keep_vectors(self, space: int, no: int, keep: bool) -> None:
        """Keep the vectors of a changed item, which has other slots now, or delete them."""
        (self._moved if keep else self._without_vectors).append((space, no))

    def log(
        self,
        space: int,
        id: str,
        action: str,
        before: Item | Edge | None,
        edge_columns: tuple[object, ...] = _NO_EDGE,
    ) -> None:
        """Add a line to the change log."""
        state = None
        if isinstance(before, Item):
            state = codec.to_json(codec.item_to_dict(before))
        elif before is not None:
            state = codec.to_json(codec.edge_to_dict(before))
        self._changes.append((space, self._at, id, action, state, *edge_columns, self._actor))

    def store(
        self,
        connection: Connection,
        spaces: Mapping[str, SpaceCounters],
        edges: Mapping[EdgeKey, Edge | None],
    ) -> None:
        """Write everything but the counters of the spaces."""
        self._delete(connection)
        self._store_items(connection)
        store_edges(connection, spaces, {key: edges[key] for key in self.changed_edges})
        if self._changes:
            connection.execute(
                """INSERT INTO change(
                    space, at, id, action, before, target_space, target, type, actor)
                SELECT * FROM unnest(%s::integer[], %s::timestamptz[], %s::text[], %s::text[],
                    %s::text[], %s::integer[], %s::text[], %s::text[], %s::text[])""",
                columns(self._changes),
            )

    def _delete(self, connection: Connection) -> None:
        numbers = [row[:2] for row in self._removed]
        for table, rows in (
            *(("item", numbers), ("record", numbers)),
            *(("vector", self._without_vectors), ("nearest", self._without_vectors)),
        ):
            if rows:
                connection.execute(_REMOVE.format(table=table).encode(), columns(rows))
        if self._removed:
            connection.execute(
                """INSERT INTO removed(space, no, version)
                SELECT * FROM unnest(%s::integer[], %s::integer[], %s::bigint[])""",
                columns(self._removed),
            )

    def _store_items(self, connection: Connection) -> None:
        if not self._items:
            return
        connection.execute(
            """INSERT INTO item SELECT * FROM
                unnest(%s::integer[], %s::integer[], %s::text[], %s::text[], %s::text[])
            ON CONFLICT (space, no) DO UPDATE
            SET body = excluded.body, attributes = excluded.attributes""",
            columns(sorted(self._items)),
        )
        store_records(connection, self._records)
        if self._moved:
            connection.execute(
                """UPDATE vector SET version = space.version + 1
                FROM unnest(%s::integer[], %s::integer[]) AS moved(space, no)
                JOIN space ON space.no = moved.space
                WHERE vector.space = moved.space AND vector.no = moved.no""",
                columns(self._moved),
            )


def store_records(
    connection: Connection, records: Sequence[tuple[int, int, int, bytes, bytes]]
) -> None:
    """Write records: space, number, version, data and lengths."""
    connection.execute(
        """INSERT INTO record SELECT * FROM
            unnest(%b::integer[], %b::integer[], %b::bigint[], %b::bytea[], %b::bytea[])
        ON CONFLICT (space, no) DO UPDATE SET
            version = excluded.version, data = excluded.data, lengths = excluded.lengths""",
        columns(sorted(records)),
    )


def store_edges(
    connection: Connection,
    spaces: Mapping[str, SpaceCounters],
    edges: Mapping[EdgeKey, Edge | None],
) -> None:
    """Write edges, and delete those that are None."""
    rows: list[tuple[Any, ...]] = []
    for (source, target, type), edge in edges.items():
        numbers = spaces[source[0]].no, spaces[target[0]].no
        place = (numbers[0], source[1], numbers[1], target[1], type)
        rest = (None, None, None)
        if edge is not None:
            rest = encode_edge(edge, codec.edge_to_dict(edge))  # type: ignore[assignment]
        rows.append((edge_key(*place), *place, *rest))
    rows.sort(key=lambda row: row[0])
    gone = [row[0] for row in rows if row[-1] is None]
    if gone:
        connection.execute("DELETE FROM edge WHERE key = ANY(%b)", (gone,))
    stored = [row for row in rows if row[-1] is not None]
    if stored:
        connection.execute(
            """INSERT INTO edge SELECT * FROM unnest(%s::bytea[], %s::integer[], %s::text[],
                %s::integer[], %s::text[], %s::text[], %s::float8[], %s::text[], %s::text[])
            ON CONFLICT (key) DO UPDATE SET
                weight = excluded.weight, body = excluded.body, origin = excluded.origin""",
            columns(stored),
        )


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the columns of rows, for `unnest`."""
    return [list(column) for column in zip(*rows, strict=True)]
