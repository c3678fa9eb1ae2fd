"""Several stores behind all roles: the truth and its profiles, and layers that follow them.

The first store is the truth: it has all items but profiles in a store of their own, all edges, all
words and all vectors, and the bookkeeping of automatic edges. Every other store that plays words,
vectors or graph is a layer: it suggests candidates, which the truth checks and scores. The truth is
written first; what a layer could not be given waits in the truth's outbox. Until the layer has it,
or while it fails, the truth answers in its place, and the answer says so.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from threading import local
from typing import Any, TypeVar

from knowloom import codec
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports import (
    OUTBOX_SPACE,
    Batch,
    GraphStore,
    IndexResult,
    ItemStore,
    SpaceInfo,
    Store,
    Vector,
)
from knowloom.stores.composite import candidates
from knowloom.stores.composite.completeness import Completeness
from knowloom.stores.composite.composite_upkeep import CompositeUpkeep
from knowloom.stores.composite.consistency import (
    describe_duplicates,
    merge_logs,
    scan_changes,
    scan_items,
)
from knowloom.stores.composite.delivery import Delivery
from knowloom.stores.composite.item_writer import ItemWriter
from knowloom.stores.composite.layers import ItemLayers
from knowloom.stores.composite.mirrored_links import MirroredLinks
from knowloom.stores.composite.mirrors import build_mirrors, wrap_layers
from knowloom.stores.composite.outbox import Outbox
from knowloom.stores.composite.store_layers import CompleteStore, unwrap_layer

T = TypeVar("T")
INDEXES = ("words", "vectors")


class CompositeStore:
    """Plays all roles. Without `metadata`, profiles are stored with all other items."""

    def __init__(
        self,
        primary: CompleteStore,
        words: Any,
        vectors: Any,
        graph: GraphStore,
        metadata: ItemStore | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._primary = primary
        self._metadata = metadata
        self.splits_profiles = metadata is not None  # they are in a store of their own
        self._graph = graph
        self._items = ItemLayers(primary, metadata)
        self._layers = wrap_layers(primary, words, vectors, graph)
        mirrors = build_mirrors(primary, self._layers, graph)
        self._mirrors = mirrors
        self._delivery = Delivery(Outbox(primary), mirrors, monotonic)
        self._completeness = Completeness(primary, self._layers, graph)
        self._writer = ItemWriter(primary, metadata, self._apply_to_truth)
        self._thread = local()  # `depth` of nested blocks that read

    def _stores(self) -> list[Store]:
        """Return each distinct store once."""
        roles: list[Any] = [*self._items.stores, *self._layers.values(), self._graph]
        return list({id(unwrap_layer(store)): store for store in roles}.values())

    def upkeep(self) -> CompositeUpkeep:
        return CompositeUpkeep(
            self._primary, self._metadata, self._layers, self._graph, self._delivery
        )

    def close(self) -> None:
        with ExitStack() as stack:  # closes each store, even if closing another fails
            for store in self._stores():
                stack.callback(store.close)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Begin to read every store; the calls to one that fails raise its error.

        The outermost block first gives the layers what they lack, within limits.
        """
        depth = getattr(self._thread, "depth", 0)
        if not depth:
            self._delivery.retry()
        self._thread.depth = depth + 1
        try:
            with ExitStack() as stack:
                for store in self._stores():
                    try:
                        stack.enter_context(store.reading())
                    except Unavailable:
                        if store is self._primary:
                            raise
                yield
        finally:
            self._thread.depth = depth

    def tolerate(self) -> AbstractContextManager[Mapping[str, Unavailable]]:
        """Yield the failures of layers that the reads of the block do without."""
        return self._items.tolerance.begin()

    def _answer(
        self, layer: str, spaces: Sequence[str], ask: Callable[[], T], fall_back: Callable[[], T]
    ) -> T:
        """Ask a layer; the truth instead if the layer fails or has not got all changes."""
        if layer not in self._mirrors:
            return fall_back()
        error, started = self._delivery.paused_error(layer), self._delivery.started()
        try:
            error = error or self._delivery.find_gap(layer, spaces)
            if error is None:
                self._completeness.check(layer, spaces)
                return ask()
        except Unavailable as failure:
            if failure.code == "closed":
                raise
            self._delivery.note_failure(layer, failure, started)
            error = failure
        self._items.tolerance.record(layer, error)
        return fall_back()

    # writing

    def apply(self, batch: Batch) -> None:
        """Write to the truth and to the profiles; layers get the changes last.

        What a layer does not take stays queued, and nothing is raised.
        """
        self._writer.apply(batch)

    def _apply_to_truth(self, batch: Batch) -> None:
        """Write a batch and its entries of the outbox in one transaction, and deliver them."""
        if batch == Batch(batch.at, actor=batch.actor):
            return
        written = tuple(dict.fromkeys((*(item.key for item in batch.items), *batch.deleted)))
        edges = tuple(dict.fromkeys((*(edge.key for edge in batch.edges), *batch.deleted_edges)))
        changes = self._delivery.plan(INDEXES, written)
        changes += self._delivery.plan(("graph",), batch.deleted, edges)
        entries = self._delivery.encode(changes)
        self._primary.apply(replace(batch, items=(*batch.items, *entries)))
        self._delivery.deliver(changes)

    def _space_names(self) -> list[str]:
        return [info.name for info in self.spaces()]

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        spaces: dict[str, SpaceInfo] = {}
        parts = self._items.read(lambda store: store.spaces(names))
        visible = (info for part in parts for info in part if info.name != OUTBOX_SPACE)
        for info in visible:
            other = spaces.get(info.name, SpaceInfo(info.name, 0, 0, "0"))
            spaces[info.name] = _add_counts(info, other)
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
        return self._primary.passage_size()

    def resegment(self, passage_size: int) -> None:
        if passage_size != self._primary.passage_size():
            self._change_indexes(lambda: self._primary.resegment(passage_size), INDEXES)

    def _change_indexes(self, change: Callable[[], None], layers: Sequence[str]) -> None:
        """Change all entries of the truth, and then those of the layers."""
        changes = self._delivery.plan(layers, is_complete=True)
        self._delivery.announce(changes)
        change()
        self._delivery.deliver(changes)

    def rebuild_words(self, items: Iterable[Item]) -> None:
        self._primary.rebuild_words(item for item in items if not self._writer.is_profile(item))

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        query = (self._primary, text, only, limit, also)
        return self._answer(
            "words",
            only.spaces,
            lambda: candidates.search_text(self._layers["words"], *query),
            lambda: self._primary.search_text(text, only, limit, also),
        )

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return self._primary.score_text_passages(text, only, keys)

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        changes = self._delivery.plan(("vectors",), tuple(vectors))
        self._delivery.announce(changes)
        try:
            self._primary.put_vectors(vectors, fingerprint)
        finally:
            self._delivery.deliver(changes)

    def forget_vectors(self) -> None:
        self._change_indexes(self._primary.forget_vectors, ("vectors",))

    def calibration(self, fingerprint: str) -> bytes:
        return self._primary.calibration(fingerprint)

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        self._primary.put_calibration(fingerprint, data)

    def fingerprint(self) -> str:
        return self._primary.fingerprint()

    def dimensions(self) -> int:
        return self._primary.dimensions()

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        return self._primary.missing_vectors(spaces, limit)

    def count_missing(self, spaces: Sequence[str]) -> int:
        return self._primary.count_missing(spaces)

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        query = (self._primary, vector, only, limit)
        return self._answer(
            "vectors",
            only.spaces,
            lambda: candidates.search_vector(self._layers["vectors"], *query),
            lambda: self._primary.search_vector(vector, only, limit),
        )

    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        return self._primary.get_vectors(keys)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return self._primary.score_vectors(vector, keys)

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return self._primary.score_vector_passages(vector, keys)

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
        query = (keys, spaces, types, limit, min_weight, automatic)

        def ask() -> list[Edge]:
            edges = self._graph.edges_of(*query)
            if self._primary.get_edges([edge.key for edge in edges]) == edges:
                return edges
            raise Unavailable("the graph has edges that the items do not have", "index_pending")

        return self._answer("graph", spaces, ask, lambda: self._primary.edges_of(*query))

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        return self._primary.get_edges(keys)

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        return self._primary.edges(spaces, limit, after, automatic)

    # consistency

    def link_store(self) -> object:
        return MirroredLinks(self._primary, self._delivery)

    def pending(self) -> dict[str, int]:
        return self._delivery.pending()

    def deliver(self) -> dict[str, int]:
        return self._delivery.deliver_all()

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
            for layer, count in self._delivery.pending().items():
                problems.append(f"{count} changes are queued for the {layer}: run reindex")
            for layer, mirror in self._mirrors.items():
                try:
                    problems += mirror.describe()
                except (Unavailable, Conflict) as error:
                    problems.append(f"the {layer} cannot be read: {error}")
            problems += [f"the {layer} cannot be read: {failures[layer]}" for layer in failures]
            return [*self._primary.verify([*elsewhere, *profiles]), *dict.fromkeys(problems)]

    def repair(self, at: datetime) -> None:
        """Make the other stores agree with the truth, which keeps duplicate items."""
        if self._metadata is not None and (duplicates := self._find_duplicates()):
            self._metadata.apply(Batch(at, deleted=tuple(duplicates)))
        self._delivery.deliver_all()
        for mirror in {id(mirror): mirror for mirror in self._mirrors.values()}.values():
            mirror.repair()

    def _find_duplicates(self) -> list[Key]:
        assert self._metadata is not None
        profiles = [item.key for item in scan_items(self._metadata, self._space_names())]
        return [item.key for item in self._primary.get(profiles)]


def _add_counts(info: SpaceInfo, other: SpaceInfo) -> SpaceInfo:
    """Return the counts of a space that two stores have a part of."""
    return SpaceInfo(
        info.name,
        info.items + other.items,
        info.edges + other.edges,
        codec.format_digest(int(info.digest, 16) + int(other.digest, 16)),
        info.links + other.links,
        codec.format_digest(int(info.links_digest, 16) + int(other.links_digest, 16)),
    )
