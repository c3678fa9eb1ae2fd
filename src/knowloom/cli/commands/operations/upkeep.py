"""The commands `knowloom backup`, `purge`, `retention` and `audit`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from knowloom import codec
from knowloom.cli.options import examples, parse_time, repeated, space_option
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.wire.upkeep import (
    audit_to_json,
    backup_to_json,
    backups_to_json,
    purged_to_json,
)

if TYPE_CHECKING:
    from knowloom.operations.backups import RecordedBackup
    from knowloom.operations.purging import Purged
    from knowloom.ports import AuditEntry


class AuditArguments(TypedDict, total=False):
    """The options of `knowloom audit` that are passed on unchanged."""

    id: str
    actor: str
    actions: Sequence[str]
    since: datetime
    until: datetime
    limit: int
    before: int


@click.command(
    cls=Command,
    epilog=examples("knowloom backup --to backups/ --keep 7", "knowloom backup --list"),
)
@click.option(
    "--to",
    metavar="PATH",
    help="New file, or folder (existing, or with a slash at the end). "
    "Default: the folder with .backups appended to the name of the store.",
)
@click.option(
    "--keep", type=int, metavar="N", help="Delete all but the newest N of its backups there."
)
@click.option("--keys", metavar="FILE", help="File of the API keys. Default: beside the store.")
@click.option("--list", "is_list", is_flag=True, help="List the backups instead.")
@click.pass_obj
def backup(
    session: Session,
    is_list: bool,
    to: str | None = None,
    keep: int | None = None,
    keys: str | None = None,
) -> None:
    """Write a verified copy of everything to a new file.

    Other processes may read and write meanwhile. It has the items, vectors, links, history and API
    keys of one moment; knowloom restore --from brings it back.
    """
    if is_list and (to or keep or keys):
        raise click.UsageError("--list excludes --to, --keep and --keys")
    with session.open(needs_embedder=False) as kb:
        if is_list:
            _list_backups(session, kb.maintenance.backups())
            return
        result = kb.maintenance.backup(to, keep=keep, keys=keys)
    session.warn(*result.problems)
    lines = [f"verified backup of {result.size:,} bytes: {result.path}"]
    lines += [f"deleted: {path}" for path in result.removed]
    session.output(backup_to_json(result), lambda tables: [*map(tables.safe_text, lines)])


def _list_backups(session: Session, entries: Sequence[RecordedBackup]) -> None:
    lines = [
        f"{codec.time_to_text(entry.at)}  {entry.path}{'' if entry.exists else '  (gone)'}"
        for entry in entries
    ]
    session.output(
        backups_to_json(entries),
        lambda tables: [*map(tables.safe_text, lines or ["no backups yet"])],
    )


@click.command(
    cls=Command, epilog=examples("knowloom purge gift-card-refunds --space support --yes")
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@space_option("Space of the items.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def purge(session: Session, ids: Sequence[str], yes: bool, space: str | None = None) -> None:
    """Erase items for good: from the store, history, caches and check-in records.

    No byte of their texts is left in the file. The log still has their ids, and who purged them
    when. Backups that have them are listed: delete those. The exit status is 1 if nothing was
    purged or something may be left.
    """
    if not (yes or sys.stdin.isatty()):
        raise click.UsageError("not a terminal: pass --yes to confirm")
    with session.open(needs_embedder=False) as kb:
        question = f"Erase {', '.join(ids)} with all history? It cannot be undone."
        if not (yes or click.confirm(question, err=True)):
            session.error("nothing was purged")
            sys.exit(1)
        result = kb.maintenance.purge(list(ids), space=space)
    session.warn(*result.problems)
    session.output(
        purged_to_json(result), lambda tables: [*map(tables.safe_text, _format_purged(result))]
    )
    sys.exit(0 if result.ids and not result.problems else 1)


def _format_purged(purged: Purged) -> list[str]:
    return [
        f"purged: {', '.join(purged.ids) or 'nothing'}",
        *(f"never stored: {id}" for id in purged.missing),
        *(f"deleted check-in record: {path}" for path in purged.records),
        *(
            f"cannot read the backup {entry.path}: {entry.reason}"
            if entry.reason
            else f"still in the backup {entry.path}"
            for entry in purged.backups
        ),
    ]


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom retention --space support --days 90",
        "knowloom retention --space support --forever",
    ),
)
@space_option("Space to limit.")
@click.option("--days", type=int, metavar="N", help="Erase earlier states after so many days.")
@click.option("--forever", is_flag=True, help="Keep the history of the space.")
@click.pass_obj
def retention(
    session: Session, forever: bool, space: str | None = None, days: int | None = None
) -> None:
    """Limit how long the history of a space is kept, and erase what is older.

    Items stay as they are. Without options the limits are applied and shown.
    """
    if forever and days is not None:
        raise click.UsageError("--days and --forever exclude each other")
    if space is not None and days is None and not forever:
        raise click.UsageError("pass --days or --forever with --space")
    with session.open(needs_embedder=False) as kb:
        if forever or days is not None:
            erased = kb.maintenance.set_retention(space, days)
        else:
            erased = kb.maintenance.apply_retention()
        limits = kb.maintenance.retention()
    lines = [f"{name}: {count} days" for name, count in limits.items()]
    lines = [*(lines or ["all history is kept"]), f"states erased: {erased:,}"]
    session.output(
        {"retention": limits, "erased": erased}, lambda tables: [*map(tables.safe_text, lines)]
    )


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom audit --space support --item refund-policy --since 2099-01-01",
        "knowloom audit --action purge --json",
    ),
)
@repeated("--space", "spaces", "S", "Only changes in this space.")
@click.option("--item", "id", metavar="ID", help="Only changes of this item and its links.")
@click.option("--actor", metavar="NAME", help="Only changes of this author, such as local.")
@repeated("--action", "actions", "A", "Only this action: add, update, delete, purge, backup.")
@click.option("--since", type=parse_time, metavar="TIME", help="Only changes from then on.")
@click.option("--until", type=parse_time, metavar="TIME", help="Only changes up to then.")
@click.option("--limit", type=int, metavar="N", help="Maximum number of entries. Default: 100.")
@click.option("--before", type=int, metavar="N", help="Only entries before this number.")
@click.pass_obj
def audit(
    session: Session,
    /,
    spaces: Sequence[str] = (),
    **options: Unpack[AuditArguments],
) -> None:
    """Show who did what to which item and when, newest first."""
    with session.open(needs_embedder=False) as kb:
        entries = kb.maintenance.audit(spaces, **options)
    session.output(
        audit_to_json(entries),
        lambda tables: [tables.safe_text(_format_entry(entry)) for entry in entries],
    )


def _format_entry(entry: AuditEntry) -> str:
    subject = f"{entry.space}/{entry.id}" if entry.space else entry.id
    if entry.link is not None:
        subject += f" -[{entry.link[2]}]-> {'/'.join(entry.link[1])}"
    parts = (entry.number, codec.time_to_text(entry.at), entry.actor or "unknown", entry.action)
    return "  ".join((*map(str, parts), subject))
