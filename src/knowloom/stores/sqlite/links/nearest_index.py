"""The lists of nearest items of a space: stored by row, cached by slot, updated for the linker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.ports import NearestItems
from knowloom.stores.sqlite.id_cache import NO_SLOT
from knowloom.stores.sqlite.passage_slots import Mask
from knowloom.stores.sqlite.rows import SLOT_BITS
from knowloom.stores.sqlite.space_view import SpaceView
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
from knowloom.vectors.pair_cosines import compare_pairs
from knowloom.vectors.signs import count_differing, measure_distances, round_vectors


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
    cosines = compare_pairs(
        changes.pairs,
        _is_short(view, changes.pairs),
        min_cosine,
        partial(view.read_vectors, connection),
        lambda item: view.read_vectors(connection, view.expand(item)[0]),
    )
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


def _is_short(view: SpaceView, pairs: npt.NDArray[np.intp]) -> Mask:
    """Return the pairs of items of one passage each."""
    is_short: Mask = np.ones(pairs.shape[1], np.bool_)
    if view.passages is not None:
        is_short &= ~view.passages.have_several(pairs).any(axis=0)
    return is_short
