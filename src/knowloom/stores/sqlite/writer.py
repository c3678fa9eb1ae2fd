"""Writing a batch into the SQLite file: items, their words and records, edges, the change log. Runs inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.model import MADE, Batch, Edge, EdgeKey, Item, Key
from knowloom.stores.sqlite import postings, vectors
from knowloom.stores.sqlite.rows import (
    BODY_FIELDS,
    EDGE_COLUMNS,
    RECORD,
    edge_from_row,
    filter_terms,
    item_record,
)
from knowloom.stores.sqlite.space_view import CHUNK
from knowloom.stores.sqlite.vectors import Vector
from knowloom.text import words as analyser


@dataclass
class SpaceUpdate:
    """What one batch does to one space; written back at the end."""

    no: int
    next: int
    items: int
    edges: int
    length: int
    digest: int
    records: dict[int, tuple[object, ...] | None] = field(
        default_factory=dict
    )  # place -> record, None for a deleted item
    added: dict[int, dict[str, int]] = field(default_factory=dict)  # place -> word -> count
    removed: dict[int, list[str]] = field(default_factory=dict)  # place -> words
    links: int = 0
    links_digest: int = 0
    marked: dict[str, str | None] = field(
        default_factory=dict
    )  # id -> what the table `unlinked` says of it

    def mark(self, id: str, before: str | None) -> None:
        if self.marked.get(id, "") == "":
            self.marked[id] = before

    def count(self, edge: Mapping[str, Any], sign: int) -> None:
        """Count an edge, as `codec.edge_to_dict` gives it, in or out: knowloom's own apart from people's."""
        number = sign * codec.fingerprint(edge)
        if edge.get("origin") == MADE:
            self.links, self.links_digest = self.links + sign, self.links_digest + number
        else:
            self.edges, self.digest = self.edges + sign, self.digest + number


class BatchWriter:
    """One batch on its way into the file."""

    def __init__(self, connection: apsw.Connection, at: str) -> None:
        self._connection = connection
        self._at = at
        self._tallies: dict[str, SpaceUpdate] = {}
        self._names: dict[int, str] = {}
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'commits'")
        ((version,),) = connection.execute("SELECT value FROM meta WHERE key = 'commits'")
        self.version: int = version

    def apply(self, batch: Batch) -> None:
        for key, version in batch.expected:
            stored = self._stored(self.tally(key[0]).no, key[1])
            codec.check_version(key, version, stored[1] if stored else None)
        for key in batch.deleted:
            self._delete(key)
        for edge_key in batch.deleted_edges:
            self._unlink(edge_key)
        for item in batch.items:
            self._put(item)
        for edge in batch.edges:
            self._link(edge)
        for space, id in batch.marked:
            if self.knows(space):
                self.mark(space, [id])
        self.finish()

    def finish(self) -> None:
        for tally in self._tallies.values():
            postings.remove_items(self._connection, tally.no, self.version, tally.removed)
            postings.add_items(self._connection, tally.no, self.version, tally.added)
            self._write_records(tally)
            self._write_marks(tally)
            digests = (codec.sum_text(tally.digest), codec.sum_text(tally.links_digest))
            self._connection.execute(
                "UPDATE space SET next = ?, items = ?, edges = ?, links = ?, length = ?, digest = ?, links_digest = ?, version = ? WHERE no = ?",
                (
                    tally.next,
                    tally.items,
                    tally.edges,
                    tally.links,
                    tally.length,
                    *digests,
                    self.version,
                    tally.no,
                ),
            )

    def knows(self, space: str) -> bool:
        return bool(list(self._connection.execute("SELECT 1 FROM space WHERE name = ?", (space,))))

    def tally(self, name: str) -> SpaceUpdate:
        """The space's tally; a space that is not there yet is made."""
        if name not in self._tallies:
            empty = "(name, next, items, edges, length, digest, version, reset) VALUES (?, 0, 0, 0, 0, '0', 0, 0)"
            self._connection.execute(f"INSERT OR IGNORE INTO space{empty}", (name,))
            query = "SELECT no, next, items, edges, length, digest, links, links_digest FROM space WHERE name = ?"
            ((no, following, items, edges, length, digest, links, apart),) = (
                self._connection.execute(query, (name,))
            )
            self._tallies[name] = SpaceUpdate(
                no,
                following,
                items,
                edges,
                length,
                int(digest, 16),
                links=links,
                links_digest=int(apart, 16),
            )
            self._names[no] = name
        return self._tallies[name]

    # items

    def _put(self, item: Item) -> None:
        tally = self.tally(item.space)
        stored = self._stored(tally.no, item.id)
        row = codec.item_to_dict(item)
        tally.digest += codec.fingerprint(row)
        del row["space"]
        body = codec.to_json(row)
        if stored is None:
            place, before, has_vector = tally.next, None, False
            tally.next += 1
            tally.items += 1
            self._connection.execute(
                "INSERT INTO item VALUES (?, ?, ?, ?)",
                ((tally.no << 32) + place, tally.no, item.id, body),
            )
        else:
            place, before = stored
            has_vector = self._keep_vector(tally, place, before, item)
            self._forget_words(tally, place, before)
            self._connection.execute(
                "UPDATE item SET body = ? WHERE row = ?", (body, (tally.no << 32) + place)
            )
        counts = analyser.counts(item)
        length = counts.total()
        tally.added[place] = dict(counts) | dict.fromkeys(filter_terms(item), 1)
        tally.records[place] = item_record(item, length, has_vector)
        tally.length += length
        tally.mark(item.id, None if before is None else _body(before))
        self._log(tally.no, item.id, "update" if before else "add", before)

    def _keep_vector(self, tally: SpaceUpdate, place: int, before: Item, item: Item) -> bool:
        """Whether the item's vector survives its update: only if it still says the same."""
        row = (tally.no << 32) + place
        if before.embeddable != item.embeddable:
            self._connection.execute("DELETE FROM vector WHERE row = ?", (row,))
        return self._has_vector(tally.no, place)

    def _delete(self, key: Key) -> None:
        if not self.knows(key[0]):
            return
        tally = self.tally(key[0])
        stored = self._stored(tally.no, key[1])
        if stored is not None:
            tally.mark(key[1], _body(stored[1]))
        for edge in self._edges_at(tally.no, key[1]):
            if edge.origin == MADE:
                tally.mark(edge.target, "")  # a place in its links falls free
            self._unlink(edge.key)  # also where another store has the item
        if stored is None:
            return
        place, before = stored
        row = (tally.no << 32) + place
        self._connection.execute("DELETE FROM item WHERE row = ?", (row,))
        self._connection.execute("DELETE FROM vector WHERE row = ?", (row,))
        self._forget_words(tally, place, before)
        tally.records[place] = None
        tally.items -= 1
        self._log(tally.no, key[1], "delete", before)

    def _forget_words(self, tally: SpaceUpdate, place: int, before: Item) -> None:
        tally.digest -= codec.fingerprint(codec.item_to_dict(before))
        counts = analyser.counts(before)
        tally.length -= counts.total()
        if tally.added.pop(place, None) is None:  # written earlier, not by this batch
            tally.removed[place] = [*counts, *filter_terms(before)]

    def _stored(self, space: int, id: str) -> tuple[int, Item] | None:
        rows = list(
            self._connection.execute(
                "SELECT row, body FROM item WHERE space = ? AND id = ?", (space, id)
            )
        )
        return (
            (
                rows[0][0] & 0xFFFFFFFF,
                codec.item_from_dict({**json.loads(rows[0][1]), "space": self._names[space]}),
            )
            if rows
            else None
        )

    # what can be made again from the items

    def index_again(self, items: Iterable[Item]) -> None:
        """Write the words of the items, if they are stored; the old words must be gone."""
        for item in items:
            place = (
                self._place(self.tally(item.space).no, item.id) if self.knows(item.space) else -1
            )
            if place < 0:
                continue
            tally = self.tally(item.space)
            counts = analyser.counts(item)
            tally.length += counts.total()
            tally.added[place] = dict(counts) | dict.fromkeys(filter_terms(item), 1)
            tally.records[place] = item_record(
                item, counts.total(), self._has_vector(tally.no, place)
            )
        self.finish()

    def put_vectors(self, space: str, pairs: Iterable[tuple[str, Vector]]) -> None:
        """Store vectors of one space and mark their items as embedded; ids that are not stored are ignored."""
        pairs, tally = list(pairs), self.tally(space)
        stored = self._places(tally.no, [id for id, _ in pairs])
        known = [(stored[id], vector) for id, vector in pairs if id in stored]
        vectors.write_vectors(self._connection, tally.no, self.version, known)
        for chunk, places in _by_chunk(place for place, _ in known).items():
            array = self._records(tally.no, chunk)
            array["vector"][places] = 1
            self._store_records(tally.no, chunk, array)
        for id in stored:
            tally.mark(id, "")

    def clear_vector_flags(self) -> None:
        for space, chunk in list(self._connection.execute("SELECT space, chunk FROM record")):
            array = self._records(space, chunk)
            array["vector"] = 0
            self._store_records(space, chunk, array)
        self._connection.execute("UPDATE space SET version = ?", (self.version,))

    def _place(self, space: int, id: str) -> int:
        return self._places(space, [id]).get(id, -1)

    def _places(self, space: int, ids: Sequence[str]) -> dict[str, int]:
        """The places of those of the ids that are stored."""
        query = "SELECT item.id, item.row FROM json_each(?) AS asked CROSS JOIN item ON item.space = ? AND item.id = asked.value"
        return {
            id: row & 0xFFFFFFFF
            for id, row in self._connection.execute(query, (codec.to_json(list(ids)), space))
        }

    def _has_vector(self, space: int, place: int) -> bool:
        return bool(
            list(
                self._connection.execute(
                    "SELECT 1 FROM vector WHERE row = ?", ((space << 32) + place,)
                )
            )
        )

    # records

    def _write_records(self, tally: SpaceUpdate) -> None:
        for chunk, places in _by_chunk(tally.records).items():
            array = self._records(tally.no, chunk)
            for place in places:
                array[place] = tally.records[chunk * CHUNK + place] or np.zeros((), RECORD)
            self._store_records(tally.no, chunk, array)

    def _records(self, space: int, chunk: int) -> npt.NDArray[np.void]:
        stored = list(
            self._connection.execute(
                "SELECT data FROM record WHERE space = ? AND chunk = ?", (space, chunk)
            )
        )
        return np.frombuffer(stored[0][0], RECORD).copy() if stored else np.zeros(CHUNK, RECORD)

    def _store_records(self, space: int, chunk: int, array: npt.NDArray[np.void]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)",
            (space, chunk, self.version, array.tobytes()),
        )

    # links that knowloom makes

    def mark(self, space: str, ids: Sequence[str]) -> None:
        """Say that items that stay as they are must be linked anew."""
        tally = self.tally(space)
        for id in self._places(tally.no, ids):
            tally.mark(id, "")

    def _write_marks(self, tally: SpaceUpdate) -> None:
        # What only waits for a vector or a link, and then changes itself, is remembered as it was before that.
        kept = "ON CONFLICT DO UPDATE SET before = excluded.before WHERE before = ''"
        rows = ((tally.no, id, before) for id, before in tally.marked.items())
        self._connection.executemany(f"INSERT INTO unlinked VALUES (?, ?, ?) {kept}", rows)

    # edges

    def _link(self, edge: Edge) -> None:
        tally = self.tally(edge.space)
        before = self._forget_edge(edge.key)
        self.put_edges([edge])
        if edge.origin != MADE:
            link = (self.tally(edge.target_key[0]).no, edge.target, edge.type)
            self._log(
                tally.no,
                edge.source,
                "link",
                before if before and before.origin != MADE else None,
                link,
            )

    def put_edges(self, edges: Iterable[Edge]) -> None:
        """Write edges that are not there, and count them."""
        self._connection.executemany(
            "INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [self._counted(edge) for edge in edges],
        )

    def _counted(self, edge: Edge) -> tuple[Any, ...]:
        """Count an edge in; its columns."""
        tally, row = self.tally(edge.space), codec.edge_to_dict(edge)
        tally.count(row, 1)
        plain = edge.item_id is None and not edge.properties and edge.target_space != edge.space
        body = (
            None
            if plain
            else codec.to_json({name: row[name] for name in BODY_FIELDS if name in row})
        )
        return (
            tally.no,
            edge.source,
            self.tally(edge.target_key[0]).no,
            edge.target,
            edge.type,
            edge.weight,
            body,
            edge.origin,
        )

    def _unlink(self, key: EdgeKey) -> None:
        before = self._forget_edge(key) if self.knows(key[0][0]) and self.knows(key[1][0]) else None
        if before is not None and before.origin != MADE:
            link = (self.tally(before.target_key[0]).no, before.target, before.type)
            self._log(self.tally(before.space).no, before.source, "unlink", before, link)

    def _forget_edge(self, key: EdgeKey) -> Edge | None:
        (space, source), (target_space, target), type = key
        tally = self.tally(space)
        where = "WHERE space = ? AND source = ? AND target_space = ? AND target = ? AND type = ?"
        values = (tally.no, source, self.tally(target_space).no, target, type)
        rows = list(self._connection.execute(f"SELECT {EDGE_COLUMNS} FROM edge {where}", values))
        if not rows:
            return None
        self._connection.execute(f"DELETE FROM edge {where}", values)
        edge = edge_from_row(self._names, rows[0])
        tally.count(codec.edge_to_dict(edge), -1)
        return edge

    def _edges_at(self, space: int, id: str) -> list[Edge]:
        query = f"""SELECT {EDGE_COLUMNS} FROM edge WHERE space = ?1 AND source = ?2
            UNION SELECT {EDGE_COLUMNS} FROM edge WHERE target_space = ?1 AND target = ?2"""
        names = dict(list(self._connection.execute("SELECT no, name FROM space")))
        return sorted(
            (
                edge_from_row(names, row)
                for row in list(self._connection.execute(query, (space, id)))
            ),
            key=lambda edge: edge.key,
        )

    def _log(
        self,
        space: int,
        id: str,
        action: str,
        before: Item | Edge | None,
        link: tuple[object, ...] = (None, None, None),
    ) -> None:
        row = (
            codec.item_to_dict(before)
            if isinstance(before, Item)
            else codec.edge_to_dict(before)
            if before
            else None
        )
        values = (space, self._at, id, action, codec.to_json(row) if row else None, *link)
        self._connection.execute(
            "INSERT INTO change(space, at, id, action, before, target_space, target, type) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )


def _body(item: Item) -> str:
    return codec.to_json(
        {name: value for name, value in codec.item_to_dict(item).items() if name != "space"}
    )


def _by_chunk(places: Iterable[int]) -> dict[int, list[int]]:
    """Places by chunk, each counted from the chunk's start."""
    found: dict[int, list[int]] = {}
    for place in places:
        found.setdefault(place // CHUNK, []).append(place % CHUNK)
    return found
