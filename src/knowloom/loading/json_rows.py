"""Read rows of JSON: knowloom's own items and edges, and three layers.

A bad row is reported with its place, the others are used.
"""

from __future__ import annotations

import io
import json
import reprlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from knowloom.errors import Invalid
from knowloom.loading import discovery, three_layer
from knowloom.loading.decoding import decode_text, detect_encoding
from knowloom.loading.discovery import SourceFile
from knowloom.loading.source_rows import SourceRow
from knowloom.report import Skipped

MAX_LINE = 16_000_000  # bytes of one row
MAX_FILE = 100_000_000  # bytes of a file that is parsed as a whole; JSON Lines have no limit


def read_json(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    text = decode_text(discovery.read_regular_file(file.path, MAX_FILE))
    return read_object(str(file.path), _parse_json(text), space)


def read_lines(file: SourceFile, space: str | None) -> Iterator[SourceRow | Skipped]:
    with _open_lines(file.path) as lines:
        yield from parse_lines(lines, str(file.path), space)


def parse_lines(lines: BinaryIO, source: str, space: str | None) -> Iterator[SourceRow | Skipped]:
    """Yield the rows of lines of UTF-8."""
    number = 0
    while line := lines.readline(MAX_LINE):
        number += 1
        where = f"{source}:{number}"
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
    if detect_encoding(start) in ("", "utf-8-sig"):
        return lines
    lines.close()
    return io.BytesIO(decode_text(discovery.read_regular_file(path, MAX_FILE)).encode())


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


def read_object(where: str, values: object, space: str | None) -> Iterator[SourceRow | Skipped]:
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


ROW_READERS = {".json": read_json, ".jsonl": read_lines, ".ndjson": read_lines}
