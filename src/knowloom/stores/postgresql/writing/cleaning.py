"""Erasing: purged items, their states in the change log, and what indexes remember of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import psycopg

from knowloom.model import Key
from knowloom.ports import Batch
from knowloom.stores.postgresql.approximate.index_tables import remove_vectors
from knowloom.stores.postgresql.item_rows import RECORD, ranges
from knowloom.stores.postgresql.writing.batch_rows import columns
from knowloom.stores.postgresql.writing.batch_writer import BatchApplier
from knowloom.stores.postgresql.writing.space_counters import SpaceCounters, lock_spaces

Connection = psycopg.Connection[Any]

SEGMENT_PAGE = 2000  # segments of postings that are read at once
_BY_ID = ("dirty", "dirty_name", "name_labels", "name_index")


def log_action(
    connection: Connection, space: int, at: datetime, id: str, action: str, actor: str
) -> None:
    """Add a line without a state to the change log."""
    query = "INSERT INTO change(space, at, id, action, actor) VALUES (%s, %s, %s, %s, %s)"
    connection.execute(query, (space, at, id, action, actor))


def purge_items(
    connection: Connection, keys: Sequence[Key], at: datetime, actor: str, passage_size: int
) -> None:
    """Delete the items, erase their states and edges from the change log, and log "purge"."""
    BatchApplier(connection, passage_size).apply(Batch(at, deleted=tuple(keys), actor=actor))
    spaces = lock_spaces(connection, {space for space, _ in keys})
    existing = [(spaces[space].no, id) for space, id in keys if space in spaces]
    if not existing:
        return
    for near in (("space", "id"), ("target_space", "target")):
        query = """UPDATE change SET before = NULL, erased = true
            FROM unnest(%s::integer[], %s::text[]) AS gone(no, id)
            WHERE change.{} = gone.no AND change.{} = gone.id AND before IS NOT NULL"""
        connection.execute(query.format(*near).encode(), columns(existing))
    for space, id in existing:
        log_action(connection, space, at, id, "purge", actor)


def erase_states(connection: Connection, space: str, until: datetime) -> int:
    """Erase the states in changes of the space up to a time; return their number."""
    cursor = connection.execute(
        """UPDATE change SET before = NULL, erased = true FROM space
        WHERE space.name = %s AND change.space = space.no AND change.at <= %s
            AND change.before IS NOT NULL RETURNING change.number""",
        (space, until),
    )
    return len(cursor.fetchall())


def delete_derived(connection: Connection, keys: Sequence[Key]) -> None:
    """Delete what the indexes remember of items that no longer exist."""
    for name, space in lock_spaces(connection, {space for space, _ in keys}).items():
        ids = [id for other, id in keys if other == name]
        for table in _BY_ID:
            query = f"""DELETE FROM {table} WHERE space = %s AND id = ANY(%s) AND NOT EXISTS (
                SELECT 1 FROM item WHERE item.space = {table}.space AND item.id = {table}.id)"""
            connection.execute(query.encode(), (space.no, ids))
        clean_postings(connection, space)
        remove_vectors(connection, space.no)


def clean_postings(connection: Connection, space: SpaceCounters) -> None:
    """Remove the slots of former items from all postings of a space."""
    query = b"SELECT string_agg(data, '') FROM record WHERE space = %s"
    ((data,),) = connection.cursor(binary=True).execute(query, (space.no,)).fetchall()
    records = np.frombuffer(data or b"", RECORD)
    alive = np.zeros(space.next_slot, np.bool_)
    alive[ranges(records["first"], records["count"])] = True
    after: tuple[str, int] = ("", -1)
    query = b"""SELECT term, first, slots, counts FROM posting
        WHERE space = %s AND (term, first) > (%s, %s) ORDER BY term, first LIMIT %s"""
    while True:
        cursor = connection.cursor(binary=True)
        rows = cursor.execute(query, (space.no, *after, SEGMENT_PAGE)).fetchall()
        if not rows:
            return
        _clean_segments(connection, space.no, rows, alive)
        after = rows[-1][:2]


def _clean_segments(
    connection: Connection, space: int, rows: Sequence[tuple[Any, ...]], alive: Any
) -> None:
    changed: list[tuple[str, int, bytes, bytes]] = []
    for term, first, slots, counts in rows:
        numbers, frequencies = np.frombuffer(slots, "<i4"), np.frombuffer(counts, np.uint8)
        stays = alive[numbers]
        if not stays.all():
            new = numbers[stays].tobytes(), frequencies[stays].tobytes()
            changed.append((term, first, *new))
    smaller = [row for row in changed if row[2]]
    gone = [row[:2] for row in changed if not row[2]]
    if smaller:
        connection.execute(
            """UPDATE posting SET slots = new.slots, counts = new.counts
            FROM unnest(%b::text[], %b::integer[], %b::bytea[], %b::bytea[])
                AS new(term, first, slots, counts)
            WHERE posting.space = %b AND posting.term = new.term AND posting.first = new.first""",
            (*columns(smaller), space),
        )
    if gone:
        connection.execute(
            """DELETE FROM posting USING unnest(%s::text[], %s::integer[]) AS gone(term, first)
            WHERE posting.space = %s AND posting.term = gone.term AND posting.first = gone.first""",
            (*columns(gone), space),
        )
