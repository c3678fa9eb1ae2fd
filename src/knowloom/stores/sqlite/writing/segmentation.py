"""Cutting stored items anew: for another passage size, another segmenter, or an older file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import apsw

from knowloom.model import Item
from knowloom.stores.sqlite.passage_slots import read_segmenter, write_segmenter
from knowloom.stores.sqlite.rows import SLOT_BITS, item_from_body
from knowloom.stores.sqlite.writing.writer import BatchWriter
from knowloom.text import words as analyser
from knowloom.text.passages import PASSAGE_SIZE, SEGMENTER, STRETCH, split_passages

FLUSH_SLOTS = 20_000  # passages whose terms are in memory at once
UNCUT = sys.maxsize // 2  # the passage size of schema 1: each item is one passage


def cut_items(connection: apsw.Connection) -> None:
    """Cut the long items of a file of schema 1; short ones stay as they are."""
    write_segmenter(connection, PASSAGE_SIZE)
    _recut(connection, UNCUT, PASSAGE_SIZE)


def index_items(connection: apsw.Connection) -> None:
    """Build the text index of a file of an older schema anew, by the current analyser."""
    _index(connection, _stored_items(connection))


def resegment(connection: apsw.Connection, passage_size: int) -> None:
    """Cut all items to another size; those whose passages change lose their vectors."""
    version, before = read_segmenter(connection)
    if (version, before) == (SEGMENTER, passage_size):
        return
    write_segmenter(connection, passage_size)
    if version == SEGMENTER:
        _recut(connection, before, passage_size)
    else:
        _cut_all(connection, passage_size)
        index_items(connection)


def rebuild_words(connection: apsw.Connection, items: Iterable[Item]) -> None:
    """Replace the text index by one of these items, as far as they are stored."""
    version, passage_size = read_segmenter(connection)
    if version != SEGMENTER:
        write_segmenter(connection, passage_size)
        _cut_all(connection, passage_size)
    _index(connection, items)


def _recut(connection: apsw.Connection, before: int, after: int) -> None:
    """Move items that are cut into other passages, with their terms."""
    writer = BatchWriter(connection, "")
    for item, slot in _long_items(connection, min(before, after)):
        if split_passages(item.text, before) == split_passages(item.text, after):
            continue
        update = writer.update_of(item.space)
        count = update.remove_terms(slot, item, before)
        writer.delete_vectors(update.no, slot, count)
        passages = analyser.count_passage_terms(item, after)
        head = writer.move(update, slot, count, len(passages))
        update.add_terms(head, item, passages, has_vector=False)
        update.mark(item.id, "")
        if len(update.added) >= FLUSH_SLOTS:
            writer.finish()
    writer.finish()


def _cut_all(connection: apsw.Connection, passage_size: int) -> None:
    """Move items that another segmenter cut; without their terms, which are indexed later."""
    writer = BatchWriter(connection, "")
    for item, slot in _long_items(connection, 0):
        update = writer.update_of(item.space)
        count = writer.count_passages(update.no, [slot])[slot]
        passages = split_passages(item.text, passage_size)
        if (count, len(passages)) != (1, 1):
            writer.delete_vectors(update.no, slot, count)
            head = writer.move(update, slot, count, len(passages))
            update.add_terms(head, item, [{}] * len(passages), has_vector=False)
            update.added.clear()
            update.mark(item.id, "")
    writer.finish()


def _index(connection: apsw.Connection, items: Iterable[Item]) -> None:
    """Delete all terms and index those of these items."""
    writer = BatchWriter(connection, "")
    connection.execute("DELETE FROM posting")
    connection.execute("DELETE FROM delta")
    connection.execute(
        "UPDATE space SET length = 0, version = ?1, delta_reset = ?1", (writer.version,)
    )
    connection.execute("UPDATE meta SET value = ? WHERE key = 'analyser'", (analyser.ANALYSER,))
    query = """SELECT row, body FROM item
        WHERE space = (SELECT no FROM space WHERE name = ?) AND id = ?"""
    for key in (item.key for item in items):
        for row, body in list(connection.execute(query, key)):
            item, slot, update = (
                item_from_body(body, key[0]),
                row & SLOT_BITS,
                writer.update_of(key[0]),
            )
            passages = analyser.count_passage_terms(item, writer.passage_size)
            has_vector = writer.has_vector(update.no, slot)
            update.add_terms(slot, item, passages, has_vector)
            if len(update.added) >= FLUSH_SLOTS:
                writer.finish()
    writer.finish()


def _long_items(connection: apsw.Connection, size: int) -> Iterator[tuple[Item, int]]:
    """Yield the items that may be longer than one passage of this size, with their heads."""
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    query = "SELECT row FROM item WHERE length(body) > ? ORDER BY row"
    # The rows first: cutting an item changes its row.
    for (row,) in list(connection.execute(query, (int(STRETCH * size),))):
        for (body,) in list(connection.execute("SELECT body FROM item WHERE row = ?", (row,))):
            yield item_from_body(body, names[row >> 32]), row & SLOT_BITS


def _stored_items(connection: apsw.Connection) -> Iterator[Item]:
    return (item for item, _ in _long_items(connection, 0))
