"""The protocols of stores, and the values that they exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from knowloom.errors import Unavailable
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports.models import Vector


@dataclass(frozen=True, slots=True)
class Batch:
    """One atomic write; `at` is its time in the change log."""

    at: datetime
    items: tuple[Item, ...] = ()
    edges: tuple[Edge, ...] = ()
    deleted: tuple[Key, ...] = ()
    deleted_edges: tuple[EdgeKey, ...] = ()
    # Versions that must still be stored, "" for a missing item; otherwise the batch is a Conflict.
    expected: tuple[tuple[Key, str], ...] = ()
    marked: tuple[Key, ...] = ()  # more items whose automatic edges must be computed again
    actor: str = ""  # the author in the change log


@dataclass(frozen=True, slots=True)
class SpaceInfo:
    """The size of a space. `digest` depends on its items and explicit edges, not on their history.

    Automatic edges follow from the rest and have a digest of their own.
    """

    name: str
    items: int
    edges: int  # explicit ones
    digest: str
    links: int = 0  # automatic edges
    links_digest: str = "0" * 32


@dataclass(frozen=True, slots=True)
class IndexResult:
    """The answer of one index: keys with scores, best first, and the number of items considered."""

    matches: tuple[tuple[Key, float], ...] = ()
    considered: int = 0
    others: Mapping[Key, float] = field(default_factory=dict)  # scores of explicitly requested keys


class Store(Protocol):
    """The operations that all stores share."""

    def apply(self, batch: Batch) -> None:
        """Apply the whole batch or nothing.

        Items replace by (space, id), edges by their key. Deleting an item deletes its terms, its
        vector and every edge that touches it; deleting a missing item has no effect. If a stored
        version is not the expected one, raise Conflict with the code "version_mismatch".
        """

    def reading(self) -> AbstractContextManager[object]:
        """Open a block whose reads see one state of the store, if the backend supports that."""

    def close(self) -> None:
        """Release files and connections; a second call has no effect.

        Any other call from then on raises Unavailable with the code "closed".
        """


class ItemStore(Store, Protocol):
    """The source of truth, edges included: every index can be rebuilt from it."""

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        """Return every space ever written to, ordered by name.

        `names` restricts them, at a cost that does not grow with the other spaces.
        """

    def get(self, keys: Sequence[Key]) -> list[Item]:
        """Return the items in the order of the keys; missing ones are left out."""

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        """Return the keys, in order, of existing items that pass the filter."""

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        """Return items that pass the filter, ordered by (space, id), starting behind `after`."""

    def count(self, only: Filter) -> int:
        """Return the number of items that pass the filter."""

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        """Return the change log of a space, oldest first, starting behind number `after`."""

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        """Return all changes of these items and of edges that touch them, each once, oldest first.

        The space that owns the edge does not matter.
        """

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        """Return a description of every defect; edges may end at items `elsewhere`."""


class Index(Store, Protocol):
    """A store that finds items and has a copy of each, cut into passages.

    `text.passages` cuts the text of an item. A short item is one passage.
    """

    def passage_size(self) -> int:
        """Return the size, in characters, that items are cut to."""

    def resegment(self, passage_size: int) -> None:
        """Cut all items to another size, as one write: index their terms again.

        Items whose passages change lose their vectors.
        """

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        """Return items that pass the filter, ordered by (space, id), starting behind `after`."""


class TextIndex(Index, Protocol):
    """A full-text index."""

    def rebuild_words(self, items: Iterable[Item]) -> None:
        """Replace the whole index by one of these items, as one write."""

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        """Return the best items that share a term with the text.

        Scores are BM25 over the statistics of the filter's spaces, by the weights of
        `text.query_terms`, divided by the best score that any text could reach if no word of the
        query counted less than 1, so they are in [0, 1). A passage of several has a share
        (`words.ITEM_SHARE`) of the score of its item, and an item the score of its best passage.
        Ties are ordered by (id, space). The text is never query syntax. `others` has the score of
        every key in `also` that shares a term, whether or not it is among the best; with a limit of
        0 nothing else is searched.
        """

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        """Return the score of each passage of these items, without items of one passage.

        Items that the filter excludes are left out.
        """


class VectorIndex(Index, Protocol):
    """An index of unit vectors of one embedder."""

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        """Store unit vectors: a matrix with a row per passage, or one vector for all of them.

        Keys without an item, or with another number of passages by now, are ignored.
        Another fingerprint or another number of dimensions than the stored ones is a Conflict:
        call `forget_vectors` first. A vector of another length than 1 is Invalid; then nothing is
        stored.
        """

    def forget_vectors(self) -> None:
        """Delete all vectors, their fingerprint and all calibrations."""

    def calibration(self, fingerprint: str) -> bytes:
        """Return the calibration of an embedder, b"" if none is stored."""

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        """Store the calibration of an embedder; one that is stored already stays."""

    def fingerprint(self) -> str:
        """Return the fingerprint of the embedder of the stored vectors; "" without vectors."""

    def dimensions(self) -> int:
        """Return the number of dimensions of the stored vectors; 0 without vectors."""

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        """Return items without a vector, or with text that changed since, ordered by key."""

    def count_missing(self, spaces: Sequence[str]) -> int:
        """Return the number of items that `missing_vectors` would return without a limit."""

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        """Return the nearest items by the cosine of their nearest passage, negative ones as 0.

        Ties are ordered by (id, space).
        """

    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        """Return the vectors as they are stored, a row per passage; those without are left out."""

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the similarity of these keys; those without a vector are left out."""

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        """Return the similarity of each passage of these items.

        Items of one passage and items without vectors are left out.
        """


class GraphStore(Store, Protocol):
    """A store of edges."""

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        """Return edges that touch one of the keys and have both ends in the spaces.

        For each key and each direction these are the `limit` heaviest of at least `min_weight`,
        ties by the other end. `automatic` restricts them to automatic (True) or explicit (False)
        edges; the others do not count towards the limit. One call per hop, never one per item. No
        duplicates; ordered by (-weight, source, target, type).
        """

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        """Return the edges in the order of the keys; missing ones are left out."""

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        """Return the edges of the spaces, ordered by key, starting behind `after`.

        `automatic` restricts them to automatic (True) or explicit (False) edges.
        """


@dataclass(frozen=True, slots=True)
class DirtyItems:
    """Items whose automatic edges are out of date, at one `version` of the space.

    Each is mapped to its state when they were last computed, None if they never were.
    """

    version: int
    before: Mapping[str, Item | None]


@dataclass(frozen=True, slots=True)
class NearestItems:
    """All pairs of items near each other that have one of the `ids`, each once."""

    ids: Sequence[str] = ()
    pairs: Sequence[tuple[str, str, float]] = ()  # with their similarity
    lists: Mapping[int, bytes] = field(default_factory=dict)  # in the store's own encoding


@dataclass(frozen=True, slots=True)
class LinkUpdate:
    """One atomic write of the automatic edges of a space.

    `labels` are all labels of an item in the name index from now on; none removes it. `stale` items
    have outdated edges by name until they are `renewed`.
    """

    space: str
    version: int  # of the space when this was computed
    edges: tuple[Edge, ...] = ()
    deleted: tuple[EdgeKey, ...] = ()
    common: tuple[str, ...] = ()  # labels that became too frequent to link by
    rare: tuple[str, ...] = ()  # labels that no longer are
    done: tuple[str, ...] = ()  # items that are no longer dirty
    marked: tuple[str, ...] = ()  # items that become dirty
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()
    nearest: Mapping[int, bytes] = field(default_factory=dict)  # see `NearestItems.lists`


class CompositeIndexes(Protocol):
    """The maintenance of several stores that share the roles."""

    def tolerate(self) -> AbstractContextManager[Mapping[str, Unavailable]]:
        """Yield the failures by layer that the reads of this thread go on without in the block.

        Items in a store of their own, such as profiles, are as if they were not stored if it fails.
        """

    def count_unindexed(self, only: Filter) -> int:
        """Return the number of items that pass the filter and that no index has."""

    def repair(self, at: datetime) -> None:
        """Bring all stores in line with the item store: write what differs, and nothing else."""

    def pending(self) -> dict[str, int]:
        """Return the number of queued changes of each layer that has any."""

    def deliver(self) -> dict[str, int]:
        """Give the layers their queued changes; return what is still pending."""

    def link_store(self) -> object:
        """Return the store that keeps automatic edges, for the linker; None without one."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The four roles. By default one object plays them all."""

    items: ItemStore
    words: TextIndex
    vectors: VectorIndex
    graph: GraphStore
    composite: CompositeIndexes | None = None

    def count_searchable(self, spaces: Sequence[str]) -> int:
        """Return the number of items of the spaces that the indexes have."""
        unindexed = 0
        if self.composite is not None:
            unindexed = self.composite.count_unindexed(Filter(tuple(spaces)))
        return sum(info.items for info in self.items.spaces(spaces)) - unindexed

    def tolerate(self) -> AbstractContextManager[Mapping[str, Unavailable]]:
        """Read on without the layers that fail, in a block of this thread; see CompositeIndexes."""
        return nullcontext({}) if self.composite is None else self.composite.tolerate()

    def unique(self) -> list[Store]:
        """Return every distinct store once, the item store first."""
        roles: tuple[Store, ...] = (self.items, self.words, self.vectors, self.graph)
        return list({id(store): store for store in roles}.values())
