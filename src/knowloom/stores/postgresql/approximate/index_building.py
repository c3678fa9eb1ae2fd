"""Building an approximate index, and adding what was written since to it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg

from knowloom.errors import Unavailable
from knowloom.stores.postgresql.approximate.index_tables import (
    MAX_DIMENSIONS,
    MIN_VECTORS,
    Hnsw,
    IndexTable,
    find_tables,
)
from knowloom.stores.postgresql.driver import DeadlineConnection
from knowloom.stores.postgresql.failures import translate_errors
from knowloom.stores.postgresql.pool import LOCK, Pool, SnapshotBlock
from knowloom.stores.postgresql.space_arrays import SpaceArrays
from knowloom.stores.postgresql.table_definitions import LOCK_CLASS

log = logging.getLogger(__name__)

MIN_MISSING = 5_000  # items; searches score those that the index lacks exactly
MISSING_SHARE = 0.1  # of the items with vectors
REBUILD_SHARE = 0.5
PAGE = 4_000  # items
BUILD_TIMEOUT_S = 3600
BUILD_MEMORY = "256MB"
LINKS, CANDIDATES = 16, 128  # m and ef_construction: docs/decisions/042-approximate-vectors.md
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"
_PAGE = b"""SELECT no, data FROM vector WHERE space = %s AND version > %s AND no > %s
    ORDER BY no LIMIT %s"""


def refresh_indexes(pool: Pool, hnsw: Hnsw, names: set[str], rebuild: bool = False) -> None:
    """Bring the indexes of these spaces up to date, if searches would score too much without.

    With `rebuild` they are built anew. A failure is logged: vectors that an index lacks are
    searched exactly.
    """
    for name in sorted(names):
        with SnapshotBlock(pool) as session:
            view = session.views([name]).get(name)
            index = None if view is None else session.vector_index(view.no)
            dimensions = int(session.meta("dimensions"))
            is_due = view is not None and _is_due(view, None if rebuild else index, dimensions)
        if view is not None and is_due:
            try:
                with translate_errors(pool.address):
                    _refresh(pool, hnsw, view.no, rebuild)
            except Unavailable as error:
                log.warning("the vector index of a space was not refreshed: %s", error)


def _is_due(view: SpaceArrays, index: IndexTable | None, dimensions: int) -> bool:
    embedded = int(np.count_nonzero(view.embedded))
    if embedded < MIN_VECTORS or dimensions > MAX_DIMENSIONS:
        return False
    if index is None or index.dimensions != dimensions:
        return True
    missing = np.count_nonzero(view.embedded & (view.vector_versions > index.version))
    return bool(missing > max(MIN_MISSING, MISSING_SHARE * embedded))


def _refresh(pool: Pool, hnsw: Hnsw, space: int, rebuild: bool) -> None:
    with pool.connecting() as connection:
        connection.deadline_s += BUILD_TIMEOUT_S
        connection.execute(f"SET statement_timeout TO '{BUILD_TIMEOUT_S}s'".encode())
        # Locks of the session, because a snapshot must be taken after them. Erasing waits for it.
        connection.execute(LOCK.format("lock_shared", LOCK_CLASS).encode())
        query = "SELECT pg_try_advisory_lock(%s, hashtext(current_schema() || ' ' || %s))"
        ((is_locked,),) = connection.execute(query, (LOCK_CLASS + 1, f"{space}")).fetchall()
        if is_locked:  # else another process refreshes it
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                _Refresh(connection, hnsw, space).run(rebuild)


class _Refresh:
    """The refresh of one index, inside the caller's transaction."""

    def __init__(self, connection: DeadlineConnection, hnsw: Hnsw, space: int) -> None:
        self._connection, self._hnsw, self._space = connection, hnsw, space

    def run(self, rebuild: bool) -> None:
        query = """SELECT space.version, meta.value::integer, (SELECT max(build) FROM vector_index)
            FROM space, meta WHERE space.no = %s AND meta.key = 'dimensions'"""
        ((version, dimensions, build),) = self._execute(query, (self._space,)).fetchall()
        index = None if rebuild else self._read()
        if index is None or index.dimensions != dimensions or self._is_outgrown(index):
            index = IndexTable(self._space, dimensions, 0, (build or 0) + 1)
            self._rebuild(index)
        else:
            self._extend(index)
        self._store(replace(index, version=version))

    def _execute(self, query: str, values: Any = ()) -> psycopg.Cursor[Any]:
        return self._connection.execute(query.encode(), values)

    def _read(self) -> IndexTable | None:
        query = "SELECT space, dimensions, version, build FROM vector_index WHERE space = %s"
        rows = self._execute(query, (self._space,)).fetchall()
        return IndexTable(*rows[0]) if rows else None

    def _is_outgrown(self, index: IndexTable) -> bool:
        query = """SELECT count(*), count(*) FILTER (WHERE version > %s) FROM vector
            WHERE space = %s"""
        ((total, missing),) = self._execute(query, (index.version, self._space)).fetchall()
        return bool(missing > REBUILD_SHARE * total)

    def _rebuild(self, index: IndexTable) -> None:
        former = find_tables(self._connection, self._space)
        schema = self._hnsw.schema
        self._execute(
            f"""CREATE TABLE {index.table}(no integer, passage integer,
                embedding {schema}.halfvec({index.dimensions}) NOT NULL,
                PRIMARY KEY(no, passage))"""
        )
        self._execute(f"ALTER TABLE {index.table} ALTER embedding SET STORAGE PLAIN")
        self._copy(index)
        self._execute(f"SET LOCAL maintenance_work_mem TO '{BUILD_MEMORY}'")
        self._execute(
            f"""CREATE INDEX ON {index.table} USING hnsw (embedding {schema}.halfvec_ip_ops)
                WITH (m = {LINKS}, ef_construction = {CANDIDATES})"""
        )
        self._execute(f"ANALYZE {index.table}")
        for table in former:
            self._execute(f"DROP TABLE {table}")

    def _extend(self, index: IndexTable) -> None:
        self._execute(
            f"""DELETE FROM {index.table} WHERE NOT EXISTS (SELECT 1 FROM vector
                WHERE vector.space = %s AND vector.no = {index.table}.no
                AND vector.version <= %s)""",
            (self._space, index.version),
        )
        self._copy(index)

    def _copy(self, index: IndexTable) -> None:
        """Add the vectors after the version of the index."""
        for rows in self._pages(index):
            statement = f"COPY {index.table} FROM STDIN (FORMAT BINARY)"
            with self._connection.cursor().copy(statement.encode()) as copy:
                copy.write(_COPY_HEADER + _encode_rows(rows, index.dimensions) + _COPY_END)

    def _pages(self, index: IndexTable) -> Iterator[list[tuple[int, bytes]]]:
        after = -1
        while True:
            cursor = self._connection.cursor(binary=True)
            values = (self._space, index.version, after, PAGE)
            rows = cursor.execute(_PAGE, values).fetchall()
            if not rows:
                return
            yield rows
            after = rows[-1][0]

    def _store(self, index: IndexTable) -> None:
        self._execute(
            """INSERT INTO vector_index(space, dimensions, version, build) VALUES (%s, %s, %s, %s)
            ON CONFLICT (space) DO UPDATE SET dimensions = excluded.dimensions,
                version = excluded.version, build = excluded.build""",
            (index.space, index.dimensions, index.version, index.build),
        )


def _encode_rows(rows: list[tuple[int, bytes]], dimensions: int) -> bytes:
    """Return rows of (no, passage, embedding) in the binary format of COPY."""
    vectors = np.frombuffer(b"".join(data for _, data in rows), "<f2").reshape(-1, dimensions)
    counts = [len(data) // (2 * dimensions) for _, data in rows]
    layout = np.dtype(
        [
            *(("fields", ">i2"), ("no_size", ">i4"), ("no", ">i4")),
            *(("passage_size", ">i4"), ("passage", ">i4"), ("size", ">i4")),
            *(("dimensions", ">i2"), ("unused", ">i2"), ("values", ">f2", (dimensions,))),
        ]
    )
    encoded = np.zeros(len(vectors), layout)
    encoded["fields"], encoded["no_size"], encoded["passage_size"] = 3, 4, 4
    encoded["no"] = np.repeat([no for no, _ in rows], counts)
    encoded["passage"] = np.concatenate([np.arange(count) for count in counts])
    encoded["size"], encoded["dimensions"] = 4 + 2 * dimensions, dimensions
    encoded["values"] = vectors
    return encoded.tobytes()
