"""Read rows from files, folders and dicts: knowloom's own rows, three layers, and pages.

A bad row is reported with its place, the others are used.
"""

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
from knowloom.loading.discovery import SourceFile
from knowloom.model import Edge, Item, Key, Kind
from knowloom.report import Skipped

MAX_LINE = 16_000_000  # bytes of one row

LoadSource = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One object of a file, and its place for messages.

    A `layered` row states one thing about an entity that other rows may complete.
    """

    where: str
    values: Mapping[str, Any]
    space: str | None
    layered: bool = False


@dataclass(frozen=True, slots=True)
class SourcePart:
    """One file of a source, which is read when its rows are requested."""

    name: str
    rows: Callable[[], Iterator[SourceRow | Skipped]]


@dataclass(slots=True)
class SeenItems:
    """The keys of the items so far. An entity may come twice: as a node and as a profile."""

    keys: set[Key] = field(default_factory=set)
    _halves: dict[Key, Kind] = field(default_factory=dict)

    def add(self, row: SourceRow, item: Item) -> Skipped | None:
        """Add the item of a row; return the reason to skip it if it is a duplicate."""
        half = self._halves.pop(item.key, None)
        if item.key not in self.keys:
            self.keys.add(item.key)
            if row.layered:
                self._halves[item.key] = item.kind
        elif not row.layered or {half, item.kind} != {Kind.ENTITY, Kind.PROFILE}:
            return Skipped(row.where, item.id, f"duplicate id {item.id!r} in space {item.space!r}")
        return None


def read_rows(source: LoadSource, space: str | None) -> Iterator[SourceRow | Skipped]:
    """Yield all rows of a source."""
    for part in list_parts(source, space):
        yield from part.rows()


def list_parts(source: LoadSource, space: str | None) -> list[SourcePart]:
    """Return the files of a folder, the single file, or the dict.

    Without a space, rows of a folder go to a space with the name of their file, and pages to one
    with the name of the folder. Files that cannot be loaded are one part that reports them.
    """
    if isinstance(source, Mapping):
        return [SourcePart("", lambda: _read_object("dict", source, space))]
    if not isinstance(source, str | Path):
        raise Invalid(
            f"source must be a path or a dict with `items` and `edges`, got {type(source).__name__}"
        )
    path = Path(source)
    if not os.path.exists(path):  # False for what can be no path at all, where Path.exists raises
        raise NotFound(f"no file or folder {str(source)[:200]!r}")
    if not path.is_dir():
        read = _read_file if space is not None else _read_file_with_spaces
        return [SourcePart(path.name, partial(read, SourceFile(path, path.name), space))]
    files = discovery.list_files(path, SUFFIXES)
    if not any(isinstance(file, SourceFile) for file in files):
        raise Invalid(f"no {', '.join(SUFFIXES)} file in {str(source)!r}")
    return [_build_part(file, space, path.resolve().name) for file in files]


def _build_part(file: SourceFile | Skipped, space: str | None, folder: str) -> SourcePart:
    if isinstance(file, Skipped):
        return SourcePart(file.where, lambda: iter((file,)))
    default = file.path.stem if file.path.suffix.lower() in ROW_READERS else folder
    return SourcePart(file.name, partial(_read_file, file, default if space is None else space))


def _read_file_with_spaces(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    """Read a single file without a space; raise if its first row has none.

    Skipping every row would look like success.
    """
    has_rows = False
    for row in _read_file(file, space):
        if isinstance(row, SourceRow) and not has_rows and row.values.get("space") is None:
            raise Invalid(
                f"{str(file.path)!r} does not name its space: pass one, such as {file.path.stem!r}",
                "no_space",
            )
        has_rows = has_rows or isinstance(row, SourceRow)
        yield row


def parse_row(row: SourceRow) -> Item | Edge | Skipped:
    """Return the edge of an object with `target`, the item of any other, or why it is invalid."""
    try:
        if "target" in row.values:
            return validation.edge_from_row(row.values, row.space)
        return validation.item_from_row(row.values, row.space)
    except KnowloomError as error:
        id = str(row.values.get("id", row.values.get("source", "")))[:80]
        return Skipped(row.where, id, str(error))


def _read_file(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    where = str(file.path)
    try:
        yield from READERS.get(file.path.suffix.lower(), _read_lines)(file, space)
    except KnowloomError as error:
        yield Skipped(where, "the whole file", str(error))
    except RecursionError:
        yield Skipped(where, "the whole file", "not JSON: nested too deeply")
    except ValueError as error:
        yield Skipped(where, "the whole file", f"not JSON: {error}")
    except OSError as error:
        yield Skipped(where, "the rest of the file", f"cannot be read: {error.strerror}")


def _read_json(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    text = discovery.decode_text(discovery.read_regular_file(file.path))
    return _read_object(str(file.path), _parse_json(text), space)


def _read_page(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    from knowloom.loading import markdown  # only pages need the Markdown parser

    text = discovery.decode_text(discovery.read_regular_file(file.path, markdown.MAX_PAGE_BYTES))
    for line, row in markdown.parse_page(text, file.name):
        where = f"{file.path}:{line}"
        if isinstance(row, Skipped):
            yield replace(row, where=where)
        else:
            yield SourceRow(where, row, space)


def _read_lines(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    with _open_lines(file.path) as lines:
        number = 0
        while line := lines.readline(MAX_LINE):
            number += 1
            where = f"{file.path}:{number}"
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                reason = f"a line of more than {MAX_LINE:,} bytes: split its text"
                yield Skipped(where, ascii(line[:80]), reason)
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MAX_LINE)
            elif line.strip():
                line = line.removeprefix(BOM_UTF8) if number == 1 else line
                yield _parse_line(where, line, space)


def _open_lines(path: Path) -> BinaryIO:
    """Open a file as lines of UTF-8; one with another byte order mark is decoded as a whole."""
    # A write that failed leaves an empty file: its items must not be taken for deleted ones.
    if not discovery.stat_regular_file(path).st_size:
        raise Invalid("empty: it has no rows")
    lines = path.open("rb")
    start = lines.peek(4)[:4] if isinstance(lines, io.BufferedReader) else b""
    if discovery.detect_encoding(start) in ("", "utf-8-sig"):
        return lines
    lines.close()
    return io.BytesIO(discovery.decode_text(discovery.read_regular_file(path)).encode())


def _parse_line(where: str, raw: bytes, space: str | None) -> SourceRow | Skipped:
    try:
        line = raw.decode()
    except UnicodeDecodeError as error:
        return Skipped(where, ascii(raw[:80]), f"not UTF-8: {error}")
    try:
        values = _parse_json(line)
    except (ValueError, RecursionError) as error:
        return Skipped(where, line.strip()[:80], f"not JSON: {error}")
    if not isinstance(values, dict):
        return Skipped(where, line.strip()[:80], "not an object")
    return SourceRow(where, values, space)


def _read_object(where: str, values: object, space: str | None) -> Iterator[SourceRow | Skipped]:
    if isinstance(values, Mapping) and set(values) & set(three_layer.LAYERS):
        return _read_layers(where, values, space)
    return _read_lists(where, {"items": values} if isinstance(values, list) else values, space)


def _read_layers(
    where: str, values: Mapping[str, Any], space: str | None
) -> Iterator[SourceRow | Skipped]:
    for place, row in three_layer.parse_layers(where, values):
        if isinstance(row, Skipped):
            yield replace(row, where=place)
        else:
            yield SourceRow(place, row, space, layered=True)


def _read_lists(where: str, values: object, space: str | None) -> Iterator[SourceRow | Skipped]:
    if (
        not isinstance(values, Mapping)
        or not set(values) <= {"items", "edges", "layered"}
        or values.get("layered", False) not in (True, False)
    ):
        reason = (
            "must be a list of items or an object with `items` and `edges`, "
            "or with `metadata`, `pieces` and `graph`"
        )
        yield Skipped(where, "the whole file", reason)
        return
    layered = bool(values.get("layered"))  # rows that a client made of layers
    for name in ("items", "edges"):
        rows = values.get(name, ())
        if not isinstance(rows, list | tuple):
            yield Skipped(f"{where}: {name}", reprlib.repr(rows), "not a list")
            continue
        for number, row in enumerate(rows):
            place = f"{where}: {name}[{number}]"
            if isinstance(row, Mapping):
                yield SourceRow(place, row, space, layered)
            else:
                yield Skipped(place, reprlib.repr(row), "not an object")


def _parse_json(text: str) -> Any:
    return json.loads(text, parse_constant=_reject_constant)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


ROW_READERS = {".json": _read_json, ".jsonl": _read_lines, ".ndjson": _read_lines}
READERS = {**ROW_READERS, **dict.fromkeys((".md", ".markdown", ".txt", ".rst"), _read_page)}
SUFFIXES = tuple(READERS)
