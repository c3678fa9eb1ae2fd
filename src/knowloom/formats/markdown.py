"""Items and relationships as Markdown blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowloom.caching import cached
from knowloom.formats.fields import (
    LEADING_BLANK_LINES,
    format_relationship,
    format_value,
    item_body,
    section_title,
    visible_properties,
)
from knowloom.formats.markdown_escape import (
    escape_body,
    escape_bold_text,
    escape_heading,
    escape_list_line,
)
from knowloom.formats.runs import ELLIPSIS, excerpt_runs
from knowloom.model import LINK, Form, Hit, Passage
from knowloom.text.normalisation import collapse_whitespace

CACHED_NAMES = 64  # items: each is rendered in several forms, one after the other
HEADING = "#"
MAX_FENCE_INDENT = 3  # a deeper line is code as it is
_CARRIAGE_RETURN = re.compile(r"\r\n?")
# In a path, a heading must not look like the path to a hit or the number of a source.
_HEADING_SYNTAX = re.compile(r"\Avia(?=:)|(?=\[\d+\])", re.I)


def format_section(name: str) -> str:
    return f"## {escape_heading(section_title(name))}\n\n"


def format_hit(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
    """Return one item, or one relationship, as a Markdown block."""
    if hit.found_by == LINK:
        return f"- {escape_list_line(format_relationship(hit.item.properties, escape_bold))}\n"
    item = hit.item
    pointer, heading = _format_names(item.title, item.id, item.type)
    if form is Form.POINTER:
        # The pointer ends with a bracket, so a path cannot be mistaken for part of the title.
        return f"- {escape_list_line(f'{pointer}, via: {hit.via}' if hit.via else pointer)}\n"
    if hit.via:
        heading += f"#### via: {hit.via}\n"  # a heading, since item text cannot produce one
    if form is Form.EXCERPT:
        return heading + _format_excerpt(hit, passages)
    text = _normalise_lines(item_body(item, form))
    facts = [
        f"- **{escape_bold(key)}**: {format_value(value)}\n"
        for key, value in visible_properties(item, form).items()
    ]
    # The blank line keeps the properties out of HTML blocks and of a list's last item.
    body = f"{escape_body(text)}\n\n" if text else ""
    return heading + body + ("".join([*facts, "\n"]) if facts or not text else "")


def _normalise_lines(text: str) -> str:
    """Return the text without leading blank lines, and with line feeds between its lines."""
    if text[:1].isspace() or "\r" in text:
        return LEADING_BLANK_LINES.sub("", _CARRIAGE_RETURN.sub("\n", text))
    return text


def _format_excerpt(hit: Hit, passages: Sequence[Passage]) -> str:
    """Return the ranges, each escaped on its own, with their headings and ellipses between."""
    pieces: list[str] = []
    for number, run in enumerate(excerpt_runs(hit, passages)):
        if number:
            pieces.append(f"{ELLIPSIS}\n\n")
        if run.headings:
            pieces.append(f"#### {escape_heading(_HEADING_SYNTAX.sub(_escape, run.headings))}\n")
        text = _normalise_lines(run.text.rstrip())
        if run.fence and _indent_width(run.fence) <= MAX_FENCE_INDENT:
            text = f"{run.fence}\n{text}"  # or its end would open a block of the text behind it
        elif run.table:
            text = f"{run.table}\n{text}"
        pieces.append(f"{escape_body(text)}\n\n")
    return "".join(pieces) or "\n"


def _escape(match: re.Match[str]) -> str:
    return f"{match[0]}\\"


def _indent_width(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip(" "))


def escape_bold(text: str) -> str:
    """Return the text on one line, escaped for use between `**` marks."""
    return escape_bold_text(collapse_whitespace(text))


@cached("markdown names", CACHED_NAMES)
def _format_names(title: str, id: str, type: str) -> tuple[str, str]:
    """Return the pointer line of an item, without its list mark, and the heading of its block."""
    name, id, kind = map(collapse_whitespace, (title, id, type))
    name = name or id
    if kind:
        return f"{name} ({kind}, id: {id})", f"### {escape_heading(f'{name} ({kind})')}\n"
    return f"{name} (id: {id})", f"### {escape_heading(name)}\n"
