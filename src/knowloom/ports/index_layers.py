"""The protocols of layers: indexes outside the item store, which has the truth and the last word.

A layer has a copy of items and suggests candidates. The item store checks that they exist, pass the
filter and are current, and scores them; nothing of a layer's copy is ever shown. A change that a
layer could not be given is queued in the item store and delivered later.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from knowloom.model import Filter, Item, Key
from knowloom.ports.models import Vector

PROVENANCE_SPACE = "knowloom:loaded"  # reserved for the origins of items (loading/provenance.py)
OUTBOX_SPACE = "knowloom:outbox"  # reserved for changes that layers have not got yet
HIDDEN_SPACES = (PROVENANCE_SPACE, OUTBOX_SPACE)  # no layer has them
EXACT = -1.0  # the bound of candidates that are the answer itself


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An item as a layer stores it.

    `version` identifies all the other fields: the layer stores it and returns it unchanged.
    """

    item: Item
    version: str
    passage_size: int  # `text.passages.split_passages` cuts the text of the item by it
    vectors: Vector | None = None  # unit vectors, a row per passage; None: not embedded
    fingerprint: str = ""  # of the embedder of the vectors


@dataclass(frozen=True, slots=True)
class Candidates:
    """Items that may be among the best, in any order.

    No other item of the filter's spaces that passes the filter scores more than `bound`, by the
    scores of `TextIndex.search_text` or `VectorIndex.search_vector`, with what the layer was given.
    With the bound 0 no other item matches at all. EXACT: these are the best `limit` items.
    """

    keys: tuple[Key, ...] = ()
    bound: float = 0.0
    considered: int = 0  # items that match


class IndexLayer(Protocol):
    """A copy of the items in another system, written by key."""

    def put(self, entries: Sequence[IndexEntry]) -> None:
        """Add or replace entries, which calls that follow find.

        Vectors of another fingerprint, or other dimensions, than the stored ones replace them all.
        """

    def remove(self, keys: Sequence[Key]) -> None:
        """Delete entries; missing ones have no effect."""

    def indexed_spaces(self) -> list[str]:
        """Return the spaces that have entries, in order."""

    def versions(self, space: str, after: str, limit: int) -> list[tuple[str, str]]:
        """Return ids with their versions, ordered by id, starting behind `after`."""

    def reading(self) -> AbstractContextManager[object]:
        """Open a block whose reads see one state of the layer, if the backend supports that."""

    def close(self) -> None:
        """Release files and connections; a second call has no effect.

        Any other call from then on raises Unavailable with the code "closed".
        """


class TextLayer(IndexLayer, Protocol):
    """A layer that plays the words."""

    def match_text(self, text: str, only: Filter, limit: int) -> Candidates:
        """Return candidates for the best `limit` items that share a term with the text.

        Of the filter, the spaces must be applied: no item of another one is returned or counts in
        the bound. The rest of it may be ignored. The text is never query syntax. The bound may be
        that of `text.words` and `text.query_terms`, or 0 with all items that share a term.
        """


class VectorLayer(IndexLayer, Protocol):
    """A layer that plays the vectors."""

    def match_vector(self, vector: Vector, only: Filter, limit: int) -> Candidates:
        """Return candidates for the `limit` items nearest to a unit vector.

        The filter is applied as in `TextLayer.match_text`. A layer that searches approximately
        returns the bound EXACT for what it finds, and says in its documentation how much it misses.
        """
