"""The values of one property in memory: which items fulfil a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from knowloom.caching import TwoGenerationCache
from knowloom.model.condition import ItemCondition

Mask = npt.NDArray[np.bool_]

MAX_COLUMNS = 32  # per space, 4 bytes for each position and the distinct values
MAX_CONDITIONS = 64  # per column, a byte for each distinct value
MISSING = 0  # the code of a missing property
SPARE_VALUES = 10_000  # distinct values beyond the positions before a column is read anew


class CodedColumn:
    """A code for each position, and the value of each code; subclasses read them from a store."""

    def __init__(self) -> None:
        self._version = 0  # of the space when the codes were read, 0 if they never were
        self._codes = np.zeros(0, np.int32)
        self._values: list[Any] = [None]
        self._code_of: dict[str, int] = {}
        self._accepted: TwoGenerationCache[ItemCondition, Mask]
        self._accepted = TwoGenerationCache("property conditions", MAX_CONDITIONS)

    def is_oversized(self, size: int) -> bool:
        """Return True if most values are no longer those of any item."""
        return len(self._values) > size + SPARE_VALUES

    def mask(self, condition: ItemCondition) -> Mask:
        """Return the positions whose items fulfil the condition."""
        accepted = self._accepted.get(condition)
        done = 0 if accepted is None else len(accepted)
        if accepted is None or done < len(self._values):
            new = [condition.accepts(value) for value in self._values[done:]]
            accepted = np.append(np.zeros(0, np.bool_) if accepted is None else accepted, new)
            accepted = accepted.astype(np.bool_)
            self._accepted.put(condition, accepted)
        mask: Mask = accepted[self._codes]
        return mask

    def _extend(self, size: int) -> None:
        if len(self._codes) < size:
            self._codes = np.append(self._codes, np.zeros(size - len(self._codes), np.int32))

    def _encode(self, text: str, decode: Callable[[str], Any]) -> int:
        """Return the code of a value that is stored as this text."""
        code = self._code_of.get(text)
        if code is None:
            value = decode(text)
            code = MISSING
            if value is not None:
                code = len(self._values)
                self._values.append(value)
            self._code_of[text] = code
        return code


C = TypeVar("C", bound=CodedColumn)


class ColumnCache(Generic[C]):
    """The columns of one space, created when a filter first names them."""

    def __init__(self, create: Callable[[str], C]) -> None:
        self._create = create
        self._columns: TwoGenerationCache[str, C]
        self._columns = TwoGenerationCache("properties", MAX_COLUMNS)

    def get(self, name: str, size: int) -> C:
        """Return the column of a property in a space of `size` positions."""
        column = self._columns.get(name)
        if column is None or column.is_oversized(size):
            column = self._create(name)
            self._columns.put(name, column)
        return column
