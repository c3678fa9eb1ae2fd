"""Parse front matter: YAML between two lines of dashes, without aliases or deep nesting."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import yaml

from knowloom import codec
from knowloom.errors import Invalid

MAX_LENGTH = 64_000  # characters
MAX_DEPTH = 16
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter, "" without one, and the page with empty lines in its place."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return "", text
    return match[1], "\n" * match[0].count("\n") + text[match.end() :]


def parse_front_matter(text: str) -> dict[str, Any]:
    """Return the values as plain JSON. Aliases are rejected: a few can expand to gigabytes."""
    if len(text) > MAX_LENGTH:
        raise Invalid(f"must have <= {MAX_LENGTH:,} characters, got {len(text):,}")
    try:
        _check_events(text)
        values = yaml.load(text, _Loader)
    # ValueError: a date such as 2026-02-30; TypeError: a key that is a list.
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise Invalid(f"not YAML: {_summarise(error)}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise Invalid(f"must be names with values, got {type(values).__name__}")
    return {str(name): _to_json(value) for name, value in values.items()}


def _check_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        line = event.start_mark.line + 2 if event.start_mark else 1  # of the page
        if isinstance(event, yaml.AliasEvent):
            raise Invalid(f"line {line}: aliases (*{event.anchor}) are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Invalid(f"line {line}: nested more than {MAX_DEPTH} deep")


def _summarise(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 2} column {mark.column + 1}: {problem}"


def _to_json(value: object) -> object:
    """Return the value as JSON: times as ISO 8601, other types that JSON lacks as text."""
    if isinstance(value, Mapping):
        return {str(name): _to_json(inner) for name, inner in value.items()}
    if isinstance(value, set):
        return [_to_json(inner) for inner in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [_to_json(inner) for inner in value]
    if isinstance(value, datetime):
        return codec.time_to_text(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
