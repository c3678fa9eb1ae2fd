"""The command `knowloom repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowloom.cli.options import examples
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.wire.upkeep import salvaged_to_json

if TYPE_CHECKING:
    from knowloom.ports import Salvaged


@click.command(cls=Command, epilog=examples("knowloom repair knowledge.db --to repaired.db"))
@click.argument("file", metavar="FILE")
@click.option("--to", required=True, metavar="NEW", help="New file for what can be read.")
@click.pass_obj
def repair(session: Session, file: str, to: str) -> None:
    """Salvage what can be read of a damaged file into a new one.

    The damaged file stays as it is. Items that were lost are listed by id, and the exit status is 1
    if there are any.
    """
    from knowloom.factory import repair as repair_file

    salvaged = repair_file(file, to)
    session.output(
        salvaged_to_json(salvaged), lambda tables: [*map(tables.safe_text, _describe(salvaged, to))]
    )
    if salvaged.lost:
        raise click.exceptions.Exit(1)


def _describe(salvaged: Salvaged, to: str) -> list[str]:
    lines = [f"{salvaged.items} items and {salvaged.edges} edges are in {to}"]
    lines.append(f"changes in the history: {salvaged.changes}, lost: {salvaged.lost_changes}")
    if salvaged.lost_vectors:
        lines.append(f"vectors lost: {salvaged.lost_vectors}; run knowloom embed")
    lines += [f"lost: {id} of space {space}" for space, id in salvaged.lost]
    lines += [
        f"read from a damaged page, to be checked: {id} of space {space}"
        for space, id in salvaged.doubtful
    ]
    return lines
