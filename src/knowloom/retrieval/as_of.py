"""Items and links as they were at an earlier time: what was changed since is read back from the change log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from knowloom.model import AUTOMATIC, Batch, Change, Edge, EdgeKey, Filter, Item, Key, SpaceInfo
from knowloom.ports import GraphStore, ItemStore, Stores
from knowloom.text.mentions import find_names


def stores_as_of(stores: Stores, as_of: datetime | None) -> Stores:
    """The stores, for a request that asks about an earlier time: nothing that was written into an item later is shown, and no link is followed that
    was made later. Words and vectors are today's: an item is found by what it says now."""
    if as_of is None:
        return stores
    return replace(
        stores,
        items=ItemsAsOf(stores.items, as_of),
        graph=EdgesAsOf(stores.graph, stores.items, as_of),
    )


@dataclass(frozen=True, slots=True)
class ItemsAsOf:
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
        before = _earlier_states(found, self.items, self.as_of)
        return [before.get(item.key, item) for item in found] if before else found


@dataclass(frozen=True, slots=True)
class EdgesAsOf:
    """A GraphStore that shows the links as they were at a time. Knowloom's own have no past: one is shown if nothing it was made of has changed since."""

    graph: GraphStore
    items: ItemStore
    as_of: datetime

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        made: bool | None = None,
    ) -> list[Edge]:
        found = self.graph.edges_of(keys, spaces, types, limit, min_weight, made)

        def asked(edge: Edge) -> bool:
            inside = edge.space in spaces and edge.target_key[0] in spaces
            return (
                inside
                and edge.weight >= min_weight
                and (not types or edge.type in types)
                and not made
            )

        return self._then(found, keys, asked)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        wanted, ends = (
            set(keys),
            list(dict.fromkeys(end for source, target, _ in keys for end in (source, target))),
        )
        then = {
            edge.key: edge
            for edge in self._then(
                self.graph.get_edges(keys), ends, lambda edge: edge.key in wanted
            )
        }
        return [then[key] for key in keys if key in then]

    def edges(
        self, spaces: Sequence[str], limit: int, after: Edge | None = None, made: bool | None = None
    ) -> list[Edge]:
        return self.graph.edges(spaces, limit, after, made)

    def apply(self, batch: Batch) -> None:
        self.graph.apply(batch)

    def reading(self) -> AbstractContextManager[object]:
        return self.graph.reading()

    def close(self) -> None:
        self.graph.close()

    def _then(
        self, found: Sequence[Edge], keys: Sequence[Key], asked: Callable[[Edge], bool]
    ) -> list[Edge]:
        """These links of the keys as they were, with those that were taken away since, if they are `asked` for."""
        late: dict[EdgeKey, Edge | None] = {}
        for change in self.items.changes_of(keys):
            if change.link is not None and change.at > self.as_of:
                late.setdefault(
                    change.link, change.before if isinstance(change.before, Edge) else None
                )
        believed = self._believed([link for link, before in late.items() if before is None])
        people = {
            edge.key: edge
            for edge in found
            if edge.origin != AUTOMATIC and (edge.key not in late or edge.key in believed)
        }
        people |= {
            link: before for link, before in late.items() if before is not None and asked(before)
        }
        own = [edge for edge in found if edge.origin == AUTOMATIC and edge.key not in people]
        return sorted(
            [*people.values(), *self._unchanged(own)],
            key=lambda edge: (
                -edge.weight,
                edge.source,
                edge.target,
                edge.type,
                *edge.key[0],
                *edge.key[1],
            ),
        )

    def _believed(self, links: Sequence[EdgeKey]) -> set[EdgeKey]:
        """Of links that are newer than the time those with an end that was stored later, too, with an earlier date: if its date counts, so do its links."""
        first: dict[Key, datetime] = {}
        for change in self.items.changes_of(
            list(dict.fromkeys(end for source, target, _ in links for end in (source, target)))
        ):
            if change.link is None:
                first.setdefault((change.space, change.id), change.at)
        return {
            link
            for link in links
            if any(first.get(end, self.as_of) > self.as_of for end in link[:2])
        }

    def _unchanged(self, made: Sequence[Edge]) -> list[Edge]:
        ends = list(
            dict.fromkeys(end for edge in made for end in (edge.source_key, edge.target_key))
        )
        before = _earlier_states(self.items.get(ends), self.items, self.as_of)
        return [edge for edge in made if _held_before(edge, before)]


def _held_before(edge: Edge, before: Mapping[Key, Item]) -> bool:
    """Whether a link of knowloom's own was there, where these items were others: not if that is unknown."""
    if edge.target_key in before:
        return False
    name = edge.properties.get("name")
    return edge.source_key not in before or (
        isinstance(name, str) and bool(find_names(before[edge.source_key].text, (name,)))
    )


def _earlier_states(found: Sequence[Item], items: ItemStore, as_of: datetime) -> dict[Key, Item]:
    """Those of the items that have changed since, as they were."""
    changed = {
        item.key for item in found if item.updated_at is not None and item.updated_at > as_of
    }
    before: dict[Key, Item] = {}
    # What was added later, with an earlier date, has no state before: its date counts.
    for change in items.changes_of(sorted(changed)) if changed else ():
        if isinstance(change.before, Item) and change.at > as_of:
            before.setdefault((change.space, change.id), change.before)
    return before
