"""Rows of an SQLite file read from its bytes, past pages that are damaged or missing.

The format is that of https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

TABLE_LEAF, TABLE_INNER, INDEX_LEAF, INDEX_INNER = 13, 5, 10, 2
HEADER = 100
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table or of an index; `is_doubtful`: a page that it was read from is damaged."""

    rowid: int
    values: tuple[Any, ...]
    is_doubtful: bool


class RawDatabase:
    """The bytes of a file, and the numbers of pages with a wrong checksum."""

    def __init__(self, data: bytes, damaged: frozenset[int]) -> None:
        self._data, self._damaged = data, damaged
        size = int.from_bytes(data[16:18], "big")
        self._size = 65_536 if size == 1 else size if size >= 512 else 4096
        reserved = data[20] if len(data) > 20 else 0
        self._usable = self._size - reserved
        self._count = -(-len(data) // self._size)  # pages
        self._roots = self._read_roots()

    def _read_roots(self) -> dict[str, int]:
        rows = (row.values for row in self._walk(1))
        return {
            values[1]: values[3]
            for values in rows
            if len(values) == 5 and isinstance(values[1], str) and isinstance(values[3], int)
        }

    def rows(self, name: str, columns: int = 0) -> Iterator[Row]:
        """Yield the readable rows of a table or an index, of so many columns (0: of any)."""
        for row in self._walk(self._roots.get(name, 0)):
            if not columns or len(row.values) == columns:
                yield row

    def find_orphans(self, columns: int) -> Iterator[Row]:
        """Yield rows of table pages that no readable page leads to, and that are not free.

        There are such pages only if one above them is damaged. Their rows are doubtful.
        """
        seen = {1, *self._free_pages()}
        for root in self._roots.values():
            for _ in self._walk(root, seen):
                pass
        for number in range(1, self._count + 1):
            if number not in seen and self._page(number)[:1] == bytes([TABLE_LEAF]):
                for row in self._walk(number):
                    if len(row.values) == columns:
                        yield replace(row, is_doubtful=True)

    def _free_pages(self) -> Iterator[int]:
        """Yield the numbers of the free pages, whose rows were deleted."""
        trunk, seen = int.from_bytes(self._data[32:36], "big"), set[int]()
        while 0 < trunk <= self._count and trunk not in seen:
            seen.add(trunk)
            yield trunk
            page = self._page(trunk)
            leaves = min(int.from_bytes(page[4:8], "big"), len(page) // 4 - 2)
            yield from struct.unpack(f">{leaves}I", page[8 : 8 + 4 * leaves])
            trunk = int.from_bytes(page[:4], "big")

    def _walk(self, root: int, visited: set[int] | None = None) -> Iterator[Row]:
        """Yield the rows below a page; inner pages of an index have rows as well."""
        pending, seen = [root], set[int]() if visited is None else visited
        while pending:
            number = pending.pop()
            if number in seen or not 0 < number <= self._count:
                continue
            seen.add(number)
            try:
                children, rows = self._read_page(number)
            except (ValueError, IndexError, struct.error):
                continue
            pending += reversed(children)
            yield from rows

    def _page(self, number: int) -> bytes:
        return self._data[(number - 1) * self._size : number * self._size]

    def _read_page(self, number: int) -> tuple[list[int], list[Row]]:
        """Return the numbers of the child pages, and the rows of the page."""
        page, start = self._page(number), HEADER if number == 1 else 0
        kind, cells = page[start], int.from_bytes(page[start + 3 : start + 5], "big")
        if kind not in (TABLE_LEAF, TABLE_INNER, INDEX_LEAF, INDEX_INNER):
            raise ValueError(f"page {number} is of unknown kind {kind}")
        is_inner = kind in (TABLE_INNER, INDEX_INNER)
        at = start + (12 if is_inner else 8)
        children: list[int] = []
        rows: list[Row] = []
        for place in range(cells):
            cell = int.from_bytes(page[at + 2 * place : at + 2 * place + 2], "big")
            try:
                if is_inner:
                    children.append(int.from_bytes(page[cell : cell + 4], "big"))
                    cell += 4
                if kind != TABLE_INNER:
                    rows.append(self._read_row(page, cell, kind, number in self._damaged))
            except (ValueError, IndexError, struct.error):
                continue
        if is_inner:
            children.append(int.from_bytes(page[start + 8 : start + 12], "big"))
        return children, rows

    def _read_row(self, page: bytes, at: int, kind: int, is_doubtful: bool) -> Row:
        length, at = _read_varint(page, at)
        rowid = 0
        if kind == TABLE_LEAF:
            rowid, at = _read_varint(page, at)
        local = self._local_length(length, kind)
        payload, pages = page[at : at + local], list[int]()
        if local < length:
            following = int.from_bytes(page[at + local : at + local + 4], "big")
            payload, pages = self._read_overflow(payload, following, length)
        values = _decode_record(payload[:length])
        return Row(rowid, values, is_doubtful or not self._damaged.isdisjoint(pages))

    def _local_length(self, length: int, kind: int) -> int:
        usable = self._usable
        maximum = usable - 35 if kind == TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if length <= maximum:
            return length
        minimum = (usable - 12) * 32 // 255 - 23
        fitting = minimum + (length - minimum) % (usable - 4)
        return fitting if fitting <= maximum else minimum

    def _read_overflow(self, payload: bytes, number: int, length: int) -> tuple[bytes, list[int]]:
        pages: list[int] = []
        while number and len(payload) < length:
            page = self._page(number)
            if number in pages or len(page) < self._usable:
                raise ValueError(f"overflow page {number} is missing")
            pages.append(number)
            payload += page[4 : self._usable]
            number = int.from_bytes(page[:4], "big")
        if len(payload) < length:
            raise ValueError("the end of the row is missing")
        return payload, pages


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    value = value << 8 | data[at + 8]
    return (value - (1 << 64) if value >> 63 else value), at + 9


def _decode_record(payload: bytes) -> tuple[Any, ...]:
    end, at = _read_varint(payload, 0)
    kinds: list[int] = []
    while at < end:
        kind, at = _read_varint(payload, at)
        kinds.append(kind)
    values: list[Any] = []
    at = end
    for kind in kinds:
        size = _INTEGER_SIZES.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        data = payload[at : at + size]
        if len(data) < size:
            raise ValueError("the row is truncated")
        values.append(_decode_value(kind, data))
        at += size
    return tuple(values)


def _decode_value(kind: int, data: bytes) -> Any:
    if kind == 0:
        return None
    if kind in _INTEGER_SIZES:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind in (8, 9):
        return kind - 8
    if kind in (10, 11):
        raise ValueError(f"serial type {kind}")
    return data.decode() if kind % 2 else data
