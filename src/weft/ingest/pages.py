"""Pages as rows: one item for the page and one for each section, with a link from each to what it is part of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.errors import Invalid
from weft.ingest import front, sections
from weft.ingest.files import Skipped
from weft.ingest.naming import slug
from weft.ingest.sections import Section

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
        head, text = front.parted(text)
        try:
            said = front.values(head)
        except Invalid as error:
            yield 1, Skipped("", "front matter", str(error))
    found = sections.markdown(text) if suffix in MARKDOWN else sections.plain(text)
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
