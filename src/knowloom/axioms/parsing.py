"""Axioms from plain data and from items, and items from axioms. What is wrong is said with the field it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowloom.axioms.constraints import (
    CONSTRAINTS,
    OPERATORS,
    VALUE_TYPES,
    as_number,
    as_time,
    comparable_pair,
    compile_pattern,
)
from knowloom.axioms.model import SEVERITIES, TARGET_KINDS, Axiom, AxiomRule, Condition
from knowloom.errors import Invalid, unknown
from knowloom.model import Item, Kind

AXIOM_FIELDS = (
    "id",
    "name",
    "description",
    "target_type",
    "target_kind",
    "rules",
    "severity",
    "category",
    "tags",
    "enabled",
)
RULE_FIELDS = (
    "property",
    "properties",
    "constraint",
    "values",
    "value",
    "min",
    "max",
    "pattern",
    "value_type",
    "when",
    "message",
)
CONDITION_FIELDS = ("property", "operator", "value")
FieldPath = tuple[str | int, ...]
AXIOM_TYPE = "axiom"  # of the items that hold axioms
SECTION = "instructions"
REMEMBERED = 1024  # axioms
LONGEST_REMEMBERED = 5_000  # characters
_remembered: dict[tuple[object, ...], Axiom] = {}


class InvalidAxiom(Invalid):
    """Where in the data the mistake is: ("rules", 0, "pattern")."""

    def __init__(self, path: FieldPath, message: str) -> None:
        super().__init__(f"{format_path(path)}: {message}" if path else message)
        self.path = path


def format_path(path: FieldPath) -> str:
    """rules[0].pattern"""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def parse_axiom(row: Mapping[str, Any], space: str = "") -> Axiom:
    """The axiom that a row of data describes."""
    _check_fields((), row, AXIOM_FIELDS, ("id", "target_type"))
    for name in ("id", "target_type"):
        _require_text((name,), row[name], empty=False)
    for name in ("name", "description", "category"):
        _require_text((name,), row.get(name) or "")
    rules = _require_list(("rules",), row.get("rules", ()))
    tags = _require_list(("tags",), row.get("tags", ()))
    for place, tag in enumerate(tags):
        _require_text(("tags", place), tag, empty=False)
    if not isinstance(row.get("enabled", True), bool):
        raise InvalidAxiom(("enabled",), f"must be true or false, not {row['enabled']!r}")
    return Axiom(
        id=row["id"],
        name=row.get("name") or row["id"],
        target_type=row["target_type"],
        target_kind=_require_choice(
            ("target_kind",), row.get("target_kind", "entity"), TARGET_KINDS
        ),
        description=row.get("description") or "",
        rules=tuple(_parse_rule(("rules", place), one) for place, one in enumerate(rules)),
        severity=_require_choice(("severity",), row.get("severity", "error"), SEVERITIES),
        category=row.get("category") or "",
        tags=tuple(tags),
        enabled=row.get("enabled", True),
        space=space,
    )


def axiom_from_item(item: Item) -> Axiom:
    """The axiom in an item of kind rule: its subject is the type it is about, its text the description. The same rules are asked for in
    request after request: they are remembered by all they say."""
    said = {name: value for name, value in item.properties.items() if name in AXIOM_FIELDS}
    asked = (item.space, item.id, item.subject, item.title, item.text, item.tags, repr(said))
    found = _remembered.get(asked)
    if found is None:
        row = {
            "target_type": item.subject or "",
            "name": item.title,
            "description": item.text,
            "tags": list(item.tags),
        } | said
        found = parse_axiom(row | {"id": item.id}, item.space)
        if _is_cacheable(found):
            if len(_remembered) >= REMEMBERED:
                _remembered.clear()
            _remembered[asked] = found
    return found


def _is_cacheable(one: Axiom) -> bool:
    """Whether nobody can change it: what is remembered must not have lists that a caller could write to."""
    values = [
        value
        for rule in one.rules
        for value in (
            *rule.values,
            rule.value,
            rule.min,
            rule.max,
            rule.when.value if rule.when else None,
        )
    ]
    return (
        all(value is None or isinstance(value, str | int | float) for value in values)
        and len(one.description) <= LONGEST_REMEMBERED
    )


def axiom_to_item(one: Axiom, row: Mapping[str, Any], space: str, source: str) -> Item:
    """The item that keeps an axiom; `row` is the data it was read from, which is kept as it is."""
    kept = {
        "target_kind": one.target_kind,
        "severity": one.severity,
        "category": one.category,
        "rules": list(row.get("rules", ())),
        "enabled": one.enabled,
    }
    text = one.description or describe_rules(one)
    properties = {name: value for name, value in kept.items() if value != ""}
    return Item(
        one.id,
        space,
        Kind.RULE,
        AXIOM_TYPE,
        one.name,
        text,
        properties=properties,
        tags=one.tags,
        section=SECTION,
        subject=one.target_type,
        source=source,
    )


def describe_rules(one: Axiom) -> str:
    """The rules in words, for an axiom without a description."""
    return "; ".join(
        f"{', '.join(rule.properties)}: {rule.message or _describe_constraint(rule)}"
        for rule in one.rules
    )


def _describe_constraint(rule: AxiomRule) -> str:
    detail = {
        "one_of": ", ".join(map(str, rule.values)),
        "not_one_of": ", ".join(map(str, rule.values)),
        "range": f"{'' if rule.min is None else rule.min} to {'' if rule.max is None else rule.max}",
        "cardinality": f"{'' if rule.min is None else rule.min} to {'' if rule.max is None else rule.max}",
        "pattern": rule.pattern,
        "equals": str(rule.value),
        "not_equals": str(rule.value),
        "type_valid": rule.value_type,
    }.get(rule.constraint, "")
    return f"{rule.constraint.replace('_', ' ')} {detail}".strip()


def _parse_rule(path: FieldPath, row: object) -> AxiomRule:
    if not isinstance(row, Mapping):
        raise InvalidAxiom(path, f"a rule must be an object, not {row!r}")
    _check_fields(path, row, RULE_FIELDS, ("constraint",))
    constraint = _require_choice((*path, "constraint"), row["constraint"], CONSTRAINTS)
    names = _parse_properties(path, row)
    _require_text((*path, "message"), row.get("message") or "")
    REQUIREMENTS.get(constraint, _require_nothing)(path, row, names)
    return AxiomRule(
        constraint,
        names,
        values=tuple(row.get("values", ()))
        if isinstance(row.get("values", ()), list | tuple)
        else (),
        value=row.get("value"),
        min=row.get("min"),
        max=row.get("max"),
        pattern=row.get("pattern") or "",
        value_type=row.get("value_type") or "",
        when=_parse_condition((*path, "when"), row["when"])
        if row.get("when") is not None
        else None,
        message=row.get("message") or "",
    )


def _parse_properties(path: FieldPath, row: Mapping[str, Any]) -> tuple[str, ...]:
    if ("property" in row) == ("properties" in row):
        raise InvalidAxiom(path, "a rule needs either `property` or `properties`")
    names = (
        [row["property"]]
        if "property" in row
        else _require_list((*path, "properties"), row["properties"])
    )
    for name in names:
        _require_text((*path, "property" if "property" in row else "properties"), name, empty=False)
    if not names:
        raise InvalidAxiom((*path, "properties"), "must not be empty")
    return tuple(dict.fromkeys(names))


def _parse_condition(path: FieldPath, row: object) -> Condition:
    if not isinstance(row, Mapping):
        raise InvalidAxiom(
            path, f"a condition must be an object with property, operator and value, not {row!r}"
        )
    _check_fields(path, row, CONDITION_FIELDS, ("property", "operator"))
    _require_text((*path, "property"), row["property"], empty=False)
    operator = _require_choice((*path, "operator"), row["operator"], tuple(OPERATORS))
    if operator not in ("exists", "not_exists") and "value" not in row:
        raise InvalidAxiom(path, f"the operator {operator} needs a value")
    if operator in ("in", "not_in"):
        _require_list((*path, "value"), row["value"])
    if operator == "matches":
        _require_pattern((*path, "value"), row["value"])
    return Condition(row["property"], operator, row.get("value"))


def _require_nothing(path: FieldPath, row: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Constraints that need nothing but their properties."""


def _require_values(path: FieldPath, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    if not _require_list((*path, "values"), row.get("values", ())):
        raise InvalidAxiom((*path, "values"), "must name at least one value")


def _require_value(path: FieldPath, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    if "value" not in row:
        raise InvalidAxiom(path, f"{row['constraint']} needs a value")


def _require_bounds(path: FieldPath, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    low, high = row.get("min"), row.get("max")
    if low is None and high is None:
        raise InvalidAxiom(path, "a range needs min or max")
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and as_number(bound) is None and as_time(bound) is None:
            raise InvalidAxiom(
                (*path, name), f"must be a number or a time such as 2026-01-31, not {bound!r}"
            )
    if low is not None and high is not None:
        pair = comparable_pair(low, high)
        if pair is None or pair[0] > pair[1]:
            raise InvalidAxiom((*path, "min"), f"no value can lie between {low!r} and {high!r}")


def _require_counts(path: FieldPath, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    low, high = row.get("min"), row.get("max")
    if low is None and high is None:
        raise InvalidAxiom(path, "a cardinality needs min or max")
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and (
            isinstance(bound, bool) or not isinstance(bound, int) or bound < 0
        ):
            raise InvalidAxiom(
                (*path, name), f"must be a whole number that is not negative, not {bound!r}"
            )
    if low is not None and high is not None and low > high:
        raise InvalidAxiom((*path, "min"), f"no number can lie between {low} and {high}")


def _require_pattern(path: FieldPath, given: object) -> None:
    if not isinstance(given, str) or not given:
        raise InvalidAxiom(path, f"must be a regular expression, not {given!r}")
    try:
        compile_pattern(given)
    except Invalid as error:
        raise InvalidAxiom(path, str(error)) from None


def _require_several(path: FieldPath, row: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if len(names) < 2:
        raise InvalidAxiom(path, f"{row['constraint']} needs at least two `properties`")


def _require_value_type(path: FieldPath, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    _require_choice((*path, "value_type"), row.get("value_type"), tuple(VALUE_TYPES))


REQUIREMENTS: dict[str, Callable[[FieldPath, Mapping[str, Any], tuple[str, ...]], None]] = {
    "one_of": _require_values,
    "not_one_of": _require_values,
    "range": _require_bounds,
    "pattern": lambda path, row, _: _require_pattern((*path, "pattern"), row.get("pattern")),
    "cardinality": _require_counts,
    "not_both": _require_several,
    "requires_together": _require_several,
    "equals": _require_value,
    "not_equals": _require_value,
    "type_valid": _require_value_type,
}


def _check_fields(
    path: FieldPath, row: Mapping[str, Any], known: Sequence[str], needed: Sequence[str]
) -> None:
    for name in row:
        if name not in known:
            raise InvalidAxiom((*path, str(name)), str(unknown("field", name, known)))
    for name in needed:
        if row.get(name) is None:
            raise InvalidAxiom(path, f"{name} is missing")


def _require_choice(path: FieldPath, value: Any, known: Sequence[Any]) -> Any:
    if not isinstance(value, str) or value not in known:
        raise InvalidAxiom(path, str(unknown(str(path[-1]), value, known)))
    return value


def _require_text(path: FieldPath, value: object, empty: bool = True) -> None:
    if not isinstance(value, str) or not (value or empty):
        raise InvalidAxiom(
            path, f"must be a text{'' if empty else ' that is not empty'}, not {value!r}"
        )


def _require_list(path: FieldPath, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidAxiom(path, f"must be a list, not {value!r}")
    return list(value)
