"""Conditions on the properties and fields of items: an operator and the values it compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from reprlib import Repr
from typing import Any, Literal, cast, get_args

from knowloom.model.item import Item

Scalar = str | int | float | bool | None
Operator = Literal["$eq", "$in", "$any", "$gt", "$gte", "$lt", "$lte", "$prefix", "$exists"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)
FIELDS = ("$source", "$subject", "$tags", "$type")
"""The fields of items that conditions can name; all other names are those of properties."""

_ScalarKey = tuple[str, Scalar]
_KINDS = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "nothing"}
_SHOWN_VALUES = 5  # of a list, in a reason
_shorten = Repr()
_shorten.maxstring = _shorten.maxother = _shorten.maxlong = 60


@dataclass(frozen=True, slots=True)
class ItemCondition:
    """A condition on a property, or on a field of FIELDS. "$$a" names the property "$a".

    Values match within their JSON type: 1 equals 1.0, but neither true nor "1". None is a missing
    property, which no other value matches; a property that is null counts as missing.
    """

    name: str
    operator: Operator
    values: tuple[Scalar, ...]
    # Part of the comparison of conditions: True and 1 are equal in Python.
    _keys: frozenset[_ScalarKey] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", frozenset(map(_scalar_key, self.values)))

    def matches(self, item: Item) -> bool:
        return self.accepts(read_value(item, self.name))

    def accepts(self, value: object) -> bool:
        """Return True if a property with this value fulfils the condition; None is missing."""
        return _TESTS[self.operator](self, value)

    def rejection_reason(self, item: Item) -> str:
        """Return why the item does not fulfil the condition; "" if it does."""
        value = read_value(item, self.name)
        if self.accepts(value):
            return ""
        name = self.name.removeprefix("$") if self.name in FIELDS else _property_label(self.name)
        if value is None:
            return f"{name} is missing"
        if self.operator == "$exists":
            return f"{name} exists"
        return f"{name} is {_shorten.repr(value)}, {_PHRASES[self.operator]} {self._show_values()}"

    def _show_values(self) -> str:
        shown = [_shorten.repr(value) for value in self.values[:_SHOWN_VALUES]]
        more = [] if len(self.values) <= _SHOWN_VALUES else ["…"]
        return ", ".join(shown + more) or "no value"

    def _is_listed(self, value: object) -> bool:
        return _is_scalar(value) and _scalar_key(value) in self._keys

    def _has_any(self, value: object) -> bool:
        if isinstance(value, list | tuple):
            return any(element is not None and self._is_listed(element) for element in value)
        return self._is_listed(value)

    def _has_prefix(self, value: object) -> bool:
        return isinstance(value, str) and value.startswith(cast(tuple[str, ...], self.values))

    def _exists(self, value: object) -> bool:
        return (value is not None) == self.values[0]


def read_value(item: Item, name: str) -> Any:
    """Return the value of a property or field; None if it is missing."""
    if name not in FIELDS:
        return item.properties.get(property_name(name))
    value = getattr(item, name[1:])
    return value if value or name in ("$source", "$subject") else None  # no type, no tags


def property_name(name: str) -> str:
    """Return the property that a condition names."""
    return name[1:] if name.startswith("$$") else name


def _property_label(name: str) -> str:
    return f"property {property_name(name)!r}"


def _is_scalar(value: object) -> bool:
    return type(value) in _KINDS


def _scalar_key(value: Any) -> _ScalarKey:
    return _KINDS[type(value)], value


def _compares(test: Callable[[Any, Any], bool]) -> Callable[[ItemCondition, object], bool]:
    """Return the test of a range: only numbers, or only texts, have an order."""

    def compare(condition: ItemCondition, value: object) -> bool:
        bound = condition.values[0]
        kind = _KINDS.get(type(value))
        return kind in ("number", "text") and kind == _KINDS[type(bound)] and test(value, bound)

    return compare


_TESTS: Mapping[Operator, Callable[[ItemCondition, object], bool]] = {
    "$eq": ItemCondition._is_listed,
    "$in": ItemCondition._is_listed,
    "$any": ItemCondition._has_any,
    "$gt": _compares(lambda value, bound: value > bound),
    "$gte": _compares(lambda value, bound: value >= bound),
    "$lt": _compares(lambda value, bound: value < bound),
    "$lte": _compares(lambda value, bound: value <= bound),
    "$prefix": ItemCondition._has_prefix,
    "$exists": ItemCondition._exists,
}
_PHRASES: Mapping[Operator, str] = {
    "$eq": "not",
    "$in": "not one of",
    "$any": "with none of",
    "$gt": "not >",
    "$gte": "not >=",
    "$lt": "not <",
    "$lte": "not <=",
    "$prefix": "which does not start with",
    "$exists": "",
}
