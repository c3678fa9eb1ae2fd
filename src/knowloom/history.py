"""The history of items: past states, restoring one item, rolling back spaces.

Everything is read from the change log and written as new changes; the log is never rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from knowloom import codec
from knowloom.errors import Conflict, Invalid, NotFound
from knowloom.model import AUTOMATIC, Change, Edge, EdgeKey, Item, Key
from knowloom.options import validate_limit
from knowloom.ports import Batch, Stores
from knowloom.report import Report, Skipped
from knowloom.validation import validate_name, validate_time

if TYPE_CHECKING:
    from knowloom.commit import Committer
    from knowloom.reader import Reader

PAGE = 5000  # changes read at a time
ALL_EDGES = 1_000_000_000
EDGE_ACTIONS = ("link", "unlink")


@dataclass(frozen=True, slots=True)
class State:
    """A change of an item or of one of its edges, and the state after it.

    A deleted item is None; an edge that was unlinked is shown as it had been. `version` is the
    item's, for `restore` and `expected`; "" for edges and deletions.
    """

    number: int
    at: datetime
    action: str  # "add", "update", "delete", "purge", "link", "unlink"
    item: Item | None = None
    edge: Edge | None = None
    version: str = ""
    actor: str = ""  # the author
    erased: bool = False  # True: it was erased, and is not listed


@dataclass(frozen=True, slots=True)
class Step:
    """A change that a rollback makes to an item, or to an edge that starts at it."""

    action: str
    space: str
    id: str
    edge: Edge | None = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """The steps of a rollback, done or planned. `skipped` are edges that lack an end."""

    to: datetime
    dry_run: bool
    steps: tuple[Step, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    problems: tuple[str, ...] = ()

    def count(self, action: str) -> int:
        return sum(step.action == action for step in self.steps)


class History:
    """Past states of items; use it as `kb.history`."""

    def __init__(self, reader: Reader, commits: Committer) -> None:
        self._reader = reader
        self._commits = commits

    def states(self, id: str, *, space: str | None = None, limit: int = 1000) -> list[State]:
        """Return every change of an item and of its edges, newest first, deletions included."""
        key = (self._reader.resolve_space(space), validate_name("id", id))
        with self._reader.snapshot() as stores:
            states = [state for state in read_states(key, stores) if not state.erased]
            return states[: validate_limit(limit)]

    def restore(
        self,
        id: str,
        *,
        space: str | None = None,
        at: datetime | None = None,
        version: str | None = None,
        edges_of: Sequence[str] | None = None,
        embed: bool = True,
    ) -> Report:
        """Restore an item with its edges as of a time or a version (see `states`).

        Without either, a deleted item is restored as it last was. Edges come back if both ends
        exist, and only those stored in the spaces `edges_of`, if given; newer edges stay.
        """
        space = self._reader.resolve_space(space)
        key = (space, validate_name("id", id))
        time = None if at is None else validate_time("at", at)
        with self._reader.snapshot() as stores:
            item, edges = find_state(key, time, version, edges_of, stores)
            batch, report = plan_restore(key, item, edges, self._reader.now(), stores)
        if batch.items or batch.edges:
            self._commits.apply(batch)
        return report + Report(problems=self._commits.catch_up([space], embed=embed))

    def rollback(
        self,
        to: datetime,
        *,
        spaces: Sequence[str] | None = None,
        dry_run: bool = False,
        embed: bool = True,
    ) -> Rollback:
        """Return the spaces (None: all) to their state at a time, in one transaction.

        The rollback is itself logged and can be undone. Raises Conflict, and changes nothing, if
        an item changes meanwhile. `dry_run` only reports the steps.
        """
        names, time = self._reader.resolve_spaces(spaces), validate_time("to", to)
        with self._reader.snapshot() as stores:
            batch, plan = plan_rollback(time, names, self._reader.now(), stores)
        if dry_run:
            return plan
        if plan.steps:
            self._commits.apply(batch)
        problems = self._commits.catch_up(names, embed=embed)
        return replace(plan, dry_run=False, problems=problems)

    @staticmethod
    def version(item: Item) -> str:
        """Return the version of an item, as `expected` arguments take it."""
        return codec.version(item)


# States


def read_states(key: Key, stores: Stores) -> list[State]:
    """Return every state of an item and of its edges in both directions, newest first."""
    changes = stores.items.changes_of([key])
    current = next(iter(stores.items.get([key])), None)
    if not changes and current is None:
        raise NotFound(f"no item {key[1]!r} was ever in space {key[0]!r}")
    keys = list(dict.fromkeys(change.link for change in changes if change.link))
    edges = {edge.key: edge for edge in _explicit(stores.graph.get_edges(keys))}
    states: list[State] = []
    erased = is_purged = False
    for change in reversed(changes):
        if change.action in EDGE_ACTIONS:
            states.append(_undo_edge_change(change, edges))
        else:
            line = (change.number, change.at, change.action)
            version = codec.version(current)
            states.append(State(*line, current, None, version, change.actor, erased))
            current = change.before if isinstance(change.before, Item) else None
            is_purged = is_purged or change.action == "purge"
            erased = change.erased or is_purged
    return states


def _undo_edge_change(change: Change, edges: dict[EdgeKey, Edge]) -> State:
    """Return the state after the change, and set `edges` to those before it."""
    before = change.before if isinstance(change.before, Edge) else None
    after = edges.pop(change.link, None) if change.link else None
    if change.link and before:
        edges[change.link] = before
    edge = before if change.action == "unlink" else after
    erased = edge is None and change.link is not None
    return State(change.number, change.at, change.action, None, edge, "", change.actor, erased)


# Restoring an item


def find_state(
    key: Key, at: datetime | None, version: str | None, owners: Sequence[str] | None, stores: Stores
) -> tuple[Item, list[Edge]]:
    """Return an item and its edges as of a time or a version, or before its deletion."""
    if at is not None and version is not None:
        raise Invalid("at and version exclude each other")
    states = read_states(key, stores)[::-1]
    past = states[: _count_changes(key, states, at, version)]
    last = next((state for state in reversed(past) if state.action not in EDGE_ACTIONS), None)
    if last is not None and last.erased:
        raise Conflict(f"the state of item {key[1]!r} of space {key[0]!r} was erased", "erased")
    if last is None or last.item is None:
        raise NotFound(f"item {key[1]!r} of space {key[0]!r} did not exist then", "no_such_state")
    edges: dict[EdgeKey, Edge] = {}
    for state in past:
        if state.edge is not None and state.action == "link":
            edges[state.edge.key] = state.edge
        elif state.edge is not None:
            edges.pop(state.edge.key, None)
    return last.item, [
        edge for _, edge in sorted(edges.items()) if owners is None or edge.space in owners
    ]


def _count_changes(
    key: Key, states: Sequence[State], at: datetime | None, version: str | None
) -> int:
    """Return how many of the states, oldest first, lead to the requested one."""
    item_changes = [
        number for number, state in enumerate(states) if state.action not in EDGE_ACTIONS
    ]
    if at is not None:
        return max((number + 1 for number, state in enumerate(states) if state.at <= at), default=0)
    if version is None:
        if states[item_changes[-1]].item is not None:
            raise Invalid(f"item {key[1]!r} of space {key[0]!r} is not deleted: pass at or version")
        if states[item_changes[-1]].action == "purge":
            raise Conflict(f"item {key[1]!r} of space {key[0]!r} was purged", "erased")
        return _skip_unlinks(states, item_changes[-1])
    matches = [
        place
        for place, number in enumerate(item_changes)
        if states[number].item is not None and states[number].version == version
    ]
    if not matches:
        raise _unknown_version(key, version, [states[number] for number in item_changes])
    following = matches[-1] + 1
    if following == len(item_changes):
        return len(states)
    return _skip_unlinks(states, item_changes[following])


def _unknown_version(key: Key, version: str, states: Sequence[State]) -> NotFound:
    versions = dict.fromkeys(state.version for state in reversed(states) if state.version)
    return NotFound(
        f"item {key[1]!r} of space {key[0]!r} has no version {version!r}; "
        f"available: {', '.join(versions)}",
        "no_such_state",
    )


def _skip_unlinks(states: Sequence[State], number: int) -> int:
    """Return the number of states before a change; a deletion is logged after its unlinks."""
    end, change = number, states[number]
    if change.action != "delete":
        return end
    while end and (states[end - 1].action, states[end - 1].at) == ("unlink", change.at):
        end -= 1
    return end


def plan_restore(
    key: Key, item: Item, edges: Sequence[Edge], now: datetime, stores: Stores
) -> tuple[Batch, Report]:
    """Return the batch that restores an item, and a report that lists edges without an end."""
    current = next(iter(stores.items.get([key])), None)
    complete, skipped = _split_by_ends(edges, set(), {key}, stores)
    explicit = _explicit(stores.graph.get_edges([edge.key for edge in complete]))
    stored = {edge.key: edge for edge in explicit}
    changed = tuple(edge for edge in complete if stored.get(edge.key) != edge)
    report = Report(
        int(current is None),
        int(current not in (None, item)),
        int(current == item),
        len(changed),
        tuple(skipped),
    )
    items = () if current == item else (item,)
    return Batch(now, items, changed, expected=((key, codec.version(current)),)), report


# Rolling back spaces


def plan_rollback(
    to: datetime, spaces: Sequence[str], now: datetime, stores: Stores
) -> tuple[Batch, Rollback]:
    """Return the batch that restores the spaces, and its steps ordered by key."""
    items, edges, purged = _read_changed(to, spaces, stores)
    current = {item.key: item for item in stores.items.get(sorted(items))}
    restored = [
        item for key, item in sorted(items.items()) if item is not None and item != current.get(key)
    ]
    deleted = [key for key, item in sorted(items.items()) if item is None and key in current]
    past = [edge for _, edge in sorted(edges.items()) if edge is not None]
    complete, skipped = _split_by_ends(past, set(deleted), {item.key for item in restored}, stores)
    skipped += [Skipped(f"space {space!r}", id, "it was purged") for space, id in sorted(purged)]
    stored = {edge.key: edge for edge in _explicit(stores.graph.get_edges(sorted(edges)))}
    linked = [edge for edge in complete if edge != stored.get(edge.key)]
    unlinked = {key: edge for key, edge in stored.items() if edges[key] is None}
    dropped = {edge.key: edge for edge in _edges_of(deleted, stores)} | unlinked
    steps = [
        *(Step("update" if item.key in current else "add", *item.key) for item in restored),
        *(Step("delete", *key) for key in deleted),
        *(Step("link", *edge.source_key, edge) for edge in linked),
        *(Step("unlink", *edge.source_key, edge) for _, edge in sorted(dropped.items())),
    ]
    touched = [*(item.key for item in restored), *deleted]
    expected = tuple((key, codec.version(current.get(key))) for key in touched)
    removed = tuple(sorted(unlinked))
    batch = Batch(now, tuple(restored), tuple(linked), tuple(deleted), removed, expected)
    return batch, Rollback(to, True, tuple(steps), tuple(skipped))


def _read_changed(
    to: datetime, spaces: Sequence[str], stores: Stores
) -> tuple[dict[Key, Item | None], dict[EdgeKey, Edge | None], set[Key]]:
    """Return what has changed since the time, as it was then; None if it did not exist.

    Purged items, which come third, count as not existing.
    """
    items: dict[Key, Item | None] = {}
    edges: dict[EdgeKey, Edge | None] = {}
    purged: set[Key] = set()
    for space in spaces:
        for change in _changes_since(to, space, stores):
            before = change.before
            seen = edges if change.link else items
            if change.erased and (change.link or (space, change.id)) not in seen:
                purged.update(_find_purged(change, to, stores))
            if change.link is not None:
                edges.setdefault(change.link, before if isinstance(before, Edge) else None)
            elif change.action in EDGE_ACTIONS:
                raise Conflict(
                    f"space {space!r}: changes after {to} were logged without their edges, by an "
                    "older version of knowloom",
                    "log_incomplete",
                )
            else:
                items.setdefault((space, change.id), before if isinstance(before, Item) else None)
    return items, edges, purged


def _find_purged(change: Change, to: datetime, stores: Stores) -> list[Key]:
    """Return the items because of which a change was erased; raise Conflict if there are none."""
    keys = list(change.link[:2]) if change.link else [(change.space, change.id)]
    lines = stores.items.changes_of(keys)
    logged = {(line.space, line.id) for line in lines if line.action == "purge"}
    purged = [key for key in keys if key in logged]
    if not purged:
        raise Conflict(
            f"space {change.space!r}: states after {to} were erased, as its retention demands",
            "erased",
        )
    return purged


def _changes_since(to: datetime, space: str, stores: Stores) -> list[Change]:
    """Return the changes after the last one up to the time, in log order.

    The order of the log counts, not the times: the clock may have been set back.
    """
    changes: list[Change] = []
    for change in _read_log(space, stores):
        if change.at <= to:
            changes.clear()
        else:
            changes.append(change)
    return changes


def _read_log(space: str, stores: Stores) -> Iterator[Change]:
    after = 0
    while page := stores.items.changes(space, after, PAGE):
        yield from page
        after = page[-1].number


# Edges


def _split_by_ends(
    edges: Sequence[Edge], deleted: set[Key], restored: set[Key], stores: Stores
) -> tuple[list[Edge], list[Skipped]]:
    """Separate edges whose ends will exist from those that must be skipped."""
    ends = list(dict.fromkeys(end for edge in edges for end in (edge.source_key, edge.target_key)))
    existing = ({item.key for item in stores.items.get(ends)} | restored) - deleted
    complete: list[Edge] = []
    skipped: list[Skipped] = []
    for edge in edges:
        missing = [end for end in (edge.source_key, edge.target_key) if end not in existing]
        if missing:
            space, id = missing[0]
            where = f"edge {edge.source} -[{edge.type}]-> {edge.target}"
            skipped.append(Skipped(where, edge.source, f"no item {id!r} in space {space!r}"))
        else:
            complete.append(edge)
    return complete, skipped


def _edges_of(keys: Sequence[Key], stores: Stores) -> list[Edge]:
    """Return the explicit edges, of any space, that are deleted with these items."""
    if not keys:
        return []
    spaces = [info.name for info in stores.items.spaces()]
    return _explicit(stores.graph.edges_of(keys, spaces, limit=ALL_EDGES))


def _explicit(edges: Sequence[Edge]) -> list[Edge]:
    """Drop automatic edges: they have no history, as they follow from the items."""
    return [edge for edge in edges if edge.origin != AUTOMATIC]
