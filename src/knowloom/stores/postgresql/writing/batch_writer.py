"""Applying a batch: in memory first, on the rows that it touches, then in a few statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psycopg

from knowloom import codec
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Item, Key
from knowloom.ports import Batch
from knowloom.stores.postgresql.edge_queries import COLUMNS, read_edges
from knowloom.stores.postgresql.item_rows import (
    RECORD,
    decode_edge,
    decode_item,
    filter_terms,
    item_state,
)
from knowloom.stores.postgresql.writing.batch_rows import BatchRows, PassageTerms, StoredItem
from knowloom.stores.postgresql.writing.space_counters import (
    SpaceCounters,
    analyse,
    create_spaces,
    lock_spaces,
)
from knowloom.text.passages import embedding_texts
from knowloom.text.words import count_passage_terms

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class StagedItem:
    """The change of an item by a batch: its row before, and the item afterwards."""

    stored: StoredItem | None
    item: Item | None
    passages: PassageTerms = ()
    keeps_number: bool = False
    keeps_vectors: bool = False


class BatchApplier:
    """Applies one batch inside the caller's transaction."""

    def __init__(self, connection: Connection, passage_size: int) -> None:
        self._connection = connection
        self._passage_size = passage_size
        self._spaces: dict[str, SpaceCounters] = {}
        self._items: dict[Key, StagedItem] = {}
        self._edges: dict[EdgeKey, Edge | None] = {}
        self._incident: dict[Key, list[EdgeKey]] = {}
        self._rows = BatchRows()

    def apply(self, batch: Batch) -> None:
        self._rows = BatchRows(batch.at, batch.actor)
        # Analysed before the spaces are locked: it takes longer than writing.
        passages = [count_passage_terms(item, self._passage_size) for item in batch.items]
        self._lock(batch)
        self._read(batch)
        for key, version in batch.expected:
            change = self._items.get(key)
            codec.check_version(key, version, change.item if change else None)
        for key in batch.deleted:
            self._delete(key)
        for edge_key in batch.deleted_edges:
            self._delete_edge(edge_key)
        for item, terms in zip(batch.items, passages, strict=True):
            self._put(item, terms)
        for edge in batch.edges:
            self._put_edge(edge)
        for space, id in batch.marked:
            change = self._items.get((space, id))
            if change is not None and change.item is not None:
                self._spaces[space].mark(id, "")
        self._finish()

    # reading what the batch touches

    def _lock(self, batch: Batch) -> None:
        """Lock all spaces of the batch, and those of edges at deleted items."""
        new = {item.space for item in batch.items}
        new |= {end[0] for edge in batch.edges for end in (edge.source_key, edge.target_key)}
        keys = [*batch.deleted, *batch.marked, *(key for key, _ in batch.expected)]
        keys += [end for source, target, _ in batch.deleted_edges for end in (source, target)]
        names = new | {space for space, _ in keys}
        while True:
            self._connection.execute("SAVEPOINT locked")
            self._spaces = lock_spaces(self._connection, names)
            edges = self._read_incident(batch.deleted)
            touched = {end[0] for edge in edges for end in (edge.source_key, edge.target_key)}
            if new <= self._spaces.keys() and touched <= names:
                break
            # Spaces are created before any is locked, and locked in order: begin again with all.
            self._connection.execute("ROLLBACK TO SAVEPOINT locked")
            create_spaces(self._connection, new)
            names |= touched
        for edge in edges:
            self._edges[edge.key] = edge
            for end in {edge.source_key, edge.target_key}:
                self._incident.setdefault(end, []).append(edge.key)

    def _read_incident(self, keys: Sequence[Key]) -> list[Edge]:
        existing = [(self._spaces[space].no, id) for space, id in keys if space in self._spaces]
        if not existing:
            return []
        query = f"""SELECT near.name, far.name, edge.* FROM (
            SELECT {COLUMNS} FROM unnest(%(spaces)s::integer[], %(ids)s::text[]) AS query(no, id)
            JOIN edge ON edge.space = query.no AND edge.source = query.id
            UNION SELECT {COLUMNS} FROM
            unnest(%(spaces)s::integer[], %(ids)s::text[]) AS query(no, id)
            JOIN edge ON edge.target_space = query.no AND edge.target = query.id) AS edge
            JOIN space AS near ON near.no = edge.space
            JOIN space AS far ON far.no = edge.target_space"""
        values = {"spaces": [no for no, _ in existing], "ids": [id for _, id in existing]}
        rows = self._connection.execute(query.encode(), values)
        return [decode_edge({row[0]: near, row[2]: far}, row) for near, far, *row in rows]

    def _read(self, batch: Batch) -> None:
        keys = [*batch.deleted, *(item.key for item in batch.items), *batch.marked]
        keys += [key for key, _ in batch.expected]
        for stored in read_stored(self._connection, self._spaces, keys):
            self._items[stored.item.key] = StagedItem(stored, stored.item)
        edge_keys = [*batch.deleted_edges, *(edge.key for edge in batch.edges)]
        missing = [key for key in dict.fromkeys(edge_keys) if key not in self._edges]
        numbers = {name: space.no for name, space in self._spaces.items()}
        names = {no: name for name, no in numbers.items()}

        def fetch(query: str, values: Sequence[object]) -> list[Any]:
            return self._connection.execute(query.encode(), values).fetchall()

        self._edges |= read_edges(fetch, numbers, names, missing)

    # items

    def _put(self, item: Item, passages: PassageTerms) -> None:
        space, change = self._spaces[item.space], self._items.get(item.key)
        before = None if change is None else change.item
        space.digest += codec.fingerprint(codec.item_to_dict(item))
        if change is None or before is None:
            space.items += 1
            change = StagedItem(change.stored if change else None, item, passages)
        else:
            space.digest -= codec.fingerprint(codec.item_to_dict(before))
            size = self._passage_size
            was_stored = change.stored is not None and before is change.stored.item
            change = replace(
                change,
                item=item,
                passages=passages,
                keeps_number=change.keeps_number or was_stored,
                keeps_vectors=(change.keeps_vectors or was_stored)
                and embedding_texts(before, size) == embedding_texts(item, size),
            )
        self._items[item.key] = change
        space.mark(item.id, None if before is None else item_state(before))
        self._rows.log(space.no, item.id, "update" if before else "add", before)

    def _delete(self, key: Key) -> None:
        if key[0] not in self._spaces:
            return
        space, change = self._spaces[key[0]], self._items.get(key)
        before = None if change is None else change.item
        if before is not None:
            space.mark(key[1], item_state(before))
        for edge_key in sorted(self._incident.get(key, ())):
            edge = self._edges[edge_key]
            if edge is not None and edge.origin == AUTOMATIC:
                space.mark(edge.target, "")  # it may get another edge instead
            self._delete_edge(edge_key)  # even if another store has the item
        if before is not None and change is not None:
            space.digest -= codec.fingerprint(codec.item_to_dict(before))
            space.items -= 1
            self._items[key] = StagedItem(change.stored, None)
            self._rows.log(space.no, key[1], "delete", before)

    # edges

    def _put_edge(self, edge: Edge) -> None:
        before = self._remove_edge(edge.key)
        self._edges[edge.key] = edge
        self._rows.changed_edges.add(edge.key)
        self._spaces[edge.space].count_edge(codec.edge_to_dict(edge), 1)
        self._spaces[edge.target_key[0]].is_changed = True
        if edge.origin != AUTOMATIC:
            replaced = before if before and before.origin != AUTOMATIC else None
            self._log_edge(edge, "link", replaced)

    def _delete_edge(self, key: EdgeKey) -> None:
        before = self._remove_edge(key)
        if before is not None and before.origin != AUTOMATIC:
            self._log_edge(before, "unlink", before)

    def _remove_edge(self, key: EdgeKey) -> Edge | None:
        edge = self._edges.get(key)
        if edge is not None:
            self._edges[key] = None
            self._rows.changed_edges.add(key)
            self._spaces[edge.space].count_edge(codec.edge_to_dict(edge), -1)
            self._spaces[edge.target_key[0]].is_changed = True
        return edge

    def _log_edge(self, edge: Edge, action: str, before: Edge | None) -> None:
        columns = (self._spaces[edge.target_key[0]].no, edge.target, edge.type)
        self._rows.log(self._spaces[edge.space].no, edge.source, action, before, columns)

    # writing

    def _finish(self) -> None:
        for key, change in self._items.items():
            stored = change.stored
            if stored is None or change.item is not stored.item:
                self._store_item(self._spaces[key[0]], key, change)
        self._rows.store(self._connection, self._spaces, self._edges)
        for name in sorted(self._spaces):
            if self._spaces[name].is_changed:
                self._spaces[name].store(self._connection)
        items = sum(space.items for space in self._spaces.values())
        analyse(self._connection, len(self._items), "item, record, posting", items)
        edges = sum(space.edges for space in self._spaces.values())
        analyse(self._connection, len(self._edges), "edge", edges)

    def _store_item(self, space: SpaceCounters, key: Key, change: StagedItem) -> None:
        stored, item = change.stored, change.item
        space.is_changed = True
        keeps_number = stored is not None and item is not None and change.keeps_number
        if stored is not None:
            space.count_passages(stored.lengths, -1)
            if not keeps_number:
                self._rows.remove(space, stored.no)
        if item is None:
            return
        no = space.next_no
        if keeps_number and stored is not None:
            no = stored.no
        else:
            space.next_no += 1
        has_vector = (
            keeps_number
            and stored is not None
            and stored.has_vector
            and change.keeps_vectors
            and len(stored.lengths) == len(change.passages)
        )
        if keeps_number and stored is not None and stored.has_vector:
            self._rows.keep_vectors(space.no, no, has_vector)
        self._rows.put(space, no, item, index_passages(space, item, change.passages), has_vector)


def index_passages(
    space: SpaceCounters, item: Item, passages: PassageTerms
) -> tuple[int, list[int]]:
    """Give the passages of an item new slots, and return the first one and their lengths."""
    lengths = [sum(counts.values()) for counts in passages]
    first = space.take_slots(len(passages))
    space.count_passages(lengths, 1)
    terms = dict.fromkeys(filter_terms(item), 1)
    for slot, counts in enumerate(passages, first):
        space.passages[slot] = {**counts, **terms} if slot == first else counts
    return first, lengths


def read_stored(
    connection: Connection, spaces: Mapping[str, SpaceCounters], keys: Iterable[Key]
) -> list[StoredItem]:
    """Return the rows of the keys that are stored."""
    existing = [key for key in dict.fromkeys(keys) if key[0] in spaces]
    if not existing:
        return []
    names = {space.no: name for name, space in spaces.items()}
    query = b"""SELECT item.space, item.no, item.id, item.body, item.attributes,
            record.data, record.lengths
        FROM unnest(%s::integer[], %s::text[]) AS query(space, id)
        JOIN item ON item.space = query.space AND item.id = query.id
        JOIN record ON record.space = item.space AND record.no = item.no"""
    columns = [spaces[space].no for space, _ in existing], [id for _, id in existing]
    return [
        StoredItem(
            no,
            decode_item(names[space], id, body, attributes),
            tuple(np.frombuffer(lengths, "<u4").tolist()),
            bool(np.frombuffer(data, RECORD)["vector"][0]),
        )
        for space, no, id, body, attributes, data, lengths in connection.cursor(
            binary=True
        ).execute(query, columns)
    ]
