"""Exports: the items and explicit edges of one state of the knowledge, as JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, TextIO

from knowloom import codec
from knowloom.files import translate_errors
from knowloom.model import Filter
from knowloom.reader import Reader


@dataclass(frozen=True, slots=True)
class Exported:
    """The number of items and edges that were written."""

    items: int
    edges: int


def export(
    reader: Reader,
    to: str | Path | TextIO,
    spaces: Sequence[str] | None,
    target_spaces: Sequence[str] | None = None,
) -> Exported:
    """Write the spaces (None: all) of one snapshot to a file, which appears once complete.

    With `target_spaces`, edges that lead to others are left out.
    """
    with reader.snapshot():
        names = reader.resolve_spaces(spaces)
        items = reader.iterate_items(Filter(tuple(names)))
        edges = reader.iterate_edges(names, automatic=False, limit=None, after=None)
        if target_spaces is not None:
            edges = (edge for edge in edges if edge.target_key[0] in target_spaces)
        with open_text(to) as file:
            return Exported(
                _write_rows(file, map(codec.item_to_row, items)),
                _write_rows(file, map(codec.edge_to_dict, edges)),
            )


@contextmanager
def open_text(to: str | Path | TextIO) -> Iterator[TextIO]:
    """Open a file that appears once it is complete; a text stream is used as it is."""
    if not isinstance(to, str | PurePath):
        yield to
        return
    path = Path(to)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with translate_errors(str(path)):
        try:
            with partial.open("w", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _write_rows(file: TextIO, rows: Iterable[dict[str, Any]]) -> int:
    """Write the rows as JSON Lines and return their number."""
    count = 0
    for row in rows:
        file.write(codec.to_json(row) + "\n")
        count += 1
    return count
