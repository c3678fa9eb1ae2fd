"""Which item is at which place of a space: asked for one by one, until reading all of them would have been cheaper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec

NOT_STORED = -1
PLACE_BITS = 0xFFFFFFFF  # the bits of a row that are its place in the space
SEQUENTIAL_SPEEDUP = 6  # ids that are read in order in the time that looking for one takes
MAX_CACHED_IDS = 250_000  # items of a space all of whose ids are read, about 200 bytes each: it takes 0.6 microseconds for each


class IdCache:
    """What is known of one space. A place keeps its id for as long as it has one, and is never given to another."""

    def __init__(self, space: int) -> None:
        self._space = space
        self._by_place: dict[int, str] = {}
        self._by_id: dict[str, int] = {}
        self._looked_for = 0  # one by one, since all were read

    def forget(self, places: Iterable[int]) -> None:
        """These places are empty now: what was there may be stored again at another one."""
        for place in places:
            self._by_id.pop(self._by_place.pop(place, ""), None)

    def at(self, connection: apsw.Connection, places: Sequence[int], items: int) -> list[str]:
        """The ids of the items at these places, of a space that has so many items."""
        missing = sorted(set(places).difference(self._by_place))
        if missing and not self._read_all(connection, len(missing), items):
            query = "SELECT item.row, item.id FROM carray(?) AS asked CROSS JOIN item ON item.row = asked.value"
            self._learn(connection.execute(query, (bind_rows(self._space, missing),)))
        return [self._by_place[place] for place in places]

    def of(self, connection: apsw.Connection, ids: Sequence[str], items: int) -> list[int]:
        """The place of each of the ids, NOWHERE for one that is not stored."""
        found = list(map(self._by_id.get, ids, repeat(NOT_STORED)))
        if NOT_STORED in found:
            missing = sorted(
                {id for id, place in zip(ids, found, strict=True) if place == NOT_STORED}
            )
            if not self._read_all(connection, len(missing), items):
                query = "SELECT item.row, item.id FROM json_each(?) AS asked CROSS JOIN item ON item.space = ? AND item.id = asked.value"
                self._learn(connection.execute(query, (codec.to_json(missing), self._space)))
            found = [self._by_id.get(id, NOT_STORED) for id in ids]
        return found

    def _read_all(self, connection: apsw.Connection, more: int, items: int) -> bool:
        """Whether all ids were read, as so many have been looked for."""
        self._looked_for += more
        if items > MAX_CACHED_IDS or self._looked_for * SEQUENTIAL_SPEEDUP < items:
            return False
        self._looked_for = 0
        self._learn(
            connection.execute("SELECT row, id FROM item WHERE space = ?", (self._space,))
        )  # which the index of ids answers alone
        return True

    def _learn(self, found: Iterable[tuple[int, str]]) -> None:
        for row, id in found:
            place = row & PLACE_BITS
            self._by_place[place] = id
            self._by_id[id] = place


def bind_rows(space: int, places: Sequence[int] | npt.NDArray[np.intp]) -> apsw.CArrayBinding:
    """The rows of these places, at least one, to be asked for in one statement: numbers that SQLite reads where they are."""
    return apsw.carray(np.asarray(places, np.int64) + (space << 32))
