"""The lists of nearest items of a space: stored and cached by number, updated for the linker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from knowloom.construction import SCORE_DIGITS
from knowloom.ports import NearestItems
from knowloom.stores.postgresql.item_rows import Numbers
from knowloom.stores.postgresql.scoring.vector_rows import FLOAT32_ERROR, Matrix, read_vectors
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
from knowloom.vectors.signs import count_differing, measure_distances, round_vectors

MAX_PAIRS = 64  # passages of two items that are compared exactly
COMPARE_BATCH = 1024  # pairs of items compared at once
PASSAGE_BATCH = 512  # passages of an item compared with those of another at once


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
    cosines = _pair_cosines(session, view, changes.pairs, min_cosine)
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


def _pair_cosines(
    session: ReadSession, view: SpaceArrays, pairs: npt.NDArray[np.intp], min_cosine: float
) -> npt.NDArray[np.float64]:
    """Return the cosine of the nearest passages of each pair of items, 0 for small ones."""
    cosines = np.zeros(pairs.shape[1])
    is_short = ~view.several[pairs].any(axis=0)
    short = np.flatnonzero(is_short)
    for start in range(0, len(short), COMPARE_BATCH):
        places = short[start : start + COMPARE_BATCH]
        numbers, inverse = np.unique(pairs[:, places], return_inverse=True)
        stored, _ = read_vectors(session, view, numbers)
        first, second = inverse.reshape(2, -1)
        rough = np.vecdot(stored[first], stored[second])
        near = np.flatnonzero(rough >= min_cosine - FLOAT32_ERROR)
        cosines[places[near]] = _exact_cosines(stored[first[near]], stored[second[near]])
    for place in np.flatnonzero(~is_short).tolist():
        vectors, others = (_read_item(session, view, pairs[end, place]) for end in (0, 1))
        cosines[place] = _nearest_passages(vectors, others)
    return np.clip(cosines, 0.0, 1.0).round(SCORE_DIGITS)


def _read_item(session: ReadSession, view: SpaceArrays, no: np.intp) -> Matrix:
    numbers: Numbers = np.array([no])
    return read_vectors(session, view, numbers)[0]


def _nearest_passages(vectors: Matrix, others: Matrix) -> float:
    """Return the cosine of the nearest passages of two items.

    Of passages that all say the same, MAX_PAIRS are compared exactly.
    """
    best = 0.0
    for start in range(0, len(vectors), PASSAGE_BATCH):
        part = vectors[start : start + PASSAGE_BATCH]
        rough = (part @ others.T).ravel()
        count = min(MAX_PAIRS, len(rough))
        nearest = np.argpartition(rough, len(rough) - count)[len(rough) - count :]
        rows, places = np.divmod(nearest, len(others))
        best = max(best, float(_exact_cosines(part[rows], others[places]).max()))
    return best


def _exact_cosines(vectors: Matrix, others: Matrix) -> npt.NDArray[np.float64]:
    cosines: npt.NDArray[np.float64]
    cosines = np.vecdot(vectors.astype(np.float64), others.astype(np.float64))
    return cosines
