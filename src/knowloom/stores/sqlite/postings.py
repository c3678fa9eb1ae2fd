"""Term postings: writing them, and BM25 with the statistics of the queried spaces."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.stores.sqlite.passage_slots import SlotArray
from knowloom.stores.sqlite.rows import SLOT_BITS
from knowloom.stores.sqlite.space_view import BLOCK, Postings, Scores, SpaceView
from knowloom.text import words
from knowloom.text.query_terms import weigh_terms

DELTA_LIMIT = 1024  # items outside the postings: loading them costs a new process about 10 ms


def score_all(
    connection: apsw.Connection, views: Sequence[SpaceView], text: str
) -> tuple[list[Scores], float]:
    """Return the raw score of each slot of each view, and the maximum to divide them by.

    Only a few of the scores are ever used. Stop words count in full in the maximum: without them
    words would weigh more than vectors in a hybrid search.
    """
    weights = weigh_terms(text)
    documents = sum(view.documents for view in views)
    length = sum(view.length for view in views)
    result = [np.zeros(view.next_slot) for view in views]
    if not weights or not documents or not length:
        return result, 1.0
    norms = [view.length_norms(documents / length) for view in views]
    items = [ItemScores(view, sum(view.items for view in views) / length) for view in views]
    maximum = 0.0
    all_postings = zip(
        *(view.read_postings(connection, list(weights)) for view in views), strict=True
    )
    for (term, weight), postings in zip(weights.items(), all_postings, strict=True):
        full_idf = words.idf(documents, sum(len(slots) for slots, _ in postings))
        maximum += max(1.0, weight) * full_idf
        idf = weight * full_idf
        for (slots, counts), norm, score, item in zip(postings, norms, result, items, strict=True):
            _add_gains(score, slots, counts, norm, idf)
            item.add(term, (slots, counts), idf)
    for score, item in zip(result, items, strict=True):
        item.blend(score)
    return result, maximum


def _add_gains(
    score: Scores, slots: SlotArray, counts: npt.NDArray[Any], norm: Scores, idf: float
) -> None:
    # score[slots] += idf * counts / (counts + norm[slots]), computed in place: six tenths of the
    # time.
    gain = counts.astype(np.float64)
    divisor = norm.take(slots)
    divisor += gain
    gain *= idf
    gain /= divisor
    gain += score.take(slots)
    score[slots] = gain


class ItemScores:
    """The scores of the items of a view that have several passages, at their heads."""

    def __init__(self, view: SpaceView, inverse_mean_length: float) -> None:
        self._view, self._passages = view, view.passages
        if self._passages is not None:
            self._norms = view.item_length_norms(inverse_mean_length)
            self._scores = np.zeros(view.next_slot)

    def add(self, term: str, postings: Postings, idf: float) -> None:
        """Add a term with its postings."""
        if self._passages is not None:
            heads, totals = self._view.item_postings(term, postings)
            _add_gains(self._scores, heads, totals, self._norms, idf)

    def blend(self, scores: Scores) -> None:
        """Add the share of the item to the scores above 0 of its slots."""
        if self._passages is None:
            return
        slots = np.flatnonzero(self._passages.is_part & (scores > 0))
        shares = self._scores.take(self._passages.heads_of(slots))
        scores[slots] = _blend(scores.take(slots), shares)


def _blend(scores: Scores, item_scores: Scores) -> Scores:
    return (1 - words.ITEM_SHARE) * scores + words.ITEM_SHARE * item_scores


def score_slots(
    connection: apsw.Connection, views: Sequence[SpaceView], text: str, slots: Sequence[SlotArray]
) -> list[Scores]:
    """Return the final scores at these slots of each view, the same numbers as `score_all`.

    They are all slots of some items, item by item.
    """
    weights = weigh_terms(text)
    documents = sum(view.documents for view in views)
    length = sum(view.length for view in views)
    result = [np.zeros(len(some)) for some in slots]
    if not weights or not documents or not length:
        return result
    statistics = [
        _count_terms(connection, view, list(weights), some)
        for view, some in zip(views, slots, strict=True)
    ]
    frequencies = zip(*(frequencies for frequencies, _ in statistics), strict=True)
    full_idf = [words.idf(documents, sum(by_view)) for by_view in frequencies]
    weighted = list(zip(weights.values(), full_idf, strict=True))
    maximum = sum(max(1.0, weight) * value for weight, value in weighted)
    idf = np.array([weight * value for weight, value in weighted])
    inverse_mean_item = sum(view.items for view in views) / length
    for score, view, some, (_, counts) in zip(result, views, slots, statistics, strict=True):
        # Summed term by term as in `score_all`, to be equal to the last digit.
        norms = view.length_norms(documents / length)[some]
        score += np.add.reduce(idf[:, None] * counts / (counts + norms), axis=0)
        if view.passages is not None and len(some):
            heads = view.passages.heads_of(some)
            firsts = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
            totals = np.add.reduceat(counts, firsts, axis=1)
            norms = view.item_length_norms(inverse_mean_item)[heads[firsts]]
            of_items = np.add.reduce(idf[:, None] * totals / (totals + norms), axis=0)
            of_slots = np.repeat(of_items, np.diff(np.append(firsts, len(some))))
            are_parts = view.passages.is_part[some] & (score > 0)
            np.copyto(score, _blend(score, of_slots), where=are_parts)
        score /= maximum
    return result


def _count_terms(
    connection: apsw.Connection, view: SpaceView, terms: Sequence[str], slots: SlotArray
) -> tuple[list[int], Scores]:
    """Return each term's document frequency, and its counts at these slots, one row a term."""
    postings = view.read_postings(connection, terms)
    counts = np.zeros((len(terms), len(slots)))
    for row, (term_slots, term_counts) in zip(counts, postings, strict=True):
        if len(term_slots):
            at = np.minimum(term_slots.searchsorted(slots), len(term_slots) - 1)
            np.multiply(term_counts.take(at), term_slots.take(at) == slots, out=row)
    return [len(term_slots) for term_slots, _ in postings], counts


def add_items(
    connection: apsw.Connection, space: int, version: int, items: Mapping[int, Mapping[str, int]]
) -> None:
    """Index items (slot -> term -> count), in the delta until DELTA_LIMIT of them are merged."""
    first = space << 32
    ((waiting,),) = connection.execute(
        "SELECT count(*) FROM delta WHERE row BETWEEN ? AND ?", (first, first + SLOT_BITS)
    )
    if waiting + len(items) >= DELTA_LIMIT:
        merge_postings(connection, space, {**drain_delta(connection, space, version), **items}, {})
        return
    capped = (
        (slot, {term: _cap(count) for term, count in counts.items()})
        for slot, counts in items.items()
    )
    rows = (
        (first + slot, version, json.dumps(terms, ensure_ascii=False)) for slot, terms in capped
    )
    connection.executemany("INSERT INTO delta VALUES (?, ?, ?)", rows)


def remove_items(
    connection: apsw.Connection, space: int, version: int, items: Mapping[int, Iterable[str]]
) -> None:
    """Remove items (slot -> terms) from the delta or the postings."""
    first = space << 32
    merged: dict[int, Iterable[str]] = {}
    for slot, terms in items.items():
        connection.execute("DELETE FROM delta WHERE row = ?", (first + slot,))
        if not connection.changes():
            merged[slot] = terms
    if len(merged) < len(items):
        connection.execute("UPDATE space SET delta_reset = ? WHERE no = ?", (version, space))
    merge_postings(connection, space, {}, merged)


def drain_delta(connection: apsw.Connection, space: int, version: int) -> dict[int, dict[str, int]]:
    """Remove and return the space's items (slot -> term -> count) in the delta."""
    first = space << 32
    bounds = (first, first + SLOT_BITS)
    rows = list(
        connection.execute("SELECT row, terms FROM delta WHERE row BETWEEN ? AND ?", bounds)
    )
    connection.execute("DELETE FROM delta WHERE row BETWEEN ? AND ?", bounds)
    connection.execute("UPDATE space SET delta_reset = ? WHERE no = ?", (version, space))
    return {row - first: json.loads(terms) for row, terms in rows}


def merge_postings(
    connection: apsw.Connection,
    space: int,
    added: Mapping[int, Mapping[str, int]],
    removed: Mapping[int, Iterable[str]],
) -> None:
    """Rewrite the postings of each affected term, once each."""
    steps = [
        (term, slot // BLOCK, slot % BLOCK, count)
        for slot, counts in added.items()
        for term, count in counts.items()
    ]
    steps += [
        (term, slot // BLOCK, slot % BLOCK, 0) for slot, terms in removed.items() for term in terms
    ]
    steps.sort()
    for (term, block), group in groupby(steps, key=lambda step: step[:2]):
        _rewrite(connection, space, term, block, {slot: count for _, _, slot, count in group})


def _rewrite(
    connection: apsw.Connection, space: int, term: str, block: int, changes: Mapping[int, int]
) -> None:
    """Set the counts of ascending slots in one posting; 0 removes a slot."""
    query = "SELECT id, data FROM posting WHERE space = ? AND term = ? AND block = ?"
    stored = list(connection.execute(query, (space, term, block)))
    data = _update(stored[0][1] if stored else b"", changes)
    if stored and data:
        connection.execute("UPDATE posting SET data = ? WHERE id = ?", (data, stored[0][0]))
    elif stored:
        connection.execute("DELETE FROM posting WHERE id = ?", (stored[0][0],))
    elif data:
        insert = "INSERT INTO posting(space, term, block, data) VALUES (?, ?, ?, ?)"
        connection.execute(insert, (space, term, block, data))


def _update(old: bytes, changes: Mapping[int, int]) -> bytes:
    middle = len(old) // 3 * 2
    appends = not old or int.from_bytes(old[middle - 2 : middle], "little") < next(iter(changes))
    if appends and all(changes.values()):
        # New items follow the stored ones: no search, five times as fast as the general case.
        return (
            old[:middle]
            + struct.pack(f"<{len(changes)}H", *changes)
            + old[middle:]
            + bytes(map(_cap, changes.values()))
        )
    if len(changes) == 1:
        return _update_slot(old, middle, *next(iter(changes.items())))
    return _update_slots(old, middle, changes)


# A frequent term has tens of thousands of slots: they are moved in bulk, never singly.
def _update_slot(old: bytes, middle: int, slot: int, count: int) -> bytes:
    slots = np.frombuffer(old, "<u2", middle // 2)
    at = int(slots.searchsorted(slot))
    end = at + (at < len(slots) and int(slots[at]) == slot)
    new_slot, new_count = (struct.pack("<H", slot), bytes([_cap(count)])) if count else (b"", b"")
    slot_parts = (old[: 2 * at], new_slot, old[2 * end : middle])
    count_parts = (old[middle : middle + at], new_count, old[middle + end :])
    return b"".join((*slot_parts, *count_parts))


def _update_slots(old: bytes, middle: int, changes: Mapping[int, int]) -> bytes:
    slots = np.frombuffer(old, "<u2", middle // 2)
    counts = np.frombuffer(old, np.uint8, offset=middle)
    unchanged = np.isin(slots, np.fromiter(changes, "<u2", len(changes)), invert=True)
    slots, counts = slots[unchanged], counts[unchanged]
    added = {slot: _cap(count) for slot, count in changes.items() if count}
    new = np.fromiter(added, "<u2", len(added))
    at = slots.searchsorted(new)
    return bytes(
        np.insert(slots, at, new).tobytes() + np.insert(counts, at, list(added.values())).tobytes()
    )


def _cap(count: int) -> int:
    return min(count, words.MAX_TERM_FREQUENCY)
