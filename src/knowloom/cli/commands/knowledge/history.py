"""The commands `knowloom history`, `knowloom restore` and `knowloom rollback`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from knowloom import codec
from knowloom.cli.options import examples, optional_spaces, parse_time, space_option
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.wire.knowledge import (
    count_steps,
    history_to_json,
    report_to_json,
    rollback_to_json,
)
from knowloom.wire.upkeep import restored_to_json

if TYPE_CHECKING:
    from knowloom.history import Rollback, State
    from knowloom.model import Edge


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom history refund-approval-limits --space support",
        "knowloom history refund-policy --space shared --json",
    ),
)
@click.argument("id")
@space_option()
@click.option(
    "--limit",
    type=int,
    default=1000,
    metavar="N",
    help="Maximum number of changes. Default: 1000.",
)
@click.pass_obj
def history(session: Session, id: str, limit: int, space: str | None = None) -> None:
    """Show the changes of an item and its links, newest first."""
    with session.open(needs_embedder=False) as kb:
        states = kb.history.states(id, space=space, limit=limit)
    session.output(
        history_to_json(states),
        lambda tables: [tables.safe_text(_format_state(state)) for state in states],
    )


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom restore gift-card-refunds --space support --at 2099-01-31",
        "knowloom restore --from knowledge.backup --db restored.db",
    ),
)
@click.argument("id", required=False)
@space_option()
@click.option("--at", type=parse_time, metavar="TIME", help="Restore the state at this time.")
@click.option("--version", metavar="V", help="Restore this version, as listed by knowloom history.")
@click.option("--from", "backup", metavar="BACKUP", help="Restore the whole store from a backup.")
@click.option("--overwrite", is_flag=True, help="With --from: replace an existing store and keys.")
@click.pass_obj
def restore(
    session: Session,
    overwrite: bool,
    id: str | None = None,
    space: str | None = None,
    at: datetime | None = None,
    version: str | None = None,
    backup: str | None = None,
) -> None:
    """Restore an item and its links, or a whole store from a backup.

    A deleted item needs neither --at nor --version: its last state is restored. A backup is
    verified first, and an existing store is replaced only with --overwrite.
    """
    if (id is None) == (backup is None):
        raise click.UsageError("pass the ID of an item, or --from BACKUP")
    if backup is not None:
        if space or at or version:
            raise click.UsageError("--from excludes --space, --at and --version")
        _restore_backup(session, backup, overwrite)
        return
    assert id is not None
    with session.open() as kb:
        report = kb.history.restore(id, space=space, at=at, version=version)
    session.warn(*report.problems, *(f"{row.where}: {row.why}" for row in report.skipped))
    action = "added" if report.added else "updated" if report.updated else "unchanged"
    line = f"{action}: {id} in {space}; links brought back: {report.edges}"
    session.output(report_to_json(report), lambda tables: [tables.safe_text(line)])


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom rollback --to 2099-01-31T12:00:00Z --dry-run",
        "knowloom rollback --to 2099-01-31T12:00:00Z --space support --yes",
    ),
)
@click.option("--to", type=parse_time, required=True, metavar="TIME", help="Time to return to.")
@optional_spaces
@click.option("--dry-run", is_flag=True, help="Only show the changes.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def rollback(
    session: Session, to: datetime, dry_run: bool, yes: bool, spaces: Sequence[str] = ()
) -> None:
    """Return spaces to their state at a time.

    The changes are written all or nothing and added to the history, so that a rollback can itself
    be rolled back.
    """
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("not a terminal: pass --yes to confirm, or --dry-run")
    with session.open(needs_embedder=not dry_run) as kb:
        result = kb.history.rollback(to, spaces=spaces or None, dry_run=True)
        question = f"{_format_counts(result)}. Do it?"
        if result.steps and not dry_run and (yes or click.confirm(question, err=True)):
            result = kb.history.rollback(to, spaces=spaces or None)
    session.warn(*result.problems, *(f"{row.where}: {row.why}" for row in result.skipped))
    session.output(
        rollback_to_json(result),
        lambda tables: [tables.safe_text(line) for line in _format_rollback(result)],
    )
    sys.exit(0 if dry_run or not result.dry_run or not result.steps else 1)


def _restore_backup(session: Session, backup: str, overwrite: bool) -> None:
    import knowloom

    result = knowloom.restore(backup, session.url(), overwrite=overwrite, **session.roles())
    session.warn(*result.problems)
    time = codec.time_to_text(result.at)
    lines = [f"restored: {result.path}, as it was at {time}"]
    lines += [f"profiles: {result.metadata}"] if result.metadata else []
    lines += [f"API keys: {result.keys}"] if result.keys else []
    session.output(restored_to_json(result), lambda tables: [*map(tables.safe_text, lines)])


def _format_state(state: State) -> str:
    name = _format_edge(state.edge) if state.edge else state.item.name if state.item else ""
    parts = (codec.time_to_text(state.at), f"{state.action:<6}", state.version, name)
    return "  ".join(part for part in parts if part)


def _format_edge(edge: Edge) -> str:
    is_local = edge.target_space in ("", edge.space)
    target = edge.target if is_local else f"{edge.target_space}/{edge.target}"
    return f"{edge.source} -[{edge.type} {edge.weight:g}]-> {target}"


def _format_rollback(rollback: Rollback) -> list[str]:
    lines = [
        f"{step.action:<6}  {step.space}  {_format_edge(step.edge) if step.edge else step.id}"
        for step in rollback.steps
    ]
    return [*lines, ("would do" if rollback.dry_run else "done") + f": {_format_counts(rollback)}"]


def _format_counts(rollback: Rollback) -> str:
    counts = count_steps(rollback).items()
    return ", ".join(f"{count:,} {name}" for name, count in counts if count) or "nothing to change"
