"""Parse axioms from plain data and from items, and turn axioms into items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
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
from knowloom.caching import TwoGenerationCache
from knowloom.errors import Invalid, unknown_name
from knowloom.model import Item, Kind
from knowloom.validation import is_int

AXIOM_FIELDS = tuple(field.name for field in fields(Axiom) if field.name != "space")
RULE_FIELDS = ("property", *(field.name for field in fields(AxiomRule)))
CONDITION_FIELDS = tuple(field.name for field in fields(Condition))
FieldPath = tuple[str | int, ...]
AXIOM_TYPE = "axiom"  # the type of items that store axioms
SECTION = "instructions"
MAX_CACHED = 1024  # axioms
MAX_CACHED_LENGTH = 5_000  # characters of a description
_cache: TwoGenerationCache[tuple[object, ...], Axiom] = TwoGenerationCache("axioms", MAX_CACHED)


class InvalidAxiom(Invalid):
    """A mistake in the data of an axiom; `path` locates it: ("rules", 0, "pattern")."""

    def __init__(self, path: FieldPath, message: str) -> None:
        super().__init__(f"{format_path(path)}: {message}" if path else message)
        self.path = path


def format_path(path: FieldPath) -> str:
    """Return a path as text: rules[0].pattern."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def parse_axiom(row: Mapping[str, Any], space: str = "") -> Axiom:
    """Parse an axiom from a JSON-like object; raise InvalidAxiom with the path of a mistake."""
    _check_fields((), row, AXIOM_FIELDS, ("id", "target_type"))
    for name in ("id", "target_type"):
        _require_text((name,), row[name], empty=False)
    for name in ("name", "description", "category"):
        _require_text((name,), row.get(name) or "")
    rules = _require_list(("rules",), row.get("rules", ()))
    tags = _require_list(("tags",), row.get("tags", ()))
    for number, tag in enumerate(tags):
        _require_text(("tags", number), tag, empty=False)
    if not isinstance(row.get("enabled", True), bool):
        raise InvalidAxiom(("enabled",), f"must be true or false, got {row['enabled']!r}")
    return Axiom(
        id=row["id"],
        name=row.get("name") or row["id"],
        target_type=row["target_type"],
        target_kind=_require_choice(
            ("target_kind",), row.get("target_kind", "entity"), TARGET_KINDS
        ),
        description=row.get("description") or "",
        rules=tuple(_parse_rule(("rules", number), rule) for number, rule in enumerate(rules)),
        severity=_require_choice(("severity",), row.get("severity", "error"), SEVERITIES),
        category=row.get("category") or "",
        tags=tuple(tags),
        enabled=row.get("enabled", True),
        space=space,
    )


def axiom_from_item(item: Item) -> Axiom:
    """Parse the axiom in an item of kind rule: its subject is the target type, its text the
    description. Cached by content, as requests read the same rules again and again."""
    properties = {k: v for k, v in item.properties.items() if k in AXIOM_FIELDS}
    key = (item.space, item.id, item.subject, item.title, item.text, item.tags, repr(properties))
    axiom = _cache.get(key)
    if axiom is None:
        row = {
            "target_type": item.subject or "",
            "name": item.title,
            "description": item.text,
            "tags": list(item.tags),
        } | properties
        axiom = parse_axiom(row | {"id": item.id}, item.space)
        if _is_cacheable(axiom):
            _cache.put(key, axiom)
    return axiom


def _is_cacheable(axiom: Axiom) -> bool:
    """Return True if the axiom is short and immutable: a caller could write to a list in it."""
    values = (
        value
        for rule in axiom.rules
        for value in (
            *rule.values,
            rule.value,
            rule.min,
            rule.max,
            rule.when.value if rule.when else None,
        )
    )
    return len(axiom.description) <= MAX_CACHED_LENGTH and all(
        value is None or isinstance(value, str | int | float) for value in values
    )


def axiom_to_item(axiom: Axiom, row: Mapping[str, Any], space: str, source: str) -> Item:
    """Return the item that stores an axiom; the rules are stored as they are in `row`."""
    properties = {
        "target_kind": axiom.target_kind,
        "severity": axiom.severity,
        "category": axiom.category,
        "rules": list(row.get("rules", ())),
        "enabled": axiom.enabled,
    }
    return Item(
        axiom.id,
        space,
        Kind.RULE,
        AXIOM_TYPE,
        axiom.name,
        axiom.description or describe_rules(axiom),
        properties={name: value for name, value in properties.items() if value != ""},
        tags=axiom.tags,
        section=SECTION,
        subject=axiom.target_type,
        source=source,
    )


def describe_rules(axiom: Axiom) -> str:
    """Return the rules in words, for an axiom without a description."""
    return "; ".join(
        f"{', '.join(rule.properties)}: {rule.message or _describe_constraint(rule)}"
        for rule in axiom.rules
    )


def _describe_constraint(rule: AxiomRule) -> str:
    values = ", ".join(map(str, rule.values))
    low, high = ("" if bound is None else bound for bound in (rule.min, rule.max))
    detail = {
        "one_of": values,
        "not_one_of": values,
        "range": f"{low} to {high}",
        "cardinality": f"{low} to {high}",
        "pattern": rule.pattern,
        "equals": str(rule.value),
        "not_equals": str(rule.value),
        "type_valid": rule.value_type,
    }.get(rule.constraint, "")
    return f"{rule.constraint.replace('_', ' ')} {detail}".strip()


def _parse_rule(path: FieldPath, row: object) -> AxiomRule:
    if not isinstance(row, Mapping):
        raise InvalidAxiom(path, f"a rule must be an object, got {row!r}")
    _check_fields(path, row, RULE_FIELDS, ("constraint",))
    constraint = _require_choice((*path, "constraint"), row["constraint"], CONSTRAINTS)
    names = _parse_properties(path, row)
    _require_text((*path, "message"), row.get("message") or "")
    REQUIREMENTS.get(constraint, _require_nothing)(path, row, names)
    values, when = row.get("values", ()), row.get("when")
    return AxiomRule(
        constraint,
        names,
        values=tuple(values) if isinstance(values, list | tuple) else (),
        value=row.get("value"),
        min=row.get("min"),
        max=row.get("max"),
        pattern=row.get("pattern") or "",
        value_type=row.get("value_type") or "",
        when=None if when is None else _parse_condition((*path, "when"), when),
        message=row.get("message") or "",
    )


def _parse_properties(path: FieldPath, row: Mapping[str, Any]) -> tuple[str, ...]:
    if ("property" in row) == ("properties" in row):
        raise InvalidAxiom(path, "a rule needs either `property` or `properties`")
    field = "property" if "property" in row else "properties"
    names = [row[field]] if field == "property" else _require_list((*path, field), row[field])
    for name in names:
        _require_text((*path, field), name, empty=False)
    if not names:
        raise InvalidAxiom((*path, "properties"), "must not be empty")
    return tuple(dict.fromkeys(names))


def _parse_condition(path: FieldPath, row: object) -> Condition:
    if not isinstance(row, Mapping):
        raise InvalidAxiom(
            path, f"a condition must be an object with property, operator and value, got {row!r}"
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
    """Accept a constraint that needs only its properties."""


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
                (*path, name), f"must be a number or a time such as 2026-01-31, got {bound!r}"
            )
    if low is not None and high is not None:
        pair = comparable_pair(low, high)
        if pair is None or pair[0] > pair[1]:
            raise InvalidAxiom((*path, "min"), f"no value lies between {low!r} and {high!r}")


def _require_counts(path: FieldPath, row: Mapping[str, Any], _: tuple[str, ...]) -> None:
    low, high = row.get("min"), row.get("max")
    if low is None and high is None:
        raise InvalidAxiom(path, "a cardinality needs min or max")
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and not (is_int(bound) and bound >= 0):
            raise InvalidAxiom((*path, name), f"must be an integer >= 0, got {bound!r}")
    if low is not None and high is not None and low > high:
        raise InvalidAxiom((*path, "min"), f"no number lies between {low} and {high}")


def _require_pattern(path: FieldPath, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidAxiom(path, f"must be a regular expression, got {value!r}")
    try:
        compile_pattern(value)
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
    path: FieldPath, row: Mapping[str, Any], allowed: Sequence[str], required: Sequence[str]
) -> None:
    for name in row:
        if name not in allowed:
            raise InvalidAxiom((*path, str(name)), str(unknown_name("field", name, allowed)))
    for name in required:
        if row.get(name) is None:
            raise InvalidAxiom(path, f"{name} is missing")


def _require_choice(path: FieldPath, value: Any, choices: Sequence[Any]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise InvalidAxiom(path, str(unknown_name(str(path[-1]), value, choices)))
    return value


def _require_text(path: FieldPath, value: object, empty: bool = True) -> None:
    if not isinstance(value, str) or not (value or empty):
        raise InvalidAxiom(path, f"must be a {'' if empty else 'non-empty '}text, got {value!r}")


def _require_list(path: FieldPath, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidAxiom(path, f"must be a list, got {value!r}")
    return list(value)
