"""Reading the change log by space and by item."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import Change, Edge, EdgeKey, Item, Key
from knowloom.stores.postgresql.sessions import ReadSession

EDGE_ACTIONS = ("link", "unlink")
_COLUMNS = """change.number, near.name, change.at, change.id, change.action, change.before,
    far.name, change.target, change.type, change.actor, change.erased FROM change
    JOIN space AS near ON near.no = change.space
    LEFT JOIN space AS far ON far.no = change.target_space"""


def read_space_changes(session: ReadSession, space: str, after: int, limit: int) -> list[Change]:
    query = f"""SELECT {_COLUMNS} WHERE near.name = %s AND change.number > %s
        ORDER BY change.number LIMIT %s"""
    return [_decode(row) for row in session.fetch(query, (space, after, limit))]


def read_item_changes(session: ReadSession, keys: Sequence[Key]) -> list[Change]:
    query = f"""WITH selected AS MATERIALIZED (
            SELECT space.no, query.id FROM unnest(%s::text[], %s::text[]) AS query(space, id)
            JOIN space ON space.name = query.space),
        numbers AS (
            SELECT number FROM selected
            JOIN change ON change.space = selected.no AND change.id = selected.id
            UNION SELECT number FROM selected
            JOIN change ON change.target_space = selected.no AND change.target = selected.id)
        SELECT {_COLUMNS} WHERE change.number IN (SELECT number FROM numbers)
        ORDER BY change.number"""
    columns = [space for space, _ in keys], [id for _, id in keys]
    return [_decode(row) for row in session.fetch(query, columns)] if keys else []


def _decode(row: Sequence[Any]) -> Change:
    number, space, at, id, action, state, target_space, target, type, actor, erased = row
    link: EdgeKey | None = None if target is None else ((space, id), (target_space, target), type)
    try:
        before = _decode_before(action, state)
        time = at.astimezone(UTC)
        return Change(number, time, space, id, action, before, link, actor, erased)
    except (ValueError, TypeError) as error:
        raise Corrupt(
            f"line {number} of the change log cannot be read ({error}): "
            "restore it from a backup or an export"
        ) from error


def _decode_before(action: str, state: str | None) -> Item | Edge | None:
    if state is None:
        return None
    row = json.loads(state)
    return codec.edge_from_dict(row) if action in EDGE_ACTIONS else codec.item_from_dict(row)
