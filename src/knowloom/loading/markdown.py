"""Pages as rows: one item for the page and one for each section, with a link from each to what it is part of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from knowloom.errors import Invalid
from knowloom.loading import front_matter
from knowloom.report import Skipped
from knowloom.text.slug import slug

MAX_PAGE = 10_000_000  # bytes of one file
MARKDOWN = (".md", ".markdown")
SUFFIXES = (*MARKDOWN, ".txt", ".rst")
BETWEEN = " > "  # headings in a title
_TAKEN = ("tags", "keywords", "title", "type", "section", "subject", "summary", "description")

Row = dict[str, Any]


def rows(text: str, name: str) -> Iterator[tuple[int, Row | Skipped]]:
    """Items and edges of the file `name`, each with its line. Front matter that cannot be read is reported, and the page goes on."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    said: Row = {}
    suffix = name[name.rfind(".") :].lower()
    if suffix in MARKDOWN:
        head, text = front_matter.parted(text)
        try:
            said = front_matter.values(head)
        except Invalid as error:
            yield 1, Skipped("", "front matter", str(error))
    found = markdown(text) if suffix in MARKDOWN else plain(text)
    if not (said or len(found) > 1 or any(found[0].parts)):
        yield 1, Skipped("", "the whole file", "empty: there is no text in it")
        return
    yield from _items(found, said, name, name.removesuffix(".md"))


def _items(found: list[Section], said: Row, name: str, page: str) -> Iterator[tuple[int, Row]]:
    title = _one(said, "title")
    if _is_title(found, title):
        found, title = [Section(0, "", found[1].line, found[1].parts), *found[2:]], found[1].title
    title = title or name.rpartition("/")[2].rpartition(".")[0]
    shared = {"source": name, "tags": _tags(said)} | {
        field: one for field in ("type", "section", "subject") if (one := _one(said, field))
    }
    own = {
        "properties": _properties(said),
        "summary": _one(said, "summary") or _one(said, "description"),
    }
    open_: list[tuple[int, str, str]] = [
        (0, page, title)
    ]  # level, id and title of the headings a section lies in
    ids = {page}
    for section in found:
        if section.level:
            while open_[-1][0] >= section.level:
                open_.pop()
            open_.append(
                (section.level, _free(f"{page}#{slug(section.title)}", ids), section.title)
            )
        id, path = open_[-1][1], BETWEEN.join(one for _, _, one in open_ if one)
        for number, text in enumerate(section.parts, 1):
            part = id if number == 1 else f"{id}/{number}"
            yield (
                section.line,
                {"id": part, "title": path if number == 1 else f"{path} ({number})", "text": text}
                | shared
                | ({} if section.level else own),
            )
            above = open_[-2][1] if section.level and number == 1 else id
            if part != above:
                yield section.line, {"source": part, "target": above, "type": "parent"}
            own = {}


def _is_title(found: list[Section], title: str) -> bool:
    """Whether the first heading is the page's title: above it is nothing, and no other is as high."""
    if (
        len(found) < 2
        or any(found[0].parts)
        or found[1].level != 1
        or sum(section.level == 1 for section in found) > 1
    ):
        return False
    return not title or title.casefold() == found[1].title.casefold()


def _free(wanted: str, taken: set[str]) -> str:
    """The id, with a number at its end if it is taken."""
    id, number = wanted, 1
    while id in taken:
        number += 1
        id = f"{wanted}-{number}"
    taken.add(id)
    return id


def _one(said: Row, name: str) -> str:
    value = said.get(name)
    return "" if value is None or isinstance(value, dict | list) else " ".join(str(value).split())


def _properties(said: Row) -> Row:
    """All that has no place of its own, or does not fit into it."""
    return {
        name: value
        for name, value in said.items()
        if name not in _TAKEN or (name not in _TAKEN[:2] and isinstance(value, dict | list))
    }


def _tags(said: Row) -> list[str]:
    """Lists, or names between commas."""
    given = [value for name in ("tags", "keywords") if (value := said.get(name)) is not None]
    names = [
        one
        for value in given
        for one in (value if isinstance(value, list) else str(value).split(","))
    ]
    return list(dict.fromkeys(tag for name in names if (tag := " ".join(str(name).split()))))


LONG = 2_000  # characters of a section before it is split, about 500 tokens
_CODE = ("fence", "code_block")
_LABEL = re.compile(
    r"\[((?:[^\[\]\\]|\\.){1,999})\]"
)  # of a link whose target stands elsewhere: [text][label], [label][] or [label]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (level 0 and no title: what stands above the first one), its text in parts, and the line it begins at."""

    level: int
    title: str
    line: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Lines from `start` up to `end`, and where inside them they may be parted if need be."""

    start: int
    end: int
    borders: tuple[int, ...] = ()


def markdown(text: str) -> list[Section]:
    """The sections of a page. Headings inside code, lists and quotes are none."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(
        ["normalize", "block"]
    )  # blocks with their lines are all that is needed of a body
    known: dict[str, Any] = {}
    tokens = parser.parse(text, known)
    definitions = {name: _target(found) for name, found in known.get("references", {}).items()}
    heads = [
        number
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    lines = text.split("\n")
    found = [
        Section(
            0,
            "",
            1,
            _with_definitions(
                _parts(lines, _blocks(tokens[: heads[0] if heads else len(tokens)])), definitions
            ),
        )
    ]
    for head, following in pairwise([*heads, len(tokens)]):
        (start, _), title = tokens[head].map or (0, 0), _spoken(tokens[head + 1].content)
        parts = _with_definitions(_parts(lines, _blocks(tokens[head + 3 : following])), definitions)
        found.append(Section(int(tokens[head].tag[1:]), title, start + 1, parts))
    return found


def _target(found: Mapping[str, str]) -> str:
    """What stands behind the label in a line such as `[1]: guide.md "The guide"`."""
    target = (
        found["href"]
        if found["href"] and not re.search(r"[\s<>]", found["href"])
        else f"<{found['href']}>"
    )
    title = found["title"].replace('"', "'").replace("\n", " ")
    return f'{target} "{title}"' if title else target


def _with_definitions(parts: Sequence[str], definitions: Mapping[str, str]) -> tuple[str, ...]:
    """Each part with the targets of the links in it: a page defines them in one place, mostly at its end."""
    if not definitions:
        return tuple(parts)
    found: list[str] = []
    for part in parts:
        used: dict[str, str] = {}
        for label in _LABEL.findall(part):
            used.setdefault(normalizeReference(label), label)
        lines = [
            f"[{label}]: {definitions[name]}" for name, label in used.items() if name in definitions
        ]
        found.append("\n\n".join([part, "\n".join(lines)]) if lines else part)
    return tuple(found)


def plain(text: str) -> list[Section]:
    """A text without headings, in parts."""
    lines = text.split("\n")
    starts = [
        number
        for number, line in enumerate(lines)
        if line.strip() and (not number or not lines[number - 1].strip())
    ]
    blocks = [_paragraph(start, end) for start, end in pairwise([*starts, len(lines)])]
    return [Section(0, "", 1, _parts(lines, blocks))]


def _blocks(tokens: Sequence[Token]) -> list[Block]:
    """The outermost blocks. A list may be parted between its entries, code nowhere, anything else between lines."""
    found: list[Block] = []
    entries: list[int] = []
    for token in tokens:
        if token.map is None:
            continue
        if token.level == 0:
            entries = []
            start, end = token.map
            found.append(Block(start, end) if token.type in _CODE else _paragraph(start, end))
        elif token.level == 1 and token.type == "list_item_open":
            entries.append(token.map[0])
            found[-1] = Block(found[-1].start, found[-1].end, tuple(entries[1:]))
    return found


def _paragraph(start: int, end: int) -> Block:
    return Block(start, end, tuple(range(start + 1, end)))


def _parts(lines: Sequence[str], blocks: Sequence[Block]) -> tuple[str, ...]:
    """As few texts as possible, none longer than LONG unless one block or entry is."""
    found: list[str] = []
    start = end = 0
    for first, last in _pieces(lines, blocks):
        if end > start and _length(lines, start, last) > LONG:
            found.append(_text(lines, start, end))
            start = first
        elif end == start:
            start = first
        end = last
    found.append(_text(lines, start, end))
    return tuple(found)


def _pieces(lines: Sequence[str], blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    for block in blocks:
        edges = (
            [block.start, *block.borders, block.end]
            if _length(lines, block.start, block.end) > LONG
            else [block.start, block.end]
        )
        yield from pairwise(edges)


def _length(lines: Sequence[str], start: int, end: int) -> int:
    """Counted only as far as it matters."""
    total = 0
    for line in lines[start:end]:
        total += len(line) + 1
        if total > LONG + 1:
            break
    return total - 1


def _text(lines: Sequence[str], start: int, end: int) -> str:
    return re.sub(r"\A(?:[ \t]*\n)+", "", "\n".join(lines[start:end])).rstrip()


def _spoken(heading: str) -> str:
    """A heading without its markup."""
    if not re.search(r"[*_`\[\]<\\&]", heading):
        return " ".join(heading.split())
    children = MarkdownIt("commonmark").parseInline(heading)[0].children or []
    return " ".join(
        "".join(
            " " if child.type == "softbreak" else child.content
            for child in children
            if child.type != "html_inline"
        ).split()
    )
