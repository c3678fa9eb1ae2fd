"""A spool of change logs in a temporary file: in order, and with the next change of each subject.

The file is private to this process and is gone when it ends, even if it is killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from knowloom import codec
from knowloom.model import Change, Edge, EdgeKey, Item

EDGE_ACTIONS = ("link", "unlink")
_TABLE = """PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;
    CREATE TABLE line(
        space TEXT, number INTEGER, clock TEXT, batch INTEGER, identity BLOB, subject TEXT,
        body TEXT, done INTEGER DEFAULT 0);
    CREATE INDEX by_subject ON line(space, subject, number);
    CREATE INDEX by_identity ON line(space, identity, done, number)"""


class ChangeSpool:
    """The lines of the change logs of several spaces, and which of them another log has."""

    def __init__(self) -> None:
        self._connection = apsw.Connection("")  # SQLite deletes it on close
        self._connection.execute(_TABLE).fetchall()  # runs all statements
        self._last: dict[str, tuple[str, str, int]] = {}  # the time, the latest one, the batch

    def close(self) -> None:
        self._connection.close()

    def add(self, changes: Iterable[Change]) -> None:
        """Add lines of one space, in their order."""
        query = "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, 0)"
        with self._connection:
            self._connection.executemany(query, map(self._encode, changes))

    def _encode(self, change: Change) -> tuple[Any, ...]:
        at = change.at.isoformat(timespec="microseconds")
        last, clock, batch = self._last.get(change.space, ("", "", 0))
        clock, batch = max(clock, at), batch + (at != last)
        self._last[change.space] = (at, clock, batch)
        place = (change.space, change.number, clock, batch)
        return (*place, _identity(change), _subject(change), _to_json(change))

    def last_number(self, space: str) -> int:
        """Return the number of the last line of a space, 0 without any."""
        query = "SELECT coalesce(max(number), 0) FROM line WHERE space = ?"
        ((number,),) = self._connection.execute(query, (space,))
        return int(number)

    def match(self, changes: Iterable[Change]) -> Change | None:
        """Mark the lines that another log has; return the first that only the other one has."""
        query = """UPDATE line SET done = 1 WHERE rowid = (SELECT rowid FROM line
            WHERE space = ? AND identity = ? AND NOT done ORDER BY number LIMIT 1)"""
        with self._connection:
            for change in changes:
                self._connection.execute(query, (change.space, _identity(change)))
                if not self._connection.changes():
                    return change
        return None

    def has_gap(self, space: str) -> bool:
        """Return True if the lines that were matched are not the first ones of the space.

        Lines of one time may be in any order: they are one write, or two logs were merged.
        """
        query = """SELECT EXISTS (SELECT 1 FROM line WHERE space = ?1 AND NOT done AND batch < (
            SELECT max(batch) FROM line WHERE space = ?1 AND done))"""
        ((gap,),) = self._connection.execute(query, (space,))
        return bool(gap)

    def count_pending(self) -> int:
        ((count,),) = self._connection.execute("SELECT count(*) FROM line WHERE NOT done")
        return int(count)

    def pending(self) -> Iterator[Change]:
        """Yield the lines that the other log does not have, in the order of the writes.

        Numbers that two spaces share are positions in a log of their own: times order those.
        """
        ((shared,),) = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM line GROUP BY number HAVING count(*) > 1)"
        )
        order = "clock, number, space" if shared else "number"
        query = f"SELECT space, number, body FROM line WHERE NOT done ORDER BY {order}"
        for row in self._connection.execute(query):
            yield _from_json(*row)

    def next_of(self, change: Change) -> Change | None:
        """Return the next line about the same item or edge; it has the state after this one."""
        query = """SELECT space, number, body FROM line
            WHERE space = ? AND subject = ? AND number > ? ORDER BY number LIMIT 1"""
        values = (change.space, _subject(change), change.number)
        return next((_from_json(*row) for row in self._connection.execute(query, values)), None)


def _subject(change: Change) -> str:
    return codec.to_json([change.id] if change.link is None else change.link)


def _identity(change: Change) -> bytes:
    """Return a hash of what a line says, without the state before, which may be erased."""
    row = [codec.time_to_text(change.at), change.id, change.action, change.link, change.actor]
    return hashlib.blake2b(codec.to_json(row).encode(), digest_size=16).digest()


def _to_json(change: Change) -> str:
    before = change.before
    encode = codec.item_to_dict if isinstance(before, Item) else codec.edge_to_dict
    row = None if before is None else encode(before)  # type: ignore[arg-type]
    at = codec.time_to_text(change.at)
    values = [at, change.id, change.action, row, change.link, change.actor, change.erased]
    return codec.to_json(values)


def _from_json(space: str, number: int, body: str) -> Change:
    at, id, action, row, ends, actor, erased = json.loads(body)
    link: EdgeKey | None = None if ends is None else (tuple(ends[0]), tuple(ends[1]), ends[2])
    before: Item | Edge | None = None
    if row is not None:
        decode = codec.edge_from_dict if action in EDGE_ACTIONS else codec.item_from_dict
        before = decode(row)
    return Change(number, codec.text_to_time(at), space, id, action, before, link, actor, erased)
