"""Candidates from the approximate indexes of several spaces, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg

from knowloom.ports import Vector
from knowloom.stores.postgresql.approximate.index_tables import MIN_VECTORS, Hnsw, IndexTable
from knowloom.stores.postgresql.item_rows import Numbers
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import Mask, SpaceArrays

MIN_SHARE = 0.1  # of the indexed items that the filter allows; fewer are searched exactly
PASSAGES_PER_HIT = 4

# The filter is a bit per item: the scan goes on until enough items pass it.
_NEAREST = """(SELECT %s::integer, no, passage FROM {table} WHERE get_bit(%s, no) = 1
    ORDER BY embedding OPERATOR({schema}.<#>) %s::{schema}.halfvec LIMIT %s)"""


@dataclass(frozen=True, slots=True)
class IndexedSpace:
    """A space whose index is searched: the items that it may return, and those it lacks."""

    view: SpaceArrays
    index: IndexTable
    current: Mask
    missing: Mask


def find_indexed(
    session: ReadSession, allowed: Mapping[SpaceArrays, Mask], dimensions: int
) -> list[IndexedSpace]:
    """Return the spaces for which an index is worth its round trip."""
    spaces: list[IndexedSpace] = []
    for view, mask in allowed.items():
        index = session.vector_index(view.no)
        if index is None or index.dimensions != dimensions:
            continue
        is_current = view.vector_versions[: len(mask)] <= index.version
        current = mask & is_current
        indexed = np.count_nonzero(view.embedded & is_current)
        if np.count_nonzero(current) >= max(MIN_VECTORS, MIN_SHARE * indexed):
            spaces.append(IndexedSpace(view, index, current, mask & ~is_current))
    return spaces


def nearest_passages(
    session: ReadSession, hnsw: Hnsw, spaces: list[IndexedSpace], vector: Vector, limit: int
) -> dict[int, Numbers]:
    """Return slots near the vector by the number of the space.

    A space is left out if its index was replaced since the snapshot, or has too few candidates.
    """
    if not spaces:
        return {}
    count = max(hnsw.ef_search, PASSAGES_PER_HIT * limit)
    text = f"[{','.join(map(str, vector.tolist()))}]"
    query = " UNION ALL ".join(
        _NEAREST.format(table=space.index.table, schema=hnsw.schema) for space in spaces
    )
    values = [
        value
        for space in spaces
        for value in (space.view.no, _pack_bits(space.current), text, count)
    ]
    try:
        rows = session.fetch_tentatively(query, values)
    except psycopg.errors.UndefinedTable:
        return {}
    slots = {space.view.no: _slots(space.view, rows) for space in spaces}
    enough = min(limit, MIN_VECTORS)
    return {
        space.view.no: slots[space.view.no]
        for space in spaces
        if len(np.unique(space.view.owners[slots[space.view.no]])) >= enough
    }


def _pack_bits(mask: Mask) -> bytes:
    return np.packbits(mask, bitorder="little").tobytes()


def _slots(view: SpaceArrays, rows: list[tuple[Any, ...]]) -> Numbers:
    places = np.array([row[1:] for row in rows if row[0] == view.no], np.intp).reshape(-1, 2)
    slots: Numbers = view.records["first"][places[:, 0]] + places[:, 1]
    return slots
