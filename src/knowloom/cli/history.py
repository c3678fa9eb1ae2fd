"""The commands of the past: `knowloom history`, `knowloom restore` and `knowloom rollback`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from knowloom import codec
from knowloom.cli.session import Command, Session, one_space, some_spaces, time
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.history import Rollback, State
    from knowloom.model import Edge


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.command(
    cls=Command,
    epilog=_examples(
        "knowloom history refund-approval-limits --space support",
        "knowloom history refund-policy --space shared --json",
    ),
)
@click.argument("id")
@one_space
@click.option(
    "--limit",
    type=int,
    default=1000,
    metavar="N",
    help="How many changes, at most, the newest first. Default: 1000.",
)
@click.pass_obj
def history(session: Session, id: str, space: str, limit: int) -> None:
    """Show what happened to an item and its links, newest first."""
    with session.open(meaning=False) as kb:
        found = kb.history(id, space=space, limit=limit)
    session.answer(
        encoding.history(found), lambda screen: [screen.safe(_line(state)) for state in found]
    )


@click.command(
    cls=Command,
    epilog=_examples(
        "knowloom restore gift-card-refunds --space support --at 2099-01-31",
        "knowloom restore gift-card-refunds --space support --at 2099-01-31 --json",
    ),
)
@click.argument("id")
@one_space
@click.option("--at", type=time, metavar="TIME", help="As it was at that time.")
@click.option(
    "--version", metavar="V", help="In the state of this version, as knowloom history shows it."
)
@click.pass_obj
def restore(
    session: Session, id: str, space: str, at: datetime | None, version: str | None
) -> None:
    """Bring an item back, with the links it had then.

    A deleted item needs neither --at nor --version: it comes back as it was at last.
    """
    with session.open() as kb:
        report = kb.restore(id, space=space, at=at, version=version)
    session.warn(*report.problems, *(f"{one.where}: {one.why}" for one in report.skipped))
    done = "added" if report.added else "updated" if report.updated else "unchanged"
    session.answer(
        encoding.report(report),
        lambda screen: [
            screen.safe(f"{done}: {id} in {space}; links brought back: {report.edges}")
        ],
    )


@click.command(
    cls=Command,
    epilog=_examples(
        "knowloom rollback --to 2099-01-31T12:00:00Z --dry-run",
        "knowloom rollback --to 2099-01-31T12:00:00Z --space support --yes",
    ),
)
@click.option(
    "--to",
    type=time,
    required=True,
    metavar="TIME",
    help="The time whose knowledge is wanted back.",
)
@some_spaces
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", is_flag=True, help="Do not ask. Required where nobody can be asked.")
@click.pass_obj
def rollback(
    session: Session, to: datetime, spaces: Sequence[str], dry_run: bool, yes: bool
) -> None:
    """Make spaces what they were at a time.

    It is written as new changes, all or nothing: the history stays, and a rollback can itself be rolled back.
    """
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("nobody can be asked here: --yes or --dry-run is required")
    with session.open(meaning=not dry_run) as kb:
        told = kb.rollback(to, spaces=spaces or None, dry_run=True)
        if (
            told.steps
            and not dry_run
            and (yes or click.confirm(f"{_counts(told)}. Do it?", err=True))
        ):
            told = kb.rollback(to, spaces=spaces or None)
    session.warn(*told.problems, *(f"{one.where}: {one.why}" for one in told.skipped))
    session.answer(
        encoding.rollback(told), lambda screen: [screen.safe(line) for line in _shown(told)]
    )
    sys.exit(0 if dry_run or not told.dry_run or not told.steps else 1)


def _line(state: State) -> str:
    said = _arrow(state.edge) if state.edge else state.item.name if state.item else ""
    return "  ".join(
        part
        for part in (codec.time_to_text(state.at), f"{state.action:<6}", state.version, said)
        if part
    )


def _arrow(edge: Edge) -> str:
    target = (
        f"{edge.target_space}/{edge.target}"
        if edge.target_space not in ("", edge.space)
        else edge.target
    )
    return f"{edge.source} -[{edge.type} {edge.weight:g}]-> {target}"


def _shown(told: Rollback) -> list[str]:
    lines = [
        f"{step.action:<6}  {step.space}  {_arrow(step.edge) if step.edge else step.id}"
        for step in told.steps
    ]
    return [*lines, ("would do" if told.dry_run else "done") + f": {_counts(told)}"]


def _counts(told: Rollback) -> str:
    return (
        ", ".join(f"{count:,} {action}" for action, count in encoding.steps(told).items() if count)
        or "nothing to change"
    )


COMMANDS: tuple[click.Command, ...] = (history, restore, rollback)
