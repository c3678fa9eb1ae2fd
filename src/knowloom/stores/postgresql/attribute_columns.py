"""Columns of properties in memory: which items of a space fulfil a condition."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.caching import TwoGenerationCache
from knowloom.model.condition import FIELDS, ItemCondition, property_name

Mask = npt.NDArray[np.bool_]
Fetch = Callable[..., list[tuple[Any, ...]]]

MAX_COLUMNS = 32  # per space, 4 bytes for each item and the distinct values
MAX_CONDITIONS = 64  # per column, a byte for each distinct value
MISSING = 0  # the code of a missing property
SPARE_VALUES = 10_000  # distinct values beyond the items before a column is read anew
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
        self._no = no
        self._columns: TwoGenerationCache[str, AttributeColumn]
        self._columns = TwoGenerationCache("postgresql properties", MAX_COLUMNS)

    def mask(self, fetch: Fetch, condition: ItemCondition, version: int, size: int) -> Mask:
        """Return the items that fulfil the condition, at this version of the space."""
        column = self._columns.get(condition.name)
        if column is None or len(column.values) > size + SPARE_VALUES:
            column = AttributeColumn(self._no, condition.name)
            self._columns.put(condition.name, column)
        column.refresh(fetch, version, size)
        return column.mask(condition)


class AttributeColumn:
    """The values of one property or field: a code for each item, and the value of each code."""

    def __init__(self, no: int, name: str) -> None:
        self._no = no
        self._version = 0
        self._is_field = name in FIELDS
        self._name = name[1:] if self._is_field else property_name(name)
        self._codes = np.zeros(0, np.int32)
        self.values: list[Any] = [None]
        self._code_of: dict[str, int] = {}
        self._accepted: TwoGenerationCache[ItemCondition, Mask]
        self._accepted = TwoGenerationCache("postgresql conditions", MAX_CONDITIONS)

    def refresh(self, fetch: Fetch, version: int, size: int) -> None:
        """Catch up with the space; free when it did not change."""
        if self._version == version:
            return
        if len(self._codes) < size:
            self._codes = np.append(self._codes, np.zeros(size - len(self._codes), np.int32))
        if self._version:
            rows = fetch(_READ_CHANGED, (self._no, self._version))
        else:
            rows = fetch(_READ_ALL, (self._no, f"{codec.to_json(self._name)}:"))
        for no, attributes in rows:
            self._codes[no] = self._encode(json.loads(attributes))
        self._version = version  # last: an interrupted refresh starts over

    def mask(self, condition: ItemCondition) -> Mask:
        accepted = self._accepted.get(condition)
        done = 0 if accepted is None else len(accepted)
        if accepted is None or done < len(self.values):
            new = [condition.accepts(value) for value in self.values[done:]]
            accepted = np.append(np.zeros(0, np.bool_) if accepted is None else accepted, new)
            accepted = accepted.astype(np.bool_)
            self._accepted.put(condition, accepted)
        mask: Mask = accepted[self._codes]
        return mask

    def _encode(self, attributes: dict[str, Any]) -> int:
        """Return the code of the value of an item."""
        row = attributes if self._is_field else attributes.get("properties", {})
        value = row.get(self._name)
        if value is None:
            return MISSING
        text = codec.to_json(value)  # 1, 1.0 and true are different values
        code = self._code_of.get(text)
        if code is None:
            code = self._code_of[text] = len(self.values)
            self.values.append(value)
        return code
