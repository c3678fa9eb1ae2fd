"""A connection that reads: its transaction, and the spaces as it last saw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from knowloom.stores.postgresql.approximate.index_tables import Hnsw, IndexTable
from knowloom.stores.postgresql.driver import DeadlineConnection
from knowloom.stores.postgresql.edge_queries import HeaviestEdges
from knowloom.stores.postgresql.failures import is_lost
from knowloom.stores.postgresql.space_arrays import SPACE_COLUMNS, SpaceArrays

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]

_META = """SELECT key, value FROM meta
    UNION ALL SELECT 'vectors', EXISTS (SELECT 1 FROM vector)::integer::text
    UNION ALL SELECT 'vector_index:' || space, concat_ws(' ', dimensions, version, build)
        FROM vector_index
    UNION ALL SELECT 'calibration:' || fingerprint, md5(fingerprint) || md5(data)
        FROM calibration"""
# With a row for `meta`, which nearly every block needs too: its keys and values.
_SPACES = f"""SELECT name, {SPACE_COLUMNS}, NULL::text[], NULL::text[] FROM space
    WHERE name = ANY(%s)
    UNION ALL SELECT NULL, {", ".join(["NULL"] * len(SPACE_COLUMNS.split(", ")))},
        array_agg(key), array_agg(value) FROM ({_META}) AS meta"""
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class ReadSession:
    """A connection for reading, and the spaces as it last saw them. Not shared by threads."""

    def __init__(
        self, open_connection: Callable[[], DeadlineConnection], hnsw: Hnsw | None = None
    ) -> None:
        self._open_connection = open_connection
        self.hnsw = hnsw  # None: vectors are searched exactly
        self._current: dict[str, SpaceArrays | None] = {}  # in this transaction
        self._rows: dict[str, tuple[Any, ...] | None] = {}  # of spaces in this transaction
        self._meta: dict[str, str] = {}  # in this transaction
        self._calibration = ("", b"")  # the last one that was read, with its digest
        self._in_transaction = False
        # In this transaction there was a search, and one by vectors: see `reading.prefetch`.
        self.reads_hits = self.reads_vectors = False
        self.deferred: dict[int, list[int]] = {}  # by space: hits whose texts are still to be read
        self._connect()

    def space_versions(self) -> dict[str, int | None]:
        """Return the versions of the spaces that were read in this transaction."""
        return {name: None if row is None else row[1] for name, row in self._rows.items()}

    def _connect(self) -> None:
        """Open a connection and forget the spaces.

        A server that crashed may have lost the last automatic edges, and counts versions anew.
        """
        self.connection = self._open_connection()
        self._arrays: dict[str, SpaceArrays] = {}
        self.edges = HeaviestEdges()

    def fetch(self, query: str, values: Values = ()) -> list[Row]:
        """Return the rows of a statement; the first one of a block opens its transaction."""
        if self._in_transaction:
            cursor = self.connection.cursor(binary=True)
            return cursor.execute(query.encode(), values).fetchall()
        try:
            return self._begin(query, values)
        except psycopg.Error as error:
            if not is_lost(error, self.connection):
                raise
        self._connect()  # the server was restarted since the last block
        return self._begin(query, values)

    def _begin(self, query: str, values: Values) -> list[Row]:
        cursor = self.connection.cursor(binary=True)
        self._in_transaction = True
        with self.connection.pipeline():
            self.connection.execute(BEGIN_READING)
            cursor.execute(query.encode(), values)
        return cursor.fetchall()

    def fetch_tentatively(self, query: str, values: Values) -> list[Row]:
        """Return the rows of a statement; if it fails, the transaction goes on without it."""
        cursor = self.connection.cursor(binary=True)
        try:
            with self.connection.pipeline():
                self.connection.execute("SAVEPOINT tentative")
                cursor.execute(query.encode(), values)
        except psycopg.errors.UndefinedTable:
            self.connection.execute("ROLLBACK TO SAVEPOINT tentative")
            raise
        return cursor.fetchall()

    def vector_index(self, space: int) -> IndexTable | None:
        """Return the approximate index of a space, by number."""
        self.meta("version")
        text = self._meta.get(f"vector_index:{space}")
        return None if text is None else IndexTable(space, *map(int, text.split()))

    def meta(self, key: str) -> str:
        """Return a value of `meta`; "vectors" is "1" if there are any."""
        if not self._meta:
            self._meta = dict(self.fetch(_META))
        return self._meta[key]

    def calibration(self, fingerprint: str) -> bytes:
        """Return the stored calibration of an embedder, b"" if there is none."""
        self.meta("version")
        digest = self._meta.get(f"calibration:{fingerprint}")
        if digest is None:
            return b""
        if self._calibration[0] != digest:
            query = "SELECT data FROM calibration WHERE fingerprint = %s"
            ((data,),) = self.fetch(query, (fingerprint,))
            self._calibration = digest, bytes(data)
        return self._calibration[1]

    def space_rows(self, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return the rows (SPACE_COLUMNS) of the existing ones of the spaces."""
        missing = [name for name in dict.fromkeys(names) if name not in self._rows]
        if missing:
            rows = self.fetch(_SPACES, (missing,))
            self._rows |= dict.fromkeys(missing)
            for name, *row in rows:
                if name is None:
                    self._meta = dict(zip(*row[-2:], strict=True))
                else:
                    self._rows[name] = tuple(row[:-2])
        rows_by_name = ((name, self._rows[name]) for name in dict.fromkeys(names))
        return {name: row for name, row in rows_by_name if row is not None}

    def views(self, names: Sequence[str]) -> dict[str, SpaceArrays]:
        """Return the existing ones of the spaces, each as it is in this transaction."""
        missing = [name for name in dict.fromkeys(names) if name not in self._current]
        if missing:
            rows = self.space_rows(missing)
            for name in missing:
                self._current[name] = self._refresh(name, rows[name]) if name in rows else None
        views = ((name, self._current[name]) for name in dict.fromkeys(names))
        return {name: view for name, view in views if view is not None}

    def current_views(self) -> dict[str, SpaceArrays]:
        """Return the spaces that were read in this transaction."""
        return {name: view for name, view in self._current.items() if view is not None}

    def _refresh(self, name: str, row: Sequence[Any]) -> SpaceArrays:
        view = self._arrays.get(name)
        if view is None or view.no != row[0]:
            view = self._arrays[name] = SpaceArrays(row[0])
        view.refresh(self.fetch, row)
        return view

    def end(self) -> None:
        """End the transaction of a block."""
        for values in (self._current, self._rows, self._meta, self.deferred):
            values.clear()
        self.reads_hits = self.reads_vectors = False
        if self._in_transaction:
            self._in_transaction = False
            self.connection.execute("ROLLBACK")
