"""Items, edges and the change log in memory; one thread at a time."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

from knowloom import codec
from knowloom.errors import Unavailable
from knowloom.model import AUTOMATIC, Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports import Batch, SpaceInfo, Vector
from knowloom.stores.memory.space_state import MemorySpace
from knowloom.text.passages import PASSAGE_SIZE, embedding_texts

S = TypeVar("S", bound="MemoryItems")
P = ParamSpec("P")
R = TypeVar("R")


def synchronized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Run one call at a time: a dictionary must not change while another thread iterates."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.reading():
            return method(self, *args, **kwargs)

    return run


class MemoryItems:
    """An ItemStore and GraphStore that keeps the state of all roles."""

    def __init__(self) -> None:
        self._spaces: dict[str, MemorySpace] = {}
        self._edges: dict[EdgeKey, Edge] = {}
        self._incident: dict[Key, dict[EdgeKey, Edge]] = {}  # edges by each of their ends
        self._vectors: dict[Key, Vector] = {}  # a matrix with a row per passage
        self._passage_size = PASSAGE_SIZE
        self._calibrations: dict[str, bytes] = {}  # by the fingerprint of the embedder
        self._fingerprint = self._rules = ""
        self.log: list[Change] = []  # the change log, which `upkeep` erases from
        self.retention_days: dict[str, int] = {}  # by space
        self._lock, self._closed = RLock(), False

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise Unavailable("'memory:' was closed", "closed")
            yield

    # writing

    @synchronized
    def apply(self, batch: Batch) -> None:
        batch = _copy_batch(batch)  # raises for values that cannot be stored, before any change
        for key, version in batch.expected:
            codec.check_version(key, version, self._item(key))
        for key in batch.deleted:
            self._delete(key, batch)
        for edge_key in batch.deleted_edges:
            self._delete_edge(edge_key, batch)
        for item in batch.items:
            self._put(item, batch)
        for edge in batch.edges:
            self._put_edge(edge, batch)
        for key in batch.marked:
            self._mark_unchanged(key)

    def _put(self, item: Item, batch: Batch) -> None:
        space = self._spaces.setdefault(item.space, MemorySpace())
        before = space.items.get(item.id)
        space.mark(item.id, before)
        if before is not None:
            passages = space.sizes[item.id]
            space.remove(item.id)
        space.add(item, self._passage_size)
        if before is not None and (
            space.sizes[item.id] != passages
            or embedding_texts(before, self._passage_size)
            != embedding_texts(item, self._passage_size)
        ):
            self._vectors.pop(item.key, None)
        self._log(batch, item.key, "update" if before else "add", before)

    def _delete(self, key: Key, batch: Batch) -> None:
        before = self._item(key)
        if before is not None:
            self._spaces[key[0]].mark(key[1], before)
        for edge_key in sorted(self._incident.get(key, ())):
            if self._edges[edge_key].origin == AUTOMATIC:
                self._mark_unchanged(edge_key[1])  # it may get another edge instead
            self._delete_edge(edge_key, batch)  # even if another store has the item
        if before is not None:
            self._spaces[key[0]].remove(key[1])
            self._vectors.pop(key, None)
            self._log(batch, key, "delete", before)

    def _put_edge(self, edge: Edge, batch: Batch) -> None:
        before = self._remove_edge(edge.key)
        self._add_edge(edge)
        replaced = before if before and before.origin != AUTOMATIC else None
        self._log(batch, edge.source_key, "link", replaced, edge.key)

    def _add_edge(self, edge: Edge) -> None:
        self._edges[edge.key] = edge
        self._spaces.setdefault(edge.space, MemorySpace()).count_edge(edge, 1)
        for end in {edge.source_key, edge.target_key}:
            self._incident.setdefault(end, {})[edge.key] = edge

    def _delete_edge(self, key: EdgeKey, batch: Batch) -> None:
        before = self._remove_edge(key)
        if before is not None and before.origin != AUTOMATIC:
            self._log(batch, before.source_key, "unlink", before, key)

    def _remove_edge(self, key: EdgeKey) -> Edge | None:
        edge = self._edges.pop(key, None)
        if edge is None:
            return None
        self._spaces[edge.space].count_edge(edge, -1)
        for end in {edge.source_key, edge.target_key}:
            del self._incident[end][key]
        return edge

    def _mark_unchanged(self, key: Key) -> None:
        """Mark an item as dirty that this write does not change."""
        item = self._item(key)
        if item is not None:
            self._spaces[key[0]].mark(item.id, item)

    def _log(
        self,
        batch: Batch,
        key: Key,
        action: str,
        before: Item | Edge | None,
        link: EdgeKey | None = None,
    ) -> None:
        number = len(self.log) + 1
        change = Change(number, batch.at, *key, action, before, link, batch.actor)
        self.log.append(change)

    def forget_derived(self, keys: Sequence[Key]) -> None:
        """Drop what automatic edges remember of items that no longer exist."""
        for space, id in keys:
            state = self._spaces.get(space)
            if state is not None and id not in state.items:
                state.dirty.pop(id, None)
                state.dirty_names.discard(id)
                state.set_labels(id, ())

    # items

    @synchronized
    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        existing = self._spaces if names is None else self._spaces.keys() & set(names)
        return [_space_info(name, self._spaces[name]) for name in sorted(existing)]

    @synchronized
    def get(self, keys: Sequence[Key]) -> list[Item]:
        items = (self._item(key) for key in keys)
        return [codec.copy_value(item) for item in items if item is not None]

    @synchronized
    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        return [key for key in keys if self._is_allowed(key, only)]

    @synchronized
    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        allowed = (item for item in self._allowed(only) if after is None or item.key > after)
        return list(
            map(codec.copy_value, heapq.nsmallest(limit, allowed, key=lambda item: item.key))
        )

    @synchronized
    def count(self, only: Filter) -> int:
        return sum(1 for _ in self._allowed(only))

    @synchronized
    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        changes = [change for change in self.log if change.space == space and change.number > after]
        return list(map(codec.copy_change, changes[:limit]))

    @synchronized
    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        selected = set(keys)
        changes = (
            change
            for change in self.log
            if (change.space, change.id) in selected
            or (change.link is not None and change.link[1] in selected)
        )
        return list(map(codec.copy_change, changes))

    @synchronized
    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        return []  # dictionaries of one process cannot become inconsistent

    # graph

    @synchronized
    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        result: dict[EdgeKey, Edge] = {}
        for key in keys:
            selected = [
                edge
                for edge in self._incident.get(key, {}).values()
                if edge.space in spaces
                and edge.target_key[0] in spaces
                and (not types or edge.type in types)
                and edge.weight >= min_weight
                and _has_origin(edge, automatic)
            ]
            for end in ("source_key", "target_key"):
                side = [edge for edge in selected if getattr(edge, end) == key]
                heaviest = heapq.nsmallest(limit, side, key=_heaviest_first)
                result.update({edge.key: edge for edge in heaviest})
        return list(map(codec.copy_value, sorted(result.values(), key=_heaviest_first)))

    @synchronized
    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        return [codec.copy_value(self._edges[key]) for key in keys if key in self._edges]

    @synchronized
    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        selected = (
            edge
            for edge in self._edges.values()
            if _has_origin(edge, automatic)
            and edge.space in spaces
            and (after is None or edge.key > after.key)
        )
        return list(
            map(codec.copy_value, heapq.nsmallest(limit, selected, key=lambda edge: edge.key))
        )

    # helpers of all roles

    def _space(self, name: str) -> MemorySpace:
        return self._spaces.get(name) or MemorySpace()

    def _item(self, key: Key) -> Item | None:
        space = self._spaces.get(key[0])
        return space.items.get(key[1]) if space else None

    def _is_allowed(self, key: Key, only: Filter) -> bool:
        item = self._item(key)
        return item is not None and only.allows(item)

    def _allowed(self, only: Filter) -> Iterable[Item]:
        for name in dict.fromkeys(only.spaces):
            if name in self._spaces:
                items = self._spaces[name].items.values()
                yield from (item for item in items if only.allows(item))


def _space_info(name: str, space: MemorySpace) -> SpaceInfo:
    digest, links_digest = (
        codec.format_digest(space.digest),
        codec.format_digest(space.links_digest),
    )
    return SpaceInfo(name, len(space.items), space.edges, digest, space.links, links_digest)


def _has_origin(edge: Edge, automatic: bool | None) -> bool:
    return automatic is None or automatic == (edge.origin == AUTOMATIC)


def _heaviest_first(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)


def _copy_batch(batch: Batch) -> Batch:
    """Return the batch as read back from JSON, which shares no properties with the caller."""
    items = (codec.item_from_dict(_copy_row(codec.item_to_dict(item))) for item in batch.items)
    edges = (codec.edge_from_dict(_copy_row(codec.edge_to_dict(edge))) for edge in batch.edges)
    return replace(batch, items=tuple(items), edges=tuple(edges))


def _copy_row(row: dict[str, object]) -> dict[str, object]:
    copy: dict[str, object] = json.loads(codec.to_json(row))
    return copy
