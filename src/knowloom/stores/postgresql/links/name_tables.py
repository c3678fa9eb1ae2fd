"""The name index: items by label, and the labels of each item. The linker defines the labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from knowloom import codec
from knowloom.stores.postgresql.item_rows import shorten
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import SpaceArrays
from knowloom.stores.postgresql.writing.batch_rows import columns

Connection = psycopg.Connection[Any]


def put_labels(
    connection: Connection, space: int, labels_by_id: Mapping[str, tuple[str, ...]]
) -> None:
    """Replace the labels of these items; an item without labels is removed."""
    query = "SELECT id, labels FROM name_labels WHERE space = %s AND id = ANY(%s)"
    rows = connection.execute(query, (space, list(labels_by_id)))
    before = {id: {*map(shorten, json.loads(labels))} for id, labels in rows}
    after = {id: {*map(shorten, labels)} for id, labels in labels_by_id.items()}
    lost = [(label, id) for id, old in before.items() for label in sorted(old - after[id])]
    gained = [(label, id) for id, new in after.items() for label in new - before.get(id, set())]
    if lost:
        connection.execute(
            """DELETE FROM name_index USING unnest(%s::text[], %s::text[]) AS lost(label, id)
            WHERE name_index.space = %s AND name_index.label = lost.label
                AND name_index.id = lost.id""",
            (*columns(lost), space),
        )
    if gained:
        connection.execute(
            """INSERT INTO name_index SELECT %s, * FROM unnest(%s::text[], %s::text[])
            ON CONFLICT DO NOTHING""",
            (space, *columns(sorted(gained))),
        )
    query = "DELETE FROM name_labels WHERE space = %s AND id = ANY(%s)"
    connection.execute(query, (space, [id for id, labels in labels_by_id.items() if not labels]))
    lists = sorted((id, codec.to_json(labels)) for id, labels in labels_by_id.items() if labels)
    if lists:
        connection.execute(
            """INSERT INTO name_labels SELECT %s, * FROM unnest(%s::text[], %s::text[])
            ON CONFLICT (space, id) DO UPDATE SET labels = excluded.labels""",
            (space, *columns(lists)),
        )


def labels_of(
    session: ReadSession, view: SpaceArrays, ids: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    query = "SELECT id, labels FROM name_labels WHERE space = %s AND id = ANY(%s)"
    rows = session.fetch(query, (view.no, list(ids))) if ids else []
    labels = {id: text for id, text in rows}
    return {id: tuple(json.loads(labels[id])) for id in ids if id in labels}


def label_holders(
    session: ReadSession, view: SpaceArrays, labels: Sequence[str], limit: int
) -> dict[str, list[str]]:
    """Return the first `limit` ids of each label, in order; unused labels are left out."""
    labels = list(dict.fromkeys(labels))
    if not labels:
        return {}
    query = """SELECT query.place, holder.id
        FROM unnest(%s::text[]) WITH ORDINALITY AS query(label, place)
        CROSS JOIN LATERAL (
            SELECT id FROM name_index WHERE space = %s AND name_index.label = query.label
            ORDER BY id LIMIT %s) AS holder
        ORDER BY query.place, holder.id"""
    result: dict[str, list[str]] = {}
    for place, id in session.fetch(query, ([*map(shorten, labels)], view.no, limit)):
        result.setdefault(labels[place - 1], []).append(id)
    return result


def stale_ids(session: ReadSession, view: SpaceArrays) -> list[str]:
    """Return the ids whose automatic edges by name are out of date, in order."""
    query = "SELECT id FROM dirty_name WHERE space = %s ORDER BY id"
    return [id for (id,) in session.fetch(query, (view.no,))]


def update_dirty_names(
    connection: Connection, space: int, dirty: Sequence[str], clean: Sequence[str]
) -> None:
    """Mark ids as clean, then others as dirty."""
    if clean:
        query = "DELETE FROM dirty_name WHERE space = %s AND id = ANY(%s)"
        connection.execute(query, (space, list(clean)))
    if dirty:
        query = "INSERT INTO dirty_name SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING"
        connection.execute(query, (space, sorted(set(dirty))))
