"""Writing the vectors of items, and deleting all of them."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from knowloom.model import Key
from knowloom.ports import Vector
from knowloom.stores.sqlite import vector_search
from knowloom.stores.sqlite.writing.writer import BatchWriter


def put_vectors(
    connection: apsw.Connection, vectors: Mapping[Key, Vector], fingerprint: str
) -> None:
    """Store unit vectors of an embedder; see `ports.VectorIndex`."""
    sizes = {vector.shape[-1] for vector in vectors.values()}
    vector_search.set_embedder(connection, sizes, fingerprint)
    writer = BatchWriter(connection, "")
    by_space: dict[str, dict[str, Vector]] = {}
    for (space, id), vector in vectors.items():
        by_space.setdefault(space, {})[id] = vector
    for space, by_id in by_space.items():
        if writer.has_space(space):
            writer.put_vectors(space, by_id)
    writer.finish()


def forget_vectors(connection: apsw.Connection) -> None:
    """Delete all vectors with what follows from them, and the calibrations."""
    writer = BatchWriter(connection, "")
    for table in ("vector", "sign", "nearest"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT OR IGNORE INTO dirty SELECT space, id, '' FROM item")
    connection.execute("UPDATE meta SET value = '' WHERE key = 'embedder'")
    connection.execute("UPDATE meta SET value = 0 WHERE key = 'dimensions'")
    connection.execute("DELETE FROM meta WHERE key GLOB 'calibration:*'")
    writer.clear_vector_flags()
