"""The outbox: changes that layers must still be given, queued in the item store.

An entry is an item of a reserved space, so that it is written in the transaction of the change
itself, by any store. It names what changed and not how: whoever delivers it writes the current
state, in any order and as often as necessary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from uuid import uuid4

from knowloom import codec
from knowloom.model import EdgeKey, Filter, Item, Key
from knowloom.ports import OUTBOX_SPACE, Batch, ItemStore
from knowloom.stores.composite.store_layers import LAYER_TIME

PAGE = 1000  # entries read at a time


@dataclass(frozen=True, slots=True)
class QueuedChange:
    """Items and edges that a layer must write anew; with `is_complete`, all that differ."""

    layer: str
    items: tuple[Key, ...] = ()
    edges: tuple[EdgeKey, ...] = ()
    is_complete: bool = False
    id: str = ""  # of the entry

    @property
    def size(self) -> int:
        return max(1, len(self.items) + len(self.edges))

    def split(self, size: int) -> Iterator[QueuedChange]:
        """Yield the change in parts of at most so many items and edges."""
        if self.size <= size:
            yield self
            return
        both: list[tuple[tuple[Key, ...], tuple[EdgeKey, ...]]] = [
            *((self.items[start : start + size], ()) for start in range(0, len(self.items), size)),
            *(((), self.edges[start : start + size]) for start in range(0, len(self.edges), size)),
        ]
        for number, (items, edges) in enumerate(both):
            yield QueuedChange(self.layer, items, edges, self.is_complete and not number)

    def concerns(self, spaces: Set[str]) -> bool:
        """Return True if the change is about one of the spaces."""
        ends = (end for edge in self.edges for end in edge[:2])
        return self.is_complete or any(space in spaces for space, _ in (*self.items, *ends))


class Outbox:
    """The queue in the item store; all processes that use the store share it."""

    def __init__(self, truth: ItemStore, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._truth, self._new_id = truth, new_id
        self._cached: tuple[str, list[QueuedChange]] = ("", [])

    def identify(self, change: QueuedChange) -> QueuedChange:
        """Return the change with the id of a new entry."""
        id = f"{change.layer}:{self._new_id()}"
        return QueuedChange(change.layer, change.items, change.edges, change.is_complete, id)

    def encode(self, change: QueuedChange) -> Item:
        """Return the entry to store in the transaction of the change."""
        row = {"items": change.items, "edges": change.edges, "complete": change.is_complete}
        text = codec.to_json({"layer": change.layer, **row})
        return Item(change.id, OUTBOX_SPACE, embedding_text=text)

    def put(self, changes: Iterable[QueuedChange]) -> None:
        """Queue changes before they are made, where they are not part of a batch."""
        entries = tuple(self.encode(change) for change in changes)
        if entries:
            self._truth.apply(Batch(LAYER_TIME, entries))

    def remove(self, changes: Sequence[QueuedChange]) -> None:
        if changes:
            keys = tuple((OUTBOX_SPACE, change.id) for change in changes)
            self._truth.apply(Batch(LAYER_TIME, deleted=keys))

    def read(self) -> list[QueuedChange]:
        """Return all queued changes; at almost no cost if there are none."""
        for info in self._truth.spaces([OUTBOX_SPACE]):
            if info.items and info.digest != self._cached[0]:
                self._cached = (info.digest, [_decode(entry) for entry in self._scan()])
            return self._cached[1] if info.items else []
        return []

    def _scan(self) -> Iterable[Item]:
        after: Key | None = None
        while page := self._truth.find(Filter((OUTBOX_SPACE,)), PAGE, after):
            yield from page
            after = page[-1].key


def _decode(entry: Item) -> QueuedChange:
    row = json.loads(entry.embedding_text or "{}")
    items = tuple((space, id) for space, id in row["items"])
    edges = tuple((tuple(source), tuple(target), type) for source, target, type in row["edges"])
    return QueuedChange(row["layer"], items, edges, row["complete"], entry.id)
