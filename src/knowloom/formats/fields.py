"""Fields of an item as text, shared by the formats: names, bodies, values and relationships."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from knowloom.model import Form, Item
from knowloom.text.normalisation import collapse_whitespace
from knowloom.text.structure import is_underlined

LEADING_BLANK_LINES = re.compile(r"\A\s*\n")
LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_RELATIONSHIP_SYNTAX = ("--[", "]-->", ": ", '"')

encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def encode_printable(value: Any) -> str:
    """Return the value as JSON on one line, with unprintable characters escaped."""
    return _UNPRINTABLE.sub(_escape, encode_json(value))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def available_forms(item: Item) -> tuple[Form, ...]:
    """Return the forms worth offering, longest first."""
    text, summary = item.text.strip(), item.summary.strip()
    has_facts = bool(item.properties and item.shown_properties)
    has_more = has_facts or (text or summary or item.name) != item.name
    return (
        Form.WHOLE,
        *([Form.SUMMARY] if 0 < len(summary) < len(text) else []),
        *([Form.POINTER] if has_more else []),
    )


def is_underline(text: str, start: int, end: int) -> bool:
    """Return True if a line of tildes underlines the title above it, as in reStructuredText."""
    line = text[start:end].rstrip()
    if line.strip("~") or not line or not start:
        return False
    above = text[text.rfind("\n", 0, start - 1) + 1 : start - 1].rstrip()
    return is_underlined(above, line)


def section_title(name: str) -> str:
    """Return a section name such as "entry_points" as a title: "Entry points"."""
    title = collapse_whitespace(name.replace("_", " "))
    return title[:1].upper() + title[1:]


def item_name(item: Item) -> str:
    return collapse_whitespace(item.title) or collapse_whitespace(item.id)


def item_body(item: Item, form: Form) -> str:
    """Return the text, or the summary where the form asks for it or the text is blank.

    White space at the end is removed, at the start it stays.
    """
    text = item.summary if form is Form.SUMMARY else item.text
    return text.rstrip() or item.summary.rstrip()


def visible_properties(item: Item, form: Form) -> Mapping[str, Any]:
    return item.shown_properties if form is Form.WHOLE and item.properties else {}


def format_value(value: Any) -> str:
    """Return a text without line breaks as it is, anything else as JSON on one line."""
    value = to_json_value(value)
    if isinstance(value, str) and not LINE_BREAK.search(value):
        return value.strip()
    return encode_printable(value)


def to_json_value(value: Any) -> Any:
    """Return a value that JSON and YAML read back unchanged; other objects become text."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): to_json_value(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(child) for child in value]
    return str(value)


def format_relationship(fields: Mapping[str, Any], name: Callable[[str], str]) -> str:
    """Return `Tidewater --[USES]--> Gangway`, with ids and properties if present.

    `name` escapes each name for the format.
    """
    ends = [
        name(fields[end]) + (f" (id: {name(fields[f'{end}_id'])})" if f"{end}_id" in fields else "")
        for end in ("from", "to")
    ]
    facts = ""
    if "properties" in fields:
        properties = fields["properties"].items()
        facts = (
            f" ({', '.join(f'{name(key)}: {format_value(value)}' for key, value in properties)})"
        )
    return f"{ends[0]} --[{name(fields['type'])}]--> {ends[1]}{facts}"


def quote_name(text: str) -> str:
    """Return a name on one line, quoted if it contains the syntax that lines are built with."""
    line = collapse_whitespace(text)
    is_plain = line and not line.endswith(":") and not any(s in line for s in _RELATIONSHIP_SYNTAX)
    return line if is_plain else encode_printable(text)
