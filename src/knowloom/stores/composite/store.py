"""Several stores behind all roles: profiles apart from other items, indexes and graph elsewhere.

The item stores are authoritative and written first; `repair` rebuilds the others from them.
A failure of a store other than the primary one names its layer, and blocks no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Protocol

from knowloom import codec
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, Key, Kind
from knowloom.ports import (
    Batch,
    GraphStore,
    IndexResult,
    ItemStore,
    SpaceInfo,
    Store,
    TextIndex,
    Vector,
    VectorIndex,
)
from knowloom.stores.composite.composite_upkeep import CompositeUpkeep
from knowloom.stores.composite.consistency import (
    compare_edges,
    compare_items,
    describe_duplicates,
    describe_edges,
    describe_items,
    find_size_problems,
    merge_logs,
    scan_changes,
    scan_items,
)
from knowloom.stores.composite.layers import ItemLayers, LayerMoves

UNLIMITED = 1_000_000_000  # edges


class PrimaryStore(ItemStore, GraphStore, Protocol):
    """The store of all items but profiles, and of every edge, even if another plays the graph."""


class CompositeStore:
    """Plays all roles. Without `metadata`, profiles are stored with all other items."""

    def __init__(
        self,
        primary: PrimaryStore,
        words: TextIndex,
        vectors: VectorIndex,
        graph: GraphStore,
        metadata: ItemStore | None = None,
    ) -> None:
        self._primary = primary
        self._words = words
        self._vectors = vectors
        self._graph = graph
        self._metadata = metadata
        self._items = ItemLayers(primary, metadata)

    def _stores(self) -> list[Store]:
        """Return each distinct store once."""
        roles: list[Store] = [*self._items.stores, self._words, self._vectors, self._graph]
        return list({id(store): store for store in roles}.values())

    def upkeep(self) -> CompositeUpkeep:
        roles = (self._metadata, self._words, self._vectors, self._graph)
        return CompositeUpkeep(self._primary, *roles)

    def close(self) -> None:
        with ExitStack() as stack:  # closes each store, even if closing another fails
            for store in self._stores():
                stack.callback(store.close)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Begin to read every store; the calls to one that fails raise its error."""
        with ExitStack() as stack:
            for store in self._stores():
                try:
                    stack.enter_context(store.reading())
                except Unavailable:
                    if store is self._primary:
                        raise
            yield

    def tolerate(self) -> AbstractContextManager[Mapping[str, Unavailable]]:
        """Read without the profiles in the block, if their store fails, and yield the failures."""
        return self._items.tolerance.begin()

    # writing

    def apply(self, batch: Batch) -> None:
        """Write new profiles, then everything else, then remove items that left the profiles.

        In this order an item that moves is never missing from both stores. If one of the stores is
        down, nothing is written.
        """
        self._validate(batch)
        self._check_writable(batch)
        moves, expected = self._find_moves(batch), self._expected_profiles(batch)
        profiles = tuple(item for item in batch.items if self._is_metadata(item))
        profile_keys = {item.key for item in profiles}
        if self._metadata is not None and profiles:
            versions = tuple(pair for pair in expected if pair[0] in profile_keys)
            self._metadata.apply(Batch(batch.at, profiles, expected=versions, actor=batch.actor))
        for store in self._stores():
            if store is not self._metadata:
                part = self._part_for(batch, store, moves)
                if self._metadata is None and store is self._primary:
                    part = replace(part, expected=batch.expected)
                if part != Batch(batch.at, actor=batch.actor):
                    store.apply(part)
        if self._metadata is not None:
            leaving = dict.fromkeys((*batch.deleted, *moves.to_primary))
            deleted = tuple(key for key in leaving if key not in profile_keys)
            if deleted:
                self._metadata.apply(Batch(batch.at, deleted=deleted, actor=batch.actor))

    def _check_writable(self, batch: Batch) -> None:
        """Raise the error of a store that the batch would be written to, if it cannot be read."""
        written: list[Store] = [self._words, self._vectors] if batch.items or batch.deleted else []
        if batch.edges or batch.deleted or batch.deleted_edges:
            written.append(self._graph)
        for store in written:
            with store.reading():
                pass

    def _part_for(self, batch: Batch, store: Store, moves: LayerMoves) -> Batch:
        """Return the part of a batch for a store other than that of the profiles."""
        has_items = any(store is role for role in (self._primary, self._words, self._vectors))
        has_edges = any(store is role for role in (self._primary, self._graph))
        items: tuple[Item, ...] = ()
        deleted = batch.deleted
        if has_items:
            items = tuple(item for item in batch.items if not self._is_metadata(item))
            deleted = (*batch.deleted, *moves.to_metadata)
        if not has_edges:
            return Batch(batch.at, items, deleted=deleted, actor=batch.actor)
        edges = (*(moves.edges_at(moves.to_metadata) if has_items else ()), *batch.edges)
        return Batch(batch.at, items, edges, deleted, batch.deleted_edges, actor=batch.actor)

    def _find_moves(self, batch: Batch) -> LayerMoves:
        if self._metadata is None:
            return LayerMoves()
        deleted = set(batch.deleted)
        profiles = [item.key for item in batch.items if self._is_metadata(item)]
        others = [item.key for item in batch.items if not self._is_metadata(item)]
        to_metadata = [item.key for item in self._primary.get(profiles) if item.key not in deleted]
        to_primary = [item.key for item in self._metadata.get(others) if item.key not in deleted]
        moving = [*to_metadata, *to_primary]
        names = self._space_names() if moving else []
        touching = self._primary.edges_of(moving, names, limit=UNLIMITED) if moving else []
        rewritten = {*batch.deleted_edges, *(edge.key for edge in batch.edges)}
        surviving = tuple(
            edge
            for edge in touching
            if edge.key not in rewritten and not {edge.source_key, edge.target_key} & deleted
        )
        return LayerMoves(tuple(to_metadata), tuple(to_primary), surviving)

    def _validate(self, batch: Batch) -> None:
        """Validate the batch and its expected versions before writing to any store."""
        for item in batch.items:
            codec.to_json(codec.item_to_dict(item))
        for edge in batch.edges:
            codec.to_json(codec.edge_to_dict(edge))
        if self._metadata is not None:
            stored = {item.key: item for item in self.get([key for key, _ in batch.expected])}
            for key, version in batch.expected:
                codec.check_version(key, version, stored.get(key))

    def _expected_profiles(self, batch: Batch) -> list[tuple[Key, str]]:
        """Return the expected versions for the profiles; an item that becomes one is new there."""
        if self._metadata is None:
            return []
        stored = {item.key for item in self._metadata.get([key for key, _ in batch.expected])}
        return [(key, version if key in stored else "") for key, version in batch.expected]

    def _is_metadata(self, item: Item) -> bool:
        return self._metadata is not None and item.kind is Kind.PROFILE

    def _space_names(self) -> list[str]:
        return [info.name for info in self.spaces()]

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        spaces: dict[str, SpaceInfo] = {}
        parts = self._items.read(lambda store: store.spaces(names))
        for info in (info for part in parts for info in part):
            other = spaces.get(info.name, SpaceInfo(info.name, 0, 0, "0"))
            digest = codec.format_digest(int(info.digest, 16) + int(other.digest, 16))
            items, edges = info.items + other.items, info.edges + other.edges
            spaces[info.name] = SpaceInfo(info.name, items, edges, digest)
        return [spaces[name] for name in sorted(spaces)]

    def get(self, keys: Sequence[Key]) -> list[Item]:
        items = {item.key: item for item in self._primary.get(keys)}
        if missing := [key for key in keys if key not in items]:
            for profiles in self._items.read_profiles(lambda store: store.get(missing)):
                items |= {item.key: item for item in profiles}
        return [items[key] for key in keys if key in items]

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        parts = self._items.read(lambda store: store.visible(keys, only))
        visible = {key for part in parts for key in part}
        return [key for key in keys if key in visible]

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        pages = self._items.read(lambda store: store.find(only, limit, after))
        return list(islice(heapq.merge(*pages, key=lambda item: item.key), limit))

    def count(self, only: Filter) -> int:
        return sum(self._items.read(lambda store: store.count(only)))

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        """Return lines of one log by time, whose numbers are positions in it."""
        if self._metadata is None:
            return self._primary.changes(space, after, limit)
        logs = (list(scan_changes(store, space)) for store in self._items.stores)
        return merge_logs(*logs)[after : after + limit]

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        if self._metadata is None:
            return self._primary.changes_of(keys)
        return merge_logs(*(store.changes_of(keys) for store in self._items.stores))

    # text and vectors

    def passage_size(self) -> int:
        try:
            return self._words.passage_size()
        except Unavailable:  # vectors are of the same passages
            return self._vectors.passage_size()

    def resegment(self, passage_size: int) -> None:
        for index in {id(store): store for store in (self._words, self._vectors)}.values():
            index.resegment(passage_size)

    def _check_sizes(self) -> None:
        """Raise Conflict if words and vectors, where both work, are of different passages."""
        with suppress(Unavailable):
            for problem in find_size_problems(self._words, self._vectors):
                raise Conflict(problem, "reindex_required")

    def rebuild_words(self, items: Iterable[Item]) -> None:
        self._words.rebuild_words(item for item in items if not self._is_metadata(item))

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        return self._words.search_text(text, only, limit, also)

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        self._check_sizes()
        return self._words.score_text_passages(text, only, keys)

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        self._check_sizes()
        self._vectors.put_vectors(vectors, fingerprint)

    def forget_vectors(self) -> None:
        self._vectors.forget_vectors()

    def calibration(self, fingerprint: str) -> bytes:
        return self._vectors.calibration(fingerprint)

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        self._vectors.put_calibration(fingerprint, data)

    def fingerprint(self) -> str:
        return self._vectors.fingerprint()

    def dimensions(self) -> int:
        return self._vectors.dimensions()

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        return self._vectors.missing_vectors(spaces, limit)

    def count_missing(self, spaces: Sequence[str]) -> int:
        return self._vectors.count_missing(spaces)

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        return self._vectors.search_vector(vector, only, limit)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return self._vectors.score_vectors(vector, keys)

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        self._check_sizes()
        return self._vectors.score_vector_passages(vector, keys)

    # graph

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        return self._graph.edges_of(keys, spaces, types, limit, min_weight, automatic)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        return self._graph.get_edges(keys)

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        return self._graph.edges(spaces, limit, after, automatic)

    # consistency

    def count_unindexed(self, only: Filter) -> int:
        """Count the items without terms and vectors: profiles in a store of their own."""
        if only == Filter(only.spaces):  # for nearly all requests, and without a pass over them
            parts = self._items.read_profiles(lambda store: store.spaces(only.spaces))
            return sum(info.items for part in parts for info in part)
        return sum(self._items.read_profiles(lambda store: store.count(only)))

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        """Report defects and differences of the stores; one that cannot be read is a defect."""
        problems: list[str] = []
        with self.reading(), self.tolerate() as failures:
            names = self._space_names()
            parts = self._items.read_profiles(lambda store: [*scan_items(store, names)])
            profiles = [item.key for items in parts for item in items]
            for defects in self._items.read_profiles(lambda store: store.verify()):
                problems += [*defects, *describe_duplicates(self._primary.get(profiles))]
            checks: list[tuple[str, Callable[[], list[str]]]] = [
                (role, partial(describe_items, role, self._primary, store, names))
                for role, store in self._indexes()
            ]
            checks.append(("graph", lambda: describe_edges(self._differing_edges())))
            checks.append(("vectors", partial(find_size_problems, self._words, self._vectors)))
            for layer, check in checks:
                try:
                    problems += check()
                except Unavailable as error:
                    problems.append(f"the {layer} cannot be read: {error}")
            problems += [f"the {layer} cannot be read: {failures[layer]}" for layer in failures]
            return [*self._primary.verify([*elsewhere, *profiles]), *problems]

    def repair(self, at: datetime) -> None:
        """Make the other stores agree with the primary store, which keeps duplicate items."""
        if self._metadata is not None and (duplicates := self._find_duplicates()):
            self._metadata.apply(Batch(at, deleted=tuple(duplicates)))
        names = self._space_names()
        for _, store in self._indexes():
            stale, items = compare_items(self._primary, store, names)
            if stale:
                is_graph = id(store) == id(self._graph)
                edges = self._graph.edges_of(stale, names, limit=UNLIMITED) if is_graph else []
                stored = tuple(items[key] for key in stale if key in items)
                store.apply(Batch(at, stored, tuple(edges), tuple(stale)))
        if differing := self._differing_edges():
            expected = self._primary.get_edges(differing)
            surplus = {*differing} - {edge.key for edge in expected}
            batch = Batch(at, edges=tuple(expected), deleted_edges=tuple(sorted(surplus)))
            self._graph.apply(batch)

    def _indexes(self) -> list[tuple[str, TextIndex | VectorIndex]]:
        """Return the text and vector indexes outside the primary store, each once."""
        stores: dict[int, tuple[str, TextIndex | VectorIndex]] = {
            id(self._vectors): ("vectors", self._vectors),
            id(self._words): ("words", self._words),
        }
        return [stores[number] for number in stores if number != id(self._primary)]

    def _find_duplicates(self) -> list[Key]:
        assert self._metadata is not None
        profiles = [item.key for item in scan_items(self._metadata, self._space_names())]
        return [item.key for item in self._primary.get(profiles)]

    def _differing_edges(self) -> list[EdgeKey]:
        if self._graph is self._primary:
            return []
        return compare_edges(self._primary, self._graph, self._space_names())
