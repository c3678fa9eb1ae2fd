"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

MAX_COLUMNS = 200


def format_table(rows: Sequence[Sequence[str]], header: bool = True) -> str:
    """Return the rows as a table of Markdown; empty columns are left out.

    A table without a header row gets an empty one.
    """
    width = min(MAX_COLUMNS, max((len(row) for row in rows), default=0))
    cells = [
        [format_cell(row[column]) if column < len(row) else "" for column in range(width)]
        for row in rows
    ]
    columns = [column for column in range(width) if any(row[column] for row in cells)]
    if not columns:
        return ""
    cells = [[row[column] for column in columns] for row in cells if any(row)]
    first = cells.pop(0) if header else [""] * len(columns)
    lines = [first, ["---"] * len(columns), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_cell(text: str) -> str:
    """Return the text on one line, with its pipes escaped."""
    return " ".join(text.split()).replace("|", "\\|")
