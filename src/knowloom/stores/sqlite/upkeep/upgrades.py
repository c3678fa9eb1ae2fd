"""The backup of a file before its schema is upgraded, beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import apsw

from knowloom import codec
from knowloom.errors import Unavailable
from knowloom.ports import BackupHeader
from knowloom.stores.sqlite.upkeep import copies

_STATE = """SELECT (SELECT value FROM meta WHERE key = 'commits'),
    (SELECT coalesce(max(number), 0) FROM change_log)"""


def back_up(path: str) -> Path:
    """Write the committed state of a file to a backup beside it, and return its path.

    An earlier backup of the same state, as an interrupted upgrade leaves it, is used again.
    """
    source = Path(path).absolute()
    with closing(copies.open_file(source)) as connection:
        connection.execute("BEGIN")
        schema, state = connection.pragma("user_version"), read_state(connection)
        for target in _names(source, schema):
            if not target.exists():
                break
            if _has_state(target, schema, state):
                return target
        header = BackupHeader(datetime.now(UTC), source.name, schema, {})
        try:
            copies.write_backup(connection, target, header, _find_problems)
        except (Unavailable, apsw.FullError) as error:
            raise Unavailable(
                f"{path!r} has schema {schema} and was not upgraded: its backup {str(target)!r} "
                f"cannot be written ({error})",
                getattr(error, "code", "") or "disk_full",
            ) from error
    return target


def record(connection: apsw.Connection, backup: Path) -> None:
    """Record the backup in the upgraded file."""
    row = (str(backup), codec.time_to_text(datetime.now(UTC)))
    connection.execute("INSERT OR REPLACE INTO backup VALUES (?, ?)", row)


def _names(source: Path, schema: int) -> Iterator[Path]:
    yield source.with_name(f"{source.name}.schema-{schema}.backup")
    for number in count(2):
        yield source.with_name(f"{source.name}.schema-{schema}-{number}.backup")


def _has_state(path: Path, schema: int, state: tuple[object, ...]) -> bool:
    try:
        with closing(copies.open_immutable(path)) as connection:
            return connection.pragma("user_version") == schema and read_state(connection) == state
    except apsw.Error:  # not a backup, or damaged
        return False


def read_state(connection: apsw.Connection) -> tuple[object, ...]:
    """Return the numbers of the last commit and of the last change."""
    (row,) = connection.execute(_STATE)
    return tuple(row)


def _find_problems(connection: apsw.Connection) -> list[str]:
    """Check the pages only: the checks of the content are those of the current schema."""
    return [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
