"""The tables of approximate indexes, one per large space, and the extension that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from knowloom.errors import Unavailable
from knowloom.stores.postgresql.address import Address

MIN_PGVECTOR = (0, 8)  # the first one that continues a scan until a filter is satisfied
MAX_DIMENSIONS = 4000  # of an index of half vectors
MIN_VECTORS = 10_000  # items of a space with vectors; fewer are searched exactly
_PREFIX = "vector_index"


@dataclass(frozen=True, slots=True)
class Hnsw:
    """The settings of approximate searches."""

    schema: str  # of the extension, quoted
    ef_search: int

    def settings(self) -> str:
        """Return the statements that a connection begins with."""
        return (
            f"SET hnsw.ef_search TO {self.ef_search}; SET hnsw.iterative_scan TO relaxed_order; "
            "SET hnsw.max_scan_tuples TO 200000; SET hnsw.scan_mem_multiplier TO 16"
        )


@dataclass(frozen=True, slots=True)
class IndexTable:
    """The index of a space: it has its vectors up to a version."""

    space: int
    dimensions: int
    version: int
    build: int

    @property
    def table(self) -> str:
        return f"{_PREFIX}_{self.space}_{self.build}"


def open_hnsw(connection: psycopg.Connection[Any], address: Address) -> Hnsw | None:
    """Return the settings, None if the search is exact; raise Unavailable without pgvector."""
    if not address.is_approximate:
        return None
    query = """SELECT extversion, quote_ident(nspname) FROM pg_extension
        JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"""
    rows = connection.execute(query).fetchall()
    if rows and tuple(map(int, rows[0][0].split(".")[:2])) >= MIN_PGVECTOR:
        return Hnsw(rows[0][1], address.ef_search)
    raise Unavailable(
        f"{address.name}: vectors=hnsw needs the extension pgvector {_format(MIN_PGVECTOR)} or "
        f"newer, {_describe_missing(connection, rows)}",
        "no_pgvector",
    )


def _describe_missing(connection: psycopg.Connection[Any], rows: Sequence[tuple[Any, ...]]) -> str:
    if rows:
        return (
            f"this database has {rows[0][0]}: install a newer one and ALTER EXTENSION vector UPDATE"
        )
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
    if connection.execute(query).fetchall():
        return "which is installed, but not in this database: run CREATE EXTENSION vector in it"
    return "which is not installed on the server: install it and run CREATE EXTENSION vector"


def _format(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def find_tables(connection: psycopg.Connection[Any], space: int | None = None) -> list[str]:
    """Return the tables of all indexes, or of one space, those of interrupted builds included."""
    pattern = f"^{_PREFIX}_{'[0-9]+' if space is None else space}_[0-9]+$"
    query = """SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(current_schema())
        AND relkind = 'r' AND relname ~ %s ORDER BY relname"""
    return [name for (name,) in connection.execute(query, (pattern,)).fetchall()]


def drop_indexes(connection: psycopg.Connection[Any]) -> None:
    """Drop all indexes; a search that is running falls back to an exact one."""
    for table in find_tables(connection):
        connection.execute(f"DROP TABLE {table}".encode())
    connection.execute("DELETE FROM vector_index")


def remove_vectors(connection: psycopg.Connection[Any], space: int) -> None:
    """Remove the vectors of former items from the indexes of a space."""
    for table in find_tables(connection, space):
        connection.execute(
            f"""DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM vector
                WHERE vector.space = %s AND vector.no = {table}.no)""".encode(),
            (space,),
        )
