"""Citations in each format: numbers behind headings with a list of sources, or a `source` field."""

from __future__ import annotations

import re

from knowloom.formats.fields import encode_json
from knowloom.formats.yaml import format_field

_NUMBER = re.compile(r"\[(?=\d+\])")
# Inline syntax that would reach into the next line, and numbers like the generated ones.
_SOURCE_SYNTAX = re.compile(r"\\(?=[\\`<\[])|[`<]|\[(?=\d+\])")
_BRACKETED_NUMBER = re.compile(r"\[(\d+)\]")


def mark_markdown(block: str, number: int, _source: str) -> str:
    """Append the number to the heading, in which numbers of the title are escaped."""
    heading, line_break, body = block.partition("\n")
    return f"{_NUMBER.sub(_escape, heading)} [{number}]{line_break}{body}"


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


def _unbracket(match: re.Match[str]) -> str:
    return f"({match[1]})"
