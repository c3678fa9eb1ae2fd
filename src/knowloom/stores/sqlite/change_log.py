"""Reading the change log by space and by item, and checking it against the stored knowledge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import Change, Edge, EdgeKey, Item, Key

_COLUMNS = "number, space, at, id, action, before, target_space, target, type, actor"
_EDGE_ACTIONS = ("link", "unlink")
# True for actions on something that exists: these must record what was there before.
_NEEDS_BEFORE = {
    **dict.fromkeys(("add", "link", "purge"), False),
    **dict.fromkeys(("update", "delete", "unlink"), True),
}
ERASED = ""  # in place of what was before a change


def read_space(connection: apsw.Connection, space: str, after: int, limit: int) -> list[Change]:
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    query = f"""SELECT {_COLUMNS} FROM change_log
        WHERE space = (SELECT no FROM space WHERE name = ?) AND number > ?
        ORDER BY number LIMIT ?"""
    return [decode_row(names, row) for row in connection.execute(query, (space, after, limit))]


def read_items(connection: apsw.Connection, keys: Sequence[Key]) -> list[Change]:
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    numbers = {name: no for no, name in names.items()}
    query = f"""SELECT {_COLUMNS} FROM change_log WHERE space = ?1 AND id = ?2
        UNION ALL SELECT {_COLUMNS} FROM change_log
        WHERE target_space = ?1 AND target = ?2 AND NOT (space = ?1 AND id = ?2)"""
    stored = [(numbers[space], id) for space, id in dict.fromkeys(keys) if space in numbers]
    rows = {row[0]: row for row in connection.executemany(query, stored)}
    return [decode_row(names, rows[number]) for number in sorted(rows)]


def decode_row(names: Mapping[int, str], row: Any) -> Change:
    """Return the change of a row with all columns; `names` are those of the spaces."""
    number, space, at, id, action, body, target_space, target, type, actor = row
    link: EdgeKey | None = (
        None if target is None else ((names[space], id), (names[target_space], target), type)
    )
    try:
        time, before = codec.text_to_time(at), _decode_before(action, body)
        erased = body == ERASED
        return Change(number, time, names[space], id, action, before, link, actor, erased)
    except (ValueError, TypeError) as error:
        raise Corrupt(
            f"line {number} of the change log cannot be read ({error}): "
            "restore the file from a backup or an export"
        ) from error


def _decode_before(action: str, body: str | None) -> Item | Edge | None:
    if body is None or body == ERASED:
        return None
    row = json.loads(body)
    return codec.edge_from_dict(row) if action in _EDGE_ACTIONS else codec.item_from_dict(row)


def find_problems(connection: apsw.Connection, space: int, name: str) -> Iterator[str]:
    """Report unreadable lines, and items and edges that the log and the file disagree about."""
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    query = f"SELECT {_COLUMNS} FROM change_log WHERE space = ? ORDER BY number"
    for row in connection.execute(query, (space,)):
        line = f"space {name!r}: line {row[0]} of the change log"
        try:
            change = decode_row(names, row)
        except (Corrupt, LookupError):
            yield f"{line} cannot be read"
            continue
        needs_before = _NEEDS_BEFORE.get(change.action)
        is_lost = change.before is None and not change.erased
        if needs_before is None or (needs_before and is_lost):
            yield f"{line} does not record the state before {change.action!r}"
    for id, problem in _find_drift(connection, _LAST_ITEM_CHANGES, space):
        yield f"space {name!r}: item {id!r} {problem}"
    for id, problem in _find_drift(connection, _LAST_EDGE_CHANGES, space):
        yield f"space {name!r}: the edge {id} {problem}"
    yield from find_unlogged(connection, space, name)


def find_gaps(connection: apsw.Connection) -> Iterator[str]:
    """Report missing lines: they are numbered from 1 and never removed.

    Lines missing at the end are detected by what they logged, see `find_unlogged`.
    """
    ((lines, last),) = connection.execute(
        "SELECT count(*), coalesce(max(number), 0) FROM change_log"
    )
    if lines != last:
        yield f"{last - lines} lines of the change log are missing"


def find_unlogged(connection: apsw.Connection, space: int, name: str) -> Iterator[str]:
    """Report stored items and explicit edges that the log never added."""
    for (id,) in connection.execute(_UNLOGGED_ITEMS, (space,)):
        yield f"space {name!r}: item {id!r} is stored, but the change log did not add it"
    for (id,) in connection.execute(_UNLOGGED_EDGES, (space,)):
        yield f"space {name!r}: the edge {id} is stored, but the change log did not link it"


_UNLOGGED_ITEMS = """SELECT id FROM item WHERE space = ? AND NOT EXISTS (
        SELECT 1 FROM change_log AS log WHERE log.space = item.space AND log.id = item.id
        AND log.action IN ('add', 'update'))"""
_UNLOGGED_EDGES = """SELECT source || ' -[' || type || ']-> ' || target FROM edge
    WHERE space = ? AND origin = '' AND NOT EXISTS (
        SELECT 1 FROM change_log AS log WHERE log.space = edge.space AND log.id = edge.source
        AND log.action = 'link' AND log.target_space = edge.target_space
        AND log.target = edge.target AND log.type = edge.type)"""

# The last line about each item or edge, and if it is stored. Automatic edges are not logged.
_LAST_ITEM_CHANGES = """SELECT id, action, EXISTS (
        SELECT 1 FROM item WHERE item.space = log.space AND item.id = log.id)
    FROM change_log AS log WHERE number IN (
        SELECT max(number) FROM change_log
        WHERE space = ? AND action IN ('add', 'update', 'delete') GROUP BY id)"""
_LAST_EDGE_CHANGES = """SELECT id || ' -[' || type || ']-> ' || target, action, EXISTS (
        SELECT 1 FROM edge WHERE edge.space = log.space AND edge.source = log.id
        AND edge.target_space = log.target_space AND edge.target = log.target
        AND edge.type = log.type AND edge.origin = '')
    FROM change_log AS log WHERE number IN (
        SELECT max(number) FROM change_log
        WHERE space = ? AND target IS NOT NULL GROUP BY id, target_space, target, type)"""


def _find_drift(connection: apsw.Connection, query: str, space: int) -> Iterator[tuple[str, str]]:
    for id, action, stored in connection.execute(query, (space,)):
        deleted = action in ("delete", "unlink")
        if stored and deleted:
            yield id, "is stored, but was deleted by the change log"
        elif not stored and not deleted:
            yield id, "is not stored, but the change log did not delete it"
