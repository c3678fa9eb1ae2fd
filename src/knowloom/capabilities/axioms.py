"""Axioms from files into the knowledge: each becomes an item of kind rule."""

from __future__ import annotations

from pathlib import Path

from knowloom import validation
from knowloom.axioms import files, parsing
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.model import Item
from knowloom.report import Report, Skipped


def load_axioms(kb: Engine, path: str | Path, *, space: str, embed: bool = True) -> Report:
    """Store the axioms of a YAML or JSON file. Wrong ones are skipped and reported with file, line and field."""
    validation.name("space", space)
    items: list[Item] = []
    skipped: list[Skipped] = []
    for found in files.read_axioms(path):
        if isinstance(found, files.RejectedAxiom):
            skipped.append(Skipped(found.where, found.what, found.why))
            continue
        try:
            items.append(
                validation.item(
                    parsing.axiom_to_item(found.axiom, found.row, space, Path(path).name)
                )
            )
        except Invalid as error:
            skipped.append(Skipped(found.where, found.axiom.id, str(error)))
    return kb.add(items, embed=embed) + Report(skipped=tuple(skipped))
