"""Items as they were at an earlier time: what was changed in place since is read back from the change log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from weft.model import Batch, Change, Filter, Item, Key, SpaceInfo
from weft.ports import ItemStore, Stores


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

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        return self.items.spaces(names)

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        return self.items.changes(space, after, limit)

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        return self.items.changes_of(keys)

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        return self.items.verify(elsewhere)

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
        # What was added later, with an earlier date, has no state before: its date counts.
        before: dict[Key, Item] = {}
        for change in self.items.changes_of(sorted(changed)):
            if isinstance(change.before, Item) and change.at > self.as_of:
                before.setdefault((change.space, change.id), change.before)
        return [before.get(item.key, item) for item in found]
