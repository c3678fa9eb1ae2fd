"""Mirrors: write the current state of items and edges of the truth to a layer.

A mirror reads the truth, writes to the layer and reads the truth again, until nothing changed in
between. So the last of several processes that write to a layer leaves the last state there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol

from knowloom import codec
from knowloom.errors import Unavailable
from knowloom.model import Edge, EdgeKey, Filter, Key
from knowloom.ports import HIDDEN_SPACES, Batch, GraphStore, IndexEntry, IndexLayer
from knowloom.stores.composite.outbox import QueuedChange
from knowloom.stores.composite.store_layers import (
    LAYER_TIME,
    UNLIMITED,
    CompleteStore,
    build_version,
    wrap_layer,
)

PAGE = 500  # items or edges written at a time
MAX_ATTEMPTS = 20  # to write a page while other processes change its items


class Mirror(Protocol):
    """A layer that follows the truth."""

    def write(self, change: QueuedChange) -> None:
        """Write the current state of what changed."""

    def differences(self) -> Iterator[list[Key] | list[EdgeKey]]:
        """Yield what the layer and the truth disagree about, in pages."""

    def repair(self) -> None:
        """Write what differs."""

    def describe(self) -> list[str]:
        """Report what differs."""

    def is_new(self) -> bool:
        """Return True for a layer that has nothing of a space, or nothing at all, in the truth."""


@dataclass(frozen=True, slots=True)
class IndexMirror:
    """Items, and vectors if the layer plays them."""

    roles: str  # such as "words and vectors"
    truth: CompleteStore
    layer: IndexLayer
    plays_vectors: bool

    def write(self, change: QueuedChange) -> None:
        if change.is_complete:
            self.repair()
        for page in _pages(iter(dict.fromkeys(change.items))):
            _write_until_stable(partial(self._read_entries, page), self._put, self.roles)

    def _read_entries(self, keys: Sequence[Key]) -> dict[Key, IndexEntry | None]:
        with self.truth.reading():
            items = self.truth.get([key for key in keys if key[0] not in HIDDEN_SPACES])
            vectors = (
                self.truth.get_vectors([item.key for item in items]) if self.plays_vectors else {}
            )
            size, fingerprint = self.truth.passage_size(), self.truth.fingerprint()
        entries: dict[Key, IndexEntry | None] = dict.fromkeys(keys)
        for item in items:
            model = fingerprint if item.key in vectors else ""
            version = build_version(item, size, model)
            entries[item.key] = IndexEntry(item, version, size, vectors.get(item.key), model)
        return entries

    def _put(self, entries: dict[Key, IndexEntry | None]) -> None:
        present = [entry for entry in entries.values() if entry is not None]
        missing = [key for key, entry in entries.items() if entry is None]
        if missing:
            self.layer.remove(missing)
        if present:
            self.layer.put(present)

    def differences(self) -> Iterator[list[Key]]:
        stored = {info.name for info in self.truth.spaces() if info.name not in HIDDEN_SPACES}
        for space in sorted({*stored, *self.layer.indexed_spaces()}):
            yield from _pages(_differing(self._expected(space), self._indexed(space)))

    def _expected(self, space: str) -> Iterator[tuple[Key, str]]:
        after: Key | None = None
        while items := self.truth.find(Filter((space,)), PAGE, after):
            entries = self._read_entries([item.key for item in items])
            yield from ((key, entry.version) for key, entry in entries.items() if entry is not None)
            after = items[-1].key

    def _indexed(self, space: str) -> Iterator[tuple[Key, str]]:
        after = ""
        while versions := self.layer.versions(space, after, PAGE):
            yield from (((space, id), version) for id, version in versions)
            after = versions[-1][0]

    def repair(self) -> None:
        for page in list(self.differences()):
            self.write(QueuedChange("", items=tuple(page)))

    def describe(self) -> list[str]:
        return [
            f"item {id!r} of space {space!r} differs between the {self.roles} and the items: "
            "run reindex"
            for page in self.differences()
            for space, id in page
        ]

    def is_new(self) -> bool:
        infos = self.truth.spaces()
        stored = {info.name for info in infos if info.items and info.name not in HIDDEN_SPACES}
        return bool(stored) and not stored <= set(self.layer.indexed_spaces())


@dataclass(frozen=True, slots=True)
class GraphMirror:
    """Explicit and automatic edges."""

    truth: CompleteStore
    graph: GraphStore

    def write(self, change: QueuedChange) -> None:
        if change.is_complete:
            self.repair()
        edges = dict.fromkeys((*change.edges, *self._edges_at(change.items)))
        for page in _pages(iter(edges)):
            _write_until_stable(partial(self._read_edges, page), self._put, "graph")

    def _edges_at(self, keys: Sequence[Key]) -> list[EdgeKey]:
        """Return the edges at items that were deleted or moved, of either store."""
        if not keys:
            return []
        names = [info.name for info in self.truth.spaces()]
        both = [store.edges_of(keys, names, limit=UNLIMITED) for store in (self.truth, self.graph)]
        return [edge.key for edges in both for edge in edges]

    def _read_edges(self, keys: Sequence[EdgeKey]) -> dict[EdgeKey, Edge | None]:
        edges: dict[EdgeKey, Edge | None] = dict.fromkeys(keys)
        return edges | {edge.key: edge for edge in self.truth.get_edges(keys)}

    def _put(self, edges: dict[EdgeKey, Edge | None]) -> None:
        present = tuple(edge for edge in edges.values() if edge is not None)
        missing = tuple(key for key, edge in edges.items() if edge is None)
        # An automatic edge that became explicit, or the other way round, is written anew.
        self.graph.apply(Batch(LAYER_TIME, edges=present, deleted_edges=missing))

    def differences(self) -> Iterator[list[EdgeKey]]:
        names = sorted(info.name for info in self.truth.spaces() if info.name not in HIDDEN_SPACES)
        for name in names:
            expected, actual = (_scan(store, name) for store in (self.truth, self.graph))
            yield from _pages(_differing(expected, actual))

    def repair(self) -> None:
        for page in list(self.differences()):
            self.write(QueuedChange("", edges=tuple(page)))

    def describe(self) -> list[str]:
        return [
            f"the edge {source!r} -[{type}]-> {target!r} of space {space!r} differs between "
            "the graph and the items: run reindex"
            for page in self.differences()
            for (space, source), (_, target), type in page
        ]

    def is_new(self) -> bool:
        names = [info.name for info in self.truth.spaces() if info.edges or info.links]
        return bool(names) and not self.graph.edges(names, 1)


def _scan(store: GraphStore, space: str) -> Iterator[tuple[EdgeKey, Any]]:
    after: Edge | None = None
    while edges := store.edges([space], PAGE, after):
        yield from ((edge.key, codec.edge_to_dict(edge)) for edge in edges)
        after = edges[-1]


def _differing(
    expected: Iterator[tuple[Any, Any]], actual: Iterator[tuple[Any, Any]]
) -> Iterator[Any]:
    """Yield the keys that two sequences, ordered by key, do not have with the same value."""
    left, right = next(expected, None), next(actual, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None
            yield left[0]
            left = next(expected, None)
        elif left is None or right[0] < left[0]:
            yield right[0]
            right = next(actual, None)
        else:
            if left[1] != right[1]:
                yield left[0]
            left, right = next(expected, None), next(actual, None)


def _pages(values: Iterator[Any]) -> Iterator[list[Any]]:
    while page := list(islice(values, PAGE)):
        yield page


def _write_until_stable(read: Callable[[], Any], write: Callable[[Any], None], layer: str) -> None:
    """Write what was read until it is still the same after it was written."""
    state = read()
    for _ in range(MAX_ATTEMPTS):
        write(state)
        current = read()
        if _comparable(current) == _comparable(state):
            return
        state = current
    raise Unavailable(f"the items change faster than the {layer} can follow", "busy")


def _comparable(state: dict[Any, Any]) -> dict[Any, object]:
    """Return versions and bytes instead of entries, whose arrays cannot be compared."""
    return {
        key: (value.version, None if value.vectors is None else value.vectors.tobytes())
        if isinstance(value, IndexEntry)
        else value
        for key, value in state.items()
    }


def wrap_layers(primary: Any, words: Any, vectors: Any, graph: Any) -> dict[str, Any]:
    """Return the layers of words and vectors that are not the truth itself."""
    layers: dict[str, Any] = {}
    if vectors is not primary:
        layers["vectors"] = wrap_layer(vectors, True, vectors is graph)
    if words is not primary:
        is_shared = words is vectors
        layers["words"] = (
            layers["vectors"] if is_shared else wrap_layer(words, False, words is graph)
        )
    return layers


def build_mirrors(primary: Any, layers: Mapping[str, Any], graph: Any) -> dict[str, Mirror]:
    mirrors: dict[str, Mirror] = {}
    if "vectors" in layers:
        is_shared = layers.get("words") is layers["vectors"]
        roles = "words and vectors" if is_shared else "vectors"
        mirrors["vectors"] = IndexMirror(roles, primary, layers["vectors"], True)
        if is_shared:
            mirrors["words"] = mirrors["vectors"]
    if "words" in layers and "words" not in mirrors:
        mirrors["words"] = IndexMirror("words", primary, layers["words"], False)
    if graph is not primary:
        mirrors["graph"] = GraphMirror(primary, graph)
    return mirrors
