"""The front matter of a page: YAML between two lines of dashes, read without what YAML can do to its reader."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import yaml

from knowloom import codec
from knowloom.errors import Invalid

MAX_FRONT = 64_000  # characters
MAX_DEPTH = 16
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)


def parted(text: str) -> tuple[str, str]:
    """The front matter, "" if there is none, and the page below it with as many empty lines above as were taken away."""
    found = _FRONT.match(text)
    return (found[1], "\n" * found[0].count("\n") + text[found.end() :]) if found else ("", text)


def values(text: str) -> dict[str, Any]:
    """What front matter says, as plain JSON. Aliases are refused: a few lines of them can stand for gigabytes."""
    if len(text) > MAX_FRONT:
        raise Invalid(f"{len(text):,} characters; the most is {MAX_FRONT:,}")
    try:
        _refuse_tricks(text)
        found = yaml.load(text, _Loader)
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
    ) as error:  # ValueError: a date such as 2026-02-30; TypeError: a key that is a list
        raise Invalid(f"not YAML: {_brief(error)}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Invalid(f"must be names with values, not {type(found).__name__}")
    return {str(name): _plain(value) for name, value in found.items()}


def _refuse_tricks(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        line = event.start_mark.line + 2 if event.start_mark else 1  # of the page
        if isinstance(event, yaml.AliasEvent):
            raise Invalid(f"line {line}: aliases (*{event.anchor}) are not taken")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MAX_DEPTH:
            raise Invalid(f"line {line}: nested more than {MAX_DEPTH} deep")


def _brief(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return (
        f"line {mark.line + 2} column {mark.column + 1}: {problem}"
        if mark
        else " ".join(str(error).split())
    )


def _plain(value: object) -> object:
    """The value as JSON has it: times as ISO 8601, what JSON does not know as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [
            _plain(one) for one in (sorted(value, key=str) if isinstance(value, set) else value)
        ]
    if isinstance(value, datetime):
        return codec.time_to_text(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    known = (
        value is None
        or isinstance(value, str | bool | int)
        or (isinstance(value, float) and math.isfinite(value))
    )
    return value if known else str(value)
