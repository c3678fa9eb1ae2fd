"""Building derived tables anew from the items, the explicit edges and the vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import apsw

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import Item
from knowloom.stores.sqlite import verify
from knowloom.stores.sqlite.damage.derived import DECODING_ERRORS, is_damage
from knowloom.stores.sqlite.damage.page_checksums import unverified
from knowloom.stores.sqlite.database import write_transaction
from knowloom.stores.sqlite.passage_slots import read_segmenter, write_segmenter
from knowloom.stores.sqlite.rows import (
    EDGE_COLUMNS,
    SLOT_BITS,
    decode_float16,
    edge_from_row,
    item_from_body,
)
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.vector_search import write_vectors
from knowloom.stores.sqlite.writing.segmentation import FLUSH_SLOTS
from knowloom.stores.sqlite.writing.space_update import SpaceUpdate
from knowloom.stores.sqlite.writing.writer import BatchWriter
from knowloom.text import words as analyser
from knowloom.text.passages import PASSAGE_SIZE, SEGMENTER

log = logging.getLogger(__name__)

INDEX_TABLES = ("item_meta", "posting", "delta", "sign")
LINK_TABLES = ("nearest", "dirty", "dirty_name", "frequent_label", "name_index", "name_labels")
DERIVED_TABLES = (*INDEX_TABLES, *LINK_TABLES)
SOURCE_TABLES = ("item", "edge", "change_log")  # of these only the indexes can be built anew
VECTOR_BATCH = 4096
COUNTERS = "items = 0, edges = 0, links = 0, length = 0, next_slot = 0"


def mend(connection: apsw.Connection) -> bool:
    """Build all derived tables anew if one is damaged; return False if none is.

    Tables whose pages cannot be read are replaced, and the file is rewritten without their pages.
    Damaged items stay as they are. Must be called outside of a transaction.
    """
    unreadable = [table for table in DERIVED_TABLES if not _is_readable(connection, table)]
    unindexed = [table for table in SOURCE_TABLES if not _is_readable(connection, table)]
    problems: list[str] = []
    if not unreadable and not unindexed:
        if read_segmenter(connection)[0] not in ("", SEGMENTER):
            return False  # an older file, which is cut anew
        problems = verify.find_problems(connection)
        if not problems:
            return False
    log.warning("building the index anew: damaged tables: %s", [*unreadable, *unindexed] or "none")
    with write_transaction(connection):
        for table in unindexed:
            _replace_table(connection, table, keep_rows=True)
        for table in unreadable:
            _replace_table(connection, table, keep_rows=False)
        rebuild(connection)
    if unreadable or unindexed or any("never used" in problem for problem in problems):
        with unverified():  # the pages of replaced tables are overwritten
            connection.execute("VACUUM")
    return True


def _is_readable(connection: apsw.Connection, table: str) -> bool:
    """Read all pages of a table and of its indexes, and all rows of the table."""
    query = "SELECT name FROM sqlite_schema WHERE tbl_name = ?"
    names = [name for (name,) in connection.execute(query, (table,))]
    pages = "SELECT count(*) FROM dbstat WHERE name = ? AND pagetype = 'corrupted'"
    try:
        damaged = [count for name in names for (count,) in connection.execute(pages, (name,))]
        for _ in connection.execute(f"SELECT * FROM {table} NOT INDEXED"):
            pass
    except (apsw.Error, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError) or is_damage(error):
            return False
        raise
    return not any(damaged)


def _replace_table(connection: apsw.Connection, table: str, *, keep_rows: bool) -> None:
    """Create a table, or only its indexes, again, without freeing pages that cannot be read.

    The rows of items are copied, since their index cannot be created apart from the table.
    """
    copies = keep_rows and table == "item"
    where = "tbl_name = ? AND sql NOT NULL"
    if copies:
        connection.execute(f"CREATE TEMP TABLE saved AS SELECT * FROM main.{table} NOT INDEXED")
    elif keep_rows:
        where += " AND type = 'index'"
    query = f"SELECT sql FROM sqlite_schema WHERE {where} ORDER BY type DESC"
    statements = [sql for (sql,) in connection.execute(query, (table,))]
    where = where if keep_rows and not copies else "tbl_name = ?"
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute(f"DELETE FROM sqlite_schema WHERE {where}", (table,))
    connection.execute("PRAGMA writable_schema=RESET")
    for statement in statements:
        connection.execute(statement)
    if copies:
        connection.execute(f"INSERT OR REPLACE INTO main.{table} SELECT * FROM temp.saved")
        connection.execute("DROP TABLE temp.saved")


def rebuild(connection: apsw.Connection) -> None:
    """Build all derived tables anew, in the caller's transaction."""
    for table in DERIVED_TABLES:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DELETE FROM edge WHERE origin <> ''")
    _restore_settings(connection)
    writer = BatchWriter(connection, "")
    query = f"""UPDATE space SET {COUNTERS}, digest = '0', links_digest = '0',
        version = ?1, delta_reset = ?1"""
    connection.execute(query, (writer.version,))
    names = dict(list(connection.execute("SELECT no, name FROM space")))
    for no, name in names.items():
        update = writer.update_of(name)
        query = "SELECT row FROM item WHERE row BETWEEN ? AND ? ORDER BY row"
        for (row,) in list(connection.execute(query, (no << 32, (no << 32) + SLOT_BITS))):
            for item in _read_item(connection, row, name):
                _add_item(writer, update, row & SLOT_BITS, item)
            if len(update.added) >= FLUSH_SLOTS:
                writer.finish()
                update = writer.update_of(name)
        _count_edges(connection, update, names)
    writer.finish()
    _rebuild_signs(connection, writer.version)
    connection.execute("INSERT INTO dirty SELECT space, id, NULL FROM item")


def _restore_settings(connection: apsw.Connection) -> None:
    """Write the settings of the index that the tables follow from; unreadable ones anew."""
    try:
        version, size = read_segmenter(connection)
    except DECODING_ERRORS:
        version, size = "", PASSAGE_SIZE
    ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
    if version != SEGMENTER or not isinstance(dimensions, int):
        connection.execute("DELETE FROM vector")
        connection.execute("UPDATE meta SET value = 0 WHERE key = 'dimensions'")
        connection.execute("UPDATE meta SET value = '' WHERE key = 'embedder'")
    write_segmenter(connection, size)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'analyser'", (analyser.ANALYSER,))


def _read_item(connection: apsw.Connection, row: int, space: str) -> Iterator[Item]:
    """Yield the item of a row, if it can be read."""
    query = "SELECT CAST(body AS BLOB), id FROM item WHERE row = ?"
    for body, id in list(connection.execute(query, (row,))):
        try:
            item = item_from_body(body.decode(), space)
        except (Corrupt, UnicodeDecodeError, AttributeError) as error:
            log.error("the item %r of space %r is damaged: %s", id, space, error)
        else:
            yield item


def _add_item(writer: BatchWriter, update: SpaceUpdate, slot: int, item: Item) -> None:
    passages = analyser.count_passage_terms(item, writer.passage_size)
    has_vector = writer.has_vectors(update.no, slot, len(passages))
    if slot < update.next_slot:  # its passages would overlap with those of the item before
        slot, has_vector = writer.move(update, slot, 0, len(passages)), False
    update.next_slot = max(update.next_slot, slot + len(passages))
    update.items += 1
    update.digest += codec.fingerprint(codec.item_to_dict(item))
    update.add_terms(slot, item, passages, has_vector)


def _count_edges(connection: apsw.Connection, update: SpaceUpdate, names: dict[int, str]) -> None:
    query = f"SELECT {EDGE_COLUMNS} FROM edge WHERE space = ?"
    for row in connection.execute(query, (update.no,)):
        try:
            edge = edge_from_row(names, row)
        except DECODING_ERRORS as error:
            log.error("the edge %r is damaged: %s", row[1:5], error)
        else:
            update.count_edge(codec.edge_to_dict(edge), 1)


def _rebuild_signs(connection: apsw.Connection, version: int) -> None:
    """Delete vectors that belong to no item, and write the signs of the others."""
    ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
    connection.execute("DELETE FROM vector WHERE length(data) <> ?", (2 * dimensions,))
    for (no,) in list(connection.execute("SELECT no FROM space")):
        view = SpaceView(no)
        view.refresh(connection)
        slots = view.embedded.nonzero()[0].tolist()
        query = "SELECT row FROM vector WHERE row BETWEEN ? AND ?"
        stored = connection.execute(query, (no << 32, (no << 32) + SLOT_BITS))
        strays = {row & SLOT_BITS for (row,) in stored}.difference(slots)
        delete = "DELETE FROM vector WHERE row = ?"
        connection.executemany(delete, (((no << 32) + slot,) for slot in strays))
        for start in range(0, len(slots), VECTOR_BATCH):
            batch = slots[start : start + VECTOR_BATCH]
            query = "SELECT row, data FROM vector WHERE row BETWEEN ? AND ?"
            bounds = ((no << 32) + batch[0], (no << 32) + batch[-1])
            rows = list(connection.execute(query, bounds))
            vectors = ((row & SLOT_BITS, decode_float16(data)) for row, data in rows)
            write_vectors(connection, no, version, list(vectors))
