"""Rows of local files, folders and dicts, in batches that a server accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knowloom import codec
from knowloom.loading import readers, source_rows
from knowloom.model import Edge
from knowloom.report import Skipped
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import edge_to_json, item_to_json

MAX_ROWS, MAX_BYTES = 500, 4_000_000  # per request


@dataclass(frozen=True, slots=True)
class UploadRow:
    """A row to send, and its location in the source."""

    where: str
    row: JsonObject
    layered: bool = False
    is_document: bool = False


class UploadSource:
    """The rows of a source: read `items` to the end, then `edges`, then `skipped`."""

    def __init__(
        self,
        source: str | Path | Mapping[str, Any],
        space: str | None,
        default: str | None = None,
    ) -> None:
        self._rows = readers.read_rows(source, space, default=default)
        self._edges: list[UploadRow] = []
        self.skipped: list[Skipped] = []

    def items(self) -> Iterator[list[UploadRow]]:
        return _batches(self._read_items())

    def edges(self) -> Iterator[list[UploadRow]]:
        return _batches(self._edges)

    def _read_items(self) -> Iterator[UploadRow]:
        seen = source_rows.SeenItems()
        for row in self._rows:
            if isinstance(row, Skipped):
                self.skipped.append(row)
                continue
            parsed = source_rows.parse_row(row)
            if isinstance(parsed, Skipped):
                self.skipped.append(parsed)
            elif isinstance(parsed, Edge):
                self._edges.append(UploadRow(row.where, edge_to_json(parsed), row.layered))
            elif duplicate := seen.add(row, parsed):
                self.skipped.append(duplicate)
            else:
                yield UploadRow(row.where, item_to_json(parsed), row.layered, row.is_document)


def _batches(rows: Iterable[UploadRow]) -> Iterator[list[UploadRow]]:
    """Split the rows into batches; those of documents or of three layers come separately."""
    batch: list[UploadRow] = []
    size = 0
    for row in rows:
        if batch and _batch_kind(batch[0]) != _batch_kind(row):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(codec.to_json(row.row).encode())
        if len(batch) == MAX_ROWS or size > MAX_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _batch_kind(row: UploadRow) -> tuple[bool, bool]:
    return row.layered, row.is_document


def batch_options(row: UploadRow, secrets: str | None) -> JsonObject:
    """Return the options of a row's batch; options at their defaults suit older servers, too."""
    options = {"documents": row.is_document or None, "secrets": secrets}
    return {"layered": row.layered} | {k: v for k, v in options.items() if v is not None}


def locate_skipped(skipped: Skipped, batch: Sequence[UploadRow]) -> Skipped:
    """Replace the row's number in the request by its location in the source."""
    match = re.search(r"\[([0-9]+)\]$", skipped.where)
    return replace(skipped, where=batch[int(match[1])].where) if match else skipped
