"""Postings of terms in segments: written with each batch, merged as they grow, cached by term."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from knowloom.caching import TwoGenerationCache
from knowloom.stores.postgresql.item_rows import Numbers, shorten
from knowloom.text import words

if TYPE_CHECKING:
    from knowloom.stores.postgresql.space_arrays import SpaceArrays

Counts = npt.NDArray[np.uint8]
Execute = Callable[..., Any]

MAX_CACHED_POSTINGS = 3_000_000  # slots of terms per space, about 9 bytes each
TERM_OVERHEAD = 50  # the size of a cached term beside its postings, in postings
TAIL_SLOTS = 1024  # slots in small segments before they are merged
BLOCK_SLOTS = 65_536  # slots in medium segments before they are merged

_NOTHING: tuple[Numbers, Counts] = (np.zeros(0, np.intp), np.zeros(0, np.uint8))
_READ = """SELECT query.place, string_agg(posting.slots, '' ORDER BY posting.first),
        string_agg(posting.counts, '' ORDER BY posting.first)
    FROM unnest(%s::integer[], %s::text[], %s::integer[])
        WITH ORDINALITY AS query(space, term, upto, place)
    JOIN posting ON posting.space = query.space AND posting.term = query.term
        AND posting.last >= query.upto
    GROUP BY query.place"""


class PostingCache:
    """The postings of terms up to a slot. A slot never changes: later reads add what follows."""

    def __init__(self) -> None:
        self._terms: TwoGenerationCache[str, tuple[int, Numbers, Counts]]
        self._terms = TwoGenerationCache(
            "postgresql postings",
            MAX_CACHED_POSTINGS,
            lambda postings: TERM_OVERHEAD + len(postings[1]),
        )
        self._loaded: dict[str, tuple[Numbers, Counts]] = {}

    def get(self, term: str) -> tuple[Numbers, Counts]:
        """Return the ascending slots and the counts of a term that was just loaded."""
        return self._loaded[term]

    @staticmethod
    def load(
        fetch: Callable[..., list[tuple[Any, ...]]],
        requested_terms: Sequence[tuple[SpaceArrays, Sequence[str]]],
    ) -> None:
        """Make the postings of these terms of each space available, in one statement."""
        requests: list[tuple[SpaceArrays, str, int]] = []
        for view, terms in requested_terms:
            view.postings._loaded = {}
            for term in dict.fromkeys(terms):
                upto, slots, counts = view.postings._terms.get(term) or (0, *_NOTHING)
                view.postings._loaded[term] = slots, counts
                if upto < view.next_slot:
                    requests.append((view, term, upto))
        if not requests:
            return
        columns = (
            [view.no for view, _, _ in requests],
            [shorten(term) for _, term, _ in requests],
            [upto for _, _, upto in requests],
        )
        rows = {place - 1: (slots, counts) for place, slots, counts in fetch(_READ, columns)}
        for place, (view, term, upto) in enumerate(requests):
            view.postings._extend(term, upto, view.next_slot, *rows.get(place, (b"", b"")))

    def _extend(self, term: str, upto: int, end: int, slots: bytes, counts: bytes) -> None:
        new_slots = np.frombuffer(slots, "<i4").astype(np.intp)
        new_counts = np.frombuffer(counts, np.uint8)
        if upto:  # a merged segment also has slots that were read before
            is_new = new_slots >= upto
            old_slots, old_counts = self._loaded[term]
            new_slots = np.concatenate([old_slots, new_slots[is_new]])
            new_counts = np.concatenate([old_counts, new_counts[is_new]])
        self._loaded[term] = new_slots, new_counts
        self._terms.put(term, (end, new_slots, new_counts))


def write_segment(execute: Execute, space: int, passages: Mapping[int, Mapping[str, int]]) -> None:
    """Store the terms of new passages (slot -> term -> count) as one segment per term."""
    by_term: dict[str, tuple[list[int], list[int]]] = {}
    for slot in sorted(passages):
        for term, count in passages[slot].items():
            slots, counts = by_term.setdefault(shorten(term), ([], []))
            slots.append(slot)
            counts.append(min(count, words.MAX_TERM_FREQUENCY))
    terms = sorted(by_term)
    postings = [by_term[term] for term in terms]
    query = """INSERT INTO posting(space, term, first, last, slots, counts)
        SELECT %s, * FROM unnest(%b::text[], %b::integer[], %b::integer[], %b::bytea[], %b::bytea[])
        """
    columns = (
        terms,
        [slots[0] for slots, _ in postings],
        [slots[-1] for slots, _ in postings],
        [np.array(slots, "<i4").tobytes() for slots, _ in postings],
        [bytes(counts) for _, counts in postings],
    )
    if terms:
        execute(query, (space, *columns))


def merge_segments(execute: Execute, space: int, first: int) -> None:
    """Merge the segments of each term from a slot on."""
    execute(
        """WITH old AS (DELETE FROM posting WHERE space = %s AND first >= %s RETURNING *)
        INSERT INTO posting SELECT space, term, min(first), max(last),
            string_agg(slots, '' ORDER BY first), string_agg(counts, '' ORDER BY first)
        FROM old GROUP BY space, term""",
        (space, first),
    )
