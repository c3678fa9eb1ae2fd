"""A read connection's view of one space: filter columns in memory, refreshed chunk by chunk."""

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
from knowloom.caching import TwoGenerationCache
from knowloom.errors import Corrupt
from knowloom.model import Filter, Item
from knowloom.stores.sqlite.damage.derived import (
    DamagedParts,
    fall_back,
    mask_items,
    restore_records,
)
from knowloom.stores.sqlite.id_cache import NO_SLOT, IdCache, bind_rows
from knowloom.stores.sqlite.passage_slots import Mask, PassageSlots, SlotArray
from knowloom.stores.sqlite.property_columns import PropertyColumns
from knowloom.stores.sqlite.rows import (
    CHUNK,
    FOREVER,
    KINDS,
    RECORD,
    SLOT_BITS,
    copy_properties,
    filter_term,
    item_from_body,
    locate_damage,
    reserve_room,
    to_microseconds,
    with_properties,
)
from knowloom.stores.sqlite.vector_cache import VectorCache, fetch_vectors
from knowloom.text import words as analyser
from knowloom.vectors.nearest_lists import empty_lists

BLOCK = 1 << 16  # items in one row of `posting`: slots in it fit 16 bits
MAX_MASKS = 64  # cached filters per view
MAX_CACHED_ITEMS = 16_384  # per view, about 1 KB each
MAX_CACHED_LENGTH = 8_000  # characters of an item's JSON
MAX_CACHED_POSTINGS = 3_000_000  # slots of terms per view, about 11 bytes each
TERM_OVERHEAD = 50  # the size of a cached term beside its postings, in postings
CountArray = npt.NDArray[np.uint8]
Scores = npt.NDArray[np.float64]
Postings = tuple[SlotArray, CountArray]  # ascending slots, and how often each contains the term

# The fields of a filter that make its mask. `valid_at` differs from request to request.
_mask_fields = attrgetter(
    *(field.name for field in fields(Filter) if field.name not in ("spaces", "valid_at"))
)
_NO_FILTER = _mask_fields(Filter(()))


class SpaceView:
    """One space as one connection last saw it. Not shared between threads."""

    def __init__(self, no: int) -> None:
        self.no = no
        self.version = self.next_slot = self.items = self.length = 0
        self.documents = 0  # passages
        self.passages: PassageSlots | None = None  # None: each item has one slot
        self.records = np.zeros(0, RECORD)
        self._live = np.zeros(0, np.bool_)
        self.lengths = np.zeros(0)  # terms of each passage
        self.embedded = np.zeros(0, np.bool_)  # slots that have a vector
        self.unembedded = np.zeros(0, np.intp)  # heads of items without vectors
        self.signs = np.zeros((0, 0), np.uint64)  # one row per 64 dimensions, one column per slot
        self._inverse_mean_length, self._norms = 0.0, np.zeros(0)  # see length_norms
        self._inverse_mean_item, self._item_norms = 0.0, np.zeros(0)  # see item_length_norms
        self._vectors = VectorCache()
        # Lists of nearest items, read by the linker up to this version of the space.
        self.nearest, self.nearest_version = empty_lists(0), 0
        self._has_expiry = False  # True if any item is valid for a limited time
        self.damage = DamagedParts()
        self._delta_reset = -1
        self._delta: dict[str, dict[int, int]] = {}  # term -> slot -> count, not yet merged
        self._masks: dict[tuple[Any, ...], Mask | None] = {}
        self._ids = IdCache(no)
        self._columns = PropertyColumns(no)
        # Sums of postings by item, see item_postings.
        self._item_postings: TwoGenerationCache[str, tuple[SlotArray, Scores]]
        self._item_postings = TwoGenerationCache(
            "sqlite item postings",
            MAX_CACHED_POSTINGS,
            lambda postings: TERM_OVERHEAD + len(postings[0]),
        )
        # Items (see `rows.with_properties`) and postings read since the space last changed.
        self._decoded: TwoGenerationCache[str, tuple[Item, Mapping[str, Any]]]
        self._decoded = TwoGenerationCache("sqlite items", MAX_CACHED_ITEMS)
        self._postings: TwoGenerationCache[str, Postings] = TwoGenerationCache(
            "sqlite postings",
            MAX_CACHED_POSTINGS,
            lambda postings: TERM_OVERHEAD + len(postings[0]),
        )

    def refresh(self, connection: apsw.Connection) -> None:
        """Catch up with the file; free when the space did not change."""
        (row,) = connection.execute(
            "SELECT version, next_slot, items, length, delta_reset FROM space WHERE no = ?",
            (self.no,),
        )
        if row[0] == self.version and not self.damage:
            return
        version, self.next_slot, self.items, self.length, delta_reset = row
        self._masks.clear()
        self._decoded.clear()
        self._postings.clear()
        self._item_postings.clear()
        since = 0 if self.damage else self.version
        self.damage.clear()
        self.damage.load("records", lambda: self._load_records(connection, since))
        self.damage.load("signs", lambda: self._load_signs(connection, since))
        self.damage.load("terms", lambda: self._load_delta(connection, since, delta_reset))
        if self.damage:  # records tell the slots of deleted items
            self._ids = IdCache(self.no)
        if "records" in self.damage:
            self.damage["restored"] = self.damage.pop("records")
            self.damage.load("records", lambda: self._restore_records(connection))
        self.version = version  # last: an interrupted refresh starts over

    def _load_records(self, connection: apsw.Connection, since: int) -> None:
        self.records = reserve_room(self.records, self.next_slot)
        for chunk, data in connection.execute(
            "SELECT chunk, data FROM item_meta WHERE space = ? AND version > ?", (self.no, since)
        ):
            part = np.frombuffer(data, RECORD)
            self.records[chunk * CHUNK : chunk * CHUNK + len(part)] = part
        self._use_records()

    def _restore_records(self, connection: apsw.Connection) -> None:
        self.records[: self.next_slot] = restore_records(connection, self.no, self.next_slot)
        self._use_records()

    def _use_records(self) -> None:
        records = self.records[: self.next_slot]
        live = records["live"] == 1
        self._ids.forget(np.flatnonzero(self._live & ~live[: len(self._live)]).tolist())
        self._live = live
        self.documents = int(np.count_nonzero(live))
        continuation = records["continuation"] == 1
        self.passages = PassageSlots(continuation) if continuation.any() else None
        # Contiguous copies: a strided column of the records is six times as slow to scan.
        self.lengths = records["length"].astype(np.float64)
        self._inverse_mean_length = self._inverse_mean_item = 0.0
        self.embedded = records["vector"] == 1
        self.unembedded = np.flatnonzero(live & ~(self.embedded | continuation))
        limited = (records["valid_from"] > -FOREVER) | (records["valid_to"] < FOREVER)
        self._has_expiry = bool((live & limited).any())

    def _load_signs(self, connection: apsw.Connection, since: int) -> None:
        for chunk, data in connection.execute(
            "SELECT chunk, data FROM sign WHERE space = ? AND version > ?", (self.no, since)
        ):
            part = np.frombuffer(data, np.uint64).reshape(CHUNK, -1)
            if len(self.signs) != part.shape[1]:
                self.signs = np.zeros((part.shape[1], 0), np.uint64)
            self.signs = reserve_room(self.signs, self.next_slot)
            self.signs[:, chunk * CHUNK : (chunk + 1) * CHUNK] = part.T
            self._vectors.forget(chunk * CHUNK, (chunk + 1) * CHUNK)

    def _load_delta(self, connection: apsw.Connection, since: int, delta_reset: int) -> None:
        if delta_reset != self._delta_reset or not since:
            since = 0
            self._delta.clear()
        rows = connection.execute(
            "SELECT row, terms FROM delta WHERE row BETWEEN ? AND ? AND version > ?",
            (self.no << 32, (self.no << 32) + SLOT_BITS, since),
        )
        for row, terms in rows:
            for term, count in json.loads(terms).items():
                self._delta.setdefault(term, {})[row & SLOT_BITS] = count
        self._delta_reset = delta_reset

    # items

    def ids(self, connection: apsw.Connection, slots: Sequence[int]) -> list[str]:
        """Return the ids of the items with these heads."""
        return self._ids.ids_at(connection, slots, self.items)

    def slots(self, connection: apsw.Connection, ids: Sequence[str]) -> list[int]:
        """Return the head of each id, NO_SLOT for ids that are not stored."""
        return self._ids.slots_of(connection, ids, self.items)

    def read_items(
        self, connection: apsw.Connection, space: str, ids: Sequence[str]
    ) -> dict[str, Item]:
        """Return the items of the ids that are stored, cached: requests share most of them."""
        missing: list[str] = []
        items: dict[str, Item] = {}
        for id in ids:
            if (entry := self._decoded.get(id)) is None:
                missing.append(id)
            else:
                item, properties = entry
                items[id] = (
                    item if item.properties == properties else with_properties(item, properties)
                )
        if slots := [slot for slot in self.slots(connection, missing) if slot != NO_SLOT]:
            query = """SELECT item.body FROM carray(?) AS query
                CROSS JOIN item ON item.row = query.value"""
            try:
                for (body,) in connection.execute(query, (bind_rows(self.no, slots),)):
                    item = item_from_body(body, space)
                    items[item.id] = item
                    if len(body) <= MAX_CACHED_LENGTH:
                        self._decoded.put(item.id, (item, copy_properties(item)))
            except (Corrupt, UnicodeDecodeError) as error:
                rows = [(self.no << 32) + slot for slot in slots]
                raise locate_damage(connection, space, rows, error) from error
        return items

    # vectors

    def read_vectors(
        self, connection: apsw.Connection, slots: SlotArray
    ) -> npt.NDArray[np.float32]:
        """Return the vectors at these distinct slots, each of which must have one."""
        self.damage.require("records")
        return self._vectors.get(
            slots, self.embedded, lambda missing: fetch_vectors(connection, self.no, missing)
        )

    # terms

    def terms(self, connection: apsw.Connection) -> set[str]:
        """Return all indexed terms."""
        merged = connection.execute("SELECT DISTINCT term FROM posting WHERE space = ?", (self.no,))
        return {term for (term,) in merged} | set(self._delta)

    def length_norms(self, inverse_mean_length: float) -> Scores:
        """Return BM25's length normalisation of each slot, cached until the mean changes."""
        if self._inverse_mean_length != inverse_mean_length or len(self._norms) != len(
            self.lengths
        ):
            self._inverse_mean_length = inverse_mean_length
            self._norms = _length_norms(self.lengths, inverse_mean_length)
        return self._norms

    def item_length_norms(self, inverse_mean_length: float) -> Scores:
        """Return the normalisation of items with several passages, at their heads."""
        if self.passages is not None and self._inverse_mean_item != inverse_mean_length:
            heads, lengths = self.passages.sum_by_item(np.arange(self.next_slot), self.lengths)
            self._inverse_mean_item, self._item_norms = inverse_mean_length, np.ones(self.next_slot)
            self._item_norms[heads] = _length_norms(lengths, inverse_mean_length)
        return self._item_norms

    def read_blocks(
        self, connection: apsw.Connection, terms: Sequence[str]
    ) -> dict[str, list[tuple[int, bytes]]]:
        """Return the stored rows (block, data) of each term that has any, in one statement."""
        query = """SELECT term, block, data FROM json_each(?) AS query
            CROSS JOIN posting ON posting.space = ? AND posting.term = query.value"""
        blocks: dict[str, list[tuple[int, bytes]]] = {}
        for term, block, data in connection.execute(query, (codec.to_json(list(terms)), self.no)):
            blocks.setdefault(term, []).append((block, data))
        return blocks

    def unmerged(self) -> Mapping[str, Mapping[int, int]]:
        """Return the slots, with counts, of each term of items that are not merged yet."""
        return self._delta

    def delta_slots(self, term: str) -> Mapping[int, int]:
        """Return the slots, with counts, of items with this term that are not merged yet."""
        return self._delta.get(term, {})

    def decode_postings(self, term: str, blocks: Sequence[tuple[int, bytes]]) -> Postings:
        """Return the postings of a term from its stored blocks and the delta."""
        slots = [
            np.add(np.frombuffer(data, "<u2", len(data) // 3), block * BLOCK, dtype=np.intp)
            for block, data in blocks
        ]
        counts = [np.frombuffer(data, np.uint8, offset=len(data) // 3 * 2) for _, data in blocks]
        if delta := self._delta.get(term):
            slots.append(np.fromiter(delta.keys(), np.intp, len(delta)))
            counts.append(np.fromiter(delta.values(), np.uint8, len(delta)))
        if len(slots) == 1 and not delta:
            return slots[0], counts[0]
        if not slots:
            return np.zeros(0, np.intp), np.zeros(0, np.uint8)
        all_slots, all_counts = np.concatenate(slots), np.concatenate(counts)
        if not delta:
            return all_slots, all_counts
        order = np.argsort(all_slots)
        return all_slots[order], all_counts[order]

    def read_postings(self, connection: apsw.Connection, terms: Sequence[str]) -> list[Postings]:
        """Return the postings of each term, cached: queries share many terms."""
        self.damage.require("records", "terms")
        postings = {
            term: cached for term in terms if (cached := self._postings.get(term)) is not None
        }
        missing = [term for term in terms if term not in postings]
        blocks = self.read_blocks(connection, missing) if missing else {}
        for term in missing:
            postings[term] = self.decode_postings(term, blocks.get(term, ()))
            self._postings.put(term, postings[term])
        return [postings[term] for term in terms]

    def item_postings(self, term: str, postings: Postings) -> tuple[SlotArray, Scores]:
        """Return the items with several passages that have a term, and its counts in them."""
        cached = self._item_postings.get(term)
        if cached is None:
            assert self.passages is not None
            cached = self.passages.sum_by_item(*postings)
            self._item_postings.put(term, cached)
        return cached

    # filters

    def mask(self, connection: apsw.Connection, only: Filter) -> Mask | None:
        """Return the slots that a filter allows; None when it allows every live item.

        Masks are cached until the space changes, without `valid_at`, which is applied here.
        """
        key = _mask_fields(only)
        if only.valid_at is not None or key != _NO_FILTER:
            self.damage.require("records")
        if key not in self._masks:
            if len(self._masks) >= MAX_MASKS:
                self._masks.clear()
            built = None if key == _NO_FILTER else self._build_mask(connection, only)
            # A filter may well allow everything: all items may be of one kind.
            allows_all = built is None or np.array_equal(built, self._live)
            self._masks[key] = None if allows_all else built
        mask = self._masks[key]
        if only.valid_at is None or not self._has_expiry:
            return mask
        moment, records = to_microseconds(only.valid_at), self.records[: self.next_slot]
        valid: Mask = (
            (records["valid_from"] <= moment) & (moment < records["valid_to"]) & self._live
        )
        return valid if mask is None else valid & mask

    def _build_mask(self, connection: apsw.Connection, only: Filter) -> Mask:
        def read_items() -> Mask:
            heads = mask_items(connection, self.no, only, self.next_slot)
            return heads if self.passages is None else self.passages.spread(heads)

        return fall_back(lambda: self._mask_by_index(connection, only), read_items)

    def _mask_by_index(self, connection: apsw.Connection, only: Filter) -> Mask:
        self.damage.require("terms")
        records = self.records[: self.next_slot]
        mask: Mask = self._live.copy()
        if only.kinds:
            kinds = np.isin(np.arange(256), [KINDS.index(kind) for kind in only.kinds])
            mask &= kinds[records["kind"]]
        for field, values in (("type", only.types), ("tag", only.tags), ("subject", only.subjects)):
            if values:
                mask &= self._mask_terms(connection, field, values)
        if only.exclude_types:
            mask &= ~self._mask_terms(connection, "type", only.exclude_types)
        if only.created_from is not None:
            mask &= records["created"] >= to_microseconds(only.created_from)
        if only.created_to is not None:
            mask &= records["created"] <= to_microseconds(only.created_to)
        if only.min_confidence > 0:
            mask &= records["confidence"] >= only.min_confidence
        for condition in only.where:
            heads = self._columns.mask(connection, condition, self.version, self.next_slot)
            mask &= heads if self.passages is None else self.passages.spread(heads)
        return mask

    def _mask_terms(self, connection: apsw.Connection, field: str, values: tuple[str, ...]) -> Mask:
        mask = np.zeros(self.next_slot, np.bool_)
        terms = [filter_term(field, value) for value in values]
        blocks = self.read_blocks(connection, terms)
        for term in terms:
            mask[self.decode_postings(term, blocks.get(term, ()))[0]] = True
        # Only the head of an item has filter terms.
        return mask if self.passages is None else self.passages.spread(mask)

    # passages

    def expand(self, heads: SlotArray) -> tuple[SlotArray, SlotArray]:
        """Return all slots of the items with these heads, and the position of each item's first."""
        if self.passages is None:
            return heads, np.arange(len(heads))
        return self.passages.expand(heads)

    def count_items(self, mask: Mask) -> int:
        """Return the number of items among these slots; a mask has all slots of an item or none."""
        return int(np.count_nonzero(self.heads_in(mask)))

    def heads_in(self, mask: Mask) -> Mask:
        """Return the mask of the heads among these slots."""
        return mask if self.passages is None else mask & self.passages.is_head


def _length_norms(lengths: Scores, inverse_mean_length: float) -> Scores:
    return analyser.K1 * (1 - analyser.B + analyser.B * inverse_mean_length * lengths)
