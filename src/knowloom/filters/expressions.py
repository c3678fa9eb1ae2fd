"""Conditions as text, for command lines and query parameters: `price>=10`, `team in a,b`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from knowloom.errors import Invalid
from knowloom.filters.condition_json import validate_where
from knowloom.model.condition import ItemCondition

FORMS = "NAME=VALUE, NAME>=VALUE (also >, <=, <), NAME^=PREFIX, 'NAME in A,B', 'NAME any A,B', "
FORMS += "'NAME exists', 'NAME missing' or a JSON object"
SYMBOLS = {"=": "$eq", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte", "^=": "$prefix"}

_COMPARISON = re.compile(
    r"(?P<name>[^=<>^!~]+?)\s*(?P<symbol>>=|<=|\^=|=|>|<)(?!=)\s*(?P<value>.*)", re.S
)
_MEMBERSHIP = re.compile(r"(?P<name>[^=<>^!~]+?)\s+(?P<operator>in|any)\s+(?P<values>.+)", re.S)
_EXISTENCE = re.compile(r"(?P<name>[^=<>^!~]+?)\s+(?P<word>exists|missing)\s*", re.S)


def parse_expressions(texts: Iterable[str]) -> tuple[ItemCondition, ...]:
    """Return the conditions of all texts, which must all hold."""
    return tuple(condition for text in texts for condition in parse_expression(text))


def parse_expression(text: str) -> tuple[ItemCondition, ...]:
    """Return the conditions of a text. Values are decoded if they are JSON, and text otherwise.

    Names that contain an operator need the JSON form.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            return validate_where(json.loads(stripped))
        except (ValueError, RecursionError):
            raise Invalid(f"where: not JSON: {text[:80]!r}") from None
    if match := _EXISTENCE.fullmatch(stripped):
        return validate_where({match["name"]: {"$exists": match["word"] == "exists"}})
    if match := _MEMBERSHIP.fullmatch(stripped):
        return validate_where({match["name"]: {f"${match['operator']}": _list(match["values"])}})
    if match := _COMPARISON.fullmatch(stripped):
        operator, value = SYMBOLS[match["symbol"]], match["value"]
        operand = _text(value) if operator == "$prefix" else _scalar(value)
        return validate_where({match["name"]: {operator: operand}})
    raise Invalid(f"where must have the form {FORMS}, got {text[:80]!r}")


def _list(text: str) -> object:
    if text.startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Invalid(f"where: not a list in JSON: {text[:80]!r}") from None
    return [_scalar(part.strip()) for part in text.split(",")]


def _text(value: str) -> object:
    """Return a text in quotes without them, and any other as it is."""
    return _scalar(value) if value.startswith('"') else value


def _scalar(value: str) -> object:
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(decoded, list | dict) else decoded
