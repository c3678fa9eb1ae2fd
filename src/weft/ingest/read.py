"""Reading knowledge from files: JSON Lines, JSON, and folders of them. Every bad row is reported with its place, the rest is used."""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import Invalid, NotFound, WeftError
from weft.ingest import check
from weft.model import Edge, Item

MAX_LINE = 16_000_000  # bytes of one row
SUFFIXES = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not stored: where it stood, what it was, why not."""

    where: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file, and its place for messages."""

    where: str
    values: Mapping[str, Any]
    space: str | None


def rows(source: str | Path | Mapping[str, Any], space: str | None) -> Iterator[Row | Skipped]:
    """The objects of a file, of every file in a folder (a file's name is its space unless one is given), or of a dict with
    `items` and `edges`."""
    if isinstance(source, Mapping):
        yield from _from_object("dict", source, space)
        return
    if not isinstance(source, str | Path):
        raise Invalid(f"knowledge is loaded from a path or a dict with `items` and `edges`, not from {type(source).__name__}")
    path = Path(source)
    if not os.path.exists(path):  # False for what can be no path at all, where Path.exists raises
        raise NotFound(f"no file or folder {str(source)[:200]!r}")
    if path.is_file():
        yield from _from_file(path, space)
        return
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        raise Invalid(f"no {', '.join(SUFFIXES)} file in {str(source)!r}")
    for file in files:
        yield from _from_file(file, file.stem if space is None else space)


def parsed(row: Row) -> Item | Edge | Skipped:
    """What a row says: an object with `target` is an edge, any other an item."""
    what = str(row.values.get("id", row.values.get("source", "")))[:80]
    try:
        return check.edge_from_row(row.values, row.space) if "target" in row.values else check.item_from_row(row.values, row.space)
    except WeftError as error:
        return Skipped(row.where, what, str(error))


def _from_file(path: Path, space: str | None) -> Iterator[Row | Skipped]:
    try:
        if path.suffix == ".json":
            yield from _from_object(str(path), _loads(path.read_text("utf-8-sig")), space)
        else:
            yield from _from_lines(path, space)
    except UnicodeDecodeError as error:
        yield Skipped(str(path), "the rest of the file", f"not UTF-8: {error}")
    except (ValueError, RecursionError) as error:
        yield Skipped(str(path), "the whole file", f"not JSON: {error}")
    except OSError as error:
        yield Skipped(str(path), "the rest of the file", f"cannot be read: {error.strerror}")


def _from_lines(path: Path, space: str | None) -> Iterator[Row | Skipped]:
    with path.open("rb") as lines:
        number = 0
        while line := lines.readline(MAX_LINE):
            number += 1
            where = f"{path}:{number}"
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                yield Skipped(where, ascii(line[:80]), f"a line of more than {MAX_LINE:,} bytes: split its text")
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MAX_LINE)
            elif line.strip():
                yield _from_line(where, line.removeprefix(BOM_UTF8) if number == 1 else line, space)


def _from_line(where: str, raw: bytes, space: str | None) -> Row | Skipped:
    try:
        line = raw.decode()
    except UnicodeDecodeError as error:
        return Skipped(where, ascii(raw[:80]), f"not UTF-8: {error}")
    try:
        values = _loads(line)
    except (ValueError, RecursionError) as error:
        return Skipped(where, line.strip()[:80], f"not JSON: {error}")
    return Row(where, values, space) if isinstance(values, dict) else Skipped(where, line.strip()[:80], "not an object")


def _from_object(where: str, values: object, space: str | None) -> Iterator[Row | Skipped]:
    if isinstance(values, list):
        values = {"items": values}
    if not isinstance(values, Mapping) or not set(values) <= {"items", "edges"}:
        yield Skipped(where, "the whole file", "must be a list of items or an object with `items` and `edges`")
        return
    for part in ("items", "edges"):
        rows = values.get(part, ())
        if not isinstance(rows, list | tuple):
            yield Skipped(f"{where}: {part}", str(rows)[:80], "not a list")
            continue
        for number, row in enumerate(rows):
            place = f"{where}: {part}[{number}]"
            yield Row(place, row, space) if isinstance(row, Mapping) else Skipped(place, str(row)[:80], "not an object")


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
