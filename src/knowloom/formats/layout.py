"""Output formats as layouts: the pieces a document is concatenated from.

Item text cannot be mistaken for the structure of the document in any format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from knowloom.errors import unknown_name
from knowloom.formats import citation_marks, markdown, yaml
from knowloom.formats.fields import (
    LEADING_BLANK_LINES,
    LINE_BREAK,
    encode_json,
    format_relationship,
    format_value,
    item_body,
    item_name,
    quote_name,
    section_title,
    to_json_value,
    visible_properties,
)
from knowloom.formats.runs import ELLIPSIS, excerpt_runs, join_runs
from knowloom.model import LINK, Form, Hit, Passage
from knowloom.text.normalisation import collapse_whitespace


class BlockRenderer(Protocol):
    """The function of a format that renders items."""

    def __call__(self, hit: Hit, form: Form, passages: Sequence[Passage] = (), /) -> str:
        """Return one item in one form.

        `passages` are the ranges of an excerpt, sorted and disjoint; without any, it shows the
        passage that matched best.
        """


@dataclass(frozen=True, slots=True)
class Layout:
    """One output format as pieces to concatenate: the pieces that are counted are returned."""

    name: str
    start: str  # before the first section
    end: str  # after the last section
    opening: Callable[[str], str]  # the heading of a section, from its name
    closing: str  # the end of a section
    section_separator: str
    separator: str  # between two blocks
    block: BlockRenderer
    cite: Callable[[str, int, str], str] | None = None  # a block with its number or its source
    source_line: Callable[[int, str], str] | None = None  # None where blocks have a `source`
    heading: str = ""  # the mark of headings, which need a blank line before them
    final_newline: bool = False  # True if the last line break is part of a value
    # By section name, where it differs from `separator`.
    separators: Mapping[str, str] = field(default_factory=dict)
    closings: Mapping[str, str] = field(default_factory=dict)  # likewise, for `closing`
    verbatim: frozenset[str] = frozenset()  # sections whose blocks are pieces of one text
    # True if a block depends only on the item's id, kind, type, texts, tags, properties and path.
    is_cacheable: bool = True

    @property
    def is_concatenation(self) -> bool:
        """True if a document consists of openings and blocks alone."""
        return not (
            self.start
            or self.end
            or self.closing
            or self.section_separator
            or self.separator
            or self.separators
            or self.closings
        )


def get_layout(name: str) -> Layout:
    """Return the layout of a format; raise Invalid for an unknown name."""
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    return FORMATS[name]


def assemble(layout: Layout, sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the document of named sections and their blocks.

    Sections without blocks are omitted; without any block the document is empty. Section names
    must differ.
    """
    texts = [
        layout.opening(name)
        + _join_blocks(layout, name, blocks)
        + layout.closings.get(name, layout.closing)
        for name, blocks in sections
        if blocks
    ]
    if not texts:
        return ""
    if layout.heading:
        texts = [_join(texts, layout.section_separator, layout.heading)]
    document = f"{layout.start}{layout.section_separator.join(texts)}{layout.end}"
    return document if layout.final_newline else document.rstrip("\n")


def _join_blocks(layout: Layout, name: str, blocks: Sequence[str]) -> str:
    heading = "" if name in layout.verbatim else layout.heading
    return _join(blocks, layout.separators.get(name, layout.separator), heading)


def _join(pieces: Sequence[str], separator: str, heading: str) -> str:
    """Join the pieces, with a blank line between a list and a piece that begins with a heading."""
    if not heading:
        return separator.join(pieces)
    parts = [pieces[0]]
    for piece in pieces[1:]:
        before = f"{parts[-1][-2:]}{separator}"
        is_close = piece.startswith(heading) and not before.endswith("\n\n")
        parts += (separator, "\n" if is_close else "", piece)
    return "".join(parts)


def _plain_section(name: str) -> str:
    return f"{section_title(name)}:\n"


def _plain(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
    """Return a plain-text block, with the item's text indented.

    Unindented lines are generated: the heading, the paths and the properties. The heading begins
    with a bracketed type, or a title that ends in a colon would read as a section.
    """
    if hit.found_by == LINK:
        return f"- {format_relationship(hit.item.properties, quote_name)}\n"
    item = hit.item
    heading = f"[{collapse_whitespace(item.type) or item.kind}] {item_name(item)}"
    path = [f"via: {hit.via}"] if hit.via else []
    if form is Form.POINTER:
        return "\n".join([f"{heading} ({collapse_whitespace(item.id)})", *path]) + "\n"
    if form is Form.EXCERPT:
        return "\n".join([heading, *path, *_plain_excerpt(hit, passages)]) + "\n"
    facts = [
        f"- {quote_name(key)}: {format_value(value)}"
        for key, value in visible_properties(item, form).items()
    ]
    return "\n".join([heading, *path, *_indent(item_body(item, form)), *facts]) + "\n"


def _indent(text: str) -> list[str]:
    """Return the lines of a text, each after an indent."""
    if not text.isprintable():  # most texts are one paragraph
        text = LEADING_BLANK_LINES.sub("", LINE_BREAK.sub("\n", text))
    lines = [line.rstrip() for line in text.split("\n")] if text else []
    return [line and f"  {line}" for line in lines]


def _plain_excerpt(hit: Hit, passages: Sequence[Passage]) -> list[str]:
    """Return the lines of the ranges, with an ellipsis between two, and their headings."""
    lines: list[str] = []
    for number, run in enumerate(excerpt_runs(hit, passages)):
        if number:
            lines.append(f"  {ELLIPSIS}")
        if run.headings:
            lines.append(f"in: {run.headings}")
        lines += _indent(run.text.rstrip())
    return lines


def _document(hit: Hit, form: Form, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the JSON and YAML fields of an item, exactly as stored, without empty ones."""
    item = hit.item
    if hit.found_by == LINK:
        relationship: dict[str, Any] = to_json_value(item.properties)
        return relationship
    runs = excerpt_runs(hit, passages) if form is Form.EXCERPT else []
    text = item.text if form is Form.WHOLE else join_runs(runs)
    has_summary = form is Form.SUMMARY or (form is Form.WHOLE and not text)
    fields = {
        "id": item.id,
        "type": item.type if form is not Form.POINTER else "",
        "title": item.title,
        "via": hit.via,
        "headings": runs[0].headings if runs else "",
        "text": text,
        "summary": item.summary if has_summary else "",
        "properties": to_json_value(visible_properties(item, form)),
        "tags": list(item.tags) if form is Form.WHOLE else [],
    }
    return {name: value for name, value in fields.items() if value}


def _json_section(name: str) -> str:
    return f"{encode_json(name)}: [\n"


def _json(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
    return encode_json(_document(hit, form, passages))


def _yaml(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
    return yaml.format_element(_document(hit, form, passages), "")


FORMATS: dict[str, Layout] = {
    "json": Layout(
        "json",
        "{\n",
        "\n}",
        _json_section,
        "\n]",
        ",\n",
        ",\n",
        _json,
        citation_marks.mark_json,
    ),
    "markdown": Layout(
        "markdown",
        "",
        "",
        markdown.format_section,
        "",
        "",
        "",
        markdown.format_hit,
        citation_marks.mark_markdown,
        citation_marks.format_markdown_source,
        markdown.HEADING,
    ),
    "plain": Layout(
        "plain",
        "",
        "",
        _plain_section,
        "",
        "",
        "",
        _plain,
        citation_marks.mark_plain,
        citation_marks.format_plain_source,
    ),
    "yaml": Layout(
        "yaml",
        "",
        "",
        yaml.format_section,
        "",
        "",
        "",
        _yaml,
        citation_marks.mark_yaml,
        final_newline=True,
    ),
}
