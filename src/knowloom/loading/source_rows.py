"""Rows of a source: the values between reading files and writing items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from knowloom import validation
from knowloom.errors import KnowloomError
from knowloom.model import Edge, Item, Key, Kind
from knowloom.report import Skipped

MAX_SKIPPED = 1_000  # rows of one file that are reported each
MAX_INVALID = 20  # and of a file without any valid row, such as the log of another program


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One object of a file, and its place for messages.

    A `layered` row states one thing about an entity that other rows may complete. A row that is
    read later than the file it belongs to names it as its `part`. `is_document` is a row of a text
    that people wrote, not of data.
    """

    where: str
    values: Mapping[str, Any]
    space: str | None
    layered: bool = False
    part: str = ""
    is_document: bool = False


@dataclass(frozen=True, slots=True)
class SourcePart:
    """One file of a source, which is read when its rows are requested."""

    name: str
    rows: Callable[[], Iterator[SourceRow | Skipped]]
    kind: str = ""  # for the summary of a load
    files: int = 0
    is_links: bool = False  # the edges of all files, which come last


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """The bytes of a document without a file, such as standard input; the name tells its kind."""

    name: str
    raw: bytes


@dataclass(slots=True)
class SkippedRows:
    """The skipped rows of a source; of a file the first of them, and the number of all."""

    is_file: bool
    rows: list[Skipped] = field(default_factory=list)
    count: int = 0
    has_valid: bool = False  # the file has other rows

    def add(self, row: Skipped) -> None:
        self.count += 1
        if not self.is_file or len(self.rows) < MAX_SKIPPED:
            self.rows.append(row)

    def summarise(self) -> list[Skipped]:
        """Return the rows to report: those of a file without any valid one as one."""
        if self.is_file and self.count > MAX_INVALID and not self.has_valid:
            first = self.rows[0]
            reason = f"no row of the file is valid; the first: {first.why}"
            return [Skipped(first.where, f"{self.count:,} rows", reason)]
        if rest := self.count - len(self.rows):
            reason = f"more than {MAX_SKIPPED:,} rows of the file are invalid"
            return [*self.rows, Skipped(self.rows[-1].where, f"{rest:,} rows below", reason)]
        return self.rows


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


def parse_row(row: SourceRow) -> Item | Edge | Skipped:
    """Return the edge of an object with `target`, the item of any other, or why it is invalid."""
    try:
        if "target" in row.values:
            return validation.edge_from_row(row.values, row.space)
        return validation.item_from_row(row.values, row.space)
    except KnowloomError as error:
        id = str(row.values.get("id", row.values.get("source", "")))[:80]
        return Skipped(row.where, id, str(error))


def skip_edges(count: int) -> list[Skipped]:
    """Return one entry for all edges of items that were refused, none if there are none."""
    edges = "1 edge" if count == 1 else f"{count} edges"
    reason = "skipped with the items that contain secrets"
    return [Skipped("edges", edges, reason)] if count else []
