"""A session's view of one space: filters, lengths and sign bits in arrays, refreshed by version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from knowloom.caching import TwoGenerationCache
from knowloom.model import Filter, Item
from knowloom.stores.postgresql.attribute_columns import AttributeColumns
from knowloom.stores.postgresql.item_rows import (
    FOREVER,
    KINDS,
    RECORD,
    Numbers,
    filter_term,
    ranges,
    to_microseconds,
)
from knowloom.stores.postgresql.scoring.vector_matrix import VectorMatrix
from knowloom.stores.postgresql.term_segments import PostingCache
from knowloom.vectors.nearest_lists import empty_lists

Fetch = Callable[..., list[tuple[Any, ...]]]
Mask = npt.NDArray[np.bool_]
CachedItem = Item | tuple[str, str, str] | tuple[()]

MAX_MASKS = 64  # cached filters per space
MAX_CACHED_ITEMS = 16_384  # per space, about 1 KB each
MAX_CACHED_IDS = 200_000  # per space, in each direction
DEAD = -1  # the owner of a slot without an item
NO_ITEM = -1
SPACE_COLUMNS = (
    "no, version, next_no, next_slot, items, documents, length, epoch, "
    "edges, digest, links, links_digest"
)

# The fields of a filter that make its mask. `valid_at` differs from request to request.
_mask_fields = attrgetter(
    *(field.name for field in fields(Filter) if field.name not in ("spaces", "valid_at"))
)
_REFRESH = """SELECT
    (SELECT string_agg(data, '' ORDER BY no) FROM record WHERE space = %(no)s AND version > %(v)s),
    (SELECT string_agg(lengths, '' ORDER BY no) FROM record
        WHERE space = %(no)s AND version > %(v)s),
    (SELECT string_agg(int4send(no), '') FROM removed
        WHERE space = %(no)s AND version > %(v)s AND %(v)s > 0),
    (SELECT string_agg(int4send(no) || int8send(version), '' ORDER BY no) FROM vector
        WHERE space = %(no)s AND version > %(v)s),
    (SELECT string_agg(signs, '' ORDER BY no) FROM vector
        WHERE space = %(no)s AND version > %(v)s)"""


class SpaceArrays:
    """One space as one session last saw it. Items have numbers, their passages have slots."""

    def __init__(self, no: int) -> None:
        self.no = no
        self.version = self.next_no = self.next_slot = self.items = self.documents = 0
        self.length = self.epoch = 0
        # By number.
        self.records = np.zeros(0, RECORD)
        self.live: Mask = np.zeros(0, np.bool_)
        self.embedded: Mask = np.zeros(0, np.bool_)
        self.several: Mask = np.zeros(0, np.bool_)  # items of several passages
        self.item_lengths: npt.NDArray[np.float64] = np.zeros(0)  # of these items
        self.vector_versions = np.zeros(0, np.int64)
        # By slot.
        self.owners = np.zeros(0, np.int32)  # numbers of items
        self.lengths = np.zeros(0)
        self.signs = np.zeros((0, 0), np.uint64)  # one row per 64 dimensions
        self.has_dead = self.has_several = False
        # Lists of nearest items by number, read by the linker up to this version of the space.
        self.nearest, self.nearest_version = empty_lists(0), 0
        self.postings = PostingCache()
        self._columns = AttributeColumns(no)
        self._has_expiry = False
        self._masks: dict[tuple[Any, ...], Mask | None] = {}
        # By number and version; rows (id, body, attributes) until they are first needed, and ()
        # for long items, which are read when they are shown.
        self.items_by_number: TwoGenerationCache[tuple[int, int], CachedItem]
        self.items_by_number = TwoGenerationCache("postgresql items", MAX_CACHED_ITEMS)
        self._ids: TwoGenerationCache[int, str]
        self._ids = TwoGenerationCache("postgresql ids", MAX_CACHED_IDS)
        self._numbers: TwoGenerationCache[str, int]
        self._numbers = TwoGenerationCache("postgresql numbers", MAX_CACHED_IDS)
        self.vectors = VectorMatrix()

    def refresh(self, fetch: Fetch, row: Sequence[Any]) -> None:
        """Catch up with a row of SPACE_COLUMNS; free when the space did not change."""
        _, version, next_no, next_slot, items, documents, length, epoch, *_ = row
        if version == self.version:
            return
        if epoch != self.epoch:  # slots were numbered anew
            self.__init__(self.no)  # type: ignore[misc]
            self.epoch = epoch
        ((data, lengths, removed, vectors, signs),) = fetch(
            _REFRESH, {"no": self.no, "v": self.version}
        )
        self.next_no, self.next_slot = next_no, next_slot
        self.items, self.documents, self.length = items, documents, length
        self.records = _grow(self.records, next_no)
        self.vector_versions = _grow(self.vector_versions, next_no)
        self.owners = _grow(self.owners, next_slot, DEAD)
        self.lengths = _grow(self.lengths, next_slot)
        self._remove(np.frombuffer(removed or b"", ">i4"))
        self._put(np.frombuffer(data or b"", RECORD), np.frombuffer(lengths or b"", "<u4"))
        if vectors:
            self._put_signs(np.frombuffer(vectors, np.dtype([("no", ">i4"), ("v", ">i8")])), signs)
        self._derive()
        self._masks.clear()
        self.version = version  # last: an interrupted refresh starts over

    def _remove(self, numbers: npt.NDArray[np.integer[Any]]) -> None:
        gone = self.records[numbers]
        self.owners[ranges(gone["first"], gone["count"])] = DEAD
        self.records[numbers] = np.zeros((), RECORD)

    def _put(self, records: npt.NDArray[np.void], lengths: npt.NDArray[np.uint32]) -> None:
        self._remove(records["no"])
        self.records[records["no"]] = records
        slots = ranges(records["first"], records["count"])
        self.owners[slots] = np.repeat(records["no"], records["count"])
        self.lengths[slots] = lengths

    def _put_signs(self, vectors: npt.NDArray[np.void], signs: bytes) -> None:
        numbers = vectors["no"].astype(np.intp)
        self.vector_versions[numbers] = vectors["v"]
        records = self.records[numbers]
        slots = ranges(records["first"], records["count"])
        rows = np.frombuffer(signs, np.uint64).reshape(len(slots), -1)
        if len(self.signs) != rows.shape[1]:
            self.signs = np.zeros((rows.shape[1], 0), np.uint64)
        self.signs = _grow(self.signs, self.next_slot)
        self.signs[:, slots] = rows.T

    def _derive(self) -> None:
        counts = self.records["count"]
        self.live, self.several = counts > 0, counts > 1
        self.embedded = self.records["vector"] == 1
        self.has_several = bool(self.several.any())
        self.has_dead = self.documents < self.next_slot
        if len(self.signs):
            self.signs = _grow(self.signs, self.next_slot)
        if self.has_several:
            alive = np.flatnonzero(self.owners != DEAD)
            lengths = np.bincount(self.owners[alive], self.lengths[alive], minlength=self.next_no)
            self.item_lengths = lengths.astype(np.float64)
        limited = (self.records["valid_from"] > -FOREVER) | (self.records["valid_to"] < FOREVER)
        self._has_expiry = bool((self.live & limited).any())

    # ids

    def ids(self, fetch: Fetch, numbers: Sequence[int]) -> list[str]:
        """Return the ids of the items with these numbers."""
        ids = {no: id for no in numbers if (id := self._ids.get(no)) is not None}
        if missing := [no for no in numbers if no not in ids]:
            query = "SELECT no, id FROM item WHERE space = %s AND no = ANY(%s)"
            for no, id in fetch(query, (self.no, missing)):
                ids[no] = id
                self.remember(no, id)
        return [ids[no] for no in numbers]

    def has_item(self, no: int) -> bool:
        """Return True if the id and the row of an item are cached."""
        cached = self.items_by_number.get(self.item_version(no))
        return cached is not None and self._ids.get(no) is not None

    def item_version(self, no: int) -> tuple[int, int]:
        """Return the key of an item in the cache: it changes with the item."""
        return no, int(self.records["version"][no])

    def remember(self, no: int, id: str) -> None:
        self._ids.put(no, id)
        self._numbers.put(id, no)

    def cached_number(self, id: str) -> int:
        """Return the number of an id, NO_ITEM if it must be looked up. Numbers are used once."""
        no = self._numbers.get(id)
        return NO_ITEM if no is None or no >= self.next_no or not self.live[no] else no

    def numbers(self, fetch: Fetch, ids: Sequence[str]) -> list[int]:
        """Return the number of each id, NO_ITEM for ids that are not stored."""
        numbers = {id: self.cached_number(id) for id in ids}
        if missing := [id for id, no in numbers.items() if no == NO_ITEM]:
            query = "SELECT id, no FROM item WHERE space = %s AND id = ANY(%s)"
            for id, no in fetch(query, (self.no, missing)):
                numbers[id] = no
                self.remember(no, id)
        return [numbers[id] for id in ids]

    # filters

    def mask(self, fetch: Fetch, only: Filter) -> Mask | None:
        """Return the items that a filter allows, by number; None when it allows all.

        Masks are cached until the space changes, without `valid_at`, which is applied here.
        """
        key = _mask_fields(only)
        if key not in self._masks:
            if len(self._masks) >= MAX_MASKS:
                self._masks.clear()
            built = None if key == _mask_fields(Filter(())) else self._build_mask(fetch, only)
            allows_all = built is None or np.array_equal(built, self.live)
            self._masks[key] = None if allows_all else built
        mask = self._masks[key]
        if only.valid_at is None or not self._has_expiry:
            return mask
        moment, records = to_microseconds(only.valid_at), self.records
        valid: Mask = (records["valid_from"] <= moment) & (moment < records["valid_to"]) & self.live
        return valid if mask is None else valid & mask

    def _build_mask(self, fetch: Fetch, only: Filter) -> Mask:
        records, mask = self.records, self.live.copy()
        if only.kinds:
            kinds = np.isin(np.arange(256), [KINDS.index(kind) for kind in only.kinds])
            mask &= kinds[records["kind"]]
        terms = {
            field: [filter_term(field, value) for value in values]
            for field, values in (
                *(("type", only.types), ("tag", only.tags), ("subject", only.subjects)),
                ("excluded", only.exclude_types),
            )
            if values
        }
        terms["excluded"] = [filter_term("type", value) for value in only.exclude_types]
        self.postings.load(fetch, [(self, [term for some in terms.values() for term in some])])
        for field, some in terms.items():
            holders = np.zeros(self.next_no, np.bool_)
            for term in some:
                holders[self.holders(term)] = True
            if some:
                mask &= ~holders if field == "excluded" else holders
        if only.created_from is not None:
            mask &= records["created"] >= to_microseconds(only.created_from)
        if only.created_to is not None:
            mask &= records["created"] <= to_microseconds(only.created_to)
        if only.min_confidence > 0:
            mask &= records["confidence"] >= only.min_confidence
        for condition in only.where:
            mask &= self._columns.mask(fetch, condition, self.version, self.next_no)
        return mask

    def holders(self, term: str) -> Numbers:
        """Return the items with a loaded filter term."""
        slots, _ = self.live_postings(term)
        return self.owners[slots].astype(np.intp)

    def live_postings(self, term: str) -> tuple[Numbers, npt.NDArray[np.uint8]]:
        """Return the slots and counts of a loaded term, without those of former items."""
        slots, counts = self.postings.get(term)
        if not self.has_dead:
            return slots, counts
        alive = self.owners.take(slots) != DEAD
        return slots[alive], counts[alive]


def _grow(array: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    """Return the array with this size in its last axis."""
    more = size - array.shape[-1]
    if more <= 0:
        return array
    padding = np.zeros((*array.shape[:-1], more), array.dtype)
    if fill:
        padding.fill(fill)
    return np.concatenate([array, padding], axis=-1)
