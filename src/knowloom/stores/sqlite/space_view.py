"""What a reader keeps in memory of one space: a few bytes per item for filters and scores, refreshed chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.caching import Recent
from knowloom.errors import Corrupt
from knowloom.model import Filter, Item
from knowloom.stores.sqlite.id_cache import NOT_STORED, IdCache, bind_rows
from knowloom.stores.sqlite.rows import (
    FOREVER,
    KINDS,
    RECORD,
    copy_properties,
    decode_float16,
    filter_term,
    item_from_body,
    locate_damage,
    to_microseconds,
    with_properties,
)
from knowloom.stores.sqlite.vector_cache import VectorCache
from knowloom.text import words as analyser

CHUNK = 512  # items in one row of `record` and `sign`: a single add rewrites 20 + 24 KB
BLOCK = 1 << 16  # items in one row of `posting`: places in it fit 16 bits
MAX_MASKS = 64  # filters a view remembers
MAX_CACHED_ITEMS = 16_384  # per view, about 1 KB each
MAX_CACHED_LENGTH = 8_000  # characters of all an item has
MAX_CACHED_POSTINGS = 3_000_000  # places of words, about 11 bytes each, that a view remembers
TERM_OVERHEAD = 50  # places that take as much room as a word does besides
Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]
Counts = npt.NDArray[np.uint8]


_LASTING = attrgetter(
    *(one.name for one in fields(Filter) if one.name not in ("spaces", "valid_at"))
)  # what does not change from request to request


class SpaceView:
    """One space as one reader saw it last. Not shared between threads."""

    def __init__(self, no: int) -> None:
        self.no = no
        self.version = self.next = self.items = self.length = 0
        self.records = np.zeros(0, RECORD)
        self._live = np.zeros(0, np.bool_)
        self.lengths = np.zeros(0)  # words of each item
        self.embedded = np.zeros(0, np.bool_)  # which items have a vector
        self.unembedded = np.zeros(0, np.intp)  # the places of those that have none
        self.signs = np.zeros((0, 0), np.uint64)  # one row per 64 dimensions, one column per item
        self._per_word, self._norms = 0.0, np.zeros(0)  # see norms
        self._vectors = VectorCache()
        self._expires = False  # whether any item is valid for a time only
        self._reset = -1
        self._fresh: dict[
            str, dict[int, int]
        ] = {}  # word -> place -> count, of items not in `posting` yet
        self._masks: dict[tuple[Any, ...], Mask | None] = {}
        self._ids = IdCache(no)
        # Those asked for since the space last changed: items (see `rows.unchanged`), and who holds a word.
        self._decoded: Recent[str, tuple[Item, Mapping[str, Any]]] = Recent(MAX_CACHED_ITEMS)
        self._held: Recent[str, tuple[Places, Counts]] = Recent(
            MAX_CACHED_POSTINGS, lambda held: TERM_OVERHEAD + len(held[0])
        )

    def refresh(self, connection: apsw.Connection) -> None:
        """Catch up with the file; costs nothing when the space did not change."""
        (row,) = connection.execute(
            "SELECT version, next, items, length, reset FROM space WHERE no = ?", (self.no,)
        )
        if row[0] == self.version:
            return
        version, self.next, self.items, self.length, reset = row
        self._masks.clear()
        self._decoded.clear()
        self._held.clear()
        self._load_records(connection, self.version)
        self._load_signs(connection, self.version)
        self._load_fresh(connection, self.version, reset)
        self.version = version  # last: whoever was interrupted starts over

    def _load_records(self, connection: apsw.Connection, seen: int) -> None:
        self.records = _grown(self.records, self.next)
        for chunk, data in connection.execute(
            "SELECT chunk, data FROM record WHERE space = ? AND version > ?", (self.no, seen)
        ):
            part = np.frombuffer(data, RECORD)
            self.records[chunk * CHUNK : chunk * CHUNK + len(part)] = part
        records = self.records[: self.next]
        live = records["live"] == 1
        self._ids.forget(np.flatnonzero(self._live & ~live[: len(self._live)]).tolist())
        self._live = live
        # Copies that lie together: a column of the records is six times as slow to scan.
        self.lengths = records["length"].astype(np.float64)
        self._per_word = 0.0
        self.embedded = records["vector"] == 1
        self.unembedded = np.flatnonzero(live & ~self.embedded)
        self._expires = bool(
            (live & ((records["valid_from"] > -FOREVER) | (records["valid_to"] < FOREVER))).any()
        )

    def _load_signs(self, connection: apsw.Connection, seen: int) -> None:
        for chunk, data in connection.execute(
            "SELECT chunk, data FROM sign WHERE space = ? AND version > ?", (self.no, seen)
        ):
            part = np.frombuffer(data, np.uint64).reshape(CHUNK, -1)
            if len(self.signs) != part.shape[1]:
                self.signs = np.zeros((part.shape[1], 0), np.uint64)
            self.signs = _grown(self.signs, self.next)
            self.signs[:, chunk * CHUNK : (chunk + 1) * CHUNK] = part.T
            self._vectors.forget(chunk * CHUNK, (chunk + 1) * CHUNK)

    def _load_fresh(self, connection: apsw.Connection, seen: int, reset: int) -> None:
        if reset != self._reset:
            seen = 0
            self._fresh.clear()
        rows = connection.execute(
            "SELECT row, words FROM fresh WHERE row BETWEEN ? AND ? AND version > ?",
            (self.no << 32, (self.no << 32) + 0xFFFFFFFF, seen),
        )
        for row, words in rows:
            for word, count in json.loads(words).items():
                self._fresh.setdefault(word, {})[row & 0xFFFFFFFF] = count
        self._reset = reset

    def words(self, connection: apsw.Connection) -> set[str]:
        """Every word that an item holds."""
        settled = connection.execute(
            "SELECT DISTINCT word FROM posting WHERE space = ?", (self.no,)
        )
        return {word for (word,) in settled} | set(self._fresh)

    def ids(self, connection: apsw.Connection, places: Sequence[int]) -> list[str]:
        """The ids of the items at these places."""
        return self._ids.at(connection, places, self.items)

    def places(self, connection: apsw.Connection, ids: Sequence[str]) -> list[int]:
        """The place of each of the ids, NOWHERE for one that is not stored."""
        return self._ids.of(connection, ids, self.items)

    def stored(
        self, connection: apsw.Connection, space: str, ids: Sequence[str]
    ) -> dict[str, Item]:
        """The items behind those of the ids that are stored. The same ones come back in request after request, so they are kept."""
        missing: list[str] = []
        found: dict[str, Item] = {}
        for id in ids:
            if (kept := self._decoded.get(id)) is None:
                missing.append(id)
            else:
                item, said = kept
                found[id] = item if item.properties == said else with_properties(item, said)
        if places := [place for place in self.places(connection, missing) if place != NOT_STORED]:
            query = (
                "SELECT item.body FROM carray(?) AS asked CROSS JOIN item ON item.row = asked.value"
            )
            try:
                for (body,) in connection.execute(query, (bind_rows(self.no, places),)):
                    item = item_from_body(body, space)
                    found[item.id] = item
                    if len(body) <= MAX_CACHED_LENGTH:
                        self._decoded.put(item.id, (item, copy_properties(item)))
            except (Corrupt, UnicodeDecodeError) as error:
                raise locate_damage(
                    connection, space, [(self.no << 32) + place for place in places], error
                ) from error
        return found

    def vectors(
        self, connection: apsw.Connection, places: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.float32]:
        """The vectors at these places, which must have one, each asked for once."""
        return self._vectors.get(
            places, self.embedded, lambda missing: self._fetched(connection, missing)
        )

    def _fetched(
        self, connection: apsw.Connection, places: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.float32]:
        query = "SELECT vector.data FROM carray(?) AS asked CROSS JOIN vector ON vector.row = asked.value"
        found = [data for (data,) in connection.execute(query, (bind_rows(self.no, places),))]
        ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
        if len(found) != len(places) or {*map(len, found)} != {
            2 * dimensions
        }:  # one of another length would shift all behind it
            raise Corrupt(
                "stored vectors are missing or cut off: `knowloom verify` says which, `knowloom reindex` makes all of them anew"
            )
        return decode_float16(b"".join(found)).reshape(len(found), dimensions)

    def norms(self, per_word: float) -> npt.NDArray[np.float64]:
        """What an item's length does to the count of a word, when there is one item to so many words. Kept until it changes."""
        if self._per_word != per_word or len(self._norms) != len(self.lengths):
            self._per_word, self._norms = (
                per_word,
                analyser.K1 * (1 - analyser.B + analyser.B * per_word * self.lengths),
            )
        return self._norms

    def postings(
        self, connection: apsw.Connection, words: Sequence[str]
    ) -> dict[str, list[tuple[int, bytes]]]:
        """The rows (block, data) of each word that has any, in one statement."""
        query = "SELECT word, block, data FROM json_each(?) AS asked CROSS JOIN posting ON posting.space = ? AND posting.word = asked.value"
        found: dict[str, list[tuple[int, bytes]]] = {}
        for word, block, data in connection.execute(query, (codec.to_json(list(words)), self.no)):
            found.setdefault(word, []).append((block, data))
        return found

    def fresh(self, word: str) -> Mapping[int, int]:
        """The places, with counts, of items that hold a word and are not in the postings yet."""
        return self._fresh.get(word, {})

    def holders(self, word: str, rows: Sequence[tuple[int, bytes]]) -> tuple[Places, Counts]:
        """The places of the items that hold a word, in ascending order, and how often. `rows` are its postings."""
        places = [
            np.add(np.frombuffer(data, "<u2", len(data) // 3), block * BLOCK, dtype=np.intp)
            for block, data in rows
        ]
        counts = [np.frombuffer(data, np.uint8, offset=len(data) // 3 * 2) for _, data in rows]
        if fresh := self._fresh.get(word):
            places.append(np.fromiter(fresh.keys(), np.intp, len(fresh)))
            counts.append(np.fromiter(fresh.values(), np.uint8, len(fresh)))
        if len(places) == 1 and not fresh:
            return places[0], counts[0]
        if not places:
            return np.zeros(0, np.intp), np.zeros(0, np.uint8)
        every, often = np.concatenate(places), np.concatenate(counts)
        if not fresh:
            return every, often
        order = np.argsort(every)
        return every[order], often[order]

    def held(
        self, connection: apsw.Connection, words: Sequence[str]
    ) -> list[tuple[Places, Counts]]:
        """For each word the places of the items that hold it, and how often. Kept, as questions have many words in common."""
        found = {word: held for word in words if (held := self._held.get(word)) is not None}
        missing = [word for word in words if word not in found]
        postings = self.postings(connection, missing) if missing else {}
        for word in missing:
            found[word] = self.holders(word, postings.get(word, ()))
            self._held.put(word, found[word])
        return [found[word] for word in words]

    def mask(self, connection: apsw.Connection, only: Filter) -> Mask | None:
        """Which places a filter allows; None when it allows every live item. Made once per filter and state of the space, but
        for the moment at which items must be valid, which is another one in every request."""
        lasting = _LASTING(only)
        if lasting not in self._masks:
            if len(self._masks) >= MAX_MASKS:
                self._masks.clear()
            made = None if lasting == _LASTING(Filter(())) else self._make_mask(connection, only)
            self._masks[lasting] = (
                None if made is None or np.array_equal(made, self._live) else made
            )  # all items here may be of one kind
        mask = self._masks[lasting]
        if only.valid_at is None or not self._expires:
            return mask
        moment, records = to_microseconds(only.valid_at), self.records[: self.next]
        valid: Mask = (
            (records["valid_from"] <= moment) & (moment < records["valid_to"]) & self._live
        )
        return valid if mask is None else valid & mask

    def _make_mask(self, connection: apsw.Connection, only: Filter) -> Mask:
        records = self.records[: self.next]
        mask: Mask = self._live.copy()
        if only.kinds:
            mask &= np.isin(np.arange(256), [KINDS.index(kind) for kind in only.kinds])[
                records["kind"]
            ]
        for field, values in (("type", only.types), ("tag", only.tags), ("subject", only.subjects)):
            if values:
                mask &= self._labelled(connection, field, values)
        if only.exclude_types:
            mask &= ~self._labelled(connection, "type", only.exclude_types)
        if only.created_from is not None:
            mask &= records["created"] >= to_microseconds(only.created_from)
        if only.created_to is not None:
            mask &= records["created"] <= to_microseconds(only.created_to)
        if only.min_confidence > 0:
            mask &= records["confidence"] >= only.min_confidence
        return mask

    def _labelled(self, connection: apsw.Connection, field: str, values: tuple[str, ...]) -> Mask:
        found = np.zeros(self.next, np.bool_)
        named = [filter_term(field, value) for value in values]
        postings = self.postings(connection, named)
        for word in named:
            found[self.holders(word, postings.get(word, ()))[0]] = True
        return found


def _grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The same array with room for `size` items (last axis), in whole chunks, growing by an eighth so that adds stay cheap."""
    room = array.shape[-1]
    if room >= size:
        return array
    wanted = -(-max(size, room + room // 8) // CHUNK) * CHUNK
    return np.concatenate(
        [array, np.zeros((*array.shape[:-1], wanted - room), array.dtype)], axis=-1
    )
