"""The commands of axioms: `knowloom axioms` stores them, `knowloom check` finds what breaks them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowloom.cli.session import Command, Session, one_space, some_spaces
from knowloom.wire import encoding

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.axioms.checker import Checked
    from knowloom.axioms.model import Violation

COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.command(
    cls=Command,
    epilog=_examples(
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
@one_space
@click.option("--no-vectors", is_flag=True, help="Do not embed now; knowloom embed does it later.")
@click.pass_obj
def axioms(session: Session, paths: Sequence[str], space: str, no_vectors: bool) -> None:
    """Store the axioms of YAML or JSON files.

    Axioms that are not right are skipped and listed with file, line and field; the exit status is 1 only if nothing was stored.
    """
    from knowloom.capabilities.axioms import load_axioms
    from knowloom.report import Report

    with session.open(create=True, meaning=not no_vectors) as kb:
        report = sum(
            (
                load_axioms(kb, path, space=space, embed=not no_vectors)
                for path in dict.fromkeys(paths)
            ),
            Report(),
        )
    session.warn(*report.problems)
    session.answer(encoding.report(report), lambda screen: [screen.report(report)])
    stored = report.added + report.updated + report.unchanged
    if report.skipped and not session.as_json:
        session.warn(f"{len(report.skipped):,} axioms were skipped") if stored else session.say(
            "error: nothing was stored", "red"
        )
    sys.exit(1 if report.skipped and not stored else 0)


@click.command(
    cls=Command, epilog=_examples("knowloom check", "knowloom check --space shared --json")
)
@some_spaces
@click.pass_obj
def check(session: Session, spaces: Sequence[str]) -> None:
    """Check entities, relationships and claims against the axioms.

    The exit status is 1 if something of the severity error is wrong, or a rule itself.
    """
    with session.open(meaning=False) as kb:
        found = kb.check(spaces or None)
    session.answer(checked(found), lambda _: _shown(found))
    sys.exit(0 if found.ok else 1)


def checked(found: Checked) -> encoding.Row:
    return {
        "ok": found.ok,
        "violations": [violation(one) for one in found.violations],
        "unusable": [{"space": space, "id": id, "why": why} for space, id, why in found.unusable],
        "axioms": found.axioms,
        "entities": found.entities,
        "relationships": found.relationships,
        "claims": found.claims,
    }


def violation(one: Violation) -> encoding.Row:
    return {
        "severity": one.severity,
        "kind": one.kind,
        "space": one.space,
        "id": one.id,
        "name": one.name,
        "axiom": one.axiom,
        "axiom_name": one.axiom_name,
        "constraint": one.constraint,
        "properties": list(one.properties),
        "message": one.message,
        "others": list(one.others),
    }


def _shown(found: Checked) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    said = f"{found.axioms:,} axioms, {found.entities:,} entities, {found.relationships:,} relationships, {found.claims:,} claims checked"
    wrong = [
        ("error", space, id, "", f"the rule itself cannot be used: {why}")
        for space, id, why in found.unusable
    ]
    rows = wrong + [
        (one.severity, one.space, one.id, one.axiom or one.constraint, one.message)
        for one in found.violations
    ]
    if not rows:
        return [Text(said, style="dim"), Text("nothing is wrong", style="green")]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("severity", "space", "id", "axiom", "what is wrong"):
        table.add_column(name, overflow="fold")
    for severity, *others in rows:
        table.add_row(
            Text(severity, style=COLOURS[severity]),
            *(Text(" ".join(one.split())) for one in others),
        )
    return [table, Text(said, style="dim")]


COMMANDS: tuple[click.Command, ...] = (axioms, check)
