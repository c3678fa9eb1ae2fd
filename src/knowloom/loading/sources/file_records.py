"""Records of loaded files: a file whose time and bytes are the same is not parsed again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from knowloom import codec
from knowloom.loading.document_links import LinkTable
from knowloom.loading.file_formats import FileFormat, missing_packages
from knowloom.loading.sections import DocumentRow, DocumentRows

PARSER_VERSION = 1  # increase it whenever a parser or `sections` returns other rows


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The state of a parsed file, and all that its rows had besides items."""

    state: str
    items: int
    edges: tuple[DocumentRow, ...]  # between its own items
    anchors: Mapping[str, str]
    links: tuple[tuple[str, str, str], ...]
    names: tuple[str, ...]

    def to_json(self) -> list[Any]:
        return [self.state, self.items, self.edges, self.anchors, self.links, self.names]

    @staticmethod
    def from_json(row: list[Any]) -> FileRecord:
        state, items, edges, anchors, links, names = row
        return FileRecord(
            state,
            items,
            tuple(edges),
            anchors,
            tuple((id, target, type) for id, target, type in links),
            tuple(names),
        )


class RestoredEdge(NamedTuple):
    """An edge of a file that was not parsed, and the file."""

    name: str
    space: str | None
    edge: DocumentRow


@dataclass(slots=True)
class FileRecords:
    """The records of one source: those of its last load, and those of this one.

    `scanner` identifies the rules about secrets, which decide if an item may be stored. Only a
    loader sets `is_intact`: without it, every file is parsed.
    """

    scanner: str = ""
    previous: dict[str, FileRecord] = field(default_factory=dict)
    current: dict[str, FileRecord] = field(default_factory=dict)
    unchanged: set[str] = field(default_factory=set)  # files that were not parsed
    edges: list[RestoredEdge] = field(default_factory=list)  # of those files
    is_intact: Callable[[str], bool] = lambda name: False

    def state_of(self, raw: bytes, mtime_ns: int, space: str | None, format: FileFormat) -> str:
        """Return what the rows of a file depend on: its bytes, and who parses them."""
        digest = hashlib.blake2b(raw, digest_size=16).hexdigest()
        reader = [PARSER_VERSION, self.scanner, space, format.parser, missing_packages(format)]
        return codec.to_json([mtime_ns, digest, *reader])

    def restore(self, name: str, state: str, space: str | None, links: LinkTable) -> bool:
        """Add the edges and links of an unchanged file; return False if it must be parsed."""
        record = self.previous.get(name)
        if record is None or record.state != state or not self.is_intact(name):
            return False
        self.current[name] = record
        self.unchanged.add(name)
        links.add(name, DocumentRows((), record.anchors, record.links), space, record.names)
        self.edges += (RestoredEdge(name, space, edge) for edge in record.edges)
        return True

    def add(self, name: str, state: str, rows: DocumentRows, names: tuple[str, ...]) -> None:
        """Record a file that was parsed."""
        edges = tuple(row for _, row in rows.rows if "target" in row)
        items = len(rows.rows) - len(edges)
        self.current[name] = FileRecord(state, items, edges, rows.anchors, rows.links, names)
