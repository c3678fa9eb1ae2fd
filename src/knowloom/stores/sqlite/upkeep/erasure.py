"""Erasing items and history, so that no byte of them is left in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import apsw

from knowloom import codec
from knowloom.model import Key
from knowloom.ports import Batch
from knowloom.stores.sqlite import vector_search
from knowloom.stores.sqlite.change_log import ERASED
from knowloom.stores.sqlite.rows import SLOT_BITS
from knowloom.stores.sqlite.writing.writer import BatchWriter

_DERIVED = ("dirty", "dirty_name", "name_index", "name_labels")  # by space and id
_ERASE_STATES = f"""UPDATE change_log SET before = '{ERASED}'
    WHERE before <> '{ERASED}' AND ((space = ?1 AND id = ?2) OR (target_space = ?1 AND target = ?2))
"""
_HAS_CHANGES = """SELECT 1 FROM change_log
    WHERE space = ? AND id = ? AND action IN ('add', 'update', 'delete') LIMIT 1"""


def purge(connection: apsw.Connection, keys: Sequence[Key], at: datetime, actor: str) -> None:
    """Delete items and erase their states and edges from the log, inside a transaction."""
    connection.execute("PRAGMA secure_delete=ON").fetchall()
    numbers = read_spaces(connection)
    writer = BatchWriter(connection, codec.time_to_text(at))
    slots = {space: _read_slots(connection, writer, space, keys) for space in numbers}
    writer.apply(Batch(at, deleted=tuple(keys), actor=actor))
    for space, cleared in slots.items():
        vector_search.clear_signs(connection, numbers[space], writer.version, cleared)
    for space, id in keys:
        if space in numbers:
            connection.execute(_ERASE_STATES, (numbers[space], id))
            if list(connection.execute(_HAS_CHANGES, (numbers[space], id))):
                log_action(connection, numbers[space], at, id, "purge", actor)


def _read_slots(
    connection: apsw.Connection, writer: BatchWriter, space: str, keys: Sequence[Key]
) -> list[int]:
    """Return the slots of the passages of the items in a space."""
    query = """SELECT row FROM item
        WHERE space = (SELECT no FROM space WHERE name = ?) AND id = ?"""
    rows = [row for key in keys if key[0] == space for (row,) in connection.execute(query, key)]
    if not rows:
        return []
    counts = writer.count_passages(rows[0] >> 32, [row & SLOT_BITS for row in rows])
    return [slot for head, count in counts.items() for slot in range(head, head + count)]


def read_spaces(connection: apsw.Connection) -> dict[str, int]:
    """Return the number of each space."""
    return dict(list(connection.execute("SELECT name, no FROM space")))


def log_action(
    connection: apsw.Connection, space: int, at: datetime, id: str, action: str, actor: str
) -> None:
    """Add a line to the change log; number 0 stands for the whole file."""
    query = "INSERT INTO change_log(space, at, id, action, actor) VALUES (?, ?, ?, ?, ?)"
    connection.execute(query, (space, codec.time_to_text(at), id, action, actor))


def erase_history(connection: apsw.Connection, space: str, until: datetime) -> int:
    """Erase what was before the changes of a space up to a time; the lines stay."""
    connection.execute("PRAGMA secure_delete=ON").fetchall()
    query = f"""UPDATE change_log SET before = '{ERASED}' WHERE before <> '{ERASED}'
        AND space = (SELECT no FROM space WHERE name = ?) AND rtrim(at, 'Z') <= ?"""
    connection.execute(query, (space, time_key(until)))
    return connection.changes()


def time_key(time: datetime) -> str:
    """Return a time as a text that sorts like it: `Z` would sort behind a fraction."""
    return codec.time_to_text(time).removesuffix("Z")


def delete_derived(connection: apsw.Connection, keys: Sequence[Key]) -> None:
    """Delete what automatic edges remember of items that no longer exist."""
    connection.execute("PRAGMA secure_delete=ON").fetchall()
    numbers: Mapping[str, int] = read_spaces(connection)
    stored = [(numbers[space], id) for space, id in keys if space in numbers]
    exists = "SELECT 1 FROM item WHERE item.space = ?1 AND item.id = ?2"
    for table in _DERIVED:
        query = f"DELETE FROM {table} WHERE space = ?1 AND id = ?2 AND NOT EXISTS ({exists})"
        connection.executemany(query, stored)


def rewrite(connection: apsw.Connection) -> bool:
    """Write the whole file anew, without the remains of earlier rows in unused space.

    Return False if another process reads an earlier state, which is then still in the log file.
    """
    connection.execute("PRAGMA secure_delete=ON").fetchall()
    connection.execute("PRAGMA temp_store=FILE").fetchall()  # the file may be larger than memory
    connection.execute("VACUUM")
    ((is_busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return not is_busy
