"""Reading knowledge from files, folders and dicts: knowloom's rows, three layers, pages. Every bad row is reported with its place, the rest is used."""

from __future__ import annotations

import io
import json
import os
import reprlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from knowloom import validation
from knowloom.errors import Invalid, KnowloomError, NotFound
from knowloom.loading import discovery, three_layer
from knowloom.loading.discovery import File
from knowloom.model import Edge, Item, Key, Kind
from knowloom.report import Skipped

MAX_LINE = 16_000_000  # bytes of one row

Given = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file, and its place for messages. `layered` rows say one thing about an entity that others may complete."""

    where: str
    values: Mapping[str, Any]
    space: str | None
    layered: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a source, read when its rows are asked for."""

    name: str
    rows: Callable[[], Iterator[Row | Skipped]]


@dataclass(slots=True)
class Seen:
    """The ids that have come so far. An entity may come twice, as a node and as a profile in another file."""

    keys: set[Key] = field(default_factory=set)
    _halves: dict[Key, Kind] = field(default_factory=dict)

    def again(self, row: Row, item: Item) -> bool:
        """Whether the item stands there a second time."""
        half = self._halves.pop(item.key, None)
        if item.key in self.keys:
            return not (row.layered and {half, item.kind} == {Kind.ENTITY, Kind.PROFILE})
        self.keys.add(item.key)
        if row.layered:
            self._halves[item.key] = item.kind
        return False


def rows(source: Given, space: str | None) -> Iterator[Row | Skipped]:
    """Everything a source holds."""
    for part in parts(source, space):
        yield from part.rows()


def parts(source: Given, space: str | None) -> list[Part]:
    """The files of a folder (without a space, rows are in that of their file's name and pages in that of the folder's), the one
    file, or the dict. What a folder holds besides is a part that only reports."""
    if isinstance(source, Mapping):
        return [Part("", lambda: _from_object("dict", source, space))]
    if not isinstance(source, str | Path):
        raise Invalid(
            f"knowledge is loaded from a path or a dict with `items` and `edges`, not from {type(source).__name__}"
        )
    path = Path(source)
    if not os.path.exists(path):  # False for what can be no path at all, where Path.exists raises
        raise NotFound(f"no file or folder {str(source)[:200]!r}")
    if not path.is_dir():
        return [
            Part(
                path.name,
                partial(
                    _from_file if space is not None else _with_spaces, File(path, path.name), space
                ),
            )
        ]
    found = discovery.listed(path, SUFFIXES)
    if not any(isinstance(one, File) for one in found):
        raise Invalid(f"no {', '.join(SUFFIXES)} file in {str(source)!r}")
    return [_part(one, space, path.resolve().name) for one in found]


def _with_spaces(file: File, space: str | None) -> Iterator[Row | Skipped]:
    """One file, for which no space was named, is refused when its first row names none: skipping every row would look like success."""
    seen = False
    for row in _from_file(file, space):
        if isinstance(row, Row) and not seen and row.values.get("space") is None:
            raise Invalid(
                f"{str(file.path)!r} does not say which space it belongs to: name one, such as {file.path.stem!r}",
                "no_space",
            )
        seen = seen or isinstance(row, Row)
        yield row


def _part(one: File | Skipped, space: str | None, folder: str) -> Part:
    if isinstance(one, Skipped):
        return Part(one.where, lambda: iter((one,)))
    own = one.path.stem if one.path.suffix.lower() in ROWS else folder
    return Part(one.name, partial(_from_file, one, own if space is None else space))


def parsed(row: Row) -> Item | Edge | Skipped:
    """What a row says: an object with `target` is an edge, any other an item."""
    what = str(row.values.get("id", row.values.get("source", "")))[:80]
    try:
        return (
            validation.edge_from_row(row.values, row.space)
            if "target" in row.values
            else validation.item_from_row(row.values, row.space)
        )
    except KnowloomError as error:
        return Skipped(row.where, what, str(error))


def _from_file(file: File, space: str | None) -> Iterator[Row | Skipped]:
    where = str(file.path)
    try:
        yield from READERS.get(file.path.suffix.lower(), _from_lines)(file, space)
    except KnowloomError as error:
        yield Skipped(where, "the whole file", str(error))
    except RecursionError:
        yield Skipped(where, "the whole file", "not JSON: nested too deeply")
    except ValueError as error:
        yield Skipped(where, "the whole file", f"not JSON: {error}")
    except OSError as error:
        yield Skipped(where, "the rest of the file", f"cannot be read: {error.strerror}")


def _from_json(file: File, space: str | None) -> Iterator[Row | Skipped]:
    return _from_object(
        str(file.path), _loads(discovery.decoded(discovery.content(file.path))), space
    )


def _from_page(file: File, space: str | None) -> Iterator[Row | Skipped]:
    from knowloom.loading import markdown  # a Markdown parser, which rows do without

    text = discovery.decoded(discovery.content(file.path, markdown.MAX_PAGE))
    for line, row in markdown.rows(text, file.name):
        where = f"{file.path}:{line}"
        yield replace(row, where=where) if isinstance(row, Skipped) else Row(where, row, space)


def _from_lines(file: File, space: str | None) -> Iterator[Row | Skipped]:
    with _opened(file.path) as lines:
        number = 0
        while line := lines.readline(MAX_LINE):
            number += 1
            where = f"{file.path}:{number}"
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                yield Skipped(
                    where,
                    ascii(line[:80]),
                    f"a line of more than {MAX_LINE:,} bytes: split its text",
                )
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MAX_LINE)
            elif line.strip():
                yield _from_line(where, line.removeprefix(BOM_UTF8) if number == 1 else line, space)


def _opened(path: Path) -> BinaryIO:
    """Line by line as UTF-8; a file whose mark says that it is something else is decoded as a whole."""
    if not discovery.regular(
        path
    ).st_size:  # so a write that failed looks: its items must not be taken for removed
        raise Invalid("empty: there is no row in it")
    lines = path.open("rb")
    start = lines.peek(4)[:4] if isinstance(lines, io.BufferedReader) else b""
    if discovery.marked(start) in ("", "utf-8-sig"):
        return lines
    lines.close()
    return io.BytesIO(discovery.decoded(discovery.content(path)).encode())


def _from_line(where: str, raw: bytes, space: str | None) -> Row | Skipped:
    try:
        line = raw.decode()
    except UnicodeDecodeError as error:
        return Skipped(where, ascii(raw[:80]), f"not UTF-8: {error}")
    try:
        values = _loads(line)
    except (ValueError, RecursionError) as error:
        return Skipped(where, line.strip()[:80], f"not JSON: {error}")
    return (
        Row(where, values, space)
        if isinstance(values, dict)
        else Skipped(where, line.strip()[:80], "not an object")
    )


def _from_object(where: str, values: object, space: str | None) -> Iterator[Row | Skipped]:
    if isinstance(values, Mapping) and set(values) & set(three_layer.LAYERS):
        return _from_layers(where, values, space)
    return _from_parts(where, {"items": values} if isinstance(values, list) else values, space)


def _from_layers(
    where: str, values: Mapping[str, Any], space: str | None
) -> Iterator[Row | Skipped]:
    for place, row in three_layer.rows(where, values):
        yield (
            replace(row, where=place)
            if isinstance(row, Skipped)
            else Row(place, row, space, layered=True)
        )


def _from_parts(where: str, values: object, space: str | None) -> Iterator[Row | Skipped]:
    if (
        not isinstance(values, Mapping)
        or not set(values) <= {"items", "edges", "layered"}
        or values.get("layered", False) not in (True, False)
    ):
        why = "must be a list of items or an object with `items` and `edges`, or with `metadata`, `pieces` and `graph`"
        yield Skipped(where, "the whole file", why)
        return
    layered = bool(values.get("layered"))  # rows made of layers on another machine
    for part in ("items", "edges"):
        rows = values.get(part, ())
        if not isinstance(rows, list | tuple):
            yield Skipped(f"{where}: {part}", reprlib.repr(rows), "not a list")
            continue
        for number, row in enumerate(rows):
            place = f"{where}: {part}[{number}]"
            yield (
                Row(place, row, space, layered)
                if isinstance(row, Mapping)
                else Skipped(place, reprlib.repr(row), "not an object")
            )


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


ROWS = {".json": _from_json, ".jsonl": _from_lines, ".ndjson": _from_lines}
READERS = {**ROWS, **dict.fromkeys((".md", ".markdown", ".txt", ".rst"), _from_page)}
SUFFIXES = tuple(READERS)
