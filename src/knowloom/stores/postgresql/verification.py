"""Checking the tables against each other: every defect that would give a wrong answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from contextlib import suppress
from typing import Any

import numpy as np
import psycopg

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import AUTOMATIC, Edge, Item, Key
from knowloom.stores.postgresql.edge_queries import read_page
from knowloom.stores.postgresql.item_queries import read_items
from knowloom.stores.postgresql.item_rows import filter_terms, shorten
from knowloom.stores.postgresql.log_queries import read_space_changes
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import DEAD, SpaceArrays
from knowloom.text import words

PAGE = 1000
TERMS_PAGE = 5000
_COUNTED = ("items", "documents", "length", "edges", "links")


def find_problems(session: ReadSession, elsewhere: Set[Key]) -> list[str]:
    """Return a description of every defect; edges may end at items `elsewhere`."""
    names = [name for (name,) in session.fetch("SELECT name FROM space ORDER BY name")]
    size = int(session.meta("segmenter").rpartition(":")[2])
    problems: list[str] = []
    for name in names:
        view = session.views([name])[name]
        check = SpaceCheck(session, name, view, size)
        problems += [f"space {name!r}: {problem}" for problem in check.run(elsewhere)]
    return problems


class SpaceCheck:
    """The check of one space: what its tables say, counted again from its items and edges."""

    def __init__(self, session: ReadSession, name: str, view: SpaceArrays, size: int) -> None:
        self._session, self._name, self._view, self._size = session, name, view, size
        self._totals = dict.fromkeys(_COUNTED, 0)
        self._digest = self._links_digest = 0
        self._keys: set[Key] = set()
        self._terms: dict[str, dict[int, int]] = {}  # term -> slot -> count

    def run(self, elsewhere: Set[Key]) -> Iterator[str]:
        for page in self._item_pages():
            for id, item in page:
                yield from self._check_item(id, item)
        yield from self._check_edges(elsewhere)
        yield from self._check_postings()
        yield from self._check_vectors()
        yield from self._check_names()
        yield from self._check_log()
        yield from self._check_counters()

    def _item_pages(self) -> Iterator[list[tuple[str, Item | Corrupt]]]:
        query = "SELECT id FROM item WHERE space = %s AND id > %s ORDER BY id LIMIT %s"
        after = ""
        first = "SELECT id FROM item WHERE space = %s AND id = ''"
        ids = [id for (id,) in self._session.fetch(first, (self._view.no,))]
        while rows := self._session.fetch(query, (self._view.no, after, PAGE)):
            ids += [id for (id,) in rows]
            yield (
                [(id, self._read(id)) for id in ids]
                if self._is_damaged(ids)
                else [(key[1], item) for key, item in self._items(ids).items()]
            )
            after, ids = rows[-1][0], []

    def _items(self, ids: list[str]) -> dict[Key, Item]:
        return read_items(self._session, [(self._name, id) for id in ids])

    def _is_damaged(self, ids: list[str]) -> bool:
        try:
            self._items(ids)
        except Corrupt:
            return True
        return False

    def _read(self, id: str) -> Item | Corrupt:
        try:
            return self._items([id])[self._name, id]
        except Corrupt as error:
            return error

    def _check_item(self, id: str, item: Item | Corrupt) -> Iterator[str]:
        self._totals["items"] += 1
        self._keys.add((self._name, id))
        if isinstance(item, Corrupt):
            yield f"item {id!r} cannot be read"
            return
        self._digest += codec.fingerprint(codec.item_to_dict(item))
        (no,) = self._view.numbers(self._session.fetch, [id])
        record = self._view.records[no]
        passages = words.count_passage_terms(item, self._size)
        lengths = [sum(counts.values()) for counts in passages]
        first, count = int(record["first"]), int(record["count"])
        if self._view.lengths[first : first + count].tolist() != lengths:
            yield f"item {id!r} is not indexed by its passages"
            return
        self._totals["documents"] += count
        self._totals["length"] += sum(lengths)
        for slot, counts in enumerate(passages, first):
            extra = dict.fromkeys(filter_terms(item), 1) if slot == first else {}
            for term, number in {**counts, **extra}.items():
                capped = min(number, words.MAX_TERM_FREQUENCY)
                self._terms.setdefault(shorten(term), {})[slot] = capped

    def _check_edges(self, elsewhere: Set[Key]) -> Iterator[str]:
        after: Edge | None = None
        while page := read_page(self._session.fetch, self._name, PAGE, after, None):
            ends = {end for edge in page for end in (edge.source_key, edge.target_key)}
            ends -= self._keys | elsewhere
            missing = ends - set(self._stored(ends))
            for edge in page:
                number = codec.fingerprint(codec.edge_to_dict(edge))
                if edge.origin == AUTOMATIC:
                    self._totals["links"] += 1
                    self._links_digest += number
                else:
                    self._totals["edges"] += 1
                    self._digest += number
                for end in sorted({edge.source_key, edge.target_key} & missing):
                    label = f"{edge.source} -[{edge.type}]-> {edge.target}"
                    yield f"the edge {label} ends at a missing item {end[1]!r}"
            after = page[-1]

    def _stored(self, keys: Set[Key]) -> list[Key]:
        query = """SELECT space.name, item.id
            FROM unnest(%s::text[], %s::text[]) AS query(space, id)
            JOIN space ON space.name = query.space
            JOIN item ON item.space = space.no AND item.id = query.id"""
        columns = [space for space, _ in keys], [id for _, id in keys]
        return [(space, id) for space, id in self._session.fetch(query, columns)] if keys else []

    def _check_postings(self) -> Iterator[str]:
        query = """SELECT term, string_agg(slots, '' ORDER BY first),
                string_agg(counts, '' ORDER BY first) FROM posting
            WHERE space = %s AND term > %s GROUP BY term ORDER BY term LIMIT %s"""
        wrong, after = 0, ""
        while rows := self._session.fetch(query, (self._view.no, after, TERMS_PAGE)):
            for term, slots, counts in rows:
                numbers = np.frombuffer(slots, "<i4")
                alive = numbers[numbers < self._view.next_slot]
                stored = {
                    slot: count
                    for slot, count in zip(alive.tolist(), counts, strict=False)
                    if self._view.owners[slot] != DEAD
                }
                wrong += stored != self._terms.pop(term, {})
            after = rows[-1][0]
        if wrong + len(self._terms):
            yield f"the text index is wrong for {wrong + len(self._terms)} terms: run reindex"

    def _check_vectors(self) -> Iterator[str]:
        """Report vectors without items, items without their vectors, and truncated ones."""
        dimensions, view = int(self._session.meta("dimensions")), self._view
        query = "SELECT no, length(data), length(signs) FROM vector WHERE space = %s"
        rows = self._session.fetch(query, (view.no,))
        sizes = {no: (data, signs) for no, data, signs in rows}
        words_per_vector = -(-dimensions // 64)
        for no in np.flatnonzero(view.embedded).tolist():
            count = int(view.records["count"][no])
            if sizes.pop(no, None) != (2 * dimensions * count, 8 * words_per_vector * count):
                (id,) = view.ids(self._session.fetch, [no])
                yield f"the vector of item {id!r} is missing or truncated"
        if sizes:
            yield f"{len(sizes)} vectors belong to no item"
        yield from self._check_vector_index()

    def _check_vector_index(self) -> Iterator[str]:
        """Report vectors that an approximate index should have; it never returns others."""
        index, view = self._session.vector_index(self._view.no), self._view
        if index is None:
            return
        is_indexed = view.embedded & (view.vector_versions <= index.version)
        query = f"SELECT no, count(*) FROM {index.table} GROUP BY no"
        stored: dict[int, int] = {}
        with suppress(psycopg.errors.UndefinedTable):
            stored = dict(self._session.fetch_tentatively(query, ()))
        counts = view.records["count"]
        lacking = [no for no in np.flatnonzero(is_indexed).tolist() if stored.get(no) != counts[no]]
        if lacking:
            yield f"the approximate index lacks vectors of {len(lacking)} items: run reindex"

    def _check_names(self) -> Iterator[str]:
        query = "SELECT label, id FROM name_index WHERE space = %s"
        stored = set(self._session.fetch(query, (self._view.no,)))
        query = "SELECT id, labels FROM name_labels WHERE space = %s"
        lists = self._session.fetch(query, (self._view.no,))
        listed = {(shorten(label), id) for id, labels in lists for label in json.loads(labels)}
        if missing := len(listed - stored):
            yield f"{missing} labels of items are missing in the name index"
        if surplus := len(stored - listed):
            yield f"{surplus} entries of the name index belong to no item"

    def _check_log(self) -> Iterator[str]:
        """Report unreadable lines, and items that the log and the table disagree about."""
        last: dict[str, bool] = {}
        after = 0
        while page := read_space_changes(self._session, self._name, after, PAGE):
            for change in page:
                if change.link is None:
                    last[change.id] = change.action not in ("delete", "purge")
            after = page[-1].number
        logged = {(self._name, id) for id, is_stored in last.items() if is_stored}
        for _, id in sorted(self._keys - logged):
            yield f"item {id!r} is stored, but the change log did not add it"
        for _, id in sorted(logged - self._keys):
            yield f"item {id!r} is not stored, but the change log did not delete it"

    def _check_counters(self) -> Iterator[str]:
        query = f"SELECT {', '.join(_COUNTED)}, digest, links_digest FROM space WHERE no = %s"
        ((*counts, digest, links_digest),) = self._session.fetch(query, (self._view.no,))
        for name, stored in zip(_COUNTED, counts, strict=True):
            if stored != self._totals[name]:
                yield f"{self._totals[name]} {name} are stored, but {stored} were counted"
        digests: tuple[tuple[str, Any, int], ...] = (
            ("digest", digest, self._digest),
            ("digest of automatic edges", links_digest, self._links_digest),
        )
        for name, stored, computed in digests:
            if stored.zfill(32) != codec.format_digest(computed):
                yield f"the {name} does not match the stored knowledge"
