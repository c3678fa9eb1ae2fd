"""The memory store: all roles, and the state of automatic edges."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from knowloom.model import (
    AUTOMATIC,
)
from knowloom.ports import (
    DirtyItems,
    LinkUpdate,
    NearestItems,
)
from knowloom.stores.memory.item_store import synchronized
from knowloom.stores.memory.memory_upkeep import MemoryUpkeep
from knowloom.stores.memory.nearest_state import NearestIndex
from knowloom.stores.memory.search_index import MemoryIndexes


class MemoryStore(MemoryIndexes):
    """Plays all roles. Calls from several threads take turns."""

    def __init__(self) -> None:
        super().__init__()
        self._nearest: dict[str, NearestIndex] = {}  # by space

    @classmethod
    def open(cls, _: str = "") -> MemoryStore:
        return cls()

    def upkeep(self) -> MemoryUpkeep:
        return MemoryUpkeep(self)

    @synchronized
    def dirty_ids(self, space: str) -> list[str]:
        return sorted(self._space(space).dirty)

    @synchronized
    def dirty_items(self, space: str, ids: Sequence[str]) -> DirtyItems:
        state = self._space(space)
        return DirtyItems(state.version, {id: state.dirty[id] for id in ids if id in state.dirty})

    @synchronized
    def put_links(self, links: LinkUpdate) -> bool:
        state = self._space(links.space)
        if state.version != links.version:
            return False
        for key in links.deleted:
            if key in self._edges and self._edges[key].origin == AUTOMATIC:
                self._remove_edge(key)
        for edge in links.edges:
            if edge.key not in self._edges or self._edges[edge.key].origin == AUTOMATIC:
                self._remove_edge(edge.key)
                self._add_edge(edge)
        state.frequent_labels |= set(links.common)
        state.frequent_labels -= set(links.rare)
        for id in links.done:
            state.dirty.pop(id, None)
        for id, labels in links.labels.items():
            state.set_labels(id, labels)
        state.dirty_names -= set(links.renewed)
        state.dirty_names |= set(links.stale)
        if links.nearest:
            self._nearest[links.space].put(links.nearest)
        state.version += bool(links.labels or links.stale or links.nearest)
        for id in links.marked:
            self._mark_unchanged((links.space, id))
        return True

    @synchronized
    def forget_links(self, rules: str) -> None:
        for key in [edge.key for edge in self._edges.values() if edge.origin == AUTOMATIC]:
            self._remove_edge(key)
        for state in self._spaces.values():
            state.forget_links()
        self._nearest.clear()
        self._rules = rules

    @synchronized
    def link_rules(self) -> str:
        return self._rules

    @synchronized
    def common_labels(self, space: str, labels: Sequence[str]) -> set[str]:
        return self._space(space).frequent_labels & set(labels)

    @synchronized
    def labels_of(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        labels = self._space(space).labels
        return {id: labels[id] for id in ids if id in labels}

    @synchronized
    def label_holders(self, space: str, labels: Sequence[str], limit: int) -> dict[str, list[str]]:
        ids = self._space(space).ids_by_label
        return {label: heapq.nsmallest(limit, ids[label]) for label in labels if label in ids}

    @synchronized
    def stale_ids(self, space: str) -> list[str]:
        return sorted(self._space(space).dirty_names)

    @synchronized
    def tag_holders(self, space: str, tags: Sequence[str], limit: int) -> dict[str, list[str]]:
        ids: dict[str, list[str]] = {tag: [] for tag in tags}
        for id, item in sorted(self._space(space).items.items()):
            for tag in item.tags:
                if tag in ids:
                    ids[tag].append(id)
        return {tag: tagged for tag, tagged in ids.items() if 0 < len(tagged) <= limit}

    @synchronized
    def nearest_items(self, space: str, ids: Sequence[str], min_cosine: float) -> NearestItems:
        vectors = {id: vector for (name, id), vector in self._vectors.items() if name == space}
        index = self._nearest.setdefault(space, NearestIndex())
        return index.update(vectors, ids, min_cosine)
