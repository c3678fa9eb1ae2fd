"""Parse pages into rows: items for the page and its sections, and edges to their parents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from knowloom.errors import Invalid
from knowloom.loading import front_matter
from knowloom.model import LINES
from knowloom.report import Skipped
from knowloom.text.normalisation import slugify

MAX_PAGE_BYTES = 10_000_000
MAX_PART = 2_000  # characters of a section before it is split, about 500 tokens
MARKDOWN_SUFFIXES = (".md", ".markdown")
HEADING_SEPARATOR = " > "  # in titles
_TAG_FIELDS = ("tags", "keywords")
_TEXT_FIELDS = ("title", "type", "section", "subject", "summary", "description")
_CODE_TOKENS = ("fence", "code_block")
# The label of a link whose target is defined elsewhere: [text][label], [label][] or [label].
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){1,999})\]")

PageRow = dict[str, Any]
LineRange = tuple[int, int]  # the first and the last line, counted from 1


@dataclass(frozen=True, slots=True)
class PageSection:
    """A heading, the line it is in, and its text in parts; level 0 is above the first heading."""

    level: int
    title: str
    line: int
    parts: tuple[str, ...]
    lines: tuple[LineRange, ...]  # of each part


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines from `start` up to `end`, and the lines before which they may be split if need be."""

    start: int
    end: int
    breaks: tuple[int, ...] = ()


def parse_page(text: str, name: str) -> Iterator[tuple[int, PageRow | Skipped]]:
    """Yield items and edges of the file `name`, each with its line.

    Unreadable front matter is reported, and the page is still parsed.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    fields: PageRow = {}
    is_markdown = name[name.rfind(".") :].lower() in MARKDOWN_SUFFIXES
    if is_markdown:
        head, text = front_matter.split_front_matter(text)
        try:
            fields = front_matter.parse_front_matter(head)
        except Invalid as error:
            yield 1, Skipped("", "front matter", str(error))
    sections = split_markdown(text) if is_markdown else split_plain_text(text)
    if not (fields or len(sections) > 1 or any(sections[0].parts)):
        yield 1, Skipped("", "the whole file", "empty: it has no text")
        return
    yield from _build_rows(sections, fields, name)


def _build_rows(
    sections: list[PageSection], fields: PageRow, name: str
) -> Iterator[tuple[int, PageRow]]:
    title = _text_field(fields, "title")
    if _has_title_heading(sections, title):
        heading = sections[1]
        title = heading.title
        sections = [replace(heading, level=0, title=""), *sections[2:]]
    page = name.removesuffix(".md")
    shared = {"source": name, "tags": _tags(fields)} | {
        field: value
        for field in ("type", "section", "subject")
        if (value := _text_field(fields, field))
    }
    page_fields = {
        "properties": _properties(fields),
        "summary": _text_field(fields, "summary") or _text_field(fields, "description"),
    }
    # The level, id and title of the headings that enclose a section.
    enclosing = [(0, page, title or name.rpartition("/")[2].rpartition(".")[0])]
    ids = {page}
    for section in sections:
        if section.level:
            while enclosing[-1][0] >= section.level:
                enclosing.pop()
            id = _unique_id(f"{page}#{slugify(section.title)}", ids)
            enclosing.append((section.level, id, section.title))
        id = enclosing[-1][1]
        path = HEADING_SEPARATOR.join(title for _, _, title in enclosing if title)
        for number, (text, lines) in enumerate(zip(section.parts, section.lines, strict=True), 1):
            part = id if number == 1 else f"{id}/{number}"
            part_title = path if number == 1 else f"{path} ({number})"
            row: PageRow = {"id": part, "title": part_title, "text": text} | shared | page_fields
            if text:
                row["properties"] = {**row.get("properties", {}), LINES: list(lines)}
            yield section.line, row
            parent = enclosing[-2][1] if section.level and number == 1 else id
            if part != parent:
                yield section.line, {"source": part, "target": parent, "type": "parent"}
            page_fields = {}


def _has_title_heading(sections: list[PageSection], title: str) -> bool:
    """Return True if the first heading is the page's title: nothing above, none as high."""
    if len(sections) < 2 or any(sections[0].parts) or sections[1].level != 1:
        return False
    if sum(section.level == 1 for section in sections) > 1:
        return False
    return not title or title.casefold() == sections[1].title.casefold()


def _unique_id(base: str, used: set[str]) -> str:
    """Return the id, with a number appended if it is used already, and add it to those used."""
    id, number = base, 1
    while id in used:
        number += 1
        id = f"{base}-{number}"
    used.add(id)
    return id


def _text_field(fields: PageRow, name: str) -> str:
    value = fields.get(name)
    return "" if value is None or isinstance(value, dict | list) else " ".join(str(value).split())


def _properties(fields: PageRow) -> PageRow:
    """Return the fields that have no field of the item, or a value that does not fit into it."""
    return {
        name: value
        for name, value in fields.items()
        if name not in _TAG_FIELDS and (name not in _TEXT_FIELDS or isinstance(value, dict | list))
    }


def _tags(fields: PageRow) -> list[str]:
    """Return the tags of lists and of comma-separated texts."""
    values = [value for name in _TAG_FIELDS if (value := fields.get(name)) is not None]
    tags: dict[str, None] = {}
    for value in values:
        for name in value if isinstance(value, list) else str(value).split(","):
            tags[" ".join(str(name).split())] = None
    tags.pop("", None)
    return list(tags)


def split_markdown(text: str) -> list[PageSection]:
    """Return the sections of a page. Headings inside code, lists and quotes do not count."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])  # blocks with their lines are enough
    environment: dict[str, Any] = {}
    tokens = parser.parse(text, environment)
    definitions = {
        name: _format_target(definition)
        for name, definition in environment.get("references", {}).items()
    }
    headings = [
        index
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    lines = text.split("\n")

    def build_section(level: int, title: str, line: int, body: Sequence[Token]) -> PageSection:
        section = _build_section(level, title, line, lines, _split_blocks(body))
        return replace(section, parts=_add_definitions(section.parts, definitions))

    top = tokens[: headings[0]] if headings else tokens
    sections = [build_section(0, "", 1, top)]
    for heading, following in pairwise([*headings, len(tokens)]):
        start, _ = tokens[heading].map or (0, 0)
        level, title = int(tokens[heading].tag[1:]), _strip_markup(tokens[heading + 1].content)
        body = tokens[heading + 3 : following]
        sections.append(build_section(level, title, start + 1, body))
    return sections


def _build_section(
    level: int, title: str, line: int, lines: Sequence[str], blocks: Sequence[LineBlock]
) -> PageSection:
    """Return a section with its blocks as parts."""
    ranges = [_skip_blank_lines(lines, *part) for part in _split_parts(lines, blocks)]
    parts = tuple("\n".join(lines[start:end]).rstrip() for start, end in ranges)
    numbers = tuple(
        (start + 1, start + 1 + part.count("\n"))
        for (start, _), part in zip(ranges, parts, strict=True)
    )
    return PageSection(level, title, line, parts, numbers)


def _format_target(definition: Mapping[str, str]) -> str:
    """Return the part behind the label of a line such as `[1]: guide.md "The guide"`."""
    href = definition["href"]
    target = href if href and not re.search(r"[\s<>]", href) else f"<{href}>"
    title = definition["title"].replace('"', "'").replace("\n", " ")
    return f'{target} "{title}"' if title else target


def _add_definitions(parts: Sequence[str], definitions: Mapping[str, str]) -> tuple[str, ...]:
    """Append to each part the targets of its links, which a page mostly defines at its end."""
    if not definitions:
        return tuple(parts)
    complete: list[str] = []
    for part in parts:
        used: dict[str, str] = {}
        for label in _LABEL.findall(part):
            used.setdefault(normalizeReference(label), label)
        lines = [
            f"[{label}]: {definitions[name]}" for name, label in used.items() if name in definitions
        ]
        complete.append("\n\n".join([part, "\n".join(lines)]) if lines else part)
    return tuple(complete)


def split_plain_text(text: str) -> list[PageSection]:
    """Return a text without headings as one section."""
    lines = text.split("\n")
    starts = [
        number
        for number, line in enumerate(lines)
        if line.strip() and (not number or not lines[number - 1].strip())
    ]
    blocks = [_paragraph(start, end) for start, end in pairwise([*starts, len(lines)])]
    return [_build_section(0, "", 1, lines, blocks)]


def _split_blocks(tokens: Sequence[Token]) -> list[LineBlock]:
    """Return the outermost blocks.

    A list may be split between its entries, code nowhere, anything else between lines.
    """
    blocks: list[LineBlock] = []
    entries: list[int] = []
    for token in tokens:
        if token.map is None:
            continue
        if token.level == 0:
            entries = []
            start, end = token.map
            is_code = token.type in _CODE_TOKENS
            blocks.append(LineBlock(start, end) if is_code else _paragraph(start, end))
        elif token.level == 1 and token.type == "list_item_open":
            entries.append(token.map[0])
            blocks[-1] = LineBlock(blocks[-1].start, blocks[-1].end, tuple(entries[1:]))
    return blocks


def _paragraph(start: int, end: int) -> LineBlock:
    return LineBlock(start, end, tuple(range(start + 1, end)))


def _split_parts(lines: Sequence[str], blocks: Sequence[LineBlock]) -> Iterator[tuple[int, int]]:
    """Yield the ends of as few parts as possible, none over MAX_PART unless a block or entry is."""
    start = end = 0
    for first, last in _split_long_blocks(lines, blocks):
        if end > start and _length(lines, start, last) > MAX_PART:
            yield start, end
            start = first
        elif end == start:
            start = first
        end = last
    yield start, end


def _split_long_blocks(
    lines: Sequence[str], blocks: Sequence[LineBlock]
) -> Iterator[tuple[int, int]]:
    for block in blocks:
        is_long = _length(lines, block.start, block.end) > MAX_PART
        yield from pairwise([block.start, *(block.breaks if is_long else ()), block.end])


def _length(lines: Sequence[str], start: int, end: int) -> int:
    """Return the characters of the lines, counted only until they exceed MAX_PART."""
    total = 0
    for line in lines[start:end]:
        total += len(line) + 1
        if total > MAX_PART + 1:
            break
    return total - 1


def _skip_blank_lines(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    while start < end and not lines[start].strip(" \t"):
        start += 1
    return start, end


def _strip_markup(heading: str) -> str:
    """Return a heading without its markup."""
    if not re.search(r"[*_`\[\]<\\&]", heading):
        return " ".join(heading.split())
    children = MarkdownIt("commonmark").parseInline(heading)[0].children or []
    texts = (
        " " if child.type == "softbreak" else child.content
        for child in children
        if child.type != "html_inline"
    )
    return " ".join("".join(texts).split())
