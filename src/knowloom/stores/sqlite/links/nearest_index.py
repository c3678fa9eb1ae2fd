"""The lists of nearest items of a space: stored by row, cached by slot, updated for the linker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.construction import SCORE_DIGITS
from knowloom.ports import NearestItems
from knowloom.stores.sqlite.id_cache import NO_SLOT
from knowloom.stores.sqlite.passage_slots import Mask, SlotArray
from knowloom.stores.sqlite.rows import SLOT_BITS
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.vector_cache import VectorMatrix
from knowloom.stores.sqlite.vector_search import FLOAT32_ERROR
from knowloom.vectors.nearest_lists import (
    FARTHEST,
    LIST,
    SMALL_DIMENSIONS,
    Compare,
    Distances,
    Lists,
    empty_lists,
    hash_ids,
    update_lists,
)
from knowloom.vectors.signs import count_differing, measure_distances, round_vectors

MAX_PAIRS = 64  # passages of two items that are compared exactly
COMPARE_BATCH = 1024  # pairs of vectors compared at once: more do not fit the cache
PASSAGE_BATCH = 512  # passages of an item compared with those of another at once


def read_lists(connection: apsw.Connection, view: SpaceView) -> Lists:
    """Return the lists by slot, empty ones for items that have none; all items have a hash.

    Only lists that changed since the last call are read.
    """
    if len(view.nearest) < view.next_slot:
        more = empty_lists(view.next_slot + view.next_slot // 8 - len(view.nearest))
        view.nearest = np.concatenate([view.nearest, more])
    query = "SELECT row, data FROM nearest WHERE version > ? AND row BETWEEN ? AND ?"
    first = view.no << 32
    rows = list(connection.execute(query, (view.nearest_version, first, first + SLOT_BITS)))
    if rows:
        slots = np.array([row for row, _ in rows]) - first
        view.nearest[slots] = np.frombuffer(b"".join(data for _, data in rows), LIST)
    lists = view.nearest[: view.next_slot]
    unhashed = np.flatnonzero(view.heads_in(view.embedded) & (lists["hash"] == 0))
    if len(unhashed):
        lists["hash"][unhashed] = hash_ids(view.ids(connection, unhashed.tolist()))
    view.nearest_version = view.version
    return lists


def update_nearest(
    connection: apsw.Connection, view: SpaceView, ids: Sequence[str], min_cosine: float
) -> NearestItems:
    """Return the lists after a change of these items, and who is near whom."""
    slots = [slot for slot in view.slots(connection, ids) if slot != NO_SLOT]
    changes = update_lists(
        read_lists(connection, view),
        view.heads_in(view.embedded),
        np.unique(np.array(slots, np.intp)),
        _comparer(connection, view),
    )
    cosines = _pair_cosines(connection, view, changes.pairs, min_cosine)
    near = cosines >= min_cosine
    first, second = (view.ids(connection, ends) for ends in changes.pairs[:, near].tolist())
    lists = zip(changes.positions.tolist(), changes.lists, strict=True)
    return NearestItems(
        view.ids(connection, changes.items.tolist()),
        list(zip(first, second, cosines[near].tolist(), strict=True)),
        {slot: row.tobytes() for slot, row in lists},
    )


def put_lists(
    connection: apsw.Connection, space: int, version: int, lists: Mapping[int, bytes]
) -> None:
    """Store lists by slot."""
    rows = (((space << 32) + slot, version, data) for slot, data in lists.items())
    connection.executemany("INSERT OR REPLACE INTO nearest VALUES (?, ?, ?)", rows)


def _comparer(connection: apsw.Connection, view: SpaceView) -> Compare:
    """Return a function from the head of an item to the distances of all heads."""
    embedded = np.flatnonzero(view.embedded)
    ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
    rows = np.zeros(view.next_slot, np.intp)
    rounded = np.zeros((0, 0), np.float32)
    is_small = dimensions <= SMALL_DIMENSIONS
    if is_small and len(embedded):
        rounded = round_vectors(view.read_vectors(connection, embedded))
        rows[embedded] = np.arange(len(embedded))
    signs = view.signs[:, : view.next_slot]

    def compare(head: int) -> Distances:
        slots = view.expand(np.array([head]))[0]
        distances = np.full(view.next_slot, FARTHEST)
        if is_small:
            distances[embedded] = measure_distances(rounded, rounded[rows[slots]])
        else:
            nearest = count_differing(signs, signs[:, slots[0]])
            for slot in slots[1:].tolist():
                np.minimum(nearest, count_differing(signs, signs[:, slot]), out=nearest)
            np.copyto(distances, nearest, where=view.embedded)
        return (
            distances if view.passages is None else view.passages.least_by_item(distances, FARTHEST)
        )

    return compare


def _pair_cosines(
    connection: apsw.Connection, view: SpaceView, pairs: npt.NDArray[np.intp], min_cosine: float
) -> npt.NDArray[np.float64]:
    """Return the cosine of the nearest passages of each pair of items, 0 for small ones."""
    cosines = np.zeros(pairs.shape[1])
    is_short: Mask = np.ones(pairs.shape[1], np.bool_)
    if view.passages is not None:
        is_short &= ~view.passages.have_several(pairs).any(axis=0)
    short = np.flatnonzero(is_short)
    for start in range(0, len(short), COMPARE_BATCH):
        places = short[start : start + COMPARE_BATCH]
        heads, inverse = np.unique(pairs[:, places], return_inverse=True)
        stored = view.read_vectors(connection, heads)
        first, second = inverse.reshape(2, -1)
        rough = np.vecdot(stored[first], stored[second])
        near = np.flatnonzero(rough >= min_cosine - FLOAT32_ERROR)
        cosines[places[near]] = _exact_cosines(stored[first[near]], stored[second[near]])
    for place in np.flatnonzero(~is_short).tolist():
        first, second = (view.expand(pairs[end, place : place + 1])[0] for end in (0, 1))
        cosines[place] = _nearest_passages(connection, view, first, second)
    return np.clip(cosines, 0.0, 1.0).round(SCORE_DIGITS)


def _nearest_passages(
    connection: apsw.Connection, view: SpaceView, slots: SlotArray, others: SlotArray
) -> float:
    """Return the cosine of the nearest passages of two items.

    Of passages that all say the same, MAX_PAIRS are compared exactly.
    """
    stored, best = view.read_vectors(connection, others), 0.0
    for start in range(0, len(slots), PASSAGE_BATCH):
        part = view.read_vectors(connection, slots[start : start + PASSAGE_BATCH])
        rough = (part @ stored.T).ravel()
        count = min(MAX_PAIRS, len(rough))
        nearest = np.argpartition(rough, len(rough) - count)[len(rough) - count :]
        rows, columns = np.divmod(nearest, len(stored))
        best = max(best, float(_exact_cosines(part[rows], stored[columns]).max()))
    return best


def _exact_cosines(vectors: VectorMatrix, others: VectorMatrix) -> npt.NDArray[np.float64]:
    cosines: npt.NDArray[np.float64]
    cosines = np.vecdot(vectors.astype(np.float64), others.astype(np.float64))
    return cosines
