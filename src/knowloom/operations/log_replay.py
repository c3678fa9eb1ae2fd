"""Replaying a change log: the batches that leave the same lines, authors and times elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from knowloom import codec
from knowloom.linking.rules import find_dirty_items
from knowloom.model import Change, Edge, EdgeKey, Item, Key, Kind
from knowloom.operations.change_spool import ChangeSpool
from knowloom.ports import Batch, Stores

PAGE = 500  # lines of a batch at most
PURGE = "purge"
# The order in which a store applies, and logs, the steps of a batch.
_PHASES = {"delete": 0, "unlink": 1, "add": 2, "update": 2, "link": 3}


@dataclass(frozen=True, slots=True)
class Purge:
    """An item that was erased then."""

    key: Key
    at: datetime
    actor: str


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A line of the log and the item or edge after it, None if there was none."""

    change: Change
    after: Item | Edge | None = None


def plan_writes(spool: ChangeSpool, source: Stores) -> Iterator[tuple[Batch | Purge, int]]:
    """Yield the writes that leave the pending lines, and the number of lines of each."""
    draft = BatchDraft()
    for step in _resolve(spool, source):
        change = step.change
        if change.action == PURGE:
            if draft.lines:
                yield draft.batch(), draft.lines
            draft = BatchDraft()
            yield Purge((change.space, change.id), change.at, change.actor), 1
            continue
        if not draft.accepts(change):
            yield draft.batch(), draft.lines
            draft = BatchDraft()
        draft.add(step)
    if draft.lines:
        yield draft.batch(), draft.lines


def find_kind_change(spool: ChangeSpool, source: Stores) -> Item | None:
    """Return an item that was changed from or to a profile, as it was before."""
    for step in _resolve(spool, source):
        before, after = step.change.before, step.after
        if not isinstance(before, Item) or not isinstance(after, Item):
            continue
        if (before.kind is Kind.PROFILE) != (after.kind is Kind.PROFILE):
            return before
    return None


def is_replayable(change: Change) -> bool:
    """Return False for edges that an early version logged without their key."""
    return change.link is not None or change.action not in ("link", "unlink")


# States


def _resolve(spool: ChangeSpool, source: Stores) -> Iterator[LoggedStep]:
    """Yield each pending line with the state after it."""
    lines = filter(is_replayable, spool.pending())
    while page := list(islice(lines, PAGE)):
        following = [
            spool.next_of(change) if change.action in ("add", "update", "link") else None
            for change in page
        ]
        current = _read_current(page, following, source)
        for change, successor in zip(page, following, strict=True):
            yield LoggedStep(change, _state_after(change, successor, current))


def _read_current(
    page: Sequence[Change], following: Sequence[Change | None], source: Stores
) -> dict[Key | EdgeKey, Item | Edge]:
    """Return the current state of what the log does not have the next state of."""
    open_ended = [
        change
        for change, successor in zip(page, following, strict=True)
        if successor is None or successor.before is None
    ]
    keys = [(change.space, change.id) for change in open_ended if change.link is None]
    links = [change.link for change in open_ended if change.link is not None]
    current: dict[Key | EdgeKey, Item | Edge] = {}
    current |= {item.key: item for item in source.items.get(list(dict.fromkeys(keys)))}
    current |= {edge.key: edge for edge in source.graph.get_edges(list(dict.fromkeys(links)))}
    return current


def _state_after(
    change: Change, successor: Change | None, current: Mapping[Key | EdgeKey, Item | Edge]
) -> Item | Edge | None:
    """Return the state after a line; one that was erased is empty, and erased again later."""
    if change.action in ("delete", "unlink", PURGE):
        return None
    if successor is not None and successor.before is not None:
        return successor.before
    subject = change.link or (change.space, change.id)
    stored = current.get(subject)
    if stored is not None and successor is None:
        return stored
    if change.link is not None:
        (space, source), (target_space, target), type = change.link
        return Edge(source, target, type, space=space, target_space=target_space)
    kind = stored.kind if isinstance(stored, Item) else Kind.NODE
    return Item(change.id, change.space, kind)


# Batches


@dataclass
class BatchDraft:
    """A batch that is being put together: lines of one write, in the order that a store logs."""

    at: datetime | None = None
    actor: str = ""
    lines: int = 0
    phase: int = 0
    items: dict[Key, Item] = field(default_factory=dict)
    edges: dict[EdgeKey, Edge] = field(default_factory=dict)
    deleted: list[Key] = field(default_factory=list)
    deleted_edges: list[EdgeKey] = field(default_factory=list)
    expected: dict[Key, str] = field(default_factory=dict)

    def accepts(self, change: Change) -> bool:
        """Return True if the batch can have this line too, and logs it in its place."""
        if not self.lines:
            return True
        if (change.at, change.actor) != (self.at, self.actor) or self.lines >= PAGE:
            return False
        key, phase = (change.space, change.id), _PHASES[change.action]
        if change.action == "delete" and self._is_cascade(key):
            return key not in self.deleted
        is_repeated = (
            change.link in self.edges or change.link in self.deleted_edges
            if change.link is not None
            else key in self.items
        )
        return phase >= self.phase and not is_repeated

    def _is_cascade(self, key: Key) -> bool:
        """Return True if deleting the item logs the unlinked edges before it."""
        return (
            self.phase <= _PHASES["unlink"]
            and all(key in edge[:2] for edge in self.deleted_edges)
            and self.deleted_edges == sorted(self.deleted_edges)
        )

    def add(self, step: LoggedStep) -> None:
        change, after = step.change, step.after
        key = (change.space, change.id)
        self.at, self.actor = change.at, change.actor
        self.lines += 1
        self.phase = _PHASES[change.action]
        if change.link is None and not change.erased:
            before = change.before if isinstance(change.before, Item) else None
            self.expected.setdefault(key, codec.version(before))
        if change.action == "delete":
            self.deleted_edges.clear()  # deleted with the item
            self.deleted.append(key)
        elif change.link is not None and isinstance(after, Edge):
            self.edges[change.link] = after
        elif change.link is not None:
            self.deleted_edges.append(change.link)
        elif isinstance(after, Item):
            self.items[key] = after

    def batch(self) -> Batch:
        assert self.at is not None
        touched: Iterable[EdgeKey] = (*self.edges, *self.deleted_edges)
        return Batch(
            self.at,
            tuple(self.items.values()),
            tuple(self.edges.values()),
            tuple(self.deleted),
            tuple(self.deleted_edges),
            tuple(self.expected.items()),
            tuple(find_dirty_items(list(touched))),
            self.actor,
        )
