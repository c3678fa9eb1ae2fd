"""Axioms from plain data and from items, and items from axioms. What is wrong is said with the field it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowloom.axioms.constraints import (
    CONSTRAINTS,
    OPERATORS,
    VALUE_TYPES,
    comparable,
    compiled,
    moment,
    number,
)
from knowloom.axioms.model import SEVERITIES, TARGET_KINDS, Axiom, Condition, Rule
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
Path = tuple[str | int, ...]
TYPE = "axiom"  # of the items that hold axioms
SECTION = "instructions"
REMEMBERED = 1024  # axioms
LONGEST_REMEMBERED = 5_000  # characters
_remembered: dict[tuple[object, ...], Axiom] = {}


class Wrong(Invalid):
    """Where in the data the mistake is: ("rules", 0, "pattern")."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{dotted(path)}: {message}" if path else message)
        self.path = path


def dotted(path: Path) -> str:
    """rules[0].pattern"""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def axiom(row: Mapping[str, Any], space: str = "") -> Axiom:
    """The axiom that a row of data describes."""
    _known((), row, AXIOM_FIELDS, ("id", "target_type"))
    for name in ("id", "target_type"):
        _text((name,), row[name], empty=False)
    for name in ("name", "description", "category"):
        _text((name,), row.get(name) or "")
    rules = _list(("rules",), row.get("rules", ()))
    tags = _list(("tags",), row.get("tags", ()))
    for place, tag in enumerate(tags):
        _text(("tags", place), tag, empty=False)
    if not isinstance(row.get("enabled", True), bool):
        raise Wrong(("enabled",), f"must be true or false, not {row['enabled']!r}")
    return Axiom(
        id=row["id"],
        name=row.get("name") or row["id"],
        target_type=row["target_type"],
        target_kind=_choice(("target_kind",), row.get("target_kind", "entity"), TARGET_KINDS),
        description=row.get("description") or "",
        rules=tuple(_rule(("rules", place), one) for place, one in enumerate(rules)),
        severity=_choice(("severity",), row.get("severity", "error"), SEVERITIES),
        category=row.get("category") or "",
        tags=tuple(tags),
        enabled=row.get("enabled", True),
        space=space,
    )


def from_item(item: Item) -> Axiom:
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
        found = axiom(row | {"id": item.id}, item.space)
        if _lasting(found):
            if len(_remembered) >= REMEMBERED:
                _remembered.clear()
            _remembered[asked] = found
    return found


def _lasting(one: Axiom) -> bool:
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


def to_item(one: Axiom, row: Mapping[str, Any], space: str, source: str) -> Item:
    """The item that keeps an axiom; `row` is the data it was read from, which is kept as it is."""
    kept = {
        "target_kind": one.target_kind,
        "severity": one.severity,
        "category": one.category,
        "rules": list(row.get("rules", ())),
        "enabled": one.enabled,
    }
    text = one.description or described(one)
    properties = {name: value for name, value in kept.items() if value != ""}
    return Item(
        one.id,
        space,
        Kind.RULE,
        TYPE,
        one.name,
        text,
        properties=properties,
        tags=one.tags,
        section=SECTION,
        subject=one.target_type,
        source=source,
    )


def described(one: Axiom) -> str:
    """The rules in words, for an axiom without a description."""
    return "; ".join(
        f"{', '.join(rule.properties)}: {rule.message or _asked(rule)}" for rule in one.rules
    )


def _asked(rule: Rule) -> str:
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


def _rule(path: Path, row: object) -> Rule:
    if not isinstance(row, Mapping):
        raise Wrong(path, f"a rule must be an object, not {row!r}")
    _known(path, row, RULE_FIELDS, ("constraint",))
    constraint = _choice((*path, "constraint"), row["constraint"], CONSTRAINTS)
    names = _properties(path, row)
    _text((*path, "message"), row.get("message") or "")
    NEEDED.get(constraint, _nothing)(path, row, names)
    return Rule(
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
        when=_condition((*path, "when"), row["when"]) if row.get("when") is not None else None,
        message=row.get("message") or "",
    )


def _properties(path: Path, row: Mapping[str, Any]) -> tuple[str, ...]:
    if ("property" in row) == ("properties" in row):
        raise Wrong(path, "a rule needs either `property` or `properties`")
    names = (
        [row["property"]] if "property" in row else _list((*path, "properties"), row["properties"])
    )
    for name in names:
        _text((*path, "property" if "property" in row else "properties"), name, empty=False)
    if not names:
        raise Wrong((*path, "properties"), "must not be empty")
    return tuple(dict.fromkeys(names))


def _condition(path: Path, row: object) -> Condition:
    if not isinstance(row, Mapping):
        raise Wrong(
            path, f"a condition must be an object with property, operator and value, not {row!r}"
        )
    _known(path, row, CONDITION_FIELDS, ("property", "operator"))
    _text((*path, "property"), row["property"], empty=False)
    operator = _choice((*path, "operator"), row["operator"], tuple(OPERATORS))
    if operator not in ("exists", "not_exists") and "value" not in row:
        raise Wrong(path, f"the operator {operator} needs a value")
    if operator in ("in", "not_in"):
        _list((*path, "value"), row["value"])
    if operator == "matches":
        _regex((*path, "value"), row["value"])
    return Condition(row["property"], operator, row.get("value"))


def _nothing(path: Path, row: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Constraints that need nothing but their properties."""


def _values(path: Path, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    if not _list((*path, "values"), row.get("values", ())):
        raise Wrong((*path, "values"), "must name at least one value")


def _value(path: Path, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    if "value" not in row:
        raise Wrong(path, f"{row['constraint']} needs a value")


def _bounds(path: Path, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    low, high = row.get("min"), row.get("max")
    if low is None and high is None:
        raise Wrong(path, "a range needs min or max")
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and number(bound) is None and moment(bound) is None:
            raise Wrong(
                (*path, name), f"must be a number or a time such as 2026-01-31, not {bound!r}"
            )
    if low is not None and high is not None:
        pair = comparable(low, high)
        if pair is None or pair[0] > pair[1]:
            raise Wrong((*path, "min"), f"no value can lie between {low!r} and {high!r}")


def _counts(path: Path, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    low, high = row.get("min"), row.get("max")
    if low is None and high is None:
        raise Wrong(path, "a cardinality needs min or max")
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and (
            isinstance(bound, bool) or not isinstance(bound, int) or bound < 0
        ):
            raise Wrong(
                (*path, name), f"must be a whole number that is not negative, not {bound!r}"
            )
    if low is not None and high is not None and low > high:
        raise Wrong((*path, "min"), f"no number can lie between {low} and {high}")


def _regex(path: Path, given: object) -> None:
    if not isinstance(given, str) or not given:
        raise Wrong(path, f"must be a regular expression, not {given!r}")
    try:
        compiled(given)
    except Invalid as error:
        raise Wrong(path, str(error)) from None


def _several(path: Path, row: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if len(names) < 2:
        raise Wrong(path, f"{row['constraint']} needs at least two `properties`")


def _value_type(path: Path, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    _choice((*path, "value_type"), row.get("value_type"), tuple(VALUE_TYPES))


NEEDED: dict[str, Callable[[Path, Mapping[str, Any], tuple[str, ...]], None]] = {
    "one_of": _values,
    "not_one_of": _values,
    "range": _bounds,
    "pattern": lambda path, row, _: _regex((*path, "pattern"), row.get("pattern")),
    "cardinality": _counts,
    "not_both": _several,
    "requires_together": _several,
    "equals": _value,
    "not_equals": _value,
    "type_valid": _value_type,
}


def _known(path: Path, row: Mapping[str, Any], known: Sequence[str], needed: Sequence[str]) -> None:
    for name in row:
        if name not in known:
            raise Wrong((*path, str(name)), str(unknown("field", name, known)))
    for name in needed:
        if row.get(name) is None:
            raise Wrong(path, f"{name} is missing")


def _choice(path: Path, value: Any, known: Sequence[Any]) -> Any:
    if not isinstance(value, str) or value not in known:
        raise Wrong(path, str(unknown(str(path[-1]), value, known)))
    return value


def _text(path: Path, value: object, empty: bool = True) -> None:
    if not isinstance(value, str) or not (value or empty):
        raise Wrong(path, f"must be a text{'' if empty else ' that is not empty'}, not {value!r}")


def _list(path: Path, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Wrong(path, f"must be a list, not {value!r}")
    return list(value)
