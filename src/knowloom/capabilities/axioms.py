"""Load axioms from files into the knowledge, as items of kind rule."""

from __future__ import annotations

from pathlib import Path

from knowloom.axioms.axiom_files import RejectedAxiom, read_axioms
from knowloom.axioms.parsing import axiom_to_item
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.model import Item
from knowloom.report import Report, Skipped
from knowloom.validation import validate_item, validate_name


def load_axioms(
    kb: Engine, path: str | Path, *, space: str | None = None, embed: bool = True
) -> Report:
    """Store the axioms of a YAML or JSON file.

    Invalid ones are skipped and reported with file, line and field.
    """
    space = validate_name("space", kb.reader.choose_space(space))
    items: list[Item] = []
    skipped: list[Skipped] = []
    for entry in read_axioms(path):
        if isinstance(entry, RejectedAxiom):
            skipped.append(Skipped(entry.where, entry.what, entry.why))
            continue
        try:
            item = axiom_to_item(entry.axiom, entry.row, space, Path(path).name)
            items.append(validate_item(item))
        except Invalid as error:
            skipped.append(Skipped(entry.where, entry.axiom.id, str(error)))
    return kb.add(items, embed=embed) + Report(skipped=tuple(skipped))
