"""Reading the change log of the SQLite file: by space, by item; and proving that it tells how the file came to be what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import Change, Edge, EdgeKey, Item, Key

_COLUMNS = "number, space, at, id, action, before, target_space, target, type"
_LINKS = ("link", "unlink")
_FIRST = {
    "add": False,
    "link": False,
    "update": True,
    "delete": True,
    "unlink": True,
}  # whether something was there before


def read_space(connection: apsw.Connection, space: str, after: int, limit: int) -> list[Change]:
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    query = f"SELECT {_COLUMNS} FROM change WHERE space = (SELECT no FROM space WHERE name = ?) AND number > ? ORDER BY number LIMIT ?"
    return [_change(names, row) for row in connection.execute(query, (space, after, limit))]


def read_items(connection: apsw.Connection, keys: Sequence[Key]) -> list[Change]:
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    numbers = {name: no for no, name in names.items()}
    query = f"""SELECT {_COLUMNS} FROM change WHERE space = ?1 AND id = ?2
        UNION ALL SELECT {_COLUMNS} FROM change WHERE target_space = ?1 AND target = ?2 AND NOT (space = ?1 AND id = ?2)"""
    asked = [(numbers[space], id) for space, id in dict.fromkeys(keys) if space in numbers]
    found = {row[0]: row for row in connection.executemany(query, asked)}
    return [_change(names, found[number]) for number in sorted(found)]


def _change(names: Mapping[int, str], row: Any) -> Change:
    number, space, at, id, action, body, target_space, target, type = row
    link: EdgeKey | None = (
        None if target is None else ((names[space], id), (names[target_space], target), type)
    )
    try:
        return Change(
            number, codec.text_to_time(at), names[space], id, action, _before(action, body), link
        )
    except (ValueError, TypeError) as error:
        raise Corrupt(
            f"line {number} of the change log cannot be read ({error}): restore the file from a backup or an export"
        ) from error


def _before(action: str, body: str | None) -> Item | Edge | None:
    if body is None:
        return None
    return (
        codec.edge_from_dict(json.loads(body))
        if action in _LINKS
        else codec.item_from_dict(json.loads(body))
    )


def find_problems(connection: apsw.Connection, space: int, name: str) -> Iterator[str]:
    """Where the log and the file disagree: lines that cannot be read, what is stored though it was deleted, what is gone though it was not."""
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    for row in connection.execute(
        f"SELECT {_COLUMNS} FROM change WHERE space = ? ORDER BY number", (space,)
    ):
        try:
            change = _change(names, row)
        except (Corrupt, LookupError):
            yield f"space {name!r}: line {row[0]} of the change log cannot be read"
            continue
        if change.action not in _FIRST or (_FIRST[change.action] and change.before is None):
            yield f"space {name!r}: line {row[0]} of the change log does not say what was there before {change.action!r}"
    yield from (
        f"space {name!r}: item {id!r} {what}" for id, what in _drifted(connection, _ITEMS, space)
    )
    yield from (
        f"space {name!r}: the edge {id} {what}" for id, what in _drifted(connection, _EDGES, space)
    )
    yield from find_unlogged(connection, space, name)


def find_gaps(connection: apsw.Connection) -> Iterator[str]:
    """Lines are numbered from 1 on and never taken out. Those at the end are missed by what they told of: see `unlogged`."""
    ((lines, last),) = connection.execute("SELECT count(*), coalesce(max(number), 0) FROM change")
    if lines != last:
        yield f"{last - lines} lines of the change log are missing"


def find_unlogged(connection: apsw.Connection, space: int, name: str) -> Iterator[str]:
    """What is stored, but nobody added by the log."""
    for (id,) in connection.execute(_UNLOGGED_ITEMS, (space,)):
        yield f"space {name!r}: item {id!r} is stored, but the change log did not add it"
    for (id,) in connection.execute(_UNLOGGED_EDGES, (space,)):
        yield f"space {name!r}: the edge {id} is stored, but the change log did not link it"


_UNLOGGED_ITEMS = """SELECT id FROM item WHERE space = ?
    AND NOT EXISTS (SELECT 1 FROM change WHERE change.space = item.space AND change.id = item.id AND change.action IN ('add', 'update'))"""
_UNLOGGED_EDGES = """SELECT source || ' -[' || type || ']-> ' || target FROM edge WHERE space = ? AND origin = ''
    AND NOT EXISTS (SELECT 1 FROM change WHERE change.space = edge.space AND change.id = edge.source AND change.action = 'link'
        AND (change.target IS NULL OR (change.target_space = edge.target_space AND change.target = edge.target AND change.type = edge.type)))"""

# The last line about each, and whether it is stored; links of knowloom's own leave no line. Of a new link of schema 1 the log does not know which edge it was.
_ITEMS = """SELECT id, action, EXISTS (SELECT 1 FROM item WHERE item.space = change.space AND item.id = change.id)
    FROM change WHERE number IN (SELECT max(number) FROM change WHERE space = ? AND action IN ('add', 'update', 'delete') GROUP BY id)"""
_EDGES = """SELECT id || ' -[' || type || ']-> ' || target, action, EXISTS (SELECT 1 FROM edge WHERE edge.space = change.space AND edge.source = change.id
        AND edge.target_space = change.target_space AND edge.target = change.target AND edge.type = change.type AND edge.origin = '')
    FROM change WHERE number IN (SELECT max(number) FROM change WHERE space = ? AND target IS NOT NULL GROUP BY id, target_space, target, type)
    AND NOT EXISTS (SELECT 1 FROM change AS unnamed WHERE unnamed.space = change.space AND unnamed.id = change.id AND unnamed.action = 'link'
        AND unnamed.target IS NULL AND unnamed.number > change.number)"""


def _drifted(connection: apsw.Connection, query: str, space: int) -> Iterator[tuple[str, str]]:
    for id, action, stored in connection.execute(query, (space,)):
        gone = action in ("delete", "unlink")
        if stored == gone:
            yield (
                id,
                "is stored, but was deleted by the change log"
                if gone
                else "is not stored, but the change log did not delete it",
            )
