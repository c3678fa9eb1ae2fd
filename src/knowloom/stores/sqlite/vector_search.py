"""Vectors: stored with their sign bits, which select candidates that are scored exactly."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.construction import round_scores
from knowloom.errors import Conflict
from knowloom.ports import Vector
from knowloom.stores.sqlite.passage_slots import Mask, SlotArray
from knowloom.stores.sqlite.rows import CHUNK
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.vectors.pair_cosines import FLOAT32_ERROR
from knowloom.vectors.signs import count_differing, pack_signs
from knowloom.vectors.top_k import k_smallest

MIN_CANDIDATES = (
    1024  # vectors scored exactly; the recall is in docs/decisions/006-vector-search.md
)
CANDIDATES_PER_HIT = 8
ITEMS_PER_HIT = 2  # items among the candidates, where items have several vectors
WIDENING = 4  # times as many candidates if they belong to fewer items


def write_vectors(
    connection: apsw.Connection, space: int, version: int, vectors: Iterable[tuple[int, Vector]]
) -> None:
    """Store unit vectors by slot, as 16-bit floats, and their sign bits."""
    by_chunk: dict[int, list[tuple[int, Vector]]] = {}
    for slot, vector in vectors:
        by_chunk.setdefault(slot // CHUNK, []).append((slot % CHUNK, vector))
    for chunk, rows in sorted(by_chunk.items()):
        width = -(-len(rows[0][1]) // 64)
        signs = _read_signs(connection, space, chunk, width)
        for slot, vector in rows:
            signs[slot] = pack_signs(vector)
        connection.execute(
            "INSERT OR REPLACE INTO sign VALUES (?, ?, ?, ?)",
            (space, chunk, version, signs.tobytes()),
        )
        first = (space << 32) + chunk * CHUNK
        data = ((first + slot, vector.astype(np.float16).tobytes()) for slot, vector in rows)
        connection.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", data)


def _read_signs(
    connection: apsw.Connection, space: int, chunk: int, width: int
) -> npt.NDArray[np.uint64]:
    query = "SELECT data FROM sign WHERE space = ? AND chunk = ?"
    rows = list(connection.execute(query, (space, chunk)))
    if not rows:
        return np.zeros((CHUNK, width), np.uint64)
    return np.frombuffer(rows[0][0], np.uint64).reshape(CHUNK, -1).copy()


def nearest_candidates(view: SpaceView, vector: Vector, mask: Mask | None, count: int) -> SlotArray:
    """Return the slots of the `count` vectors with the smallest Hamming distance of signs.

    Whole ties are included, so the result does not depend on the order of insertion.
    """
    allowed = view.embedded if mask is None else view.embedded & mask
    total = np.count_nonzero(allowed)
    if total <= count:
        return np.flatnonzero(allowed)
    subset = np.flatnonzero(allowed) if total < view.next_slot // 4 else None
    signs = view.signs[:, : view.next_slot] if subset is None else view.signs[:, subset]
    distance = count_differing(signs, pack_signs(vector))
    if subset is None and total < view.next_slot:
        distance += ~allowed * np.uint16(len(signs) * 64 + 1)  # farther than any
    near = k_smallest(distance, count)
    return near if subset is None else subset[near]


def nearest_items(
    connection: apsw.Connection, view: SpaceView, vector: Vector, mask: Mask | None, limit: int
) -> dict[int, float]:
    """Return the cosine of the nearest items, by head: `limit` of them or more."""
    count = max(MIN_CANDIDATES, CANDIDATES_PER_HIT * limit)
    slots = nearest_candidates(view, vector, mask, count)
    if view.passages is not None:
        # Few items may have all of the nearest passages.
        while len(slots) >= count and view.passages.count_items(slots) < ITEMS_PER_HIT * limit:
            count *= WIDENING
            slots = nearest_candidates(view, vector, mask, count)
    return score_candidates(connection, view, vector, slots, limit)


def score_candidates(
    connection: apsw.Connection, view: SpaceView, vector: Vector, slots: SlotArray, limit: int = 0
) -> dict[int, float]:
    """Return the cosine of each item, by head, with a vector at one of these ascending slots.

    With a limit, only of possible best ones.
    """
    slots = slots[view.embedded[slots]]
    if not len(slots):
        return {}
    stored = view.read_vectors(connection, slots)
    # vecdot: for a product of this size BLAS occupies the other cores and is no faster.
    if 0 < limit < len(slots):
        # Negative cosines tie at 0: none of them may be lost here.
        rough = np.maximum(np.vecdot(stored, vector), 0.0)
        best = rough if view.passages is None else view.passages.best_by_item(slots, rough)[1]
        last = np.partition(best, len(best) - limit)[len(best) - limit] if limit < len(best) else 0
        near = rough >= last - FLOAT32_ERROR
        stored, slots = stored[near], slots[near]
    cosines = cosine_scores(stored, vector)
    if view.passages is not None:
        slots, best = view.passages.best_by_item(slots, np.array(cosines))
        cosines = best.tolist()
    return dict(zip(slots.tolist(), cosines, strict=True))


def cosine_scores(stored: npt.NDArray[np.float32], vector: Vector) -> list[float]:
    """Return the cosine of each stored vector, negative ones as 0, rounded to make ties equal."""
    # In single precision the last digit would depend on the other vectors of the product.
    exact = np.vecdot(stored.astype(np.float64), vector)
    np.maximum(exact, 0.0, out=exact)
    np.minimum(exact, 1.0, out=exact)
    return round_scores(exact)


def read_embedder(connection: apsw.Connection) -> tuple[str, int]:
    """Return fingerprint and dimensions of the stored vectors; "" and 0 without any."""
    query = """SELECT key, value FROM meta
        WHERE key IN ('embedder', 'dimensions') AND EXISTS (SELECT 1 FROM vector)"""
    values = dict(list(connection.execute(query)))
    return values.get("embedder", ""), values.get("dimensions", 0)


def read_calibration(connection: apsw.Connection, fingerprint: str) -> bytes:
    """Return the stored calibration of an embedder, b"" if there is none."""
    query = "SELECT value FROM meta WHERE key = ?"
    rows = list(connection.execute(query, (f"calibration:{fingerprint}",)))
    return rows[0][0] if rows and isinstance(rows[0][0], bytes) else b""


def set_embedder(connection: apsw.Connection, sizes: set[int], fingerprint: str) -> None:
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
    if not dimensions:
        # Signs left by deleted items may have another width.
        connection.execute("DELETE FROM sign")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'embedder'", (fingerprint,))
    connection.execute("UPDATE meta SET value = ? WHERE key = 'dimensions'", (sizes.pop(),))


def clear_signs(
    connection: apsw.Connection, space: int, version: int, slots: Iterable[int]
) -> None:
    """Overwrite the sign bits of slots that are no longer used."""
    by_chunk: dict[int, list[int]] = {}
    for slot in slots:
        by_chunk.setdefault(slot // CHUNK, []).append(slot % CHUNK)
    for chunk, places in by_chunk.items():
        signs = _read_signs(connection, space, chunk, 1)
        signs[places] = 0
        query = "UPDATE sign SET version = ?, data = ? WHERE space = ? AND chunk = ?"
        connection.execute(query, (version, signs.tobytes(), space, chunk))
