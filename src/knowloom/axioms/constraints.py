"""Tables of constraints and condition operators. Patterns run in RE2, in linear time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import re2

from knowloom import codec
from knowloom.axioms.model import AxiomRule, Condition
from knowloom.caching import cached
from knowloom.errors import Invalid
from knowloom.validation import is_number

PATTERN_MEMORY = 1 << 20  # bytes a compiled pattern may take
MAX_SHOWN = 60  # characters of a value in a message

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = PATTERN_MEMORY


@cached("axiom patterns", 1024)
def compile_pattern(pattern: str) -> Any:
    """Compile an RE2 pattern (no backreferences, no look-around) or raise Invalid."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode() if isinstance(reason, bytes) else reason
        raise Invalid(f"must be an RE2 regular expression, got {pattern!r}: {text}") from None


def matches_pattern(pattern: str, value: Any) -> bool:
    text = value if isinstance(value, str) else codec.to_json(value)
    # RE2 takes twice as long on str, as it translates match positions into characters.
    return compile_pattern(pattern).search(text.encode()) is not None


def has_value(value: Any) -> bool:
    """Return False for None, an empty text, list or object; True for 0 and false."""
    return value is not None and value != "" and value != [] and value != {}


def is_equal(left: Any, right: Any) -> bool:
    """Compare as JSON: 1 equals 1.0, but true does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and left == right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            is_equal(left[name], right[name]) for name in left
        )
    return bool(left == right)


def _is_among(value: Any, values: tuple[Any, ...]) -> bool:
    return any(is_equal(value, other) for other in values)


def as_list(value: Any) -> list[Any]:
    """Return the values of a property that may have several."""
    return list(value) if isinstance(value, list | tuple) else [value]


def abbreviate(value: Any) -> str:
    text = codec.to_json(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def as_number(value: Any) -> float | int | None:
    return value if is_number(value) else None


def as_time(value: Any) -> datetime | None:
    try:
        return codec.text_to_time(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def comparable_pair(value: Any, bound: Any) -> tuple[Any, Any] | None:
    """Return both as numbers or both as times; None if they cannot be compared."""
    for convert in (as_number, as_time):
        left, right = convert(value), convert(bound)
        if left is not None and right is not None:
            return left, right
    return None


def _required(value: Any, _: AxiomRule) -> str:
    return "" if has_value(value) else "is missing"


def _one_of(value: Any, rule: AxiomRule) -> str:
    wrong = [element for element in as_list(value) if not _is_among(element, rule.values)]
    if not wrong:
        return ""
    return f"is {abbreviate(wrong[0])}, not one of {', '.join(map(abbreviate, rule.values))}"


def _not_one_of(value: Any, rule: AxiomRule) -> str:
    wrong = [element for element in as_list(value) if _is_among(element, rule.values)]
    return f"must not be {abbreviate(wrong[0])}" if wrong else ""


def _range(value: Any, rule: AxiomRule) -> str:
    bounds = ((rule.min, operator.lt, "below"), (rule.max, operator.gt, "above"))
    for element in as_list(value):
        for bound, is_outside, side in bounds:
            if bound is None:
                continue
            pair = comparable_pair(element, bound)
            if pair is None:
                return (
                    f"is {abbreviate(element)}, which cannot be compared with {abbreviate(bound)}"
                )
            if is_outside(*pair):
                return f"is {abbreviate(element)}, {side} {abbreviate(bound)}"
    return ""


def _pattern(value: Any, rule: AxiomRule) -> str:
    wrong = [element for element in as_list(value) if not matches_pattern(rule.pattern, element)]
    return f"is {abbreviate(wrong[0])}, which does not match {rule.pattern}" if wrong else ""


def _cardinality(value: Any, rule: AxiomRule) -> str:
    count = len(as_list(value)) if has_value(value) else 0
    if rule.min is not None and count < rule.min:
        return f"has {count} values, fewer than {rule.min}"
    if rule.max is not None and count > rule.max:
        return f"has {count} values, more than {rule.max}"
    return ""


def _equals(value: Any, rule: AxiomRule) -> str:
    if is_equal(value, rule.value):
        return ""
    return f"is {abbreviate(value)}, not {abbreviate(rule.value)}"


def _not_equals(value: Any, rule: AxiomRule) -> str:
    return f"must not be {abbreviate(rule.value)}" if is_equal(value, rule.value) else ""


def _type_valid(value: Any, rule: AxiomRule) -> str:
    if VALUE_TYPES[rule.value_type](value):
        return ""
    return f"is {abbreviate(value)}, which is not of the type {rule.value_type}"


VALUE_TYPES: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: as_number(value) is not None,
    "integer": lambda value: as_number(value) is not None and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "time": lambda value: as_time(value) is not None,
}

# Checks of a single property value; each returns what is wrong, or "".
VALUE_CHECKS: dict[str, Callable[[Any, AxiomRule], str]] = {
    "required": _required,
    "one_of": _one_of,
    "not_one_of": _not_one_of,
    "range": _range,
    "pattern": _pattern,
    "cardinality": _cardinality,
    "equals": _equals,
    "not_equals": _not_equals,
    "type_valid": _type_valid,
}
CHECKED_WHEN_ABSENT = ("required", "cardinality")  # the other checks skip missing values


def _not_both(values: Mapping[str, Any], rule: AxiomRule) -> str:
    present = [name for name in rule.properties if has_value(values.get(name))]
    return f"{' and '.join(present)} must not be given together" if len(present) > 1 else ""


def _requires_together(values: Mapping[str, Any], rule: AxiomRule) -> str:
    absent = [name for name in rule.properties if not has_value(values.get(name))]
    if not absent or len(absent) == len(rule.properties):
        return ""
    present = [name for name in rule.properties if name not in absent]
    return f"{', '.join(absent)} must be given where {', '.join(present)} is"


FACT_CHECKS: dict[str, Callable[[Mapping[str, Any], AxiomRule], str]] = {
    "not_both": _not_both,
    "requires_together": _requires_together,
}
SET_CHECKS = ("unique", "reference_exists")  # need other facts: see AxiomChecker
CONSTRAINTS = tuple(sorted((*VALUE_CHECKS, *FACT_CHECKS, *SET_CHECKS)))


def _comparison(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, bound: Any) -> bool:
        pair = comparable_pair(value, bound)
        return pair is not None and test(*pair)

    return holds


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str) and isinstance(part, str):
        return part in value
    return isinstance(value, list) and _is_among(part, tuple(value))


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": is_equal,
    "not_equals": lambda value, other: not is_equal(value, other),
    "in": lambda value, others: _is_among(value, tuple(others)),
    "not_in": lambda value, others: not _is_among(value, tuple(others)),
    "exists": lambda value, _: has_value(value),
    "not_exists": lambda value, _: not has_value(value),
    "contains": _contains,
    "starts_with": lambda value, start: isinstance(value, str) and value.startswith(str(start)),
    "ends_with": lambda value, end: isinstance(value, str) and value.endswith(str(end)),
    "matches": lambda value, pattern: has_value(value) and matches_pattern(pattern, value),
    "greater_than": _comparison(operator.gt),
    "less_than": _comparison(operator.lt),
    "at_least": _comparison(operator.ge),
    "at_most": _comparison(operator.le),
}


def condition_holds(condition: Condition | None, values: Mapping[str, Any]) -> bool:
    if condition is None:
        return True
    return OPERATORS[condition.operator](values.get(condition.property), condition.value)
