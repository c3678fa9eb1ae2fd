"""Slots of passages: an item occupies one for each, and is identified by the first, its head."""

from __future__ import annotations

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.errors import Conflict
from knowloom.text.passages import SEGMENTER

SlotArray = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class PassageSlots:
    """The slots of a space in which at least one item has several passages."""

    def __init__(self, continuation: Mask) -> None:
        """Take the flags of slots that are not the first of their item."""
        self._continuation = continuation
        self.is_head = ~continuation
        slots = np.arange(len(continuation))
        self._heads = np.maximum.accumulate(np.where(continuation, 0, slots))
        self._starts = np.append(np.flatnonzero(self.is_head), len(continuation))

    def heads_of(self, slots: SlotArray) -> SlotArray:
        """Return the head of the item at each slot."""
        return self._heads[slots]

    def has_several(self, head: int) -> bool:
        """Return True if the item with this head has several passages."""
        return head + 1 < len(self._continuation) and bool(self._continuation[head + 1])

    def spread(self, mask: Mask) -> Mask:
        """Return the mask with the value of each head at all slots of its item."""
        spread: Mask = mask[self._heads]
        return spread

    def fold(self, scores: npt.NDArray[np.float64]) -> None:
        """Move the best score of each item to its head, in place; all others become 0."""
        positive = np.flatnonzero((scores > 0) & self._continuation)
        np.maximum.at(scores, self._heads[positive], scores[positive])
        scores[positive] = 0.0

    def expand(self, heads: SlotArray) -> tuple[SlotArray, SlotArray]:
        """Return all slots of the items with these heads, and the position of each item's first."""
        places = self._starts.searchsorted(heads)
        counts = self._starts[places + 1] - heads
        firsts = np.cumsum(counts) - counts
        return np.arange(counts.sum()) + np.repeat(heads - firsts, counts), firsts

    def best_by_item(
        self, slots: SlotArray, scores: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return the best score of each item that has one of these ascending slots."""
        heads = self._heads[slots]
        best: npt.NDArray[np.float32] = np.maximum.reduceat(scores, _changes(heads))
        return best

    def count_items(self, slots: SlotArray) -> int:
        """Return the number of items that have one of these ascending slots."""
        return len(_changes(self._heads[slots]))


def _changes(heads: SlotArray) -> SlotArray:
    """Return the positions at which ascending numbers change, the first included."""
    return np.flatnonzero(np.diff(heads, prepend=-1))


def read_segmenter(connection: apsw.Connection) -> tuple[str, int]:
    """Return the version of the segmenter that cut the stored items, and the passage size."""
    ((value,),) = connection.execute("SELECT value FROM meta WHERE key = 'segmenter'")
    version, _, size = value.rpartition(":")
    return version, int(size)


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
