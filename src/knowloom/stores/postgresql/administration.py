"""The administration of a PostgreSQL store: the audit log, retention and erasure.

Copies are made with PostgreSQL's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from knowloom.errors import Invalid
from knowloom.model import EdgeKey, Key
from knowloom.ports import AuditEntry, AuditFilter, BackupHeader
from knowloom.stores.postgresql.approximate.index_tables import find_tables
from knowloom.stores.postgresql.failures import translate_errors
from knowloom.stores.postgresql.pool import Pool, SnapshotBlock
from knowloom.stores.postgresql.writing import cleaning
from knowloom.stores.postgresql.writing.reindexing import read_passage_size

WHOLE_STORE = 0  # in place of the number of a space
_ENTRY = """SELECT change.number, change.at, change.actor, change.action,
        coalesce(near.name, ''), change.id, far.name, change.target, change.type
    FROM change LEFT JOIN space AS near ON near.no = change.space
    LEFT JOIN space AS far ON far.no = change.target_space"""
_ERASED_TABLES = (
    "item, record, vector, posting, edge, change, dirty, dirty_name, name_index, name_labels"
)


class PostgresqlUpkeep:
    """Use it as `store.upkeep()`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        conditions, values = _conditions(only)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"{_ENTRY} {where} ORDER BY change.number DESC LIMIT %(limit)s"
        with SnapshotBlock(self._pool) as session:
            return [_decode(row) for row in session.fetch(query, {**values, "limit": limit})]

    def record(self, at: datetime, actor: str, action: str, subject: str) -> None:
        with self._pool.writing() as connection:
            cleaning.log_action(connection, WHOLE_STORE, at, subject, action, actor)

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        with self._pool.writing() as connection:
            size = read_passage_size(connection)
            cleaning.purge_items(connection, keys, at, actor, size)

    def compact(self, keys: Sequence[Key]) -> str:
        with self._pool.writing(exclusive=True) as connection:
            cleaning.delete_derived(connection, keys)
        with translate_errors(self._pool.address), self._pool.connecting() as connection:
            tables = ", ".join((_ERASED_TABLES, *find_tables(connection)))
            connection.execute(f"VACUUM {tables}".encode())
        return (
            f"{self._pool.address.name}: free pages, the write-ahead log, replicas and backups of "
            "the server may have the erased bytes until they are overwritten: see VACUUM FULL"
        )

    def retention(self) -> dict[str, int]:
        query = """SELECT name, retention_days FROM space WHERE retention_days IS NOT NULL
            ORDER BY name"""
        with SnapshotBlock(self._pool) as session:
            return {name: days for name, days in session.fetch(query)}

    def set_retention(self, space: str, days: int | None) -> None:
        with self._pool.writing() as connection:
            query = "UPDATE space SET retention_days = %s WHERE name = %s"
            connection.execute(query, (days, space))

    def erase_history(self, space: str, until: datetime) -> int:
        with self._pool.writing() as connection:
            return cleaning.erase_states(connection, space, until)

    def location(self) -> Path:
        self._refuse()

    def copy_to(self, path: Path, header: BackupHeader) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        name = self._pool.address.name
        raise Invalid(f"{name} is not stored in a file: back it up with pg_dump", "no_file")

    def backups(self) -> dict[str, datetime]:
        return {}

    def update_backups(self, added: Mapping[str, datetime], removed: Sequence[str]) -> None:
        self._refuse()

    def find_backups_with(self, keys: Sequence[Key], paths: Sequence[str]) -> dict[str, str]:
        return {}


def _conditions(only: AuditFilter) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions of a filter that restrict, and the values that they name."""
    values = {
        "spaces": list(only.spaces),
        "id": only.id,
        "actor": only.actor,
        "actions": list(only.actions),
        "since": only.since,
        "until": only.until,
        "before": only.before,
        "hidden": list(only.hidden),
    }
    conditions = [text for name, text in _CONDITIONS.items() if values[name] not in (None, "", [])]
    return conditions, values


_CONDITIONS = {
    "spaces": "(coalesce(near.name, '') = ANY(%(spaces)s) OR far.name = ANY(%(spaces)s))",
    "id": "(change.id = %(id)s OR change.target = %(id)s)",
    "actor": "change.actor = %(actor)s",
    "actions": "change.action = ANY(%(actions)s)",
    "since": "change.at >= %(since)s",
    "until": "change.at <= %(until)s",
    "before": "change.number < %(before)s",
    "hidden": "NOT coalesce(near.name, '') = ANY(%(hidden)s)",
}


def _decode(row: Sequence[Any]) -> AuditEntry:
    number, at, actor, action, space, id, target_space, target, type = row
    link: EdgeKey | None = None if target is None else ((space, id), (target_space, target), type)
    return AuditEntry(number, at.astimezone(UTC), actor, action, space, id, link)
