"""The life of knowledge: every state an item had, one of them brought back, whole spaces as they were at a time.

Everything is read from the change log and written as new changes: the log itself is never rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from knowloom import codec
from knowloom.errors import Conflict, Invalid, NotFound
from knowloom.model import AUTOMATIC, Batch, Change, Edge, EdgeKey, Item, Key
from knowloom.options import validate_limit
from knowloom.ports import Stores
from knowloom.report import Report, Skipped
from knowloom.validation import validate_name, validate_time

if TYPE_CHECKING:
    from knowloom.commit import Committer
    from knowloom.reader import Reader

PAGE = 5000  # lines of the log read at a time
MANY = 1_000_000_000  # edges: all there are


@dataclass(frozen=True, slots=True)
class State:
    """One line of an item's history: what happened when, and what there was afterwards. An item that was deleted is None; an edge
    that was unlinked is shown as it had been. `version` is the item's, for `restore` and `expected`; "" for edges and deletions."""

    number: int
    at: datetime
    action: str  # "add", "update", "delete", "link", "unlink"
    item: Item | None = None
    edge: Edge | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a rollback does, or would do: to the item of (space, id), or to an edge that the item starts."""

    action: str
    space: str
    id: str
    edge: Edge | None = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback did, or would do. `skipped` are edges that cannot come back: an end lies in a space that was not rolled back."""

    to: datetime
    dry_run: bool
    steps: tuple[Step, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    problems: tuple[str, ...] = ()

    def count(self, action: str) -> int:
        return sum(step.action == action for step in self.steps)


# History


def read_states(key: Key, stores: Stores) -> list[State]:
    """Every state, newest first, with the links of the item in both directions."""
    changes = stores.items.changes_of([key])
    current = next(iter(stores.items.get([key])), None)
    if not changes and current is None:
        raise NotFound(f"no item {key[1]!r} was ever in space {key[0]!r}")
    links: dict[EdgeKey, Edge] = {
        edge.key: edge
        for edge in _peoples(
            stores.graph.get_edges(list({change.link: None for change in changes if change.link}))
        )
    }
    states: list[State] = []
    for change in reversed(changes):
        if change.action in ("link", "unlink"):
            states.append(_link_state(change, links))
        else:
            states.append(
                State(
                    change.number, change.at, change.action, current, None, codec.version(current)
                )
            )
            current = change.before if isinstance(change.before, Item) else None
    return states


def _link_state(change: Change, links: dict[EdgeKey, Edge]) -> State:
    """`links` are the edges as they were behind this change, and become those before it."""
    before = change.before if isinstance(change.before, Edge) else None
    after = links.pop(change.link, None) if change.link else None
    if change.link and before:
        links[change.link] = before
    return State(
        change.number,
        change.at,
        change.action,
        None,
        before if change.action == "unlink" else after,
    )


# One item


def find_state(
    key: Key, at: datetime | None, version: str | None, owners: Sequence[str] | None, stores: Stores
) -> tuple[Item, list[Edge]]:
    """The item and its edges as they were at a time, in the state of that version, or, of a deleted item, at last."""
    if at is not None and version is not None:
        raise Invalid("give `at` or `version`, not both")
    states = read_states(key, stores)[::-1]
    end = _end(key, states, at, version)
    items = [
        state.item
        for state in states[:end]
        if state.edge is None and state.action not in ("link", "unlink")
    ]
    if not items or items[-1] is None:
        raise NotFound(f"item {key[1]!r} of space {key[0]!r} did not exist then", "no_such_state")
    edges: dict[EdgeKey, Edge] = {}
    for state in states[:end]:
        if state.edge is not None and state.action == "link":
            edges[state.edge.key] = state.edge
        elif state.edge is not None:
            edges.pop(state.edge.key, None)
    return items[-1], [
        edge for _, edge in sorted(edges.items()) if owners is None or edge.space in owners
    ]


def _end(key: Key, states: Sequence[State], at: datetime | None, version: str | None) -> int:
    """How many lines of the history had happened when the state asked for was the last."""
    lives = [
        number for number, state in enumerate(states) if state.action not in ("link", "unlink")
    ]
    if at is not None:
        return max((number + 1 for number, state in enumerate(states) if state.at <= at), default=0)
    if version is None:
        if states[lives[-1]].item is not None:
            raise Invalid(
                f"item {key[1]!r} of space {key[0]!r} is not deleted: name the state to restore by `at` or `version`"
            )
        return _before_its_unlinks(states, lives[-1])
    found = [
        place
        for place, number in enumerate(lives)
        if states[number].item is not None and states[number].version == version
    ]
    if not found:
        known = dict.fromkeys(
            states[number].version for number in reversed(lives) if states[number].version
        )
        raise NotFound(
            f"item {key[1]!r} of space {key[0]!r} never had the version {version!r}; it had: {', '.join(known)}",
            "no_such_state",
        )
    following = found[-1] + 1
    return _before_its_unlinks(states, lives[following]) if following < len(lives) else len(states)


def _before_its_unlinks(states: Sequence[State], number: int) -> int:
    """The links that a deletion takes along are logged just before it."""
    end = number
    while (
        states[number].action == "delete"
        and end
        and (states[end - 1].action, states[end - 1].at) == ("unlink", states[number].at)
    ):
        end -= 1
    return end


def plan_restore(
    key: Key, item: Item, edges: Sequence[Edge], now: datetime, stores: Stores
) -> tuple[Batch, Report]:
    """The write that brings them back. An edge whose other end is gone is reported."""
    current = next(iter(stores.items.get([key])), None)
    ends = {
        one.key
        for one in stores.items.get(
            list(dict.fromkeys(end for edge in edges for end in (edge.source_key, edge.target_key)))
        )
    } | {key}
    possible = [edge for edge in edges if edge.source_key in ends and edge.target_key in ends]
    stored = {
        edge.key: edge for edge in _peoples(stores.graph.get_edges([edge.key for edge in possible]))
    }
    wanted = tuple(edge for edge in possible if stored.get(edge.key) != edge)
    skipped = tuple(_lost(edge, ends) for edge in edges if edge not in possible)
    report = Report(
        int(current is None),
        int(current not in (None, item)),
        int(current == item),
        len(wanted),
        skipped,
    )
    batch = Batch(
        now, () if current == item else (item,), wanted, expected=((key, codec.version(current)),)
    )
    return batch, report


def _lost(edge: Edge, ends: set[Key]) -> Skipped:
    space, id = edge.source_key if edge.source_key not in ends else edge.target_key
    return Skipped(
        f"edge {edge.source} -[{edge.type}]-> {edge.target}",
        edge.source,
        f"there is no item {id!r} in space {space!r}",
    )


# Whole spaces


def plan_rollback(
    to: datetime, spaces: Sequence[str], now: datetime, stores: Stores
) -> tuple[Batch, Rollback]:
    """The write that makes the spaces what they were, and what it does, in the order of keys."""
    items, links = _at(to, spaces, stores)
    current = {item.key: item for item in stores.items.get(sorted(items))}
    put = [
        item for key, item in sorted(items.items()) if item is not None and item != current.get(key)
    ]
    gone = [key for key, item in sorted(items.items()) if item is None and key in current]
    edges, lost = _possible(links, set(gone), {item.key for item in put}, stores)
    stored = {edge.key: edge for edge in _peoples(stores.graph.get_edges(sorted(links)))}
    linked = [edge for edge in edges if edge != stored.get(edge.key)]
    unlinked = {key: edge for key, edge in stored.items() if links[key] is None}
    falling = {edge.key: edge for edge in _touching(gone, stores)}
    steps = [Step("update" if item.key in current else "add", *item.key) for item in put] + [
        Step("delete", *key) for key in gone
    ]
    steps += [Step("link", *edge.source_key, edge) for edge in linked]
    steps += [
        Step("unlink", *edge.source_key, edge)
        for _, edge in sorted({**falling, **unlinked}.items())
    ]
    expected = tuple(
        (key, codec.version(current.get(key))) for key in [*(item.key for item in put), *gone]
    )
    batch = Batch(now, tuple(put), tuple(linked), tuple(gone), tuple(sorted(unlinked)), expected)
    return batch, Rollback(to, True, tuple(steps), tuple(lost))


def _at(
    to: datetime, spaces: Sequence[str], stores: Stores
) -> tuple[dict[Key, Item | None], dict[EdgeKey, Edge | None]]:
    """What has changed since, as it was then; None for what was not there."""
    items: dict[Key, Item | None] = {}
    links: dict[EdgeKey, Edge | None] = {}
    for space in spaces:
        for change in _since(to, space, stores):
            if change.link is not None:
                links.setdefault(
                    change.link, change.before if isinstance(change.before, Edge) else None
                )
            elif change.action in ("link", "unlink"):
                raise Conflict(
                    f"space {space!r}: a version of knowloom that did not log which link was made wrote here after {to}",
                    "log_incomplete",
                )
            else:
                items.setdefault(
                    (space, change.id), change.before if isinstance(change.before, Item) else None
                )
    return items, links


def _since(to: datetime, space: str, stores: Stores) -> list[Change]:
    """The changes behind the last one of that time or earlier: the order of the log counts, should a clock have gone back."""
    since: list[Change] = []
    for change in _log(space, stores):
        if change.at <= to:
            since.clear()
        else:
            since.append(change)
    return since


def _log(space: str, stores: Stores) -> Iterator[Change]:
    after = 0
    while page := stores.items.changes(space, after, PAGE):
        yield from page
        after = page[-1].number


def _possible(
    links: Mapping[EdgeKey, Edge | None], gone: set[Key], coming: set[Key], stores: Stores
) -> tuple[list[Edge], list[Skipped]]:
    """The edges of then whose ends will both be there; and those that are lost."""
    edges = [edge for _, edge in sorted(links.items()) if edge is not None]
    asked = list(dict.fromkeys(end for edge in edges for end in (edge.source_key, edge.target_key)))
    ends = ({item.key for item in stores.items.get(asked)} | coming) - gone
    whole = [edge for edge in edges if edge.source_key in ends and edge.target_key in ends]
    return whole, [
        _lost(edge, ends)
        for edge in edges
        if edge.source_key not in ends or edge.target_key not in ends
    ]


def _touching(keys: Sequence[Key], stores: Stores) -> list[Edge]:
    """Every edge of people that falls when these items go, in whatever space."""
    return (
        _peoples(
            stores.graph.edges_of(keys, [info.name for info in stores.items.spaces()], limit=MANY)
        )
        if keys
        else []
    )


def _peoples(edges: Sequence[Edge]) -> list[Edge]:
    """Links that knowloom makes have no past: they follow from the rest."""
    return [edge for edge in edges if edge.origin != AUTOMATIC]


class History:
    """States of items in the past; use it as `kb.history`."""

    def __init__(self, reader: Reader, commits: Committer) -> None:
        self._reader = reader
        self._commits = commits

    def states(self, id: str, *, space: str, limit: int = 1000) -> list[State]:
        """Return every change of an item and of its edges, newest first, deletions included."""
        self._reader.resolve_spaces([space])
        key = (space, validate_name("id", id))
        with self._reader.snapshot() as stores:
            return read_states(key, stores)[: validate_limit(limit)]

    def restore(
        self,
        id: str,
        *,
        space: str,
        at: datetime | None = None,
        version: str | None = None,
        edges_of: Sequence[str] | None = None,
        embed: bool = True,
    ) -> Report:
        """Restore an item with its edges as of a time or a version (see `states`).

        Without either, a deleted item is restored as it last was. Edges come back if both ends
        exist, and only those stored in the spaces `edges_of`, if given; newer edges stay.
        """
        self._reader.resolve_spaces([space])
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
