"""The rules by which knowloom links items itself. A rule says who is near an item and how near; how many links are kept is not its matter.
Links by names have rules of another shape (`byname.py`): they are directed, and made from the index of names."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from knowloom.errors import Invalid, unknown
from knowloom.linking.name_rules import BY_NAME, ByName
from knowloom.model import MADE, Edge, EdgeKey, Item
from knowloom.ports import LinkStore

Near = dict[str, list[tuple[float, str]]]
"""For each id the others it may be linked to, in any order: (weight, id)."""

EVERYONE = 1 << 31
COMMON = (
    200  # a label that more items of a space carry links nobody: it says nothing about any of them
)
LEAST_TAGS = 2
TAGS_FOR_1 = 5  # so many common tags weigh 1
SIMILAR = 0.85  # cosine


class Rule(Protocol):
    """Nearness must be mutual: if a is near b with a weight, b is near a with the same. It may depend on the two items, their vectors,
    and on which labels are common; on nothing else, so that only what changed must be looked at again."""

    @property
    def type(self) -> str:
        """Of its edges."""

    @property
    def version(self) -> int:
        """Raised whenever the rule would make other links: knowledge linked by an older one is linked anew."""

    def labels(self, item: Item) -> set[str]:
        """What may tie the item to others and may become common."""

    def carriers(
        self, space: str, labels: Sequence[str], most: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        """Who carries each label, in order of id; labels that nobody or more than `most` items carry are left out."""

    def near(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Near:
        """Everyone near these items. Common labels count for nothing."""


class SharedTag:
    """Two items with two or more tags in common."""

    type, version = "shared_tag", 1

    def labels(self, item: Item) -> set[str]:
        return set(item.tags)

    def carriers(
        self, space: str, labels: Sequence[str], most: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        return store.carriers(space, labels, most)

    def near(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Near:
        telling = {
            id: [tag for tag in item.tags if tag not in common] for id, item in items.items()
        }
        asked = sorted(
            {tag for tags in telling.values() if len(tags) >= LEAST_TAGS for tag in tags}
        )
        carried = store.carriers(space, asked, EVERYONE)
        near: Near = {}
        for id, tags in telling.items():
            shared = Counter(other for tag in tags for other in carried.get(tag, ()) if other != id)
            near[id] = [
                (min(1.0, count / TAGS_FOR_1), other)
                for other, count in shared.items()
                if count >= LEAST_TAGS
            ]
        return near


class Similar:
    """Two items whose vectors point the same way."""

    type, version = "similar", 1

    def labels(self, item: Item) -> set[str]:
        return set()

    def carriers(
        self, space: str, labels: Sequence[str], most: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        return {}

    def near(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Near:
        return store.alike(space, list(items), SIMILAR)


RULES: dict[str, Rule | ByName] = {rule.type: rule for rule in (SharedTag(), Similar(), *BY_NAME)}


def chosen(names: Sequence[str]) -> tuple[Rule | ByName, ...]:
    """The rules of these names, each once, in the order of the table."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise Invalid(f"links must be a list of rules, not {names!r}; known: {', '.join(RULES)}")
    for name in names:
        if name not in RULES:
            raise unknown("link rule", name, RULES)
    return tuple(rule for name, rule in RULES.items() if name in names)


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
