"""Columns of properties in memory: which items of a space fulfil a condition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import apsw

from knowloom import codec
from knowloom.columns.coded_column import MISSING, CodedColumn, ColumnCache
from knowloom.model.condition import FIELDS, ItemCondition, property_name
from knowloom.stores.sqlite.passage_slots import Mask
from knowloom.stores.sqlite.rows import CHUNK, SLOT_BITS


class PropertyColumns:
    """The columns of one space, read when a filter first names them.

    A column is read from the bodies of the items: all of them the first time, later those in the
    chunks that were written since. Not shared between threads.
    """

    def __init__(self, no: int) -> None:
        self._columns = ColumnCache(lambda name: PropertyColumn(no, name))

    def mask(
        self, connection: apsw.Connection, condition: ItemCondition, version: int, size: int
    ) -> Mask:
        """Return the heads whose items fulfil the condition, at this version of the space."""
        column = self._columns.get(condition.name, size)
        column.refresh(connection, version, size)
        return column.mask(condition)


class PropertyColumn(CodedColumn):
    """The values of one property by slot."""

    def __init__(self, no: int, name: str) -> None:
        super().__init__()
        self._no = no
        self._path, self._decode = _locate(name)
        # A necessary condition that takes a fifth of the time of parsing the JSON.
        self._label = f"{codec.to_json(property_name(name) if name not in FIELDS else name[1:])}:"

    def refresh(self, connection: apsw.Connection, version: int, size: int) -> None:
        """Catch up with the file; free when the space did not change."""
        if self._version == version:
            return
        self._extend(size)
        for first, end in self._changed_ranges(connection, size):
            self._read(connection, first, end)
        self._version = version  # last: an interrupted refresh starts over

    def _changed_ranges(self, connection: apsw.Connection, size: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of slots that were written since; the whole space at first."""
        if not self._version:
            yield 0, size
            return
        query = "SELECT chunk FROM item_meta WHERE space = ? AND version > ? ORDER BY chunk"
        for (chunk,) in list(connection.execute(query, (self._no, self._version))):
            yield chunk * CHUNK, min(size, (chunk + 1) * CHUNK)

    def _read(self, connection: apsw.Connection, first: int, end: int) -> None:
        row = self._no << 32
        query = """SELECT row, body -> ?1 FROM item
            WHERE row BETWEEN ?2 AND ?3 AND instr(body, ?4)"""
        values = (self._path, row + first, row + end - 1, self._label)
        self._codes[first:end] = MISSING
        for item_row, text in connection.execute(query, values):
            if text is not None:
                self._codes[item_row & SLOT_BITS] = self._encode(text, self._decode)


def _locate(name: str) -> tuple[str, Callable[[str], Any]]:
    """Return the JSON path of a column, and the function that decodes what is there."""
    if name in FIELDS:
        return f"$.{name[1:]}", _decode_value
    label = property_name(name)
    if codec.to_json(label) == f'"{label}"':
        return f'$.properties."{label}"', _decode_value
    return "$.properties", lambda text: json.loads(text).get(label)  # SQLite's paths lack escapes


def _decode_value(text: str) -> Any:
    """Decode JSON, with a short cut for plain texts, of which a column may have many."""
    if text[0] == '"' and "\\" not in text:
        return text[1:-1]
    return json.loads(text)
