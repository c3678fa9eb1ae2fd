"""Items as they were at an earlier time: what was changed in place since is read back from the change log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from weft.model import Batch, Change, Filter, Item, Key, SpaceInfo
from weft.ports import ItemStore, Stores

PAGE = 1000


def stores_then(stores: Stores, as_of: datetime | None) -> Stores:
    """The stores, for a request that asks about an earlier time: nothing that was written into an item later is shown. Words and vectors
    are today's: an item is found by what it says now."""
    return stores if as_of is None else replace(stores, items=ItemsThen(stores.items, as_of))


@dataclass(frozen=True, slots=True)
class ItemsThen:
    """An ItemStore that shows its items as they were at a time."""

    items: ItemStore
    as_of: datetime

    def get(self, keys: Sequence[Key]) -> list[Item]:
        return self._then(self.items.get(keys))

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self._then(self.items.find(only, limit, after))

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        return self.items.visible(keys, only)

    def spaces(self) -> list[SpaceInfo]:
        return self.items.spaces()

    def changes(self, space: str, after: int = 0, limit: int = PAGE) -> list[Change]:
        return self.items.changes(space, after, limit)

    def verify(self) -> list[str]:
        return self.items.verify()

    def apply(self, batch: Batch) -> None:
        self.items.apply(batch)

    def reading(self) -> AbstractContextManager[object]:
        return self.items.reading()

    def close(self) -> None:
        self.items.close()

    def _then(self, found: list[Item]) -> list[Item]:
        changed = {item.key for item in found if item.updated_at is not None and item.updated_at > self.as_of}
        if not changed:
            return found
        before: dict[Key, Item] = {}
        for space in sorted({key[0] for key in changed}):
            before |= self._before(space, {key[1] for key in changed if key[0] == space})
        return [before.get(item.key, item) for item in found]

    def _before(self, space: str, ids: set[str]) -> dict[Key, Item]:
        """The state of these items before their first change since. What was added later, with an earlier date, has none: its date counts."""
        found: dict[Key, Item] = {}
        after = self._first_since(space)
        while len(found) < len(ids) and (page := self.items.changes(space, after, PAGE)):
            for change in page:
                if change.id in ids and isinstance(change.before, Item) and change.at > self.as_of:
                    found.setdefault((space, change.id), change.before)
            after = page[-1].number
        return found

    def _first_since(self, space: str) -> int:
        """The number behind which the changes since `as_of` begin, by halving: the log is in order of time."""
        low, high = 0, 1
        while not self._since(space, high):
            low, high = high, high * 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._since(space, middle) else (middle + 1, high)
        return low

    def _since(self, space: str, number: int) -> bool:
        following = self.items.changes(space, number, 1)
        return not following or following[0].at > self.as_of
