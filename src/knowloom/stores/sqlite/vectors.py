"""Vectors in the SQLite file: the signs of all are compared bit by bit, the nearest few hundred are read and scored exactly."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.construction import rounded
from knowloom.stores.sqlite.space_view import CHUNK, Mask, SpaceView
from knowloom.stores.sqlite.top_k import k_smallest

Vector = npt.NDArray[np.float32]

RESCORED = (
    1024  # vectors read and scored exactly, at least; see bench/README for the recall this gives
)
RESCORED_PER_HIT = 8
FLOAT32_ERROR = 1e-4  # more than single precision can be wrong by
ROWS_PER_BYTE = 3  # rows of 64 bits whose differences a byte can count: bytes are added in a fraction of the time of wider numbers
COMPARE_BATCH = 8192  # vectors compared, or pairs scored exactly, in one go


def write_vectors(
    connection: apsw.Connection, space: int, version: int, vectors: Iterable[tuple[int, Vector]]
) -> None:
    """Store unit vectors by place, as 16-bit floats, and their signs."""
    by_chunk: dict[int, list[tuple[int, Vector]]] = {}
    for place, vector in vectors:
        by_chunk.setdefault(place // CHUNK, []).append((place % CHUNK, vector))
    for chunk, rows in sorted(by_chunk.items()):
        width = -(-len(rows[0][1]) // 64)
        signs = _stored_signs(connection, space, chunk, width)
        for place, vector in rows:
            signs[place] = pack_signs(vector)
        connection.execute(
            "INSERT OR REPLACE INTO sign VALUES (?, ?, ?, ?)",
            (space, chunk, version, signs.tobytes()),
        )
        base = (space << 32) + chunk * CHUNK
        data = ((base + place, vector.astype(np.float16).tobytes()) for place, vector in rows)
        connection.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", data)


def _stored_signs(
    connection: apsw.Connection, space: int, chunk: int, width: int
) -> npt.NDArray[np.uint64]:
    rows = list(
        connection.execute("SELECT data FROM sign WHERE space = ? AND chunk = ?", (space, chunk))
    )
    return (
        np.frombuffer(rows[0][0], np.uint64).reshape(CHUNK, -1).copy()
        if rows
        else np.zeros((CHUNK, width), np.uint64)
    )


def pack_signs(vector: Vector) -> npt.NDArray[np.uint64]:
    """One bit per dimension, set where it is positive, filled up to whole 64-bit words."""
    bits = np.zeros(-(-len(vector) // 64) * 64, np.bool_)
    bits[: len(vector)] = vector > 0
    return np.packbits(bits).view(np.uint64)


def nearest_candidates(
    view: SpaceView, vector: Vector, mask: Mask | None, wanted: int
) -> npt.NDArray[np.intp]:
    """Places worth scoring exactly: those whose signs differ in no more bits than the `wanted`-th best's. Whole ties are
    included, so the answer does not depend on the order in which items were added."""
    allowed = view.embedded if mask is None else view.embedded & mask
    count = np.count_nonzero(allowed)
    if count <= wanted:
        return np.flatnonzero(allowed)
    few = np.flatnonzero(allowed) if count < view.next // 4 else None
    signs = view.signs[:, : view.next] if few is None else view.signs[:, few]
    distance, bits = np.zeros(signs.shape[1], np.uint16), pack_signs(vector)
    for first in range(0, len(signs), ROWS_PER_BYTE):
        differing = np.bitwise_count(signs[first] ^ bits[first])
        for row in range(first + 1, min(first + ROWS_PER_BYTE, len(signs))):
            differing += np.bitwise_count(signs[row] ^ bits[row])
        distance += differing
    if few is None and count < view.next:
        distance += ~allowed * np.uint16(len(signs) * 64 + 1)  # farther than any
    near = k_smallest(distance, wanted)
    return near if few is None else few[near]


def score_candidates(
    connection: apsw.Connection,
    view: SpaceView,
    vector: Vector,
    places: npt.NDArray[np.intp],
    limit: int = 0,
) -> dict[int, float]:
    """The cosine at each of the places that has a vector, or at those that may be among the best `limit`."""
    wanted = places[view.embedded[places]]
    if not len(wanted):
        return {}
    stored = view.vectors(connection, wanted)
    # By vecdot: for a product of this size BLAS keeps the other cores busy and is no faster.
    if 0 < limit < len(wanted):
        rough = np.maximum(
            np.vecdot(stored, vector), 0.0
        )  # opposites are ties: none of them may be lost here
        near = rough >= np.partition(rough, len(rough) - limit)[len(rough) - limit] - FLOAT32_ERROR
        stored, wanted = stored[near], wanted[near]
    return dict(zip(wanted.tolist(), cosine_scores(stored, vector), strict=True))


def cosine_scores(stored: npt.NDArray[np.float32], vector: Vector) -> list[float]:
    """Of each stored vector. Negative ones count as 0; rounded, so that ties are ties everywhere."""
    # Doubles: in single precision a cosine would depend, in its last digit, on the others it is computed with.
    exact = np.vecdot(stored.astype(np.float64), vector)
    np.maximum(exact, 0.0, out=exact)
    np.minimum(exact, 1.0, out=exact)
    return rounded(exact)


def find_similar(
    connection: apsw.Connection, view: SpaceView, places: npt.NDArray[np.intp], least: float
) -> list[list[tuple[int, float]]]:
    """For each of the places, which must have a vector, (place, cosine) of all others with a cosine of `least` or more. Every vector
    of the space is compared: signs could overlook one."""
    asked, everyone = view.vectors(connection, places), np.flatnonzero(view.embedded)
    found: list[list[tuple[int, float]]] = [[] for _ in places]
    for start in range(0, len(everyone), COMPARE_BATCH):
        part = everyone[start : start + COMPARE_BATCH]
        stored = view.vectors(connection, part)
        rows, columns = np.divmod(
            np.flatnonzero(asked @ stored.T >= least - FLOAT32_ERROR), len(part)
        )  # nonzero of a matrix costs half as much as the product
        other = places[rows] != part[columns]
        rows, columns = rows[other], columns[other]
        for first in range(0, len(rows), COMPARE_BATCH):
            some, far = rows[first : first + COMPARE_BATCH], columns[first : first + COMPARE_BATCH]
            exact = np.einsum(
                "ij,ij->i", asked[some].astype(np.float64), stored[far].astype(np.float64)
            )
            for row, place, cosine in zip(
                some.tolist(),
                part[far].tolist(),
                np.round(np.clip(exact, 0.0, 1.0), 6).tolist(),
                strict=True,
            ):
                if cosine >= least:
                    found[row].append((place, cosine))
    return found
