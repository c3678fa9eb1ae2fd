"""Comparing the text index with the terms of the items: one number per posting, all at once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.model import Item
from knowloom.stores.sqlite.rows import filter_terms
from knowloom.stores.sqlite.space_view import BLOCK, SpaceView
from knowloom.text.words import MAX_TERM_FREQUENCY

POSTING_BYTES = 3  # two of the slot within its block, one of the count
COUNTS = MAX_TERM_FREQUENCY + 1


class TermNumbers(dict[str, int]):
    """A number for each term that is looked up."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class PostingList:
    """Postings in the order in which they were added, as columns of numbers."""

    def __init__(self, numbers: TermNumbers) -> None:
        self._numbers = numbers
        self._terms, self._counts = array("q"), array("q")
        self._slots, self._lengths = array("q"), array("q")  # of runs of postings of one slot
        self._columns: list[tuple[npt.NDArray[np.int64], ...]] = []  # of runs of one term

    def add_item(self, head: int, item: Item, passages: Sequence[Counter[str]]) -> None:
        """Add the terms of the passages of an item, with those that filters look up."""
        for slot, counts in enumerate(passages, head):
            capped = counts.values()
            if max(capped, default=0) > MAX_TERM_FREQUENCY:
                self._add(slot, counts, [min(count, MAX_TERM_FREQUENCY) for count in capped])
            else:
                self._add(slot, counts, capped)
        terms = set(filter_terms(item))
        self._add(head, terms, [1] * len(terms))

    def _add(self, slot: int, terms: Iterable[str], counts: Iterable[int]) -> None:
        size = len(self._terms)
        self._terms.extend(map(self._numbers.__getitem__, terms))
        self._counts.extend(counts)
        self._slots.append(slot)
        self._lengths.append(len(self._terms) - size)

    def read(self, connection: apsw.Connection, view: SpaceView) -> None:
        """Add the postings of a space: the stored rows and those that are not merged yet."""
        rows = list(
            connection.execute("SELECT term, block, data FROM posting WHERE space = ?", (view.no,))
        )
        lengths = np.array([len(data) // POSTING_BYTES for *_, data in rows], np.int64)
        slots = b"".join(data[: 2 * (len(data) // POSTING_BYTES)] for *_, data in rows)
        counts = b"".join(data[2 * (len(data) // POSTING_BYTES) :] for *_, data in rows)
        firsts = np.array([block * BLOCK for _, block, _ in rows], np.int64)
        terms = np.array([self._numbers[term] for term, *_ in rows], np.int64)
        self._columns.append(
            (
                np.repeat(terms, lengths),
                np.repeat(firsts, lengths) + np.frombuffer(slots, "<u2"),
                np.frombuffer(counts, np.uint8).astype(np.int64),
            )
        )
        for term, delta in view.unmerged().items():
            for slot, count in delta.items():
                self._add(slot, (term,), (count,))

    def columns(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Return the numbers of the terms, the slots and the counts."""
        slots = np.repeat(np.array(self._slots, np.int64), np.array(self._lengths, np.int64))
        added = (np.array(self._terms, np.int64), slots, np.array(self._counts, np.int64))
        return tuple(map(np.concatenate, zip(added, *self._columns, strict=True)))


def count_differences(expected: PostingList, stored: PostingList) -> tuple[int, int]:
    """Return how many expected postings are not stored, and how many stored ones are surplus."""
    first, second = expected.columns(), stored.columns()
    size = 1 + max((int(slots.max()) for _, slots, _ in (first, second) if len(slots)), default=0)
    keys = [
        np.sort((terms * size + slots) * COUNTS + counts)
        for terms, slots, counts in (first, second)
    ]
    if np.array_equal(keys[0], keys[1]):
        return 0, 0
    _, places = np.unique(np.concatenate(keys), return_inverse=True)
    totals = [
        np.bincount(part, minlength=int(places.max()) + 1)
        for part in (places[: len(keys[0])], places[len(keys[0]) :])
    ]
    balance = totals[0] - totals[1]
    return int(balance[balance > 0].sum()), int(-balance[balance < 0].sum())
