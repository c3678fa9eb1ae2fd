"""Slots of passages: an item occupies one for each, and is identified by the first, its head."""

from __future__ import annotations

from typing import Any, TypeVar

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.errors import Conflict
from knowloom.text.passages import PASSAGE_SIZE, SEGMENTER

SlotArray = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Float = TypeVar("Float", np.float32, np.float64)


class PassageSlots:
    """The slots of a space in which at least one item has several passages."""

    def __init__(self, continuation: Mask) -> None:
        """Take the flags of slots that are not the first of their item."""
        self._continuation = continuation
        self.is_head = ~continuation
        slots = np.arange(len(continuation))
        # Short integers: counting the items of a search takes two thirds of the time.
        self._heads = np.maximum.accumulate(np.where(continuation, 0, slots)).astype(np.int32)
        self._starts = np.append(np.flatnonzero(self.is_head), len(continuation))
        # The slots of items with several passages.
        self.is_part = continuation.copy()
        self.is_part[:-1] |= continuation[1:]

    def heads_of(self, slots: SlotArray) -> SlotArray:
        """Return the head of the item at each slot."""
        return self._heads.take(slots).astype(np.intp)

    def has_several(self, head: int) -> bool:
        """Return True if the item with this head has several passages."""
        return head + 1 < len(self._continuation) and bool(self._continuation[head + 1])

    def spread(self, mask: Mask) -> Mask:
        """Return the mask with the value of each head at all slots of its item."""
        spread: Mask = mask[self._heads]
        return spread

    def expand(self, heads: SlotArray) -> tuple[SlotArray, SlotArray]:
        """Return all slots of the items with these heads, and the position of each item's first."""
        places = self._starts.searchsorted(heads)
        counts = self._starts[places + 1] - heads
        firsts = np.cumsum(counts) - counts
        return np.arange(counts.sum()) + np.repeat(heads - firsts, counts), firsts

    def best_by_item(
        self, slots: SlotArray, scores: npt.NDArray[Float]
    ) -> tuple[SlotArray, npt.NDArray[Float]]:
        """Return the heads of the items that have one of these ascending slots, and their best."""
        heads = self._heads.take(slots)
        first = _changes(heads)
        return heads[first].astype(np.intp), np.maximum.reduceat(scores, first)

    def have_several(self, heads: SlotArray) -> Mask:
        """Return the flags of the items with these heads that have several passages."""
        padded = np.append(self._continuation, False)
        several: Mask = padded[heads + 1]
        return several

    def least_by_item(
        self, values: npt.NDArray[np.uint32], fill: np.uint32
    ) -> npt.NDArray[np.uint32]:
        """Return by slot the least value of each item at its head, and `fill` elsewhere."""
        smallest = np.full(len(values), fill)
        starts = self._starts[:-1]
        smallest[starts] = np.minimum.reduceat(values, starts)
        return smallest

    def sum_by_item(
        self, slots: SlotArray, values: npt.NDArray[Any]
    ) -> tuple[SlotArray, npt.NDArray[np.float64]]:
        """Return the heads of items with several passages, and the sums of their values.

        The slots of an item must follow each other.
        """
        are_parts = self.is_part.take(slots)
        heads = self._heads.take(slots[are_parts])
        first = _changes(heads)
        if not len(first):
            return np.zeros(0, np.intp), np.zeros(0)
        return heads[first].astype(np.intp), np.add.reduceat(
            values[are_parts], first, dtype=np.float64
        )

    def count_items(self, slots: SlotArray) -> int:
        """Return the number of items that have one of these ascending slots."""
        heads = self._heads.take(slots)
        return int(np.count_nonzero(heads[1:] != heads[:-1])) + bool(len(heads))


def _changes(heads: npt.NDArray[np.int32]) -> SlotArray:
    """Return the positions at which ascending numbers change, the first included."""
    is_first = np.ones(len(heads), np.bool_)
    np.not_equal(heads[1:], heads[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def read_segmenter(connection: apsw.Connection) -> tuple[str, int]:
    """Return the version of the segmenter that cut the stored items, and the passage size."""
    ((value,),) = connection.execute("SELECT value FROM meta WHERE key = 'segmenter'")
    version, _, size = str(value).rpartition(":")
    return (version, int(size)) if size.isdigit() else ("", PASSAGE_SIZE)


def write_segmenter(connection: apsw.Connection, passage_size: int) -> None:
    value = f"{SEGMENTER}:{passage_size}"
    connection.execute("UPDATE meta SET value = ? WHERE key = 'segmenter'", (value,))


def check_segmenter(version: str) -> None:
    """Raise Conflict if another segmenter cut the stored items."""
    if version != SEGMENTER:
        raise Conflict(
            f"the passages were cut by {version!r}, this knowloom uses {SEGMENTER!r}: run reindex",
            "reindex_required",
        )
