"""Writing vectors, and forgetting them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import psycopg

from knowloom.errors import Conflict
from knowloom.model import Key
from knowloom.ports import Vector
from knowloom.stores.postgresql.approximate.index_tables import drop_indexes
from knowloom.stores.postgresql.item_rows import RECORD
from knowloom.stores.postgresql.scoring.vector_rows import encode_vectors
from knowloom.stores.postgresql.writing.batch_writer import read_stored
from knowloom.stores.postgresql.writing.space_counters import analyse, lock_spaces

Connection = psycopg.Connection[Any]

_FORGET = (
    b"DELETE FROM vector",
    b"DELETE FROM nearest",
    b"DELETE FROM calibration",
    b"INSERT INTO dirty SELECT space, id, '' FROM item ON CONFLICT DO NOTHING",
    b"UPDATE meta SET value = '' WHERE key = 'embedder'",
    b"UPDATE meta SET value = '0' WHERE key = 'dimensions'",
    b"UPDATE space SET version = version + 1",
)
_FLAG = dict(RECORD.fields or {})["vector"][1]  # the byte of a record that says it has vectors


def put_vectors(connection: Connection, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
    """Store unit vectors of items that exist and have as many passages."""
    _set_embedder(connection, {vector.shape[-1] for vector in vectors.values()}, fingerprint)
    spaces = lock_spaces(connection, {space for space, _ in vectors})
    by_space: dict[str, dict[int, Vector]] = {}
    for stored in read_stored(connection, spaces, vectors):
        vector, count = vectors[stored.item.key], len(stored.lengths)
        if vector.ndim == 1:
            vector = np.tile(vector, (count, 1))
        if len(vector) == count:  # else it was cut into other passages since
            by_space.setdefault(stored.item.space, {})[stored.no] = vector
            spaces[stored.item.space].mark(stored.item.id, "")
    for name, matrices in sorted(by_space.items()):
        space, numbers = spaces[name], list(matrices)
        connection.execute(
            """INSERT INTO vector SELECT %s, new.no, %s, new.signs, new.data
            FROM unnest(%b::integer[], %b::bytea[], %b::bytea[]) AS new(no, signs, data)
            ON CONFLICT (space, no) DO UPDATE SET
                version = excluded.version, signs = excluded.signs, data = excluded.data""",
            (space.no, space.version, numbers, *encode_vectors(matrices)),
        )
        connection.execute(
            """UPDATE record SET version = %s, data = set_byte(data, %s, 1)
            WHERE space = %s AND no = ANY(%s)""",
            (space.version, _FLAG, space.no, numbers),
        )
        space.store(connection)
        analyse(connection, len(numbers), "vector", space.items)


def read_embedder(connection: Connection) -> tuple[str, int]:
    """Return fingerprint and dimensions of the stored vectors; "" and 0 without any."""
    query = """SELECT key, value FROM meta
        WHERE key IN ('embedder', 'dimensions') AND EXISTS (SELECT 1 FROM vector)"""
    values = dict(connection.execute(query).fetchall())
    return values.get("embedder", ""), int(values.get("dimensions", 0))


def _set_embedder(connection: Connection, sizes: set[int], fingerprint: str) -> None:
    """Record the embedder of new vectors; raise Conflict if they do not fit the stored ones."""
    stored, dimensions = read_embedder(connection)
    if stored and stored != fingerprint:
        raise Conflict(
            f"the stored vectors are from {stored!r}, not from {fingerprint!r}: run reindex",
            "reindex_required",
        )
    if len(sizes | ({dimensions} if dimensions else set())) > 1:
        raise Conflict(
            f"vectors must all have the same dimensions, got {sorted(sizes)}, "
            f"stored {dimensions or 'none'}",
            "reindex_required",
        )
    if not stored:
        for key, value in (("embedder", fingerprint), ("dimensions", str(sizes.pop()))):
            connection.execute("UPDATE meta SET value = %s WHERE key = %s", (value, key))


def forget_vectors(connection: Connection) -> None:
    """Delete all vectors, their fingerprint and all calibrations; mark every item as dirty."""
    lock_spaces(connection)
    connection.execute(
        """UPDATE record SET version = space.version + 1, data = set_byte(data, %s, 0)
        FROM space WHERE record.space = space.no AND get_byte(data, %s) = 1""",
        (_FLAG, _FLAG),
    )
    for statement in _FORGET:
        connection.execute(statement)
    drop_indexes(connection)
