"""Citations in each format: numbers behind headings with a list of sources, or a `source` field."""

from __future__ import annotations

import re

from knowloom.formats.fields import encode_json
from knowloom.formats.runs import find_fence
from knowloom.formats.yaml import format_field

_NUMBER = re.compile(r"\[(?=\d+\])")
# Inline syntax that would reach into the next line, and numbers like the generated ones.
_SOURCE_SYNTAX = re.compile(r"\\(?=[\\`<\[])|[`<]|\[(?=\d+\])")
_SOURCE_LINE = re.compile(r"^\[(?=\d+\] )", re.M)
_BRACKETED_NUMBER = re.compile(r"\[(\d+)\]")


def mark_markdown(block: str, number: int, _source: str) -> str:
    """Append the number to the heading.

    Numbers in the title are escaped, and lines of the text that look like those of the list.
    """
    heading, line_break, body = block.partition("\n")
    heading = _NUMBER.sub(_escape, heading)
    return f"{heading} [{number}]{line_break}{_SOURCE_LINE.sub(_escape_outside_code, body)}"


def mark_plain(block: str, number: int, _source: str) -> str:
    """Append the number to the heading, in which numbers of the title lose their brackets."""
    heading, line_break, body = block.partition("\n")
    return f"{_BRACKETED_NUMBER.sub(_unbracket, heading)} [{number}]{line_break}{body}"


def mark_json(block: str, _number: int, source: str) -> str:
    return f"{block.removesuffix('}')}, {encode_json('source')}: {encode_json(source)}}}"


def mark_yaml(block: str, _number: int, source: str) -> str:
    return f"{block}{format_field('source', source, '  ')}"


def format_markdown_source(number: int, source: str) -> str:
    return f"[{number}] {_SOURCE_SYNTAX.sub(_escape, source)}\n"


def format_plain_source(number: int, source: str) -> str:
    return f"[{number}] {_BRACKETED_NUMBER.sub(_unbracket, source)}\n"


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


def _escape_outside_code(match: re.Match[str]) -> str:
    return match[0] if find_fence(match.string, match.start()) else _escape(match)


def _unbracket(match: re.Match[str]) -> str:
    return f"({match[1]})"
