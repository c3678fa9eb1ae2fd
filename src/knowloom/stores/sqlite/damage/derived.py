"""Damage of derived data: the errors it causes, and reading items without it."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import apsw
import numpy as np

from knowloom.errors import Corrupt
from knowloom.model import Filter, Item, Key
from knowloom.stores.sqlite.passage_slots import Mask, read_segmenter
from knowloom.stores.sqlite.rows import RECORD, SLOT_BITS, Records, item_from_body, item_record
from knowloom.text import words

log = logging.getLogger(__name__)
T = TypeVar("T")

# Raised where damaged data is decoded: JSON, arrays of another size, places outside of arrays.
DECODING_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    struct.error,
)
_ROWS = "SELECT row FROM {} WHERE row BETWEEN ? AND ?"


class DamagedIndex(Corrupt):
    """Data that follows from the items is damaged, and they are not: `reindex` builds it anew."""


def damaged_index(what: str, cause: Exception) -> DamagedIndex:
    return DamagedIndex(
        f"{what} cannot be read ({type(cause).__name__}: {cause}): the items are stored apart; "
        "run reindex to build it anew"
    )


def is_damage(error: BaseException) -> bool:
    """Return True for an error of SQLite that is due to the content of the file."""
    code = getattr(error, "extendedresult", 0)
    return isinstance(error, apsw.CorruptError) or code == apsw.SQLITE_IOERR_DATA


class DamagedParts(dict[str, DamagedIndex]):
    """The parts of an index that could not be loaded, with their errors."""

    def load(self, part: str, load: Callable[[], None]) -> None:
        """Load a part, or record its damage: items can be read without it."""
        try:
            load()
        except (apsw.Error, *DECODING_ERRORS) as error:
            if isinstance(error, apsw.Error) and not is_damage(error):
                raise
            self[part] = damaged_index(f"the table of {part}", error)

    def require(self, *parts: str) -> None:
        """Raise the error of a part that is damaged."""
        for part in parts if self else ():
            if part in self:
                raise self[part]


def find_items(
    connection: apsw.Connection, only: Filter, limit: int, after: Key | None
) -> list[Item]:
    """Return items as the store's `find` does, by reading all of them."""
    items: list[Item] = []
    for name in sorted(set(only.spaces)):
        if after is None or name >= after[0]:
            after_id = after[1] if after is not None and name == after[0] else ""
            for item in _scan(connection, name, after_id):
                if len(items) >= limit:
                    return items
                if only.allows(item):
                    items.append(item)
    return items


def count_items(connection: apsw.Connection, only: Filter) -> int:
    return sum(
        only.allows(item) for name in set(only.spaces) for item in _scan(connection, name, "")
    )


def fall_back(read: Callable[[], T], read_items: Callable[[], T]) -> T:
    """Return what the index has, or what the items have if the index is damaged."""
    try:
        return read()
    except (apsw.Error, DamagedIndex, *DECODING_ERRORS) as error:
        if isinstance(error, apsw.Error) and not is_damage(error):
            raise
        log.warning("read without the index: %s: %s", type(error).__name__, error)
        return read_items()


def restore_records(connection: apsw.Connection, no: int, size: int) -> Records:
    """Return the records of a space as they follow from its items and vectors."""
    records, name = np.zeros(size, RECORD), _read_name(connection, no)
    _, passage_size = read_segmenter(connection)
    bounds = (no << 32, (no << 32) + SLOT_BITS)
    vectors = {row for (row,) in connection.execute(_ROWS.format("vector"), bounds)}
    query = "SELECT row, body FROM item WHERE row BETWEEN ? AND ?"
    for row, body in connection.execute(query, bounds):
        item = item_from_body(body, name)
        for place, counts in enumerate(words.count_passage_terms(item, passage_size)):
            record = item_record(item, counts.total(), row + place in vectors, place > 0)
            records[(row & SLOT_BITS) + place] = record
    return records


def mask_items(connection: apsw.Connection, no: int, only: Filter, size: int) -> Mask:
    """Return the slots of the items that pass the filter, without those of later passages."""
    mask, name = np.zeros(size, np.bool_), _read_name(connection, no)
    query = "SELECT row, body FROM item WHERE row BETWEEN ? AND ?"
    for row, body in connection.execute(query, (no << 32, (no << 32) + SLOT_BITS)):
        item = item_from_body(body, name)
        mask[row & SLOT_BITS] = replace(only, spaces=(name,), valid_at=None).allows(item)
    return mask


def visible_keys(items: Sequence[Item], only: Filter) -> list[Key]:
    return [item.key for item in items if only.allows(item)]


def _read_name(connection: apsw.Connection, no: int) -> str:
    ((name,),) = connection.execute("SELECT name FROM space WHERE no = ?", (no,))
    return str(name)


def _scan(connection: apsw.Connection, name: str, after_id: str) -> Iterator[Item]:
    query = """SELECT body FROM item WHERE space = (SELECT no FROM space WHERE name = ?)
        AND id > ? ORDER BY id"""
    for (body,) in connection.execute(query, (name, after_id)):
        yield item_from_body(body, name)
