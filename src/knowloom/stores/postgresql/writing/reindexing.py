"""Cutting stored items anew, and building the text index anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import psycopg

from knowloom.errors import Conflict
from knowloom.model import Item, Key
from knowloom.stores.postgresql.driver import DeadlineConnection
from knowloom.stores.postgresql.writing.batch_rows import BatchRows, PassageTerms, StoredItem
from knowloom.stores.postgresql.writing.batch_writer import index_passages, read_stored
from knowloom.stores.postgresql.writing.space_counters import SpaceCounters, lock_spaces
from knowloom.text import words
from knowloom.text.passages import SEGMENTER, split_passages

Connection = psycopg.Connection[Any]

PAGE = 1000  # items in memory at once


def read_passage_size(connection: DeadlineConnection) -> int:
    """Return the size that items are cut to; raise Conflict if another segmenter cut them."""
    version, size = _read_segmenter(connection)
    if version != SEGMENTER:
        raise Conflict(
            f"the passages were cut by {version!r}, this knowloom uses {SEGMENTER!r}: run reindex",
            "reindex_required",
        )
    return size


def _read_segmenter(connection: DeadlineConnection) -> tuple[str, int]:
    version, _, size = connection.meta["segmenter"].rpartition(":")
    return version, int(size)


def resegment(connection: DeadlineConnection, passage_size: int) -> None:
    """Cut all items to another size; those whose passages change lose their vectors."""
    version, before = _read_segmenter(connection)
    if (version, before) == (SEGMENTER, passage_size):
        return
    _write_meta(connection, "segmenter", f"{SEGMENTER}:{passage_size}")
    if version != SEGMENTER:
        _rebuild(connection, before=0, after=passage_size, keys=None)
        return
    for space in lock_spaces(connection).values():
        for page in _pages(connection, space):
            rows = BatchRows()
            for stored in page:
                text = stored.item.text
                if split_passages(text, before) != split_passages(text, passage_size):
                    _cut(space, rows, stored, passage_size, has_vector=False)
            _store(connection, space, rows)


def rebuild_words(connection: DeadlineConnection, items: Iterable[Item]) -> None:
    """Replace the text index by one of these items, as far as they are stored.

    All slots are numbered anew, so that those of changed and deleted items are gone.
    """
    version, size = _read_segmenter(connection)
    if version != SEGMENTER:
        _write_meta(connection, "segmenter", f"{SEGMENTER}:{size}")
    before = size if version == SEGMENTER else 0
    _rebuild(connection, before, size, {item.key for item in items})


def _rebuild(connection: Connection, before: int, after: int, keys: set[Key] | None) -> None:
    """Index all items, without the words of those that are not among the keys.

    `before` is the size they were cut to, 0 if another segmenter cut them.
    """
    _write_meta(connection, "analyser", words.ANALYSER)
    connection.execute("DELETE FROM posting")
    for space in lock_spaces(connection).values():
        space.renumber()
        for page in _pages(connection, space):
            rows = BatchRows()
            for stored in page:
                is_short = len(stored.lengths) == len(split_passages(stored.item.text, after)) == 1
                keeps_vectors = stored.has_vector and (before == after or is_short)
                is_indexed = keys is None or stored.item.key in keys
                _cut(space, rows, stored, after, keeps_vectors, is_indexed, is_short or before > 0)
            _store(connection, space, rows)


def _cut(
    space: SpaceCounters,
    rows: BatchRows,
    stored: StoredItem,
    size: int,
    has_vector: bool,
    is_indexed: bool = True,
    is_same: bool = False,
) -> None:
    """Give an item new slots for its passages; it is dirty unless they are the same as before."""
    item = stored.item
    passages = words.count_passage_terms(item, size)
    space.count_passages(stored.lengths, -1)
    terms: PassageTerms = passages if is_indexed else [{}] * len(passages)
    if stored.has_vector:
        rows.keep_vectors(space.no, stored.no, has_vector)
    rows.put(space, stored.no, item, index_passages(space, item, terms), has_vector)
    space.is_changed = True
    if not is_same:
        space.mark(item.id, "")


def _pages(connection: Connection, space: SpaceCounters) -> Iterator[list[StoredItem]]:
    after = -1
    query = "SELECT no, id FROM item WHERE space = %s AND no > %s ORDER BY no LIMIT %s"
    while rows := connection.execute(query, (space.no, after, PAGE)).fetchall():
        keys = [(space.name, id) for _, id in rows]
        yield read_stored(connection, {space.name: space}, keys)
        after = rows[-1][0]


def _store(connection: Connection, space: SpaceCounters, rows: BatchRows) -> None:
    rows.store(connection, {space.name: space}, {})
    if space.is_changed:
        space.store(connection)
    space.dirty.clear()


def _write_meta(connection: Connection, key: str, value: str) -> None:
    connection.execute("UPDATE meta SET value = %s WHERE key = %s", (value, key))
