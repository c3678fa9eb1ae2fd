"""The administration of an SQLite store: copies, the audit log, retention and erasure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from knowloom import codec
from knowloom.model import EdgeKey, Key
from knowloom.ports import AuditEntry, AuditFilter, BackupHeader, PackedStore
from knowloom.stores.sqlite import verify
from knowloom.stores.sqlite.connections import ReadTransaction
from knowloom.stores.sqlite.database import WRITER_CACHE_KB, connect, translate_errors
from knowloom.stores.sqlite.upkeep import copies, erasure, restoring, upgrades
from knowloom.stores.sqlite.upkeep.erasure import time_key

_ENTRY = "number, at, actor, action, space, id, target_space, target, type"
WHOLE_FILE = 0  # in place of the number of a space
Writing = Callable[[], AbstractContextManager[apsw.Connection]]


class SqliteUpkeep:
    """Use it as `store.upkeep()`."""

    def __init__(self, path: str, reading: Callable[[], ReadTransaction], writing: Writing) -> None:
        self._path, self._reading, self._writing = path, reading, writing

    # The audit log

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        with self._reading() as reader:
            numbers = erasure.read_spaces(reader.connection)
            names = {number: name for name, number in numbers.items()}
            where, values = _conditions(only, numbers)
            query = f"SELECT {_ENTRY} FROM change_log WHERE {where} ORDER BY number DESC LIMIT ?"
            rows = reader.connection.execute(query, (*values, limit))
            return [_decode_entry(names, row) for row in rows]

    def record(self, at: datetime, actor: str, action: str, subject: str) -> None:
        with self._writing() as connection:
            erasure.log_action(connection, WHOLE_FILE, at, subject, action, actor)

    # Erasure

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        with self._writing() as connection:
            erasure.purge(connection, keys, at, actor)

    def compact(self, keys: Sequence[Key]) -> str:
        with self._writing() as connection:
            erasure.delete_derived(connection, keys)
        with (
            translate_errors(self._path),
            closing(connect(self._path, WRITER_CACHE_KB)) as connection,
        ):
            is_complete = erasure.rewrite(connection)
        if is_complete:
            return ""
        return (
            f"another process reads an earlier state of {self._path!r}: its bytes are in "
            f"{f'{self._path}-wal'!r} until then; purge the same items again later"
        )

    def retention(self) -> dict[str, int]:
        query = "SELECT name, retention_days FROM space WHERE retention_days NOT NULL ORDER BY name"
        with self._reading() as reader:
            return dict(list(reader.connection.execute(query)))

    def set_retention(self, space: str, days: int | None) -> None:
        with self._writing() as connection:
            query = "UPDATE space SET retention_days = ? WHERE name = ?"
            connection.execute(query, (days, space))

    def erase_history(self, space: str, until: datetime) -> int:
        with self._writing() as connection:
            return erasure.erase_history(connection, space, until)

    # Backups

    def location(self) -> Path:
        return Path(self._path)

    def copy_to(self, path: Path, header: BackupHeader) -> None:
        with translate_errors(self._path), self._reading() as reader:
            find_problems = partial(verify.find_problems, elsewhere=frozenset(header.elsewhere))
            copies.write_backup(reader.connection, path, header, find_problems)

    def read_backup(self, path: Path) -> BackupHeader:
        return restoring.read_backup(path)

    def state(self) -> str:
        with self._reading() as reader:
            return " ".join(map(str, upgrades.read_state(reader.connection)))

    def pack(self, at: datetime) -> PackedStore:
        header = BackupHeader(at, Path(self._path).name, 0, {})
        query = "SELECT name, id FROM item JOIN space ON space.no = item.space ORDER BY name, id"
        with self._reading() as reader, TemporaryDirectory() as folder:
            path = Path(folder, "packed")
            self.copy_to(path, header)
            keys = tuple(reader.connection.execute(query))
            return PackedStore(self.state(), path.read_bytes(), keys)

    def has_packed(self, data: bytes, keys: Sequence[Key]) -> bool:
        with restoring.unpacked_file(data) as path:
            return copies.has_state(path, keys)

    def backups(self) -> dict[str, datetime]:
        query = "SELECT path, at FROM backup ORDER BY at, path"
        with self._reading() as reader:
            rows = list(reader.connection.execute(query))
        return {path: codec.text_to_time(at) for path, at in rows}

    def update_backups(self, added: Mapping[str, datetime], removed: Sequence[str]) -> None:
        with self._writing() as connection:
            connection.executemany(
                "DELETE FROM backup WHERE path = ?", [(path,) for path in removed]
            )
            rows = [(path, codec.time_to_text(at)) for path, at in added.items()]
            connection.executemany("INSERT OR REPLACE INTO backup VALUES (?, ?)", rows)

    def find_backups_with(self, keys: Sequence[Key], paths: Sequence[str]) -> dict[str, str]:
        reasons: dict[str, str] = {}
        for path in paths:
            try:
                if copies.has_state(Path(path), keys):
                    reasons[path] = ""
            except apsw.Error as error:
                is_missing = not Path(path).exists()
                reasons[path] = "no such file any more" if is_missing else str(error)
        return reasons


def _conditions(only: AuditFilter, numbers: Mapping[str, int]) -> tuple[str, list[Any]]:
    """Return the WHERE clause of a filter and its values."""
    spaces = codec.to_json([numbers.get(name, -1) for name in only.spaces])
    hidden = codec.to_json([numbers.get(name, -1) for name in only.hidden])
    lists = "(SELECT value FROM json_each(?))"
    clauses: list[tuple[bool, str, Sequence[Any]]] = [
        (
            bool(only.spaces),
            f"(space IN {lists} OR target_space IN {lists})",
            (spaces, spaces),
        ),
        (bool(only.id), "(id = ? OR target = ?)", (only.id, only.id)),
        (bool(only.actor), "actor = ?", (only.actor,)),
        (bool(only.actions), f"action IN {lists}", (codec.to_json(list(only.actions)),)),
        (only.since is not None, "rtrim(at, 'Z') >= ?", _times(only.since)),
        (only.until is not None, "rtrim(at, 'Z') <= ?", _times(only.until)),
        (only.before is not None, "number < ?", (only.before,)),
        (bool(only.hidden), f"space NOT IN {lists}", (hidden,)),
    ]
    active = [(text, values) for is_active, text, values in clauses if is_active]
    where = " AND ".join(text for text, _ in active) or "TRUE"
    return where, [value for _, values in active for value in values]


def _times(time: datetime | None) -> tuple[str, ...]:
    return () if time is None else (time_key(time),)


def _decode_entry(names: Mapping[int, str], row: Any) -> AuditEntry:
    number, at, actor, action, space, id, target_space, target, type = row
    name = names.get(space, "")
    link: EdgeKey | None = None
    if target is not None:
        link = ((name, id), (names[target_space], target), type)
    return AuditEntry(number, codec.text_to_time(at), actor, action, name, id, link)
