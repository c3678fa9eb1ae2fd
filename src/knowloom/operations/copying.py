"""Copying knowledge between two set-ups of stores: resumable, in pages, verified by digests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowloom.commit import LOCAL
from knowloom.errors import Conflict, Invalid
from knowloom.linking.linker import Linker
from knowloom.linking.name_finders import BUILTIN, FinderResolver
from knowloom.model import Change
from knowloom.operations import copy_checks, log_replay, state_copy
from knowloom.operations.change_spool import ChangeSpool
from knowloom.ports import (
    PROVENANCE_SPACE,
    Batch,
    NameFinder,
    Progress,
    SpaceInfo,
    Stores,
    Upkeep,
)

ROUNDS = 5  # of catching up with a source that changes meanwhile
PAGE = 1000  # lines of a log read at a time


@dataclass(frozen=True, slots=True)
class CopiedSpace:
    """A space that both set-ups now have: its size and digest, and the lines of its log."""

    name: str
    items: int
    edges: int  # explicit ones
    links: int  # automatic ones
    changes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Copied:
    """The verified spaces; `written` is False if the target had everything already."""

    spaces: tuple[CopiedSpace, ...]
    written: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The spaces to copy, with their history or without, and the name of the source."""

    spaces: tuple[str, ...]
    is_complete: bool  # all spaces, and where their items were loaded from
    history: bool
    origin: str


def copy_stores(
    source: Stores,
    target: Stores,
    plan: CopyPlan,
    now: Callable[[], datetime],
    open_finder: Callable[[str], NameFinder],
    progress: Progress | None = None,
) -> Copied:
    """Write what the target lacks, verify it, and return the sizes.

    A target with other knowledge of these spaces is refused before anything is written. A copy
    that was interrupted is continued. The source may change meanwhile: it is followed.
    """
    copier = Copier(source, target, plan, now, open_finder, progress or _ignore)
    copy_checks.check_settings(source, target, plan.spaces)
    for _ in range(ROUNDS):
        lines = copier.run()
        mismatch = copy_checks.compare_spaces(source, target, plan.spaces)
        if mismatch is None and copier.has_whole_log():
            return copier.finish(lines)
    reason = "" if mismatch is None else f"{mismatch.describe()}: "
    raise Conflict(f"{reason}the source changes while it is copied: copy it again", "copy_differs")


class Copier:
    """One copy; each of its steps writes what is missing and may be repeated."""

    def __init__(
        self,
        source: Stores,
        target: Stores,
        plan: CopyPlan,
        now: Callable[[], datetime],
        open_finder: Callable[[str], NameFinder],
        progress: Progress,
    ) -> None:
        self._source, self._target, self._plan = source, target, plan
        self._now, self._open_finder, self._progress = now, open_finder, progress
        self._is_written = False
        self._last: dict[str, int] = {}  # the number of the last line by space
        self._problems: dict[str, None] = {}

    def run(self) -> dict[str, int]:
        """Copy everything; return the number of lines of each log."""
        lines: dict[str, int] = {}
        state_copy.fit_passage_size(self._source, self._target)
        if self._plan.history:
            with closing(ChangeSpool()) as spool:
                lines = self._spool(spool)
                self._replay(spool)
        else:
            copy_checks.check_contained(self._source, self._target, self._plan.spaces)
        for name in self._plan.spaces:
            if copy_checks.compare_spaces(self._source, self._target, [name]) is not None:
                self._write(*state_copy.item_batches(self._source, self._target, name))
                self._write(*state_copy.edge_batches(self._source, self._target, name))
        if self._plan.is_complete:
            self._write(*state_copy.item_batches(self._source, self._target, PROVENANCE_SPACE))
        self._copy_vectors()
        self._link()
        return lines

    # History

    def _spool(self, spool: ChangeSpool) -> dict[str, int]:
        """Read both logs; refuse a target whose log is not the beginning of the source's."""
        lines: dict[str, int] = {}
        for name in self._plan.spaces:
            spool.add(self._count(name, _read_log(self._source, name), lines))
            self._last[name] = spool.last_number(name)
            replayable = filter(log_replay.is_replayable, _read_log(self._target, name))
            strange = spool.match(replayable)
            if strange is not None or spool.has_gap(name):
                raise copy_checks.differs(name, "its history is another one")
            if not lines.get(name):
                copy_checks.check_contained(self._source, self._target, [name])
        return lines

    def _count(self, name: str, log: Iterator[Change], lines: dict[str, int]) -> Iterator[Change]:
        skipped = 0
        for change in log:
            lines[name] = lines.get(name, 0) + 1
            if log_replay.is_replayable(change):
                yield change
            else:
                skipped += 1
        if skipped:
            self._problems[
                f"space {name!r}: {skipped} lines of its history do not say which edge changed, "
                "as an early version wrote them, and are not copied"
            ] = None

    def _replay(self, spool: ChangeSpool) -> None:
        self._check_kinds(spool)
        total, done = spool.count_pending(), 0
        for write, lines in log_replay.plan_writes(spool, self._source):
            if isinstance(write, Batch):
                self._write(write)
            else:
                upkeep = _require_upkeep(self._target)
                upkeep.purge([write.key], write.at, write.actor)
                self._is_written = True
            done += lines
            self._progress("history", done, total)
        for name in self._plan.spaces:
            self._erase(name)

    def _check_kinds(self, spool: ChangeSpool) -> None:
        """Refuse changes that a store of profiles of its own would log differently."""
        if getattr(self._target.items, "splits_profiles", False):
            item = log_replay.find_kind_change(spool, self._source)
            if item is not None:
                raise Invalid(
                    f"item {item.id!r} of space {item.space!r} was changed from or to a profile, "
                    "which profiles in a store of their own log differently: copy without history",
                    "unsupported",
                )

    def _erase(self, name: str) -> None:
        """Erase the states that retention has erased in the source."""
        counts = [
            Counter(line.at for line in _read_log(stores, name) if line.erased)
            for stores in (self._source, self._target)
        ]
        if rest := counts[0] - counts[1]:
            _require_upkeep(self._target).erase_history(name, max(rest))
            self._is_written = True

    def has_whole_log(self) -> bool:
        """Return True if the source has no line that was not copied."""
        return not any(
            self._source.items.changes(name, after, 1) for name, after in self._last.items()
        )

    # State

    def _write(self, *batches: Batch | Callable[[datetime], Batch]) -> None:
        for write in batches:
            batch = write if isinstance(write, Batch) else write(self._now())
            for store in self._target.unique():
                store.apply(batch)
            self._is_written = True

    def _copy_vectors(self) -> None:
        done, total = 0, _count_items(self._source, self._plan.spaces)
        for name in self._plan.spaces:
            for size, is_written in state_copy.copy_vectors(self._source, self._target, name):
                done += size
                self._is_written |= is_written
                self._progress("vectors", done, total)

    def _link(self) -> None:
        rules = copy_checks.link_rules(self._source)
        if rules is None:
            return
        finder = FinderResolver(None, self._open_finder).resolve(copy_checks.finder(self._source))
        linker = Linker(self._target, rules, FinderResolver(finder or BUILTIN))
        self._problems |= dict.fromkeys(linker.catch_up(self._plan.spaces, self._progress))

    # The end

    def finish(self, lines: dict[str, int]) -> Copied:
        """Copy settings of the history, verify it, record the copy, and return the sizes."""
        self._copy_retention()
        if self._plan.history:
            for name in self._plan.spaces:
                copy_checks.compare_logs(
                    name, _read_log(self._source, name), _read_log(self._target, name)
                )
        self._problems |= dict.fromkeys(
            copy_checks.describe_rest(self._source, self._target, self._plan.spaces)
        )
        upkeep = _find_upkeep(self._target)
        if self._is_written and upkeep is not None:
            upkeep.record(self._now(), LOCAL, "copy", f"from {self._plan.origin}")
        infos = self._target.items.spaces(self._plan.spaces)
        spaces = tuple(_describe(info, lines.get(info.name, 0)) for info in infos)
        return Copied(spaces, self._is_written, tuple(self._problems))

    def _copy_retention(self) -> None:
        origin, upkeep = _find_upkeep(self._source), _find_upkeep(self._target)
        if origin is None or upkeep is None or not self._plan.history:
            return
        limits, stored = origin.retention(), upkeep.retention()
        for name in self._plan.spaces:
            if limits.get(name) != stored.get(name):
                upkeep.set_retention(name, limits.get(name))
                self._is_written = True


def _describe(info: SpaceInfo, changes: int) -> CopiedSpace:
    return CopiedSpace(info.name, info.items, info.edges, info.links, changes, info.digest)


def _read_log(stores: Stores, space: str) -> Iterator[Change]:
    after = 0
    while page := stores.items.changes(space, after, PAGE):
        yield from page
        after = page[-1].number


def _count_items(stores: Stores, spaces: Sequence[str]) -> int:
    return sum(info.items for info in stores.items.spaces(spaces))


def _find_upkeep(stores: Stores) -> Upkeep | None:
    create: Any = getattr(stores.items, "upkeep", None)
    return None if create is None else create()


def _require_upkeep(stores: Stores) -> Upkeep:
    upkeep = _find_upkeep(stores)
    if upkeep is None:
        name = type(stores.items).__name__
        raise Invalid(f"{name} cannot erase states, which the history needs", "unsupported")
    return upkeep


def _ignore(stage: str, done: int, total: int) -> None:
    """Report no progress."""
