"""Cut documents into items: a whole document, or its sections where it is long.

Headings without text are part of the titles and paths of what is below them, never items.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from knowloom.loading.parsed_documents import ParsedDocument
from knowloom.model import LINES, METADATA, PLACES
from knowloom.text.normalisation import slugify

PART_SIZE = 100_000  # characters of a text without headings that stays whole
TITLE_SEPARATOR = " > "
PARENT = "parent"  # the type of the edge to the enclosing section
_TAG_FIELDS = ("tags", "keywords")
_TEXT_FIELDS = ("title", "type", "section", "subject", "summary", "description")
# The label of a link whose target is defined elsewhere: [text][label], [label][] or [label].
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){1,999})\]")

DocumentRow = dict[str, Any]


@dataclass(slots=True)
class _Section:
    """A heading with the lines below it; `end` includes the sections inside of it."""

    level: int
    title: str
    start: int
    body: int
    end: int
    anchors: tuple[str, ...] = ()
    path: tuple[_Section, ...] = ()  # the enclosing sections, outermost first
    children: list[_Section] = field(default_factory=list)

    @property
    def own_end(self) -> int:
        return self.children[0].start if self.children else self.end


@dataclass(slots=True)
class _PlannedItem:
    """A section that becomes an item, with all sections inside of it or without them."""

    section: _Section
    end: int
    parent: _PlannedItem | None
    id: str = ""


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """The rows of a document with their place in the file, and what is needed to resolve links."""

    rows: tuple[tuple[int, DocumentRow], ...]
    anchors: Mapping[str, str]  # the id of the item of each anchor; "" is the document itself
    links: tuple[tuple[str, str, str], ...]  # id, target and type


def build_rows(document: ParsedDocument, name: str, page: str) -> DocumentRows:
    """Return the items of a document, and edges of type `parent` between them.

    `page` is the id of the document, `name` the source of its items.
    """
    lines = document.text.split("\n")
    root = _build_tree(document, len(lines), name)
    text = _TextLines(lines)
    items = list(_plan_items(root, text, document.item_size, None))
    if not items and document.fields:
        items = [_PlannedItem(root, root.body, None)]  # front matter alone
    _assign_ids(items, page)
    rows: list[tuple[int, DocumentRow]] = []
    fields = _item_fields(document, name)
    for number, item in enumerate(items):
        first = _first_fields(document) if number == 0 else {}
        rows.extend(_build_item(item, document, text, fields | first))
    return DocumentRows(tuple(rows), _locate_anchors(root, items), _locate_links(document, items))


class _TextLines:
    """The lines of a text, the characters before each, and the visible ones before each."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.offsets = [0, *accumulate(len(line) + 1 for line in lines)]
        self.visible = [0, *accumulate(not line or line.isspace() for line in lines)]

    def length(self, start: int, end: int) -> int:
        return self.offsets[end] - self.offsets[start]

    def is_blank(self, start: int, end: int) -> bool:
        return self.visible[end] - self.visible[start] == end - start

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """Return the range without blank lines at its ends."""
        while start < end and self.is_blank(start, start + 1):
            start += 1
        while start < end and self.is_blank(end - 1, end):
            end -= 1
        return start, end


def _build_tree(document: ParsedDocument, count: int, name: str) -> _Section:
    """Return the document as a tree of sections."""
    headings = list(document.headings)
    root = _Section(0, document.title or name_title(name), 0, 0, count)
    if headings and _is_title(document):
        heading = headings.pop(0)
        root.title, root.body, root.anchors = heading.title, heading.body, heading.anchors
    enclosing = [root]
    for number, heading in enumerate(headings):
        while enclosing[-1].level >= heading.level:
            enclosing.pop().end = heading.start
        end = headings[number + 1].start if number + 1 < len(headings) else count
        section = _Section(
            *(heading.level, heading.title, heading.start, heading.body, end),
            heading.anchors,
            tuple(enclosing),
        )
        enclosing[-1].children.append(section)
        enclosing.append(section)
    for section in enclosing:
        section.end = count
    return root


def name_title(name: str) -> str:
    """Return the title of a file without one: its name without folder and suffix."""
    file = name.rpartition("/")[2]
    return file.rpartition(".")[0] or file


def _is_title(document: ParsedDocument) -> bool:
    """Return True if the first heading is the document's title: nothing above, none as high."""
    first = document.headings[0]
    if any(heading.level <= first.level for heading in document.headings[1:]):
        return False
    if any(line.strip() for line in document.text.split("\n", first.start)[: first.start]):
        return False
    return document.title.casefold() in ("", first.title.casefold())


def _plan_items(
    section: _Section, text: _TextLines, item_size: int, parent: _PlannedItem | None
) -> Iterator[_PlannedItem]:
    """Yield the items of a section: one if it is short, else those of the sections inside."""
    is_whole = not section.children or text.length(section.body, section.end) <= item_size
    item = parent
    if _has_text(section, text, deep=is_whole):
        item = _PlannedItem(section, section.end if is_whole else section.own_end, parent)
        yield item
    if not is_whole:
        for child in section.children:
            yield from _plan_items(child, text, item_size, item)


def _has_text(section: _Section, text: _TextLines, *, deep: bool) -> bool:
    if not text.is_blank(section.body, section.own_end):
        return True
    return deep and any(_has_text(child, text, deep=True) for child in section.children)


def _assign_ids(items: Sequence[_PlannedItem], page: str) -> None:
    """Give the page its name, and sections their heading, with that above it if it is repeated."""
    slugs = [slugify(item.section.title) if item.section.level else "" for item in items]
    counts = Counter(slugs)
    ids: set[str] = set()
    for item, slug in zip(items, slugs, strict=True):
        base = f"{page}#{slug}" if slug else page
        if counts[slug] > 1 and len(item.section.path) > 1:
            base = f"{page}#{slugify(item.section.path[-1].title)}/{slug}"
        item.id = base
        number = 1
        while item.id in ids:
            number += 1
            item.id = f"{base}-{number}"
        ids.add(item.id)


def _build_item(
    item: _PlannedItem, document: ParsedDocument, text: _TextLines, fields: DocumentRow
) -> Iterator[tuple[int, DocumentRow]]:
    """Yield the rows of an item: one, or several parts if its text is very long."""
    section = item.section
    titles = [enclosing.title for enclosing in (*section.path, section)]
    title = TITLE_SEPARATOR.join(title for title in titles if title)
    start, end = text.trim(section.body, item.end)
    for number, (first, last) in enumerate(_split_parts(text, start, end), 1):
        id = item.id if number == 1 else f"{item.id}/{number}"
        content = "\n".join(text.lines[first:last])
        row: DocumentRow = {"id": id, "title": title if number == 1 else f"{title} ({number})"}
        row |= {"text": _add_definitions(content, document.definitions)} | fields
        if content:
            row["properties"] = {**fields.get("properties", {}), **_places(document, first, last)}
        place = _find_place(document, section.start)
        yield place, row
        parent = item.id if number > 1 else item.parent.id if item.parent else ""
        if parent:
            yield place, {"source": id, "target": parent, "type": PARENT}
        fields = {name: value for name, value in fields.items() if name not in _FIRST_FIELDS}


def _split_parts(text: _TextLines, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of lines of up to PART_SIZE characters, cut at a blank line if possible."""
    while text.length(start, end) > PART_SIZE:
        limit = bisect_right(text.offsets, text.offsets[start] + PART_SIZE) - 1
        last = max(limit, start + 1)
        cuts = (
            line for line in range(last, (start + last) // 2, -1) if text.is_blank(line, line + 1)
        )
        cut = next(cuts, last)
        if cut >= end:
            break
        yield text.trim(start, cut)
        start, _ = text.trim(cut, end)
    yield start, end


def _find_place(document: ParsedDocument, line: int) -> int:
    """Return the place in the file of a line of the text."""
    if not document.places:
        return line + 1
    return document.places[max(0, bisect_right(document.places, (line, float("inf"))) - 1)][1]


def _places(document: ParsedDocument, first: int, last: int) -> DocumentRow:
    """Return the lines of the file, or the places that the lines of the text begin at."""
    if not document.places and document.unit == "line":
        return {LINES: [first + 1, last]}
    before = max(0, bisect_right(document.places, (first, float("inf"))) - 1)
    after = bisect_left(document.places, (last, -1))
    places = [[max(0, line - first), place] for line, place in document.places[before:after]]
    return {PLACES: {document.unit: places}} if places else {}


_FIRST_FIELDS = ("properties", "summary")


def _item_fields(document: ParsedDocument, name: str) -> DocumentRow:
    """Return the fields of all items of a document."""
    fields = document.fields
    names = ("type", "section", "subject")
    values = {field: value for field in names if (value := _text_field(fields, field))}
    return {"source": name, "tags": _tags(fields)} | values


def _first_fields(document: ParsedDocument) -> DocumentRow:
    """Return the fields of the first item of a document only."""
    fields = document.fields
    summary = _text_field(fields, "summary") or _text_field(fields, "description")
    metadata = {
        name: value
        for name, value in fields.items()
        if name not in _TAG_FIELDS and (name not in _TEXT_FIELDS or isinstance(value, dict | list))
    }
    return {"summary": summary, "properties": {METADATA: metadata} if metadata else {}}


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return "" if value is None or isinstance(value, dict | list) else " ".join(str(value).split())


def _tags(fields: Mapping[str, Any]) -> list[str]:
    """Return the tags of lists and of comma-separated texts."""
    values = [value for name in _TAG_FIELDS if (value := fields.get(name)) is not None]
    tags: dict[str, None] = {}
    for value in values:
        for name in value if isinstance(value, list) else str(value).split(","):
            tags[" ".join(str(name).split())] = None
    tags.pop("", None)
    return list(tags)


def _add_definitions(text: str, definitions: Mapping[str, str]) -> str:
    """Append the targets of the links of a text, which a page mostly defines at its end."""
    if not definitions:
        return text
    used: dict[str, str] = {}
    for label in _LABEL.findall(text):
        if f"[{label}]: " not in text:
            used.setdefault(normalise_label(label), label)
    lines = [
        f"[{label}]: {definitions[name]}" for name, label in used.items() if name in definitions
    ]
    return "\n\n".join([text, "\n".join(lines)]) if lines else text


def normalise_label(label: str) -> str:
    return " ".join(label.casefold().split())


def _locate_anchors(root: _Section, items: Sequence[_PlannedItem]) -> dict[str, str]:
    """Return the item of each anchor; a heading without text leads to the first item below it."""
    if not items:
        return {}
    ends = [item.end for item in items]
    anchors = {"": items[0].id}

    def add(section: _Section) -> None:
        place = min(bisect_right(ends, section.start if section.level else -1), len(items) - 1)
        names = (*section.anchors, slugify(section.title)) if section.level else section.anchors
        for name in names:
            anchors.setdefault(name, items[place].id)
        for child in section.children:
            add(child)

    add(root)
    return anchors


def _locate_links(
    document: ParsedDocument, items: Sequence[_PlannedItem]
) -> tuple[tuple[str, str, str], ...]:
    if not items:
        return ()
    ends = [item.end for item in items]
    links = (
        (items[min(bisect_right(ends, link.line), len(items) - 1)].id, link.target, link.type)
        for link in document.links
    )
    return tuple(dict.fromkeys(links))
