"""Writing a batch: items with their terms and records, edges, the change log, dirty marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from knowloom import codec
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Item, Key
from knowloom.ports import Batch, Vector
from knowloom.stores.sqlite import postings, vector_search
from knowloom.stores.sqlite.damage.derived import damaged_index
from knowloom.stores.sqlite.passage_slots import check_segmenter, read_segmenter
from knowloom.stores.sqlite.rows import (
    BODY_FIELDS,
    CHUNK,
    EDGE_COLUMNS,
    RECORD,
    SLOT_BITS,
    Records,
    edge_from_row,
    item_from_body,
    read_records,
    write_records,
)
from knowloom.stores.sqlite.writing.space_update import SpaceUpdate
from knowloom.text import words as analyser
from knowloom.text.passages import embedding_texts

_COUNTERS = "next_slot, items, edges, links, length, digest, links_digest"
_NO_EDGE = (None, None, None)


class BatchWriter:
    """Writes one batch inside the caller's transaction, as a new version of the file."""

    def __init__(self, connection: apsw.Connection, at: str) -> None:
        self._connection = connection
        self._at, self._actor = at, ""
        self._updates: dict[str, SpaceUpdate] = {}
        self._names: dict[int, str] = {}
        self._passage_size = 0
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'commits'")
        ((version,),) = connection.execute("SELECT value FROM meta WHERE key = 'commits'")
        self.version: int = version

    def apply(self, batch: Batch) -> None:
        self._actor = batch.actor
        for key, version in batch.expected:
            stored = self._read_item(self.update_of(key[0]).no, key[1])
            codec.check_version(key, version, stored[1] if stored else None)
        for key in batch.deleted:
            self._delete(key)
        for edge_key in batch.deleted_edges:
            self._delete_edge(edge_key)
        for item in batch.items:
            self._put(item)
        for edge in batch.edges:
            self._put_edge(edge)
        for space, id in batch.marked:
            if self.has_space(space):
                self.mark_dirty(space, [id])
        self.finish()

    def finish(self) -> None:
        """Write the terms, records, dirty marks and counters of all spaces."""
        names = [f"{name} = ?" for name in (*_COUNTERS.split(", "), "version")]
        query = f"UPDATE space SET {', '.join(names)} WHERE no = ?"
        for update in self._updates.values():
            postings.remove_items(self._connection, update.no, self.version, update.removed)
            postings.add_items(self._connection, update.no, self.version, update.added)
            self._write_records(update)
            self._write_dirty(update)
            counts = (update.next_slot, update.items, update.edges, update.links, update.length)
            digests = (codec.format_digest(update.digest), codec.format_digest(update.links_digest))
            self._connection.execute(query, (*counts, *digests, self.version, update.no))
        self._updates.clear()

    def has_space(self, name: str) -> bool:
        return bool(list(self._connection.execute("SELECT 1 FROM space WHERE name = ?", (name,))))

    def update_of(self, name: str) -> SpaceUpdate:
        """Return the update of a space, which is created if it does not exist."""
        if name not in self._updates:
            self._connection.execute("INSERT OR IGNORE INTO space(name) VALUES (?)", (name,))
            query = f"SELECT no, {_COUNTERS} FROM space WHERE name = ?"
            ((no, *counts, digest, links_digest),) = self._connection.execute(query, (name,))
            next_slot, items, edges, links, length = counts
            digests = int(digest, 16), int(links_digest, 16)
            update = SpaceUpdate(no, next_slot, items, edges, links, length, *digests)
            self._updates[name] = update
            self._names[update.no] = name
        return self._updates[name]

    # items

    def _put(self, item: Item) -> None:
        update = self.update_of(item.space)
        stored = self._read_item(update.no, item.id)
        row = codec.item_to_dict(item)
        update.digest += codec.fingerprint(row)
        del row["space"]
        body = codec.to_json(row)
        passages = analyser.count_passage_terms(item, self.passage_size)
        if stored is None:
            slot, before, has_vector = update.take_slots(len(passages)), None, False
            update.items += 1
            values = ((update.no << 32) + slot, update.no, item.id, body)
            self._connection.execute("INSERT INTO item VALUES (?, ?, ?, ?)", values)
        else:
            slot, before = stored
            texts = embedding_texts(before, self.passage_size)
            is_same = texts == embedding_texts(item, self.passage_size)
            slot, has_vector = self._replace(update, slot, before, len(passages), is_same)
            query = "UPDATE item SET body = ? WHERE row = ?"
            self._connection.execute(query, (body, (update.no << 32) + slot))
        update.add_terms(slot, item, passages, has_vector)
        update.mark(item.id, None if before is None else _item_body(before))
        self._log(update.no, item.id, "update" if before else "add", before)

    def _replace(
        self, update: SpaceUpdate, slot: int, before: Item, count: int, keep_vectors: bool
    ) -> tuple[int, bool]:
        """Make room for an item of `count` passages; return its head and if it has vectors."""
        update.digest -= codec.fingerprint(codec.item_to_dict(before))
        removed = update.remove_terms(slot, before, self.passage_size)
        if not keep_vectors or removed != count:
            self.delete_vectors(update.no, slot, removed)
        slot = self.move(update, slot, removed, count)
        return slot, self.has_vector(update.no, slot)

    def _delete(self, key: Key) -> None:
        if not self.has_space(key[0]):
            return
        update = self.update_of(key[0])
        stored = self._read_item(update.no, key[1])
        if stored is not None:
            update.mark(key[1], _item_body(stored[1]))
        for edge in self._read_edges_at(update.no, key[1]):
            if edge.origin == AUTOMATIC:
                update.mark(edge.target, "")  # it may get another edge instead
            self._delete_edge(edge.key)  # even if another store has the item
        if stored is None:
            return
        slot, before = stored
        query = "DELETE FROM item WHERE row = ?"
        self._connection.execute(query, ((update.no << 32) + slot,))
        update.digest -= codec.fingerprint(codec.item_to_dict(before))
        count = update.remove_terms(slot, before, self.passage_size)
        self.delete_vectors(update.no, slot, count)
        update.records.update(dict.fromkeys(range(slot, slot + count)))
        update.items -= 1
        self._log(update.no, key[1], "delete", before)

    # passages

    @property
    def passage_size(self) -> int:
        """The size that stored items are cut to."""
        if not self._passage_size:
            version, passage_size = read_segmenter(self._connection)
            if not version:
                raise damaged_index("the setting of the segmenter", ValueError("no version"))
            check_segmenter(version)
            self._passage_size = passage_size
        return self._passage_size

    def move(self, update: SpaceUpdate, slot: int, before: int, after: int) -> int:
        """Return the head of an item for another number of passages: slots are not reused."""
        if before == after:
            return slot
        head, first = update.take_slots(after), update.no << 32
        query = "UPDATE item SET row = ? WHERE row = ?"
        self._connection.execute(query, (first + head, first + slot))
        update.records.update(dict.fromkeys(range(slot, slot + before)))
        return head

    def delete_vectors(self, space: int, slot: int, count: int) -> None:
        row = (space << 32) + slot
        for table in ("vector", "nearest"):
            query = f"DELETE FROM {table} WHERE row BETWEEN ? AND ?"
            self._connection.execute(query, (row, row + count - 1))

    def count_passages(self, space: int, slots: Iterable[int]) -> dict[int, int]:
        """Return the number of passages of the items at these heads, by their records."""
        chunks: dict[int, Records] = {}
        counts: dict[int, int] = {}
        for slot in slots:
            end = slot + 1
            while True:
                chunk, place = divmod(end, CHUNK)
                if chunk not in chunks:
                    chunks[chunk] = read_records(self._connection, space, chunk)["continuation"]
                if not chunks[chunk][place]:
                    break
                end += 1
            counts[slot] = end - slot
        return counts

    def _read_item(self, space: int, id: str) -> tuple[int, Item] | None:
        """Return the slot and the stored item."""
        query = "SELECT row, body FROM item WHERE space = ? AND id = ?"
        for row, body in list(self._connection.execute(query, (space, id))):
            return row & SLOT_BITS, item_from_body(body, self._names[space])
        return None

    # vectors

    def put_vectors(self, space: str, vectors: Mapping[str, Vector]) -> None:
        """Store vectors of one space by id and mark their items; unknown ids are ignored."""
        update = self.update_of(space)
        slots = self._read_slots(update.no, list(vectors))
        check_segmenter(read_segmenter(self._connection)[0])
        counts = self.count_passages(update.no, slots.values())
        stored: list[tuple[int, Vector]] = []
        for id, slot in slots.items():
            vector, count = vectors[id], counts[slot]
            if vector.ndim == 1:
                stored += [(slot + place, vector) for place in range(count)]
            elif len(vector) == count:
                stored += enumerate(vector, slot)
            else:  # cut into other passages since
                continue
            update.mark(id, "")
        vector_search.write_vectors(self._connection, update.no, self.version, stored)
        for chunk, places in _group_by_chunk(slot for slot, _ in stored).items():
            records = read_records(self._connection, update.no, chunk)
            records["vector"][places] = 1
            write_records(self._connection, update.no, chunk, self.version, records)

    def clear_vector_flags(self) -> None:
        for space, chunk in list(self._connection.execute("SELECT space, chunk FROM item_meta")):
            records = read_records(self._connection, space, chunk)
            records["vector"] = 0
            write_records(self._connection, space, chunk, self.version, records)
        self._connection.execute("UPDATE space SET version = ?", (self.version,))

    def _read_slots(self, space: int, ids: Sequence[str]) -> dict[str, int]:
        """Return the slots of the ids that are stored."""
        query = """SELECT item.id, item.row FROM json_each(?) AS query
            CROSS JOIN item ON item.space = ? AND item.id = query.value"""
        rows = self._connection.execute(query, (codec.to_json(list(ids)), space))
        return {id: row & SLOT_BITS for id, row in rows}

    def has_vector(self, space: int, slot: int) -> bool:
        query = "SELECT 1 FROM vector WHERE row = ?"
        return bool(list(self._connection.execute(query, ((space << 32) + slot,))))

    def has_vectors(self, space: int, slot: int, count: int) -> bool:
        """Return True if each of so many slots has a vector of the stored dimensions."""
        query = """SELECT count(*) FROM vector WHERE row BETWEEN ? AND ?
            AND length(data) = 2 * (SELECT value FROM meta WHERE key = 'dimensions')"""
        first = (space << 32) + slot
        ((vectors,),) = self._connection.execute(query, (first, first + count - 1))
        return bool(vectors == count)

    def _write_records(self, update: SpaceUpdate) -> None:
        for chunk, places in _group_by_chunk(update.records).items():
            records = read_records(self._connection, update.no, chunk)
            for place in places:
                records[place] = update.records[chunk * CHUNK + place] or np.zeros((), RECORD)
            write_records(self._connection, update.no, chunk, self.version, records)

    # dirty marks

    def mark_dirty(self, space: str, ids: Sequence[str]) -> None:
        """Mark items that have not changed, to have their automatic edges recomputed."""
        update = self.update_of(space)
        for id in self._read_slots(update.no, ids):
            update.mark(id, "")

    def _write_dirty(self, update: SpaceUpdate) -> None:
        # An unchanged item ('') that changes later gets its state before that change.
        query = """INSERT INTO dirty VALUES (?, ?, ?)
            ON CONFLICT DO UPDATE SET before = excluded.before WHERE before = ''"""
        rows = ((update.no, id, before) for id, before in update.dirty.items())
        self._connection.executemany(query, rows)

    # edges

    def put_edges(self, edges: Iterable[Edge]) -> None:
        """Insert new edges and count them."""
        self._connection.executemany(
            "INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [self._count_and_encode(edge) for edge in edges],
        )

    def _count_and_encode(self, edge: Edge) -> tuple[Any, ...]:
        update, row = self.update_of(edge.space), codec.edge_to_dict(edge)
        update.count_edge(row, 1)
        plain = edge.item_id is None and not edge.properties and edge.target_space != edge.space
        body = {name: row[name] for name in BODY_FIELDS if name in row}
        return (
            update.no,
            edge.source,
            self.update_of(edge.target_key[0]).no,
            edge.target,
            edge.type,
            edge.weight,
            None if plain else codec.to_json(body),
            edge.origin,
        )

    def _put_edge(self, edge: Edge) -> None:
        update = self.update_of(edge.space)
        before = self._remove_edge(edge.key)
        self.put_edges([edge])
        if edge.origin != AUTOMATIC:
            replaced = before if before and before.origin != AUTOMATIC else None
            self._log(update.no, edge.source, "link", replaced, self._edge_columns(edge))

    def _delete_edge(self, key: EdgeKey) -> None:
        if not self.has_space(key[0][0]) or not self.has_space(key[1][0]):
            return
        before = self._remove_edge(key)
        if before is not None and before.origin != AUTOMATIC:
            space = self.update_of(before.space).no
            self._log(space, before.source, "unlink", before, self._edge_columns(before))

    def _edge_columns(self, edge: Edge) -> tuple[int, str, str]:
        return (self.update_of(edge.target_key[0]).no, edge.target, edge.type)

    def _remove_edge(self, key: EdgeKey) -> Edge | None:
        (space, source), (target_space, target), type = key
        update = self.update_of(space)
        where = "WHERE space = ? AND source = ? AND target_space = ? AND target = ? AND type = ?"
        values = (update.no, source, self.update_of(target_space).no, target, type)
        rows = list(self._connection.execute(f"SELECT {EDGE_COLUMNS} FROM edge {where}", values))
        if not rows:
            return None
        self._connection.execute(f"DELETE FROM edge {where}", values)
        edge = edge_from_row(self._names, rows[0])
        update.count_edge(codec.edge_to_dict(edge), -1)
        return edge

    def _read_edges_at(self, space: int, id: str) -> list[Edge]:
        query = f"""SELECT {EDGE_COLUMNS} FROM edge WHERE space = ?1 AND source = ?2
            UNION SELECT {EDGE_COLUMNS} FROM edge WHERE target_space = ?1 AND target = ?2"""
        names = dict(list(self._connection.execute("SELECT no, name FROM space")))
        rows = list(self._connection.execute(query, (space, id)))
        return sorted((edge_from_row(names, row) for row in rows), key=lambda edge: edge.key)

    def _log(
        self,
        space: int,
        id: str,
        action: str,
        before: Item | Edge | None,
        edge_columns: tuple[object, ...] = _NO_EDGE,
    ) -> None:
        row = None
        if before is not None:
            encode = codec.item_to_dict if isinstance(before, Item) else codec.edge_to_dict
            row = codec.to_json(encode(before))  # type: ignore[arg-type]
        query = """INSERT INTO change_log(
            space, at, id, action, before, target_space, target, type, actor
            ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
        values = (space, self._at, id, action, row, *edge_columns, self._actor)
        self._connection.execute(query, values)


def _item_body(item: Item) -> str:
    row = codec.item_to_dict(item)
    del row["space"]
    return codec.to_json(row)


def _group_by_chunk(slots: Iterable[int]) -> dict[int, list[int]]:
    """Return places within their chunk, by chunk."""
    chunks: dict[int, list[int]] = {}
    for slot in slots:
        chunks.setdefault(slot // CHUNK, []).append(slot % CHUNK)
    return chunks
