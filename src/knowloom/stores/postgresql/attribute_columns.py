"""Columns of properties in memory: which items of a space fulfil a condition."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from knowloom import codec
from knowloom.columns.coded_column import MISSING, CodedColumn, ColumnCache, Mask
from knowloom.model.condition import FIELDS, ItemCondition, property_name

Fetch = Callable[..., list[tuple[Any, ...]]]

# The text of the name is a necessary condition that spares most of the JSON. Changed items are
# read without it: a property may have gone.
_READ_ALL = """SELECT no, attributes FROM item
    WHERE space = %s AND position(%s IN attributes) > 0"""
_READ_CHANGED = """SELECT item.no, item.attributes FROM record
    JOIN item ON item.space = record.space AND item.no = record.no
    WHERE record.space = %s AND record.version > %s"""


class AttributeColumns:
    """The columns of one space, read when a filter first names them."""

    def __init__(self, no: int) -> None:
        self._columns = ColumnCache(lambda name: AttributeColumn(no, name))

    def mask(self, fetch: Fetch, condition: ItemCondition, version: int, size: int) -> Mask:
        """Return the items that fulfil the condition, at this version of the space."""
        column = self._columns.get(condition.name, size)
        column.refresh(fetch, version, size)
        return column.mask(condition)


class AttributeColumn(CodedColumn):
    """The values of one property or field by the number of the item."""

    def __init__(self, no: int, name: str) -> None:
        super().__init__()
        self._no = no
        self._is_field = name in FIELDS
        self._name = name[1:] if self._is_field else property_name(name)

    def refresh(self, fetch: Fetch, version: int, size: int) -> None:
        """Catch up with the space; free when it did not change."""
        if self._version == version:
            return
        self._extend(size)
        if self._version:
            rows = fetch(_READ_CHANGED, (self._no, self._version))
        else:
            rows = fetch(_READ_ALL, (self._no, f"{codec.to_json(self._name)}:"))
        for no, attributes in rows:
            self._codes[no] = self._encode_value(json.loads(attributes))
        self._version = version  # last: an interrupted refresh starts over

    def _encode_value(self, attributes: dict[str, Any]) -> int:
        """Return the code of the value of an item; 1, 1.0 and true are different values."""
        row = attributes if self._is_field else attributes.get("properties", {})
        value = row.get(self._name)
        return MISSING if value is None else self._encode(codec.to_json(value), lambda _: value)
