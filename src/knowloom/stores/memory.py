"""Knowledge in plain dictionaries: nothing is kept when the process ends. Also the yardstick other stores are compared with."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.errors import Conflict, Unavailable
from knowloom.model import (
    AUTOMATIC,
    Batch,
    Change,
    Edge,
    EdgeKey,
    Filter,
    Found,
    Item,
    Key,
    Links,
    Marks,
    SpaceInfo,
)
from knowloom.text import words

Vector = npt.NDArray[np.float32]
Scored = tuple[tuple[Key, float], ...]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class MemorySpace:
    """What one space holds."""

    items: dict[str, Item] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)  # words of each item
    holders: dict[str, dict[str, int]] = field(default_factory=dict)  # word -> item id -> count
    length: int = 0  # words in all items
    digest: int = 0
    links_digest: int = 0
    edges: int = 0  # of people
    links: int = 0  # of knowloom
    marked: dict[str, Item | None] = field(
        default_factory=dict
    )  # id -> the item when its links were last made
    common: set[str] = field(default_factory=set)
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)  # id -> labels
    under: dict[str, set[str]] = field(default_factory=dict)  # label -> ids
    stale: set[str] = field(default_factory=set)
    version: int = 0

    def mark(self, id: str, before: Item | None) -> None:
        self.version += 1
        self.marked.setdefault(id, before)

    def count(self, edge: Edge, sign: int) -> None:
        self.version += 1
        number = sign * codec.fingerprint(codec.edge_to_dict(edge))
        if edge.origin == AUTOMATIC:
            self.links_digest += number
            self.links += sign
        else:
            self.digest += number
            self.edges += sign

    def enter(self, id: str, labels: tuple[str, ...]) -> None:
        for label in self.entries.pop(id, ()):
            self.under[label].discard(id)
            if not self.under[label]:
                del self.under[label]
        if labels:
            self.entries[id] = labels
        for label in labels:
            self.under.setdefault(label, set()).add(id)

    def add(self, item: Item) -> None:
        self.items[item.id] = item
        self.digest += codec.fingerprint(codec.item_to_dict(item))
        self.index(item)

    def remove(self, id: str) -> None:
        self.forget(id)
        self.digest -= codec.fingerprint(codec.item_to_dict(self.items.pop(id)))

    def index(self, item: Item) -> None:
        found = words.count_terms(item)
        self.counts[item.id] = found
        self.length += found.total()
        for word, count in found.items():
            self.holders.setdefault(word, {})[item.id] = min(count, words.MAX_TERM_FREQUENCY)

    def forget(self, id: str) -> None:
        found = self.counts.pop(id, Counter())
        self.length -= found.total()
        for word in found:
            del self.holders[word][id]
            if not self.holders[word]:
                del self.holders[word]


def _in_turn(
    method: Callable[Concatenate[MemoryStore, P], R],
) -> Callable[Concatenate[MemoryStore, P], R]:
    """One call at a time: a dictionary must not change while another thread walks it."""

    @wraps(method)
    def alone(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.reading():
            return method(self, *args, **kwargs)

    return alone


class MemoryStore:
    """Plays all four roles. Calls from several threads take turns."""

    def __init__(self) -> None:
        self._shelves: dict[str, MemorySpace] = {}
        self._edges: dict[EdgeKey, Edge] = {}
        self._touching: dict[Key, dict[EdgeKey, Edge]] = {}
        self._vectors: dict[Key, Vector] = {}
        self._fingerprint = self._rules = ""
        self._changes: list[Change] = []
        self._lock, self._closed = RLock(), False

    @classmethod
    def open(cls, _: str = "") -> MemoryStore:
        return cls()

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise Unavailable("'memory:' was closed", "closed")
            yield

    # writing

    @_in_turn
    def apply(self, batch: Batch) -> None:
        batch = _copied(batch)  # whatever cannot be stored fails here, before anything has changed
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
            self._mark(key)

    def _put(self, item: Item, batch: Batch) -> None:
        shelf = self._shelves.setdefault(item.space, MemorySpace())
        before = shelf.items.get(item.id)
        shelf.mark(item.id, before)
        if before is not None:
            shelf.remove(item.id)
            if before.embeddable != item.embeddable:
                self._vectors.pop(item.key, None)
        shelf.add(item)
        self._log(batch, item.key, "update" if before else "add", before)

    def _delete(self, key: Key, batch: Batch) -> None:
        before = self._item(key)
        if before is not None:
            self._shelves[key[0]].mark(key[1], before)
        for edge_key in sorted(self._touching.get(key, ())):
            if self._edges[edge_key].origin == AUTOMATIC:
                self._mark(edge_key[1])  # a place in its links falls free
            self._delete_edge(edge_key, batch)  # also where another store has the item
        if before is not None:
            self._shelves[key[0]].remove(key[1])
            self._vectors.pop(key, None)
            self._log(batch, key, "delete", before)

    def _put_edge(self, edge: Edge, batch: Batch) -> None:
        before = self._forget_edge(edge.key)
        self._keep_edge(edge)
        self._log(
            batch,
            edge.source_key,
            "link",
            before if before and before.origin != AUTOMATIC else None,
            edge.key,
        )

    def _keep_edge(self, edge: Edge) -> None:
        self._edges[edge.key] = edge
        self._shelves.setdefault(edge.space, MemorySpace()).count(edge, 1)
        for end in {edge.source_key, edge.target_key}:
            self._touching.setdefault(end, {})[edge.key] = edge

    def _delete_edge(self, key: EdgeKey, batch: Batch) -> None:
        before = self._forget_edge(key)
        if before is not None and before.origin != AUTOMATIC:
            self._log(batch, before.source_key, "unlink", before, key)

    def _forget_edge(self, key: EdgeKey) -> Edge | None:
        edge = self._edges.pop(key, None)
        if edge is None:
            return None
        self._shelves[edge.space].count(edge, -1)
        for end in {edge.source_key, edge.target_key}:
            del self._touching[end][key]
        return edge

    def _log(
        self,
        batch: Batch,
        key: Key,
        action: str,
        before: Item | Edge | None,
        link: EdgeKey | None = None,
    ) -> None:
        self._changes.append(Change(len(self._changes) + 1, batch.at, *key, action, before, link))

    # items

    @_in_turn
    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        found = [
            (name, self._shelves[name])
            for name in sorted(
                self._shelves if names is None else self._shelves.keys() & set(names)
            )
        ]
        return [
            SpaceInfo(
                name,
                len(one.items),
                one.edges,
                codec.sum_text(one.digest),
                one.links,
                codec.sum_text(one.links_digest),
            )
            for name, one in found
        ]

    @_in_turn
    def get(self, keys: Sequence[Key]) -> list[Item]:
        found = (self._item(key) for key in keys)
        return [codec.given(item) for item in found if item is not None]

    @_in_turn
    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        return [key for key in keys if self._allows(key, only)]

    @_in_turn
    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        allowed = (item for item in self._allowed(only) if after is None or item.key > after)
        return list(map(codec.given, heapq.nsmallest(limit, allowed, key=lambda item: item.key)))

    @_in_turn
    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        found = [
            change for change in self._changes if change.space == space and change.number > after
        ]
        return list(map(codec.given_change, found[:limit]))

    @_in_turn
    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        asked = set(keys)
        found = [
            change
            for change in self._changes
            if (change.space, change.id) in asked
            or (change.link is not None and change.link[1] in asked)
        ]
        return list(map(codec.given_change, found))

    @_in_turn
    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        return []  # dictionaries in one process have nothing that could drift apart

    # words

    @_in_turn
    def rebuild_words(self, items: Iterable[Item]) -> None:
        known = [item for item in items if self._item(item.key) is not None]
        for shelf in self._shelves.values():
            for id in list(shelf.counts):
                shelf.forget(id)
        for item in known:
            self._shelves[item.space].index(item)

    @_in_turn
    def search_text(self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()) -> Found:
        query = list(dict.fromkeys(words.extract_terms(text)))
        shelves = {
            name: self._shelves[name]
            for name in dict.fromkeys(only.spaces)
            if name in self._shelves
        }
        documents = sum(len(shelf.items) for shelf in shelves.values())
        if not query or not documents:
            return Found()
        mean = sum(shelf.length for shelf in shelves.values()) / documents
        rarity = {
            word: words.idf(documents, sum(len(s.holders.get(word, ())) for s in shelves.values()))
            for word in query
        }
        best = sum(rarity.values())
        scores: dict[Key, float] = {}
        for name, shelf in shelves.items():
            for word in query:
                for id, count in shelf.holders.get(word, {}).items():
                    norm = words.K1 * (1 - words.B + words.B * shelf.counts[id].total() / mean)
                    scores[name, id] = scores.get((name, id), 0.0) + rarity[word] * count / (
                        count + norm
                    )
        allowed = {
            key: round(score / best, 6) for key, score in scores.items() if self._allows(key, only)
        }
        return Found(
            _top(allowed, limit),
            len(allowed),
            {key: allowed[key] for key in also if key in allowed},
        )

    # vectors

    @_in_turn
    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if not vectors:
            return
        self._check_vectors(vectors, fingerprint)
        self._vectors.update(
            {key: vector.copy() for key, vector in vectors.items() if self._item(key) is not None}
        )
        self._fingerprint = fingerprint
        for key in vectors:
            self._mark(key)

    def _check_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if self._vectors and fingerprint != self._fingerprint:
            raise Conflict(
                f"the stored vectors are of {self._fingerprint!r}, not of {fingerprint!r}",
                "reindex_required",
            )
        sizes = {len(vector) for vector in [*vectors.values(), *list(self._vectors.values())[:1]]}
        if len(sizes) > 1:
            raise Conflict(f"vectors of different sizes: {sorted(sizes)}", "reindex_required")

    @_in_turn
    def forget_vectors(self) -> None:
        for key in self._vectors:
            self._mark(key)
        self._vectors.clear()

    @_in_turn
    def fingerprint(self) -> str:
        return self._fingerprint if self._vectors else ""

    @_in_turn
    def dimensions(self) -> int:
        return len(next(iter(self._vectors.values()), ()))

    @_in_turn
    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        return [
            item.key
            for item in self.find(Filter(tuple(spaces)), len(self._vectors) + limit)
            if item.key not in self._vectors
        ][:limit]

    @_in_turn
    def count_missing(self, spaces: Sequence[str]) -> int:
        return sum(
            key not in self._vectors
            for key in (item.key for item in self._allowed(Filter(tuple(spaces))))
        )

    @_in_turn
    def search_vector(self, vector: Vector, only: Filter, limit: int) -> Found:
        allowed = [key for key in self._vectors if self._allows(key, only)]
        return Found(_top(self.score_vectors(vector, allowed), limit), len(allowed))

    @_in_turn
    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return {key: similarity(self._vectors[key], vector) for key in keys if key in self._vectors}

    # graph

    @_in_turn
    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        found: dict[EdgeKey, Edge] = {}
        for key in keys:
            visible = (
                edge for edge in self._touching.get(key, {}).values() if _inside(edge, spaces)
            )
            whose = (
                edge
                for edge in visible
                if automatic is None or automatic == (edge.origin == AUTOMATIC)
            )
            touching = [
                edge
                for edge in whose
                if (not types or edge.type in types) and edge.weight >= min_weight
            ]
            for end in ("source_key", "target_key"):
                side = [edge for edge in touching if getattr(edge, end) == key]
                found.update(
                    {edge.key: edge for edge in heapq.nsmallest(limit, side, key=_heaviest)}
                )
        return list(map(codec.given, sorted(found.values(), key=_heaviest)))

    @_in_turn
    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        return [codec.given(self._edges[key]) for key in keys if key in self._edges]

    @_in_turn
    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        wanted = (
            edge
            for edge in self._edges.values()
            if automatic is None or automatic == (edge.origin == AUTOMATIC)
        )
        owned = (
            edge
            for edge in wanted
            if edge.space in spaces and (after is None or edge.key > after.key)
        )
        return list(map(codec.given, heapq.nsmallest(limit, owned, key=lambda edge: edge.key)))

    # links that knowloom makes

    @_in_turn
    def unlinked(self, space: str) -> list[str]:
        return sorted(self._shelf(space).marked)

    @_in_turn
    def marks(self, space: str, ids: Sequence[str]) -> Marks:
        shelf = self._shelf(space)
        return Marks(shelf.version, {id: shelf.marked[id] for id in ids if id in shelf.marked})

    @_in_turn
    def put_links(self, links: Links) -> bool:
        shelf = self._shelf(links.space)
        if shelf.version != links.version:
            return False
        for key in links.dropped:
            if key in self._edges and self._edges[key].origin == AUTOMATIC:
                self._forget_edge(key)
        for edge in links.made:
            if edge.key not in self._edges or self._edges[edge.key].origin == AUTOMATIC:
                self._forget_edge(edge.key)
                self._keep_edge(edge)
        shelf.common |= set(links.common)
        shelf.common -= set(links.rare)
        for id in links.done:
            shelf.marked.pop(id, None)
        for id, labels in links.entered.items():
            shelf.enter(id, labels)
        shelf.stale -= set(links.renewed)
        shelf.stale |= set(links.stale)
        shelf.version += bool(links.entered or links.stale)
        for id in links.marked:
            self._mark((links.space, id))
        return True

    @_in_turn
    def forget_links(self, rules: str) -> None:
        for key in [edge.key for edge in self._edges.values() if edge.origin == AUTOMATIC]:
            self._forget_edge(key)
        for shelf in self._shelves.values():
            shelf.marked, shelf.common, shelf.entries, shelf.under, shelf.stale = (
                dict.fromkeys(shelf.items),
                set(),
                {},
                {},
                set(),
            )
            shelf.version += 1
        self._rules = rules

    @_in_turn
    def linked_by(self) -> str:
        return self._rules

    @_in_turn
    def common(self, space: str, labels: Sequence[str]) -> set[str]:
        return self._shelf(space).common & set(labels)

    @_in_turn
    def entries(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        held = self._shelf(space).entries
        return {id: held[id] for id in ids if id in held}

    @_in_turn
    def under(self, space: str, labels: Sequence[str], most: int) -> dict[str, list[str]]:
        held = self._shelf(space).under
        return {label: heapq.nsmallest(most, held[label]) for label in labels if label in held}

    @_in_turn
    def stale(self, space: str) -> list[str]:
        return sorted(self._shelf(space).stale)

    @_in_turn
    def carriers(self, space: str, tags: Sequence[str], most: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {tag: [] for tag in tags}
        for id, item in sorted(self._shelf(space).items.items()):
            for tag in item.tags:
                if tag in found:
                    found[tag].append(id)
        return {tag: ids for tag, ids in found.items() if 0 < len(ids) <= most}

    @_in_turn
    def alike(
        self, space: str, ids: Sequence[str], least: float
    ) -> dict[str, list[tuple[float, str]]]:
        own = {key[1]: vector for key, vector in self._vectors.items() if key[0] == space}
        asked = {id: own[id] for id in ids if id in own}
        scored = {
            id: [(similarity(vector, other), far) for far, other in own.items() if far != id]
            for id, vector in asked.items()
        }
        return {id: [pair for pair in pairs if pair[0] >= least] for id, pairs in scored.items()}

    # inside

    def _shelf(self, space: str) -> MemorySpace:
        return self._shelves.get(space) or MemorySpace()

    def _mark(self, key: Key) -> None:
        """Say that an item that stays as it is must be linked anew."""
        item = self._item(key)
        if item is not None:
            self._shelves[key[0]].mark(item.id, item)

    def _item(self, key: Key) -> Item | None:
        shelf = self._shelves.get(key[0])
        return shelf.items.get(key[1]) if shelf else None

    def _allows(self, key: Key, only: Filter) -> bool:
        item = self._item(key)
        return item is not None and only.allows(item)

    def _allowed(self, only: Filter) -> Iterable[Item]:
        for name in dict.fromkeys(only.spaces):
            if name in self._shelves:
                yield from (
                    item for item in self._shelves[name].items.values() if only.allows(item)
                )


def similarity(one: Vector, other: Vector) -> float:
    """Cosine of two unit vectors; opposite meanings count as unrelated. Rounded, so that ties are ties on every machine."""
    return round(max(0.0, min(1.0, float(one @ other))), 6)


def _top(scores: Mapping[Key, float], limit: int) -> Scored:
    return tuple(
        heapq.nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0][1], pair[0][0]))
    )


def _inside(edge: Edge, spaces: Sequence[str]) -> bool:
    return edge.space in spaces and (edge.target_space or edge.space) in spaces


def _heaviest(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)


def _copied(batch: Batch) -> Batch:
    """The batch as a file would give it back: nobody else holds its properties, and everything in it can be written as JSON."""
    items = (codec.item_from_dict(_through_json(codec.item_to_dict(item))) for item in batch.items)
    edges = (codec.edge_from_dict(_through_json(codec.edge_to_dict(edge))) for edge in batch.edges)
    return replace(batch, items=tuple(items), edges=tuple(edges))


def _through_json(row: dict[str, object]) -> dict[str, object]:
    copy: dict[str, object] = json.loads(codec.to_json(row))
    return copy
