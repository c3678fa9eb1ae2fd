"""Rules that link each item to its k nearest of those before it: `shared_tag`.

A rule says which items are near each other and how near; `NearestLists` keeps the k nearest.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from knowloom.linking.ports import LinkStore
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Item

Neighbours = dict[str, list[tuple[float, str]]]
"""By id, the items that it may be linked to, in any order: (weight, id)."""

UNLIMITED = 1 << 31
COMMON_LABEL = 200  # a label of more items of a space says nothing about any of them: it is ignored
MAX_NEAREST = 10  # edges of a type from earlier items, in the order of ids, to one item
MIN_SHARED_TAGS = 2
FULL_WEIGHT_TAGS = 5  # this many shared tags weigh 1


class NearestRule(Protocol):
    """A symmetric measure of nearness: if a is near b, b is near a with the same weight.

    It may depend only on the two items, their vectors and the set of common labels, so that a
    change affects nothing else.
    """

    @property
    def type(self) -> str:
        """The type of its edges."""

    @property
    def version(self) -> int:
        """A number that is raised whenever the edges would change: spaces are then relinked."""

    def labels(self, item: Item) -> set[str]:
        """Return the labels that may link the item to others and may become common."""

    def holders(
        self, space: str, labels: Sequence[str], limit: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        """Return the ids of the items with each label, ordered.

        Labels of no item, and of more than `limit` items, are left out.
        """

    def neighbours(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Neighbours:
        """Return all items near each of these; common labels do not count."""


class SharedTag:
    """Two items with two or more tags in common."""

    type, version = "shared_tag", 1

    def labels(self, item: Item) -> set[str]:
        return set(item.tags)

    def holders(
        self, space: str, labels: Sequence[str], limit: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        return store.tag_holders(space, labels, limit)

    def neighbours(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Neighbours:
        rare = {id: [tag for tag in item.tags if tag not in common] for id, item in items.items()}
        shareable = {tag for tags in rare.values() if len(tags) >= MIN_SHARED_TAGS for tag in tags}
        carriers = store.tag_holders(space, sorted(shareable), UNLIMITED)
        neighbours: Neighbours = {}
        for id, tags in rare.items():
            counts = Counter(
                other for tag in tags for other in carriers.get(tag, ()) if other != id
            )
            neighbours[id] = [
                (min(1.0, count / FULL_WEIGHT_TAGS), other)
                for other, count in counts.items()
                if count >= MIN_SHARED_TAGS
            ]
        return neighbours


def qualify_labels(rule: NearestRule, labels: Sequence[str]) -> tuple[str, ...]:
    """Return labels of a rule as the store has them."""
    return tuple(f"{rule.type}:{label}" for label in labels)


def read_common_labels(
    store: LinkStore, space: str, rule: NearestRule, labels: Sequence[str]
) -> set[str]:
    """Return those of the labels that are stored as common."""
    return {
        label.removeprefix(f"{rule.type}:")
        for label in store.common_labels(space, qualify_labels(rule, labels))
    }


class NearestLists:
    """The k-nearest lists of one rule in one space: the list of an item is the edges to it."""

    def __init__(self, store: LinkStore, space: str, rule: NearestRule) -> None:
        self._store, self._space, self._rule = store, space, rule
        self.edges: list[Edge] = []
        self.deleted: list[EdgeKey] = []

    def update(self, items: dict[str, Item]) -> None:
        """Recompute the lists of changed items and those that contain them or now should.

        Other dirty items are left to their own turn.
        """
        neighbours, touching = self._neighbours(items), self._touching(list(items))
        listing = {edge.target for edge in touching if edge.origin == AUTOMATIC}
        pairs = {
            (weight, id, other)
            for id, near in neighbours.items()
            for weight, other in near
            if other > id
        }
        affected = listing | {other for _, _, other in pairs}
        affected -= set(self._store.dirty_items(self._space, sorted(affected)).before)
        entered = self._lists_entered(pairs, affected - listing)
        others = sorted(affected & (listing | entered))
        self._diff(neighbours, touching)
        more = {item.id: item for item in self._store.get([(self._space, id) for id in others])}
        if more:
            self._diff(self._neighbours(more), self._touching(others))

    def _neighbours(self, items: dict[str, Item]) -> Neighbours:
        labels = sorted({label for item in items.values() for label in self._rule.labels(item)})
        common = read_common_labels(self._store, self._space, self._rule, labels)
        neighbours = self._rule.neighbours(self._space, items, common, store=self._store)
        return {id: neighbours.get(id, []) for id in items}

    def _touching(self, ids: Sequence[str]) -> list[Edge]:
        keys = [(self._space, id) for id in ids]
        return self._store.edges_of(keys, [self._space], [self._rule.type], UNLIMITED)

    def _lists_entered(self, pairs: set[tuple[float, str, str]], targets: set[str]) -> set[str]:
        """Return the targets whose stored list has room for the pair or a farther entry."""
        stored: dict[str, list[tuple[float, str]]] = {id: [] for id in targets}
        for edge in self._touching(sorted(targets)):
            if edge.origin == AUTOMATIC and edge.target in stored:
                stored[edge.target].append((edge.weight, edge.source))
        farthest = {id: min(near) for id, near in stored.items() if len(near) >= MAX_NEAREST}
        return {
            target
            for weight, id, target in pairs
            if target in stored and (target not in farthest or (weight, id) > farthest[target])
        }

    def _diff(self, neighbours: Neighbours, touching: Sequence[Edge]) -> None:
        """Compare the lists with the stored edges; pairs with an explicit edge are left out."""
        stored: dict[str, dict[str, Edge]] = {id: {} for id in neighbours}
        explicit: dict[str, set[str]] = {id: set() for id in neighbours}
        for edge in touching:
            if edge.origin == AUTOMATIC:
                stored.get(edge.target, {})[edge.source] = edge
                continue
            for id, other in ((edge.source, edge.target), (edge.target, edge.source)):
                explicit.get(id, set()).add(other)
        for id, pairs in neighbours.items():
            usable = (pair for pair in pairs if pair[1] < id and pair[1] not in explicit[id])
            nearest = {
                other: Edge(other, id, self._rule.type, weight, self._space, origin=AUTOMATIC)
                for weight, other in heapq.nlargest(MAX_NEAREST, usable)
            }
            self.edges += [edge for other, edge in nearest.items() if stored[id].get(other) != edge]
            self.deleted += [edge.key for other, edge in stored[id].items() if other not in nearest]
