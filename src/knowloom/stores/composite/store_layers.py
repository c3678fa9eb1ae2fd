"""A store of knowloom as a layer of another: its search already gives the scores of the truth."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

from knowloom import codec
from knowloom.model import Edge, Filter, Item, Key
from knowloom.ports import (
    EXACT,
    Batch,
    Candidates,
    ErasableStore,
    GraphStore,
    IndexEntry,
    ItemStore,
    TextIndex,
    Vector,
    VectorIndex,
)
from knowloom.stores.composite.layers import is_index_layer

# The time of all writes to a layer. Its log is of no use: retention erases it at once.
LAYER_TIME = datetime.fromtimestamp(0, UTC)
UNLIMITED = 1_000_000_000  # edges


class CompleteStore(ItemStore, TextIndex, VectorIndex, GraphStore, Protocol):
    """A store that plays all roles."""

    def upkeep(self) -> ErasableStore: ...


def build_version(item: Item, passage_size: int, fingerprint: str) -> str:
    """Return the version of an entry; `fingerprint` is that of its vectors, "" without any."""
    return f"{codec.version(item)} {passage_size} {fingerprint}".rstrip()


class StoreLayer:
    """A TextLayer and VectorLayer on a store of items.

    If the store also plays the graph, writes of items leave its edges as they are.
    """

    def __init__(self, store: CompleteStore, plays_vectors: bool, plays_graph: bool) -> None:
        self.store = store
        self._plays_vectors, self._plays_graph = plays_vectors, plays_graph

    def put(self, entries: Sequence[IndexEntry]) -> None:
        if not entries:
            return
        if self.store.passage_size() != entries[0].passage_size:
            self.store.resegment(entries[0].passage_size)
        keys = [entry.item.key for entry in entries]
        stored = {item.key: item for item in self.store.get(keys)}
        outdated = self._find_outdated(entries)
        changed = tuple(
            entry.item
            for entry in entries
            if entry.item.key in outdated or stored.get(entry.item.key) != entry.item
        )
        if changed:
            edges = self._edges_at(outdated)
            self.store.apply(Batch(LAYER_TIME, changed, edges, deleted=tuple(outdated)))
        self._put_vectors(entries)

    def _find_outdated(self, entries: Sequence[IndexEntry]) -> list[Key]:
        """Return the items that have vectors here and should not."""
        keys = [entry.item.key for entry in entries if entry.vectors is None]
        return list(self.store.get_vectors(keys)) if keys else []

    def _put_vectors(self, entries: Sequence[IndexEntry]) -> None:
        vectors = {entry.item.key: entry.vectors for entry in entries if entry.vectors is not None}
        fingerprints = {entry.fingerprint for entry in entries if entry.vectors is not None}
        for fingerprint in fingerprints:
            if self.store.fingerprint() not in ("", fingerprint):
                self.store.forget_vectors()
            self.store.put_vectors(vectors, fingerprint)

    def _edges_at(self, keys: Sequence[Key]) -> tuple[Edge, ...]:
        if not self._plays_graph or not keys:
            return ()
        names = [info.name for info in self.store.spaces()]
        return tuple(self.store.edges_of(keys, names, limit=UNLIMITED))

    def remove(self, keys: Sequence[Key]) -> None:
        """Delete entries, and erase them from the log: the truth may have purged the items."""
        existing = [item.key for item in self.store.get(keys)]
        if existing:
            edges = self._edges_at(existing)
            self.store.upkeep().purge(existing, LAYER_TIME, "")
            if edges:
                self.store.apply(Batch(LAYER_TIME, edges=edges))

    def indexed_spaces(self) -> list[str]:
        return [info.name for info in self.store.spaces() if info.items]

    def versions(self, space: str, after: str, limit: int) -> list[tuple[str, str]]:
        items = self.store.find(Filter((space,)), limit, (space, after))
        size, fingerprint, embedded = self.store.passage_size(), "", dict[Key, Vector]()
        if self._plays_vectors:
            fingerprint = self.store.fingerprint()
            embedded = self.store.get_vectors([item.key for item in items])
        return [
            (item.id, build_version(item, size, fingerprint if item.key in embedded else ""))
            for item in items
        ]

    def match_text(self, text: str, only: Filter, limit: int) -> Candidates:
        result = self.store.search_text(text, only, limit)
        return Candidates(tuple(key for key, _ in result.matches), EXACT, result.considered)

    def match_vector(self, vector: Vector, only: Filter, limit: int) -> Candidates:
        result = self.store.search_vector(vector, only, limit)
        return Candidates(tuple(key for key, _ in result.matches), EXACT, result.considered)

    def reading(self) -> AbstractContextManager[object]:
        return self.store.reading()

    def close(self) -> None:
        self.store.close()


def wrap_layer(store: Any, plays_vectors: bool, plays_graph: bool) -> Any:
    """Return the store as a layer."""
    return store if is_index_layer(store) else StoreLayer(store, plays_vectors, plays_graph)


def unwrap_layer(layer: Any) -> Any:
    """Return the store of a layer that is a store, and any other layer itself."""
    return layer.store if isinstance(layer, StoreLayer) else layer
