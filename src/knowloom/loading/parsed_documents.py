"""Documents: the text of a file with its headings, links and places, as parsers return it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowloom.report import Skipped

ITEM_SIZE = 12_000  # characters of a section that stays whole (docs/decisions/031-loaders.md)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading, and the lines of the text that it covers, counted from 0."""

    level: int  # from 1
    title: str
    start: int
    body: int  # the line behind the heading
    anchors: tuple[str, ...] = ()  # names that links use for it


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link of a document: the line of the text, and the address it leads to."""

    line: int
    target: str
    type: str = "links"


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The text of a file in Markdown, and what else a parser found.

    `places` are pairs of a line of the text, counted from 0, and the line, page, row or cell of the
    file that begins there; without any, the lines of the text are those of the file.
    """

    text: str
    headings: tuple[Heading, ...] = ()
    title: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)  # front matter and the like
    unit: str = "line"
    places: tuple[tuple[int, int], ...] = ()
    links: tuple[DocumentLink, ...] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)  # link targets by their label
    problems: tuple[Skipped, ...] = ()  # parts that could not be read, with their line
    names: tuple[str, ...] = ()  # by which other documents refer to this one, such as a module
    item_size: int = ITEM_SIZE


Parser = Callable[[bytes, str], ParsedDocument]
"""Parse the bytes of the file with a name; raise Invalid if they cannot be read."""


def document_to_json(document: ParsedDocument) -> dict[str, Any]:
    """Return the document for another process."""
    return {
        "text": document.text,
        "headings": [
            [heading.level, heading.title, heading.start, heading.body, heading.anchors]
            for heading in document.headings
        ],
        "title": document.title,
        "fields": document.fields,
        "unit": document.unit,
        "places": document.places,
        "links": [[link.line, link.target, link.type] for link in document.links],
        "definitions": document.definitions,
        "problems": [[skip.where, skip.what, skip.why] for skip in document.problems],
        "names": document.names,
        "item_size": document.item_size,
    }


def document_from_json(row: Mapping[str, Any]) -> ParsedDocument:
    return ParsedDocument(
        row["text"],
        tuple(
            Heading(level, title, start, body, tuple(anchors))
            for level, title, start, body, anchors in row["headings"]
        ),
        row["title"],
        row["fields"],
        row["unit"],
        tuple((line, place) for line, place in row["places"]),
        tuple(DocumentLink(*link) for link in row["links"]),
        row["definitions"],
        tuple(Skipped(*skip) for skip in row["problems"]),
        tuple(row["names"]),
        row["item_size"],
    )


@dataclass(slots=True)
class DocumentBuilder:
    """Builds the text of a document from blocks of Markdown, in order, with their places."""

    unit: str = "line"
    lines: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    links: list[DocumentLink] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)  # that wait for the next heading

    def add_heading(
        self, level: int, title: str, place: int | None = None, anchors: Sequence[str] = ()
    ) -> None:
        start = self.add_block(f"{'#' * min(level, 6)} {title}", place)
        names = tuple(dict.fromkeys((*self.anchors, *anchors)))
        self.anchors.clear()
        self.headings.append(Heading(level, title, start, len(self.lines), names))

    def add_block(
        self,
        text: str,
        place: int | None = None,
        links: Sequence[str] = (),
        *,
        verbatim: bool = False,
    ) -> int:
        """Add a block after an empty line and return its first line.

        The lines of a `verbatim` block follow each other in the file too.
        """
        if self.lines:
            self.lines.append("")
        start = len(self.lines)
        block = text.split("\n")
        self.lines.extend(block)
        if place is not None:
            self.add_place(start, place)
            if verbatim:
                for offset in range(1, len(block)):
                    self.add_place(start + offset, place + offset)
        self.links.extend(DocumentLink(start, target) for target in links)
        return start

    def add_place(self, line: int, place: int) -> None:
        """Note that a line begins at a place, unless the place before it says so already."""
        if self.places and self.places[-1][1] >= place:
            return
        self.places.append((line, place))

    def build(
        self,
        title: str = "",
        fields: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
        problems: Sequence[Skipped] = (),
    ) -> ParsedDocument:
        return ParsedDocument(
            "\n".join(self.lines),
            tuple(self.headings),
            title,
            fields or {},
            self.unit,
            tuple(self.places),
            tuple(self.links),
            names=tuple(names),
            problems=tuple(problems),
        )
