"""The lists of nearest items of a space: stored and cached by number, updated for the linker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg

from knowloom.ports import NearestItems
from knowloom.stores.postgresql.item_rows import Numbers
from knowloom.stores.postgresql.scoring.vector_rows import Matrix, read_vectors
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import DEAD, NO_ITEM, SpaceArrays
from knowloom.stores.postgresql.writing.space_counters import SpaceCounters
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


def read_lists(session: ReadSession, view: SpaceArrays) -> Lists:
    """Return the lists by number, empty ones for items that have none; all items have a hash.

    Only lists that changed since the last call are read.
    """
    if len(view.nearest) < view.next_no:
        more = empty_lists(view.next_no - len(view.nearest))
        view.nearest = np.concatenate([view.nearest, more])
    query = """SELECT string_agg(int4send(no), '' ORDER BY no), string_agg(data, '' ORDER BY no)
        FROM nearest WHERE space = %s AND version > %s"""
    ((numbers, data),) = session.fetch(query, (view.no, view.nearest_version))
    if numbers:
        view.nearest[np.frombuffer(numbers, ">i4")] = np.frombuffer(data, LIST)
    lists = view.nearest[: view.next_no]
    unhashed = np.flatnonzero(view.embedded & (lists["hash"] == 0))
    if len(unhashed):
        lists["hash"][unhashed] = hash_ids(view.ids(session.fetch, unhashed.tolist()))
    view.nearest_version = view.version
    return lists


def update_nearest(
    session: ReadSession, view: SpaceArrays, ids: Sequence[str], min_cosine: float
) -> NearestItems:
    """Return the lists after a change of these items, and who is near whom."""
    numbers = [no for no in view.numbers(session.fetch, ids) if no != NO_ITEM]
    changed = np.unique(np.array(numbers, np.intp))
    lists = read_lists(session, view)
    changes = update_lists(lists, view.embedded, changed, _comparer(session, view))
    is_short = np.all(~view.several[changes.pairs], axis=0)

    def read(items: Numbers) -> Matrix:
        return read_vectors(session, view, items)[0]

    cosines = compare_pairs(changes.pairs, is_short, min_cosine, read, read)
    near = cosines >= min_cosine
    first, second = (view.ids(session.fetch, ends) for ends in changes.pairs[:, near].tolist())
    rows = zip(changes.positions.tolist(), changes.lists, strict=True)
    return NearestItems(
        view.ids(session.fetch, changes.items.tolist()),
        list(zip(first, second, cosines[near].tolist(), strict=True)),
        {no: row.tobytes() for no, row in rows},
    )


def put_lists(
    connection: psycopg.Connection[Any], space: SpaceCounters, lists: Mapping[int, bytes]
) -> None:
    """Store lists by number."""
    if lists:
        numbers = sorted(lists)
        connection.execute(
            """INSERT INTO nearest SELECT %s, new.no, %s, new.data
            FROM unnest(%b::integer[], %b::bytea[]) AS new(no, data)
            ON CONFLICT (space, no) DO UPDATE SET
                version = excluded.version, data = excluded.data""",
            (space.no, space.version, numbers, [lists[no] for no in numbers]),
        )


def _comparer(session: ReadSession, view: SpaceArrays) -> Compare:
    """Return a function from the number of an item to the distances of all items."""
    embedded = np.flatnonzero(view.embedded)
    dimensions = int(session.meta("dimensions"))
    is_small = dimensions <= SMALL_DIMENSIONS
    rounded, owners = np.zeros((0, 0), np.float32), np.zeros(0, np.intp)
    if is_small and len(embedded):
        stored, _ = read_vectors(session, view, embedded)
        rounded = round_vectors(stored)
        owners = np.repeat(embedded, view.records["count"][embedded])
    signs = view.signs[:, : view.next_slot]
    slots = np.flatnonzero((view.owners != DEAD) & view.embedded[view.owners])
    slot_owners = view.owners[slots]

    def compare(no: int) -> Distances:
        distances = np.full(view.next_no, FARTHEST)
        if is_small:
            near = measure_distances(rounded, rounded[owners == no])
            np.minimum.at(distances, owners, near)
            return distances
        first, count = int(view.records["first"][no]), int(view.records["count"][no])
        nearest = count_differing(signs, signs[:, first])
        for slot in range(first + 1, first + count):
            np.minimum(nearest, count_differing(signs, signs[:, slot]), out=nearest)
        if view.has_several:
            np.minimum.at(distances, slot_owners, nearest[slots].astype(np.uint32))
        else:
            distances[slot_owners] = nearest[slots]
        return distances

    return compare
