"""Views of the stores without the items that do not fulfil given conditions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from knowloom.errors import Unavailable
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, ItemCondition, Key
from knowloom.ports import (
    CompositeIndexes,
    IndexResult,
    ItemStore,
    SpaceInfo,
    Stores,
    Vector,
)
from knowloom.ports.views import GraphStoreView, ItemStoreView, TextIndexView, VectorIndexView
from knowloom.retrieval.neighbours import read_edges

ALL = HIDDEN = 1_000_000_000_000
NO_DIGEST = "0" * 32  # the digest of a space would change with hidden items


@dataclass(frozen=True, slots=True)
class Restriction:
    """The conditions, and the spaces to which they do not apply."""

    where: tuple[ItemCondition, ...]
    exempt: tuple[str, ...] = ()

    def allows(self, item: Item) -> bool:
        return item.space in self.exempt or all(condition.matches(item) for condition in self.where)

    def rejection_reason(self, item: Item) -> str:
        reasons = () if item.space in self.exempt else self.where
        return next(filter(None, (reason.rejection_reason(item) for reason in reasons)), "")

    def apply(self, only: Filter) -> Filter:
        if only.spaces and set(only.spaces) <= set(self.exempt):
            return only
        return replace(only, where=(*only.where, *self.where))


def restrict_stores(stores: Stores, restriction: Restriction) -> Stores:
    """Return views that read as if the other items, and their edges, were not stored.

    BM25 statistics and automatic edges are those of whole spaces. Writes are not restricted here.
    """
    return replace(
        stores,
        items=RestrictedItems(stores.items, restriction),
        words=RestrictedWords(stores.words, restriction),
        vectors=RestrictedVectors(stores.vectors, stores.items, restriction),
        graph=RestrictedEdges(stores.graph, stores.items, restriction),
        composite=stores.composite and RestrictedComposite(stores.composite, restriction),
    )


@dataclass(frozen=True, slots=True)
class RestrictedItems(ItemStoreView):
    """An ItemStore without the other items."""

    restriction: Restriction

    def get(self, keys: Sequence[Key]) -> list[Item]:
        return [item for item in self.items.get(keys) if self.restriction.allows(item)]

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self.items.find(self.restriction.apply(only), limit, after)

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        return self.items.visible(keys, self.restriction.apply(only))

    def count(self, only: Filter) -> int:
        return self.items.count(self.restriction.apply(only))

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        return [
            SpaceInfo(info.name, self.count(Filter((info.name,))), 0, NO_DIGEST)
            for info in self.items.spaces(names)
        ]

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        """Return the changes of items that have always been visible, and of edges of such items."""
        changes: list[Change] = []
        while len(changes) < limit and (page := self.items.changes(space, after, limit)):
            keys = sorted({key for change in page for key in _touched_keys(change)})
            first_shown = self._find_first_shown(keys, self.items.changes_of(keys))
            changes += [
                change
                for change in page
                if all(first_shown[key] == 0 for key in _touched_keys(change))
            ]
            after = page[-1].number
        return changes[:limit]

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        """Return the changes of visible items, each since its last hidden state.

        An edge also needs another end that is visible, or was when it was deleted.
        """
        selected = set(keys)
        touched = {key for change in self.items.changes_of(keys) for key in _touched_keys(change)}
        involved = sorted(selected | touched)
        log = self.items.changes_of(involved)
        first_shown = self._find_first_shown(involved, log)
        explaining = dict.fromkeys(filter(None, map(_explaining_key, log)))
        visible = {item.key for item in self.get(list(explaining))}
        return [
            self._redact(change, visible)
            for change in log
            if selected.intersection(_touched_keys(change))
            and all(change.number >= first_shown[key] for key in _touched_keys(change))
        ]

    def _find_first_shown(self, keys: Sequence[Key], log: Sequence[Change]) -> dict[Key, int]:
        """Return the number of the change that made each item visible, 0 if it always was.

        It is HIDDEN for items that are hidden, or were when they were deleted.
        """
        changes: dict[Key, list[Change]] = {key: [] for key in keys}
        for change in log:
            if len(_touched_keys(change)) == 1 and (change.space, change.id) in changes:
                changes[change.space, change.id].append(change)
        current = {item.key: item for item in self.items.get(keys)}
        return {key: self._find_first(current.get(key), changes[key]) for key in keys}

    def _find_first(self, current: Item | None, changes: Sequence[Change]) -> int:
        last = changes[-1].before if current is None and changes else current
        if not isinstance(last, Item) or not self.restriction.allows(last):
            return HIDDEN
        for change in reversed(changes):
            if isinstance(change.before, Item) and not self.restriction.allows(change.before):
                return change.number + (change.action == "delete")
        return 0

    def _redact(self, change: Change, visible: Container[Key]) -> Change:
        """Return the change without a hidden state before it, or a hidden item of the edge."""
        before = change.before
        if isinstance(before, Item) and not self.restriction.allows(before):
            return replace(change, action="add", before=None)
        if isinstance(before, Edge) and (key := _explaining_key(change)) and key not in visible:
            return replace(change, before=replace(before, item_id=None))
        return change


@dataclass(frozen=True, slots=True)
class RestrictedComposite:
    """The maintenance of several stores, which counts visible items only."""

    composite: CompositeIndexes
    restriction: Restriction

    def tolerate(self) -> AbstractContextManager[Mapping[str, Unavailable]]:
        return self.composite.tolerate()

    def count_unindexed(self, only: Filter) -> int:
        return self.composite.count_unindexed(self.restriction.apply(only))

    def repair(self, at: datetime) -> None:
        self.composite.repair(at)

    def pending(self) -> dict[str, int]:
        return self.composite.pending()

    def deliver(self) -> dict[str, int]:
        return self.composite.deliver()

    def link_store(self) -> object:
        return self.composite.link_store()


@dataclass(frozen=True, slots=True)
class RestrictedWords(TextIndexView):
    """A TextIndex that does not find the other items."""

    restriction: Restriction

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        return self.words.search_text(text, self.restriction.apply(only), limit, also)

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return self.words.score_text_passages(text, self.restriction.apply(only), keys)

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self.words.find(self.restriction.apply(only), limit, after)


@dataclass(frozen=True, slots=True)
class RestrictedVectors(VectorIndexView):
    """A VectorIndex that does not find the other items."""

    items: ItemStore
    restriction: Restriction

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        return self.vectors.search_vector(vector, self.restriction.apply(only), limit)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return self.vectors.score_vectors(vector, self._visible(keys))

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return self.vectors.score_vector_passages(vector, self._visible(keys))

    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        return self.vectors.get_vectors(self._visible(keys))

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        return self._visible(self.vectors.missing_vectors(spaces, ALL))[:limit]

    def count_missing(self, spaces: Sequence[str]) -> int:
        if not self.vectors.count_missing(spaces):
            return 0
        return len(self.missing_vectors(spaces, ALL))

    def _visible(self, keys: Sequence[Key]) -> list[Key]:
        spaces = tuple(dict.fromkeys(space for space, _ in keys))
        return self.items.visible(keys, self.restriction.apply(Filter(spaces)))

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self.vectors.find(self.restriction.apply(only), limit, after)


@dataclass(frozen=True, slots=True)
class RestrictedEdges(GraphStoreView):
    """A GraphStore without the edges of the other items."""

    items: ItemStore
    restriction: Restriction

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        only = self.restriction.apply(Filter(tuple(spaces)))
        visible = self.items.visible(keys, only)
        selection = (types, limit, min_weight, automatic)
        edges = read_edges(visible, only, *selection, items=self.items, graph=self.graph)
        return self._without_hidden_items(edges)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        return list(self._select(self.graph.get_edges(keys)))

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        selected: list[Edge] = []
        while len(selected) < limit and (page := self.graph.edges(spaces, limit, after, automatic)):
            selected += self._select(page)
            after = page[-1]
        return selected[:limit]

    def _select(self, edges: Sequence[Edge]) -> Iterator[Edge]:
        visible = self._visible(end for edge in edges for end in (edge.source_key, edge.target_key))
        yield from self._without_hidden_items(
            [edge for edge in edges if edge.source_key in visible and edge.target_key in visible]
        )

    def _without_hidden_items(self, edges: Sequence[Edge]) -> list[Edge]:
        """Return the edges without the ids of hidden items that explain them."""
        keys = [(edge.space, edge.item_id) for edge in edges if edge.item_id is not None]
        if not keys:
            return list(edges)
        visible = self._visible(keys)
        return [
            edge
            if edge.item_id is None or (edge.space, edge.item_id) in visible
            else replace(edge, item_id=None)
            for edge in edges
        ]

    def _visible(self, keys: Iterable[Key]) -> frozenset[Key]:
        unique = list(dict.fromkeys(keys))
        spaces = tuple(dict.fromkeys(space for space, _ in unique))
        return frozenset(self.items.visible(unique, self.restriction.apply(Filter(spaces))))


def _touched_keys(change: Change) -> tuple[Key, ...]:
    """Return the item of a change, or both ends of an edge."""
    if change.link is not None:
        return change.link[:2]
    if isinstance(change.before, Edge):
        return (change.before.source_key, change.before.target_key)
    return ((change.space, change.id),)


def _explaining_key(change: Change) -> Key | None:
    """Return the item that explains the edge before a change."""
    before = change.before
    if not isinstance(before, Edge) or before.item_id is None:
        return None
    return (before.space, before.item_id)
