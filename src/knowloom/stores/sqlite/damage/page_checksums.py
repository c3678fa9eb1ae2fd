"""Page checksums: a VFS of SQLite that notices a page that was not written as it is read.

Each page of a file with reserved bytes ends in the CRC-32 of the rest. Files without them are
passed through. SQLite's own checksum VFS is no part of apsw; this one works in the same way.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, local
from typing import Any

import apsw

log = logging.getLogger(__name__)

NAME = "knowloom"
_THREAD = local()
_LOCK = Lock()
RESERVED = 8  # bytes at the end of each page, of which the checksum has the first four
HEADER = 100  # bytes at the start of the file
PAGE_SIZE_AT, RESERVED_AT = 16, 20  # offsets in the header


def register_vfs() -> str:
    """Register the VFS once, and return its name for `apsw.Connection`."""
    with _LOCK:
        if not _REGISTERED:
            _REGISTERED.append(ChecksumVFS())
    return NAME


@contextmanager
def unverified() -> Iterator[None]:
    """Read damaged pages in the block and this thread, in order to overwrite them."""
    _THREAD.is_unverified = True
    try:
        yield
    finally:
        _THREAD.is_unverified = False


def reserve_bytes(connection: apsw.Connection) -> None:
    """Make room for the checksums in a file that has no pages yet, or by the next VACUUM."""
    connection.reserve_bytes("main", RESERVED)


class ChecksumVFS(apsw.VFS):
    """The default VFS, but for the pages of databases."""

    def __init__(self) -> None:
        super().__init__(NAME, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        is_database = flags[0] & apsw.SQLITE_OPEN_MAIN_DB
        return (ChecksumFile if is_database else apsw.VFSFile)("", name, flags)


class ChecksumFile(apsw.VFSFile):
    """A database whose pages are checked on their first read and sealed on every write.

    Pages in the write-ahead log have checksums of SQLite's own, and get ours when they are moved
    into the database. A page that was never written, as free ones may be, consists of zeros.
    """

    def __init__(self, base: str, name: Any, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self._name = name if isinstance(name, str) else str(name and name.filename())
        self._page_size: int | None = None  # 0: without checksums, None: not known yet
        self._checked: set[int] = set()  # offsets of pages that were read or written intact
        self._unsealed: set[int] = set()  # offsets of pages that were written before the header

    def xRead(self, amount: int, offset: int) -> bytes:
        data = super().xRead(amount, offset)
        size = self._page_size
        if size == 0 or offset in self._checked or (not offset and amount <= HEADER):
            return data
        if getattr(_THREAD, "is_unverified", False):
            return data
        size = size or self._read_header()
        if not size:
            return data
        start = offset - offset % size
        if start not in self._checked:
            # Overflow pages are read up to the reserved bytes.
            page = data if amount == size else super().xRead(size, start)
            if len(page) == size and not _is_intact(page):
                raise _damaged_page(self._name, start // size + 1)
            self._checked.add(start)
        return data

    def xWrite(self, data: bytes, offset: int) -> None:
        if not offset and len(data) >= HEADER:
            self._page_size = _parse_header(data)
        size = self._read_header() if self._page_size is None else self._page_size
        if size and len(data) == size:
            self._seal(data, offset)
            for unsealed in sorted(self._unsealed):
                self._seal(super().xRead(size, unsealed), unsealed)
            self._unsealed.clear()
            return
        if size is None:
            self._unsealed.add(offset)
        super().xWrite(data, offset)

    def _seal(self, page: bytes, offset: int) -> None:
        content = bytes(page[:-RESERVED])
        super().xWrite(content + zlib.crc32(content).to_bytes(RESERVED, "little"), offset)
        self._checked.add(offset)

    def _read_header(self) -> int | None:
        """Return the page size of a file with checksums, 0 without, None for a file without pages.

        What a file has never changes.
        """
        if super().xFileSize() >= HEADER:
            header = super().xRead(HEADER, 0)
            self._page_size = _parse_header(header) if any(header) else None
        return self._page_size


def _damaged_page(name: str, number: int) -> Exception:
    reason = f"page {number} has a wrong checksum"
    log.error("%s: %s", name, reason)
    error = apsw.exception_for(apsw.SQLITE_IOERR_DATA)
    error.args = (reason,)
    return error


def _parse_header(header: bytes) -> int:
    if len(header) < HEADER or header[RESERVED_AT] != RESERVED:
        return 0
    size = int.from_bytes(header[PAGE_SIZE_AT : PAGE_SIZE_AT + 2], "big")
    return 65_536 if size == 1 else size


def _is_intact(page: bytes) -> bool:
    content = memoryview(page)[:-RESERVED]
    stored = int.from_bytes(page[-RESERVED:], "little")
    return zlib.crc32(content) == stored or not any(page)


def has_checksums(path: Path) -> bool:
    """Return True if the pages of a file end in checksums."""
    with path.open("rb") as file:
        return bool(_parse_header(file.read(HEADER)))


def find_damaged_pages(path: Path) -> list[int]:
    """Return the numbers of pages with a wrong checksum; none of a file without checksums."""
    with path.open("rb") as file:
        size = _parse_header(file.read(HEADER))
        if not size:
            return []
        file.seek(0)
        pages = iter(lambda: file.read(size), b"")
        return [
            number
            for number, page in enumerate(pages, 1)
            if len(page) < size or not _is_intact(page)
        ]


_REGISTERED: list[ChecksumVFS] = []  # a VFS must not be deleted while a connection uses it
