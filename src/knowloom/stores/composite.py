"""Several stores behind the four roles: profiles in one place, all other items in another, words, vectors and links where they are wanted.

The stores of the items are the truth and are written first; the others can be made again from them (`repair`)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from typing import Protocol

from knowloom import codec
from knowloom.model import Batch, Change, Edge, EdgeKey, Filter, Found, Item, Key, Kind, SpaceInfo
from knowloom.ports import GraphStore, ItemStore, Store, TextIndex, Vector, VectorIndex

PAGE = 1000
UNLIMITED = 1_000_000_000  # edges: all there are
_ORDER = {"unlink": 0, "delete": 1, "add": 2, "update": 2, "link": 3}  # what a batch does first


class PrimaryStore(ItemStore, GraphStore, Protocol):
    """The store of all items but profiles. It keeps every edge too, whoever plays the graph."""


class _Walked(Protocol):
    """What can be compared with the truth."""

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]: ...


@dataclass(frozen=True, slots=True)
class LayerMoves:
    """Items that a batch brings to another layer than the one they are in, and the edges that must survive that."""

    to_metadata: tuple[Key, ...] = ()
    to_pieces: tuple[Key, ...] = ()
    edges: tuple[Edge, ...] = ()

    def kept(self, keys: Sequence[Key]) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if {edge.source_key, edge.target_key} & {*keys})


class CompositeStore:
    """Plays all four roles. Without `metadata`, profiles are where all items are."""

    def __init__(
        self,
        pieces: PrimaryStore,
        words: TextIndex,
        vectors: VectorIndex,
        graph: GraphStore,
        metadata: ItemStore | None = None,
    ) -> None:
        self._pieces, self._words, self._vectors, self._graph, self._metadata = (
            pieces,
            words,
            vectors,
            graph,
            metadata,
        )

    def _each(self) -> list[Store]:
        roles: list[Store] = [
            self._pieces,
            *([] if self._metadata is None else [self._metadata]),
            self._words,
            self._vectors,
            self._graph,
        ]
        return list({id(store): store for store in roles}.values())

    def _truths(self) -> list[ItemStore]:
        return [self._pieces] if self._metadata is None else [self._pieces, self._metadata]

    def close(self) -> None:
        with ExitStack() as stack:  # each is closed, even if another one's closing fails
            for store in self._each():
                stack.callback(store.close)

    @contextmanager
    def reading(self) -> Iterator[None]:
        with ExitStack() as stack:
            for store in self._each():
                stack.enter_context(store.reading())
            yield

    # writing

    def apply(self, batch: Batch) -> None:
        """The truth first: new profiles, then everything else, then what left the profiles; so that nothing is ever in neither."""
        self._check(batch)
        moves, expected = self._moves(batch), self._expected(batch)
        profiles = [item for item in batch.items if self._apart(item)]
        if self._metadata is not None and profiles:
            own = Batch(
                batch.at,
                tuple(profiles),
                expected=tuple(
                    one for one in expected if one[0] in {item.key for item in profiles}
                ),
            )
            self._metadata.apply(own)
        for store in self._each():
            if store is not self._metadata:
                part = self._part(batch, store, moves)
                if self._metadata is None and store is self._pieces:
                    part = replace(part, expected=batch.expected)
                if part != Batch(batch.at):
                    store.apply(part)
        if self._metadata is not None:
            self._leave_metadata(batch, moves)

    def _leave_metadata(self, batch: Batch, moves: LayerMoves) -> None:
        assert self._metadata is not None
        staying = {item.key for item in batch.items if self._apart(item)}
        gone = tuple(
            key for key in dict.fromkeys((*batch.deleted, *moves.to_pieces)) if key not in staying
        )
        if gone:
            self._metadata.apply(Batch(batch.at, deleted=gone))

    def _part(self, batch: Batch, store: Store, moves: LayerMoves) -> Batch:
        """What a store other than that of the profiles must know of a batch."""
        has_items = any(store is role for role in (self._pieces, self._words, self._vectors))
        has_edges = any(store is role for role in (self._pieces, self._graph))
        items = tuple(item for item in batch.items if not self._apart(item)) if has_items else ()
        deleted = (*batch.deleted, *moves.to_metadata) if has_items else batch.deleted
        if not has_edges:
            return Batch(batch.at, items, deleted=deleted)
        kept = moves.kept(moves.to_metadata) if has_items else ()
        return Batch(batch.at, items, (*kept, *batch.edges), deleted, batch.deleted_edges)

    def _moves(self, batch: Batch) -> LayerMoves:
        if self._metadata is None:
            return LayerMoves()
        deleted = set(batch.deleted)
        leaving = [
            item.key
            for item in self._pieces.get([item.key for item in batch.items if self._apart(item)])
            if item.key not in deleted
        ]
        coming = [
            item.key
            for item in self._metadata.get(
                [item.key for item in batch.items if not self._apart(item)]
            )
            if item.key not in deleted
        ]
        touching = (
            self._pieces.edges_of([*leaving, *coming], self._names(), limit=UNLIMITED)
            if leaving or coming
            else []
        )
        unlinked = {*batch.deleted_edges, *(edge.key for edge in batch.edges)}
        kept = tuple(
            edge
            for edge in touching
            if edge.key not in unlinked and not {edge.source_key, edge.target_key} & deleted
        )
        return LayerMoves(tuple(leaving), tuple(coming), kept)

    def _check(self, batch: Batch) -> None:
        """What cannot be written, and what is not as expected, is refused before the first store is touched."""
        for item in batch.items:
            codec.to_json(codec.item_to_dict(item))
        for edge in batch.edges:
            codec.to_json(codec.edge_to_dict(edge))
        stored = (
            {item.key: item for item in self.get([key for key, _ in batch.expected])}
            if self._metadata is not None
            else {}
        )
        for key, version in batch.expected if self._metadata is not None else ():
            codec.check_version(key, version, stored.get(key))

    def _expected(self, batch: Batch) -> list[tuple[Key, str]]:
        """For the profiles: those that are or were profiles; a node that becomes one is new there."""
        if self._metadata is None:
            return []
        there = {item.key for item in self._metadata.get([key for key, _ in batch.expected])}
        return [(key, version if key in there else "") for key, version in batch.expected]

    def _apart(self, item: Item) -> bool:
        return self._metadata is not None and item.kind is Kind.PROFILE

    def _names(self) -> list[str]:
        return [info.name for info in self.spaces()]

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        found: dict[str, SpaceInfo] = {}
        for info in (info for store in self._truths() for info in store.spaces(names)):
            other = found.get(info.name, SpaceInfo(info.name, 0, 0, "0"))
            digest = int(info.digest, 16) + int(other.digest, 16)
            found[info.name] = SpaceInfo(
                info.name,
                info.items + other.items,
                info.edges + other.edges,
                codec.sum_text(digest),
            )
        return [found[name] for name in sorted(found)]

    def get(self, keys: Sequence[Key]) -> list[Item]:
        found = {item.key: item for store in reversed(self._truths()) for item in store.get(keys)}
        return [found[key] for key in keys if key in found]

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        seen = {key for store in self._truths() for key in store.visible(keys, only)}
        return [key for key in keys if key in seen]

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        pages = [store.find(only, limit, after) for store in self._truths()]
        return list(islice(heapq.merge(*pages, key=lambda item: item.key), limit))

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        """One log by time: the numbers are places in it."""
        if self._metadata is None:
            return self._pieces.changes(space, after, limit)
        return _merged(*(list(_log(store, space)) for store in self._truths()))[
            after : after + limit
        ]

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        return (
            self._pieces.changes_of(keys)
            if self._metadata is None
            else _merged(*(store.changes_of(keys) for store in self._truths()))
        )

    # words and vectors

    def rebuild_words(self, items: Iterable[Item]) -> None:
        self._words.rebuild_words(item for item in items if not self._apart(item))

    def search_text(self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()) -> Found:
        return self._words.search_text(text, only, limit, also)

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        self._vectors.put_vectors(vectors, fingerprint)

    def forget_vectors(self) -> None:
        self._vectors.forget_vectors()

    def fingerprint(self) -> str:
        return self._vectors.fingerprint()

    def dimensions(self) -> int:
        return self._vectors.dimensions()

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        return self._vectors.missing_vectors(spaces, limit)

    def count_missing(self, spaces: Sequence[str]) -> int:
        return self._vectors.count_missing(spaces)

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> Found:
        return self._vectors.search_vector(vector, only, limit)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return self._vectors.score_vectors(vector, keys)

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

    # agreement

    def apart(self, spaces: Sequence[str]) -> int:
        """How many items of the spaces have neither words nor vectors, because they are profiles in a layer of their own."""
        return (
            0
            if self._metadata is None
            else sum(info.items for info in self._metadata.spaces(spaces))
        )

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        with self.reading():
            profiles = (
                []
                if self._metadata is None
                else [item.key for item in _walk(self._metadata, self._names())]
            )
            found = self._pieces.verify([*elsewhere, *profiles])
            if self._metadata is not None:
                found += self._metadata.verify()
                found += [
                    f"item {id!r} of space {space!r} is in two layers: run reindex"
                    for space, id in self._twice()
                ]
            for name, store in self._indexes():
                found += [
                    f"the {name} and the items disagree about item {id!r} of space {space!r}: run reindex"
                    for space, id in self._stale(store)[0]
                ]
            found += [
                f"the graph and the items disagree about the edge {source!r} -[{type}]-> {target!r} of space {space!r}: run reindex"
                for (space, source), (_, target), type in self._differing_edges()
            ]
            return found

    def repair(self, at: datetime) -> None:
        """Make the other stores agree with those of the items. Of an item in two layers the one beside the pieces stays."""
        if self._metadata is not None and (twice := self._twice()):
            self._metadata.apply(Batch(at, deleted=tuple(twice)))
        for _, store in self._indexes():
            stale, wanted = self._stale(store)
            if stale:
                kept = (
                    self._graph.edges_of(stale, self._names(), limit=UNLIMITED)
                    if _same(store, self._graph)
                    else []
                )
                store.apply(
                    Batch(
                        at,
                        tuple(wanted[key] for key in stale if key in wanted),
                        tuple(kept),
                        tuple(stale),
                    )
                )
        if differing := self._differing_edges():
            right = self._pieces.get_edges(differing)
            surplus = {*differing} - {edge.key for edge in right}
            self._graph.apply(Batch(at, edges=tuple(right), deleted_edges=tuple(sorted(surplus))))

    def _indexes(self) -> list[tuple[str, TextIndex | VectorIndex]]:
        """The stores of words and vectors that are not the truth themselves, each once."""
        stores: dict[int, tuple[str, TextIndex | VectorIndex]] = {
            id(self._vectors): ("vectors", self._vectors),
            id(self._words): ("words", self._words),
        }
        return [stores[number] for number in stores if number != id(self._pieces)]

    def _twice(self) -> list[Key]:
        assert self._metadata is not None
        return [
            item.key
            for item in self._pieces.get(
                [item.key for item in _walk(self._metadata, self._names())]
            )
        ]

    def _stale(self, store: _Walked) -> tuple[list[Key], dict[Key, Item]]:
        wanted = {item.key: item for item in _walk(self._pieces, self._names())}
        held = {item.key: item for item in _walk(store, self._names())}
        return sorted(key for key in {*wanted, *held} if wanted.get(key) != held.get(key)), wanted

    def _differing_edges(self) -> list[EdgeKey]:
        if self._graph is self._pieces:
            return []
        names = self._names()
        wanted = {edge.key: codec.edge_to_dict(edge) for edge in _edges(self._pieces, names)}
        held = {edge.key: codec.edge_to_dict(edge) for edge in _edges(self._graph, names)}
        return sorted(key for key in {*wanted, *held} if wanted.get(key) != held.get(key))


def _same(one: object, other: object) -> bool:
    return one is other


def _walk(store: _Walked, spaces: Sequence[str]) -> Iterator[Item]:
    after: Key | None = None
    while page := store.find(Filter(tuple(spaces)), PAGE, after):
        yield from page
        after = page[-1].key


def _edges(store: GraphStore, spaces: Sequence[str]) -> Iterator[Edge]:
    after: Edge | None = None
    while page := store.edges(spaces, PAGE, after, automatic=False):
        yield from page
        after = page[-1]


def _log(store: ItemStore, space: str) -> Iterator[Change]:
    after = 0
    while page := store.changes(space, after, PAGE):
        yield from page
        after = page[-1].number


def _merged(ours: Sequence[Change], theirs: Sequence[Change]) -> list[Change]:
    """Two logs as one, by time. What both logged at the same time is one batch, told in the order in which a batch is done."""
    both = [(change, 0) for change in ours] + [(change, 1) for change in theirs]
    found: list[Change] = []
    for _, group in groupby(sorted(both, key=lambda one: one[0].at), key=lambda one: one[0].at):
        same = list(group)
        if len({log for _, log in same}) > 1:
            same.sort(key=lambda one: _ORDER[one[0].action])
        found += [change for change, _ in same]
    return [replace(change, number=number) for number, change in enumerate(found, 1)]
