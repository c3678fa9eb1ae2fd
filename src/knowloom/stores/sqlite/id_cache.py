"""A cache of ids by slot; loads the whole space once many ids have been looked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.stores.sqlite.rows import SLOT_BITS

NO_SLOT = -1
SEQUENTIAL_SPEEDUP = 6  # ids read by a scan in the time of one lookup
MAX_CACHED_IDS = 250_000  # larger spaces are never loaded whole: about 200 bytes and 0.6 us an id


class IdCache:
    """Ids and slots of one space. A slot keeps its id until it is deleted and is never reused."""

    def __init__(self, space: int) -> None:
        self._space = space
        self._by_slot: dict[int, str] = {}
        self._by_id: dict[str, int] = {}
        self._lookups = 0  # single lookups since all ids were read

    def forget(self, slots: Iterable[int]) -> None:
        """Drop the ids of deleted slots; the same id may be stored again in another slot."""
        for slot in slots:
            self._by_id.pop(self._by_slot.pop(slot, ""), None)

    def ids_at(self, connection: apsw.Connection, slots: Sequence[int], items: int) -> list[str]:
        """Return the ids at these slots; `items` is the number of items in the space."""
        missing = sorted(set(slots).difference(self._by_slot))
        if missing and not self._read_all(connection, len(missing), items):
            query = """SELECT item.row, item.id FROM carray(?) AS query
                CROSS JOIN item ON item.row = query.value"""
            self._add(connection.execute(query, (bind_rows(self._space, missing),)))
        return [self._by_slot[slot] for slot in slots]

    def slots_of(self, connection: apsw.Connection, ids: Sequence[str], items: int) -> list[int]:
        """Return the slot of each id, NO_SLOT for ids that are not stored."""
        slots = list(map(self._by_id.get, ids, repeat(NO_SLOT)))
        if NO_SLOT in slots:
            missing = sorted({id for id, slot in zip(ids, slots, strict=True) if slot == NO_SLOT})
            if not self._read_all(connection, len(missing), items):
                query = """SELECT item.row, item.id FROM json_each(?) AS query
                    CROSS JOIN item ON item.space = ? AND item.id = query.value"""
                self._add(connection.execute(query, (codec.to_json(missing), self._space)))
            slots = [self._by_id.get(id, NO_SLOT) for id in ids]
        return slots

    def _read_all(self, connection: apsw.Connection, lookups: int, items: int) -> bool:
        """Read all ids if so many lookups have cost as much; return True if they were read."""
        self._lookups += lookups
        if items > MAX_CACHED_IDS or self._lookups * SEQUENTIAL_SPEEDUP < items:
            return False
        self._lookups = 0
        # The index on (space, id) covers this query.
        self._add(connection.execute("SELECT row, id FROM item WHERE space = ?", (self._space,)))
        return True

    def _add(self, rows: Iterable[tuple[int, str]]) -> None:
        for row, id in rows:
            slot = row & SLOT_BITS
            self._by_slot[slot] = id
            self._by_id[id] = slot


def bind_rows(space: int, slots: Sequence[int] | npt.NDArray[np.intp]) -> apsw.CArrayBinding:
    """Return the rows of one or more slots as an array that SQLite reads in place."""
    return apsw.carray(np.asarray(slots, np.int64) + (space << 32))
