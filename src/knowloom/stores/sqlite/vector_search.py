"""Vector search: sign bits select candidates, which are read and scored exactly."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.construction import round_scores
from knowloom.ports import Vector
from knowloom.stores.sqlite.rows import CHUNK
from knowloom.stores.sqlite.space_view import Mask, SlotArray, SpaceView
from knowloom.stores.sqlite.top_k import k_smallest

MIN_CANDIDATES = (
    1024  # vectors scored exactly; the recall is in docs/decisions/006-vector-search.md
)
CANDIDATES_PER_HIT = 8
FLOAT32_ERROR = 1e-4  # more than the error of a cosine in single precision
ROWS_PER_BYTE = 3  # rows of 64 bits whose distance fits a byte; adding bytes is much faster
COMPARE_BATCH = 8192  # vectors compared, or pairs scored exactly, at once


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


def pack_signs(vector: Vector) -> npt.NDArray[np.uint64]:
    """Return one bit per dimension, set where it is positive, padded to whole 64-bit words."""
    bits = np.zeros(-(-len(vector) // 64) * 64, np.bool_)
    bits[: len(vector)] = vector > 0
    return np.packbits(bits).view(np.uint64)


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
    distance, bits = np.zeros(signs.shape[1], np.uint16), pack_signs(vector)
    for first in range(0, len(signs), ROWS_PER_BYTE):
        differing = np.bitwise_count(signs[first] ^ bits[first])
        for row in range(first + 1, min(first + ROWS_PER_BYTE, len(signs))):
            differing += np.bitwise_count(signs[row] ^ bits[row])
        distance += differing
    if subset is None and total < view.next_slot:
        distance += ~allowed * np.uint16(len(signs) * 64 + 1)  # farther than any
    near = k_smallest(distance, count)
    return near if subset is None else subset[near]


def score_candidates(
    connection: apsw.Connection, view: SpaceView, vector: Vector, slots: SlotArray, limit: int = 0
) -> dict[int, float]:
    """Return the cosine at each slot that has a vector; with a limit, of possible best ones."""
    slots = slots[view.embedded[slots]]
    if not len(slots):
        return {}
    stored = view.read_vectors(connection, slots)
    # vecdot: for a product of this size BLAS occupies the other cores and is no faster.
    if 0 < limit < len(slots):
        # Negative cosines tie at 0: none of them may be lost here.
        rough = np.maximum(np.vecdot(stored, vector), 0.0)
        last = np.partition(rough, len(rough) - limit)[len(rough) - limit]
        near = rough >= last - FLOAT32_ERROR
        stored, slots = stored[near], slots[near]
    return dict(zip(slots.tolist(), cosine_scores(stored, vector), strict=True))


def cosine_scores(stored: npt.NDArray[np.float32], vector: Vector) -> list[float]:
    """Return the cosine of each stored vector, negative ones as 0, rounded to make ties equal."""
    # In single precision the last digit would depend on the other vectors of the product.
    exact = np.vecdot(stored.astype(np.float64), vector)
    np.maximum(exact, 0.0, out=exact)
    np.minimum(exact, 1.0, out=exact)
    return round_scores(exact)


def find_similar(
    connection: apsw.Connection, view: SpaceView, slots: SlotArray, min_cosine: float
) -> list[list[tuple[int, float]]]:
    """Return for each slot, which must have a vector, all others (slot, cosine) this similar.

    Compares every vector of the space: sign bits could miss one.
    """
    queries, embedded = view.read_vectors(connection, slots), np.flatnonzero(view.embedded)
    similar: list[list[tuple[int, float]]] = [[] for _ in slots]
    for start in range(0, len(embedded), COMPARE_BATCH):
        part = embedded[start : start + COMPARE_BATCH]
        stored = view.read_vectors(connection, part)
        # nonzero of the flat array: of a matrix it costs half as much as the product.
        near = np.flatnonzero(queries @ stored.T >= min_cosine - FLOAT32_ERROR)
        rows, columns = np.divmod(near, len(part))
        other = slots[rows] != part[columns]
        rows, columns = rows[other], columns[other]
        for first in range(0, len(rows), COMPARE_BATCH):
            some, far = rows[first : first + COMPARE_BATCH], columns[first : first + COMPARE_BATCH]
            exact = np.einsum(
                "ij,ij->i", queries[some].astype(np.float64), stored[far].astype(np.float64)
            )
            cosines = np.round(np.clip(exact, 0.0, 1.0), 6).tolist()
            for row, slot, cosine in zip(some.tolist(), part[far].tolist(), cosines, strict=True):
                if cosine >= min_cosine:
                    similar[row].append((slot, cosine))
    return similar
