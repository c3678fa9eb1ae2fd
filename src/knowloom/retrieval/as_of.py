"""Views of the stores at an earlier time, reconstructed from the change log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from knowloom.model import AUTOMATIC, Edge, EdgeKey, Filter, Item, Key, Problem
from knowloom.ports import ItemStore, Stores
from knowloom.ports.views import GraphStoreView, ItemStoreView
from knowloom.text.mentions import find_names


@dataclass(slots=True)
class ErasedStates:
    """The items and edges whose states at the time were asked for, but have been erased."""

    items: set[Key] = field(default_factory=set)
    edges: set[EdgeKey] = field(default_factory=set)

    def notices(self) -> tuple[Problem, ...]:
        """Return a notice if anything was left out."""
        counts = ((len(self.items), "item"), (len(self.edges), "edge"))
        parts = [f"{count} {noun}{'s' * (count > 1)}" for count, noun in counts if count]
        if not parts:
            return ()
        reason = f"left out {' and '.join(parts)}: the states at that time were erased"
        return (Problem("history", f"{reason} by retention or purge", "history_erased"),)


def stores_as_of(stores: Stores, as_of: datetime | None, erased: ErasedStates) -> Stores:
    """Return the stores as they were at a time; None for the stores as they are.

    Later changes to items and later edges are hidden. Words and vectors are current: an item is
    found by its present text. What is left out because its state was erased is added to `erased`.
    """
    if as_of is None:
        return stores
    return replace(
        stores,
        items=ItemsAsOf(stores.items, as_of, erased),
        graph=EdgesAsOf(stores.graph, stores.items, as_of, erased),
    )


@dataclass(frozen=True, slots=True)
class ItemsAsOf(ItemStoreView):
    """An ItemStore that returns its items as they were at a time."""

    as_of: datetime
    erased: ErasedStates

    def get(self, keys: Sequence[Key]) -> list[Item]:
        return self._restore(self.items.get(keys))

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self._restore(self.items.find(only, limit, after))

    def _restore(self, items: list[Item]) -> list[Item]:
        earlier = _earlier_states(items, self.items, self.as_of)
        if not earlier:
            return items
        self.erased.items.update(key for key, state in earlier.items() if state is None)
        states = (earlier.get(item.key, item) for item in items)
        return [item for item in states if item is not None]


@dataclass(frozen=True, slots=True)
class EdgesAsOf(GraphStoreView):
    """A GraphStore that returns its edges as they were at a time.

    Automatic edges have no history: one is returned if its ends have not changed since.
    """

    items: ItemStore
    as_of: datetime
    erased: ErasedStates

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        edges = self.graph.edges_of(keys, spaces, types, limit, min_weight, automatic)

        def matches(edge: Edge) -> bool:
            return (
                edge.space in spaces
                and edge.target_key[0] in spaces
                and edge.weight >= min_weight
                and (not types or edge.type in types)
                and not automatic
            )

        return self._restore(edges, keys, matches)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        requested = set(keys)
        edges = self._restore(
            self.graph.get_edges(keys), _ends(keys), lambda edge: edge.key in requested
        )
        by_key = {edge.key: edge for edge in edges}
        return [by_key[key] for key in keys if key in by_key]

    def _restore(
        self, edges: Sequence[Edge], keys: Sequence[Key], matches: Callable[[Edge], bool]
    ) -> list[Edge]:
        """Undo later changes to these edges of the keys, and add deleted edges that match."""
        earlier: dict[EdgeKey, Edge | None] = {}
        for change in self.items.changes_of(keys):
            if change.link is not None and change.at > self.as_of:
                before = change.before if isinstance(change.before, Edge) else None
                if change.erased and change.link not in earlier:
                    self.erased.edges.add(change.link)
                earlier.setdefault(change.link, before)
        backdated = self._backdated([key for key, before in earlier.items() if before is None])
        explicit = {
            edge.key: edge
            for edge in edges
            if edge.origin != AUTOMATIC and (edge.key not in earlier or edge.key in backdated)
        }
        explicit |= {
            key: before for key, before in earlier.items() if before is not None and matches(before)
        }
        automatic = [
            edge for edge in edges if edge.origin == AUTOMATIC and edge.key not in explicit
        ]
        return sorted([*explicit.values(), *self._unchanged(automatic)], key=_by_weight)

    def _backdated(self, edges: Sequence[EdgeKey]) -> set[EdgeKey]:
        """Return those later edges that have an end which was stored later with an earlier date.

        Such an end counts from its date, and so do its edges.
        """
        first_stored: dict[Key, datetime] = {}
        for change in self.items.changes_of(_ends(edges)):
            if change.link is None:
                first_stored.setdefault((change.space, change.id), change.at)
        return {
            key
            for key in edges
            if any(first_stored.get(end, self.as_of) > self.as_of for end in key[:2])
        }

    def _unchanged(self, edges: Sequence[Edge]) -> list[Edge]:
        """Return those automatic edges that existed, as far as their ends tell."""
        ends = _ends([edge.key for edge in edges])
        earlier = _earlier_states(self.items.get(ends), self.items, self.as_of)
        return [edge for edge in edges if _existed(edge, earlier)]


def _ends(keys: Sequence[EdgeKey]) -> list[Key]:
    return list(dict.fromkeys(end for source, target, _ in keys for end in (source, target)))


def _by_weight(edge: Edge) -> tuple[object, ...]:
    return (-edge.weight, edge.source, edge.target, edge.type, *edge.key[0], *edge.key[1])


def _existed(edge: Edge, earlier: Mapping[Key, Item | None]) -> bool:
    """Return True if an automatic edge existed, given the earlier states of changed items.

    Edges for which that is unknown are taken not to have existed.
    """
    if edge.target_key in earlier:
        return False
    if edge.source_key not in earlier:
        return True
    name, source = edge.properties.get("name"), earlier[edge.source_key]
    return isinstance(name, str) and source is not None and bool(find_names(source.text, (name,)))


def _earlier_states(
    items: Sequence[Item], store: ItemStore, as_of: datetime
) -> dict[Key, Item | None]:
    """Return the earlier states of those items that have changed since; None for erased ones."""
    changed = {
        item.key for item in items if item.updated_at is not None and item.updated_at > as_of
    }
    earlier: dict[Key, Item | None] = {}
    # An item that was added later with an earlier date has no earlier state: its date counts.
    for change in store.changes_of(sorted(changed)) if changed else ():
        before = change.before
        is_erased = change.erased and change.link is None
        if change.at > as_of and (is_erased or isinstance(before, Item)):
            state = before if isinstance(before, Item) else None
            earlier.setdefault((change.space, change.id), state)
    return earlier
