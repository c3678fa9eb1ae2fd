"""Links by tags and vectors: each item is linked to the nearest of those before it, and that list is made anew when it may change."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from weft.ingest.rules import EVERYONE, Near, Rule
from weft.model import MADE, Edge, EdgeKey, Item
from weft.ports import LinkStore

KEPT = 10  # of a type: an item is linked to so many of the items before it, in the order of ids


def stored_labels(rule: Rule, labels: Sequence[str]) -> tuple[str, ...]:
    """Labels of a rule as the store has them."""
    return tuple(f"{rule.type}:{label}" for label in labels)


def common_labels(store: LinkStore, space: str, rule: Rule, labels: Sequence[str]) -> set[str]:
    return {
        label.removeprefix(f"{rule.type}:")
        for label in store.common(space, stored_labels(rule, labels))
    }


class Lists:
    """The links of one rule in one space: for each item its list, which is the edges that end in it."""

    def __init__(self, store: LinkStore, space: str, rule: Rule) -> None:
        self._store, self._space, self._rule = store, space, rule
        self.made: list[Edge] = []
        self.dropped: list[EdgeKey] = []

    def change(self, items: dict[str, Item]) -> None:
        """Work out the lists of changed items, and of those whose lists they stand in or would stand in now. Items that wait to be
        linked themselves are left to their own turn."""
        near, touching = self._near(items), self._touching(list(items))
        listing = {edge.target for edge in touching if edge.origin == MADE}
        watching = {
            (weight, id, other)
            for id, pairs in near.items()
            for weight, other in pairs
            if other > id
        }
        concerned = listing | {other for _, _, other in watching}
        concerned -= set(self._store.marks(self._space, sorted(concerned)).before)
        others = sorted(concerned & (listing | self._would_list(watching, concerned - listing)))
        self._write(near, touching)
        more = {item.id: item for item in self._store.get([(self._space, id) for id in others])}
        if more:
            self._write(self._near(more), self._touching(others))

    def _near(self, items: dict[str, Item]) -> Near:
        labels = sorted({label for item in items.values() for label in self._rule.labels(item)})
        common = common_labels(self._store, self._space, self._rule, labels)
        found = self._rule.near(self._space, items, common, store=self._store)
        return {id: found.get(id, []) for id in items}

    def _touching(self, ids: Sequence[str]) -> list[Edge]:
        return self._store.edges_of(
            [(self._space, id) for id in ids], [self._space], [self._rule.type], EVERYONE
        )

    def _would_list(self, watching: set[tuple[float, str, str]], asked: set[str]) -> set[str]:
        """Those of the asked whose stored list has room for a changed item, or holds something less near."""
        stored: dict[str, list[tuple[float, str]]] = {id: [] for id in asked}
        for edge in self._touching(sorted(asked)):
            if edge.origin == MADE and edge.target in stored:
                stored[edge.target].append((edge.weight, edge.source))
        full = {id: min(held) for id, held in stored.items() if len(held) >= KEPT}
        return {
            other
            for weight, id, other in watching
            if other in stored and (other not in full or (weight, id) > full[other])
        }

    def _write(self, near: Near, touching: Sequence[Edge]) -> None:
        stored: dict[str, dict[str, Edge]] = {id: {} for id in near}
        settled: dict[str, set[str]] = {
            id: set() for id in near
        }  # pairs that people have linked, or forbidden to link
        for edge in touching:
            if edge.origin == MADE:
                stored.get(edge.target, {})[edge.source] = edge
                continue
            for id, other in ((edge.source, edge.target), (edge.target, edge.source)):
                settled.get(id, set()).add(other)
        for id, pairs in near.items():
            best = heapq.nlargest(
                KEPT, (pair for pair in pairs if pair[1] < id and pair[1] not in settled[id])
            )
            wanted = {
                other: Edge(other, id, self._rule.type, weight, self._space, origin=MADE)
                for weight, other in best
            }
            self.made += [edge for other, edge in wanted.items() if stored[id].get(other) != edge]
            self.dropped += [edge.key for other, edge in stored[id].items() if other not in wanted]
