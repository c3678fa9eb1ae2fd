"""Axioms from files into the knowledge: each becomes an item of kind rule."""

from __future__ import annotations

from pathlib import Path

from weft.axioms import files, read
from weft.engine import Engine
from weft.errors import Invalid
from weft.ingest import check
from weft.ingest.prepare import Report
from weft.ingest.read import Skipped
from weft.model import Item


def load_axioms(kb: Engine, path: str | Path, *, space: str, embed: bool = True) -> Report:
    """Store the axioms of a YAML or JSON file. Wrong ones are skipped and reported with file, line and field."""
    check.name("space", space)
    items: list[Item] = []
    skipped: list[Skipped] = []
    for found in files.axioms(path):
        if isinstance(found, files.Refused):
            skipped.append(Skipped(found.where, found.what, found.why))
            continue
        try:
            items.append(check.item(read.to_item(found.axiom, found.row, space, Path(path).name)))
        except Invalid as error:
            skipped.append(Skipped(found.where, found.axiom.id, str(error)))
    return kb.add(items, embed=embed) + Report(skipped=tuple(skipped))
