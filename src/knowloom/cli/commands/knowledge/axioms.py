"""The commands `knowloom axioms` and `knowloom check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowloom.cli.commands.knowledge.load import print_report
from knowloom.cli.options import examples, no_vectors_option, optional_spaces, space_option
from knowloom.cli.program import Command
from knowloom.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.axioms.checker import Checked

COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom axioms examples/axioms.yaml --space shared",
        "knowloom axioms examples/axioms.yaml --space shared --json",
    ),
)
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@space_option("Space of the axioms.")
@no_vectors_option
@click.pass_obj
def axioms(
    session: Session, paths: Sequence[str], no_vectors: bool, space: str | None = None
) -> None:
    """Store the axioms of YAML or JSON files.

    Invalid axioms are skipped and listed with file, line and field; the exit status is 1 only if
    nothing was stored.
    """
    from knowloom.capabilities.axioms import load_axioms
    from knowloom.report import Report

    with session.open(create=True, needs_embedder=not no_vectors) as kb:
        reports = (
            load_axioms(kb, path, space=space, embed=not no_vectors)
            for path in dict.fromkeys(paths)
        )
        report = sum(reports, Report())
    print_report(session, report, "axioms")
    sys.exit(1 if report.skipped and not report.added + report.updated + report.unchanged else 0)


@click.command(
    cls=Command, epilog=examples("knowloom check", "knowloom check --space shared --json")
)
@optional_spaces
@click.pass_obj
def check(session: Session, spaces: Sequence[str] = ()) -> None:
    """Check entities, relationships and claims against the axioms.

    The exit status is 1 if there is a violation of severity error, or an unusable axiom.
    """
    from knowloom.wire.axioms import check_to_json

    with session.open(needs_embedder=False) as kb:
        result = kb.check(spaces or None)
    session.output(check_to_json(result), lambda _: _render_check(result))
    sys.exit(0 if result.ok else 1)


def _render_check(result: Checked) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    summary = Text(
        f"{result.axioms:,} axioms, {result.entities:,} entities, "
        f"{result.relationships:,} relationships, {result.claims:,} claims checked",
        style="dim",
    )
    rows = [
        ("error", space, id, "", f"the rule itself cannot be used: {why}")
        for space, id, why in result.unusable
    ] + [
        (each.severity, each.space, each.id, each.axiom or each.constraint, each.message)
        for each in result.violations
    ]
    if not rows:
        return [summary, Text("nothing is wrong", style="green")]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("severity", "space", "id", "axiom", "what is wrong"):
        table.add_column(name, overflow="fold")
    for severity, *cells in rows:
        texts = (Text(" ".join(cell.split())) for cell in cells)
        table.add_row(Text(severity, style=COLOURS[severity]), *texts)
    return [table, summary]
