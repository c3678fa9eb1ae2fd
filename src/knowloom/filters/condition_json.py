"""Conditions as JSON, both directions, and their validation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from knowloom.errors import Invalid, unknown_name
from knowloom.model.condition import FIELDS, OPERATORS, ItemCondition, Operator, Scalar

WhereArgument = Mapping[str, Any] | Sequence[ItemCondition | Mapping[str, Any]] | None
"""Conditions that must all hold: JSON such as {"price": {"$gte": 10}}, or ItemCondition values."""

MAX_CONDITIONS = 100
MAX_VALUES = 1000  # of one condition
MAX_NAME = 500  # characters of the name of a property
MAX_VALUE = 10_000  # characters of a text
MAX_NUMBER = 10**300
EXAMPLE = '{"price": {"$gte": 10}, "team": "sales"}'
LISTS = ("$in", "$any", "$prefix")  # operators that take several values

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


def validate_where(value: object) -> tuple[ItemCondition, ...]:
    """Return the conditions of an argument, or raise Invalid; None is no condition."""
    if value is None or value == ():
        return ()
    if isinstance(value, Mapping):
        conditions = _parse_object(value)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        conditions = [condition for part in value for condition in _parse_part(part)]
    else:
        raise Invalid(f"where must be an object such as {EXAMPLE}, got {_show(value)}")
    if len(conditions) > MAX_CONDITIONS:
        count = len(conditions)
        raise Invalid(f"where must have at most {MAX_CONDITIONS} conditions, got {count:,}")
    return tuple(conditions)


def where_to_json(where: Sequence[ItemCondition]) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the conditions as an object, or as a list if two have one name and operator."""
    rows: list[dict[str, Any]] = []
    for condition in where:
        row = next((row for row in rows if _has_room(row, condition)), None)
        if row is None:
            row = {}
            rows.append(row)
        operators = row.setdefault(condition.name, {})
        values = list(condition.values)
        operators[condition.operator] = values if condition.operator in LISTS else values[0]
    return rows[0] if len(rows) == 1 else rows


def _has_room(row: Mapping[str, Any], condition: ItemCondition) -> bool:
    return condition.operator not in row.get(condition.name, {})


def _parse_part(part: object) -> list[ItemCondition]:
    if isinstance(part, Mapping):
        return _parse_object(part)
    if not isinstance(part, ItemCondition):
        raise Invalid(f"where must be an object such as {EXAMPLE}, got {_show(part)} in it")
    return [_build_condition(part.name, part.operator, part.values)]


def _parse_object(row: Mapping[Any, Any]) -> list[ItemCondition]:
    conditions = []
    for name, value in row.items():
        operators = value if isinstance(value, Mapping) else {"$eq": value}
        if not operators:
            allowed = ", ".join(OPERATORS)
            raise Invalid(f"where: {_show(name)} needs an operator; available: {allowed}")
        for operator, operand in operators.items():
            conditions.append(_parse_operand(name, operator, operand))
    return conditions


def _parse_operand(name: object, operator: object, operand: object) -> ItemCondition:
    if operator not in OPERATORS:
        raise unknown_name(f"operator of {_show(name)} in where:", operator, OPERATORS)
    if isinstance(operand, list | tuple):
        if operator not in LISTS:
            rule = "one value, not a list; use $in or $any"
            raise Invalid(f"where: {operator} of {_show(name)} must be {rule}")
        return _build_condition(name, operator, operand)
    if operator in ("$in", "$any"):
        raise Invalid(f"where: {operator} of {_show(name)} must be a list, got {_show(operand)}")
    return _build_condition(name, operator, [operand])


def _build_condition(name: object, operator: object, values: Sequence[object]) -> ItemCondition:
    """Return the condition after checks of its name, of its operator and of each value."""
    valid = _validate_name(name)
    if operator not in OPERATORS:
        raise unknown_name(f"operator of {_show(name)} in where:", operator, OPERATORS)
    chosen: Operator = operator
    where = f"where: {chosen} of {valid!r}"
    if len(values) > MAX_VALUES:
        raise Invalid(f"{where} must have at most {MAX_VALUES:,} values, got {len(values):,}")
    if chosen not in LISTS and len(values) != 1:
        raise Invalid(f"{where} must have one value, got {len(values)}")
    return ItemCondition(
        valid, chosen, tuple(_validate_value(where, chosen, value) for value in values)
    )


def _validate_name(name: object) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME or _UNSTORABLE.search(name):
        rule = f"storable text of at most {MAX_NAME} characters"
        raise Invalid(f"where: a name must be {rule}, got {_show(name)}")
    if name.startswith("$") and not name.startswith("$$") and name not in FIELDS:
        error = unknown_name("field in where:", name, FIELDS)
        raise Invalid(f"{error}; the property {name!r} is written {'$' + name!r}")
    return name


def _validate_value(where: str, operator: Operator, value: object) -> Scalar:
    if operator == "$exists" and not isinstance(value, bool):
        raise Invalid(f"{where} must be true or false, got {_show(value)}")
    if not isinstance(value, get_args(Scalar)):
        rule = "must be text, a number, true, false or null"
        raise Invalid(f"{where} {rule}, got {_show(value)}; write dates as ISO 8601 text")
    if operator == "$prefix" and not isinstance(value, str):
        raise Invalid(f"{where} must be text, got {_show(value)}")
    if operator in ("$gt", "$gte", "$lt", "$lte") and isinstance(value, bool | None):
        raise Invalid(f"{where} must be text or a number, got {_show(value)}")
    if isinstance(value, str) and (len(value) > MAX_VALUE or _UNSTORABLE.search(value)):
        rule = f"must be storable text of at most {MAX_VALUE:,} characters"
        raise Invalid(f"{where} {rule}, got {_show(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{where} must be a finite number, got {value!r}")
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise Invalid(f"{where} must be a number from -1e300 to 1e300, got a larger one")
    scalar: Any = value
    return scalar  # type: ignore[no-any-return]


def _show(value: object) -> str:
    try:
        return repr(value)[:80]
    except (ValueError, RecursionError):  # an integer of thousands of digits, a deep list
        return "an enormous value"
