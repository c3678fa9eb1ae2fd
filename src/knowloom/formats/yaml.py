"""A YAML emitter for contexts.

It is written by hand because PyYAML's C emitter takes four times as long, its Python emitter thirty
times, and both quote every text with a blank at the end of a line. The output reads back the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from knowloom.formats.fields import encode_json, encode_printable

# Plain scalars that YAML reads back as the same text: a letter first and no syntax characters.
_UNQUOTED = re.compile(
    r"(?!(?:yes|no|on|off|y|n|true|false|null)\Z)"
    r"[^\W\d_](?:[\w .,;/()'?!+*=&%@-]*[\w.,;/()'?!+*=&%@-])?",
    re.I,
)
_NOT_LITERAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_MAX_KEY = 1000  # characters: YAML parsers look for the colon of a key within 1024


def format_section(name: str) -> str:
    return _format_key(name, "") + ":\n"


def format_element(value: Any, indent: str) -> str:
    """Return a value as one element of a block sequence."""
    if isinstance(value, dict) and value:
        return f"{indent}- {_format_mapping(value, indent + '  ').lstrip(' ')}"
    return f"{indent}-{_format_value(value, indent + '  ')}"


def format_field(key: str, value: Any, indent: str) -> str:
    """Return one entry of a block mapping."""
    return f"{indent}{_format_key(key, indent)}:{_format_value(value, indent + '  ')}"


def _format_mapping(mapping: Mapping[str, Any], indent: str) -> str:
    return "".join(format_field(key, value, indent) for key, value in mapping.items())


def _format_key(key: str, indent: str) -> str:
    scalar = _format_text(key)
    return scalar if len(scalar) < _MAX_KEY else f"? {scalar}\n{indent}"


def _format_value(value: Any, indent: str) -> str:
    """Return what follows a colon or a dash, up to the end of its last line."""
    if isinstance(value, str) and _can_be_literal(value):
        lines = value.removesuffix("\n").split("\n")
        mark = "|" if value.endswith("\n") else "|-"
        return f" {mark}\n" + "".join(f"{indent}{line}\n" if line else "\n" for line in lines)
    if isinstance(value, dict) and value:
        return "\n" + _format_mapping(value, indent)
    if isinstance(value, list) and value:
        return "\n" + "".join(format_element(child, indent) for child in value)
    return f" {_format_text(value) if isinstance(value, str) else _format_scalar(value)}\n"


def _can_be_literal(text: str) -> bool:
    """Return True if a literal block preserves the text.

    Of the white space around it, YAML preserves a single final line break only.
    """
    edges = (text[0], text.removesuffix("\n")[-1:]) if "\n" in text else ()
    return bool(edges) and all(edge.strip() for edge in edges) and not _NOT_LITERAL.search(text)


def _format_text(text: str) -> str:
    return text if _UNQUOTED.fullmatch(text) else encode_printable(text)


def _format_scalar(value: Any) -> str:
    """Return a number, boolean, null or empty collection: JSON, with a point before an exponent."""
    scalar = encode_json(value)
    is_bare_exponent = isinstance(value, float) and "." not in scalar
    return scalar.replace("e", ".0e") if is_bare_exponent else scalar
