"""The protocol of stores that can be copied, audited and erased, and the values it exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from knowloom.model import Change, EdgeKey, Item, Key


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action, its author and its time. It never contains a text.

    An action on the whole store has the space "", and as id its subject, such as a file name.
    """

    number: int
    at: datetime
    actor: str  # "" in the log of earlier versions
    action: str
    space: str
    id: str
    link: EdgeKey | None = None  # the edge of "link" and "unlink"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions of audit entries; empty ones do not restrict."""

    spaces: tuple[str, ...] = ()
    id: str = ""  # of an item or of an end of an edge
    actor: str = ""
    actions: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None  # a number: only older entries
    hidden: tuple[str, ...] = ()  # spaces that are left out

    def allows(self, entry: AuditEntry) -> bool:
        ends = [(entry.space, entry.id), *(entry.link[:2] if entry.link else ())]
        return (
            (not self.spaces or any(space in self.spaces for space, _ in ends))
            and (not self.id or any(id == self.id for _, id in ends))
            and (not self.actor or entry.actor == self.actor)
            and (not self.actions or entry.action in self.actions)
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at <= self.until)
            and (self.before is None or entry.number < self.before)
            and entry.space not in self.hidden
        )


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """The facts about a backup that it carries itself."""

    at: datetime
    source: str  # the name of the file that was copied
    schema: int
    files: Mapping[str, bytes]  # copies of other files by role: "keys", "metadata"
    items: tuple[Item, ...] = ()  # to be added to the copy: what its layers must be given
    elsewhere: tuple[Key, ...] = ()  # items of another store, to which edges may lead


@dataclass(frozen=True, slots=True)
class PackedStore:
    """A copy of a whole store, its items, and the name of the state that was copied."""

    state: str
    data: bytes
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The content of a repaired file.

    `lost` items could not be read, `doubtful` ones were read from damaged pages. A complete file
    has everything that the damaged one had; any other has no vectors, and only the readable part of
    the history.
    """

    items: int
    edges: int
    lost: tuple[Key, ...] = ()
    doubtful: tuple[Key, ...] = ()
    is_complete: bool = False
    changes: int = 0  # lines of the history
    lost_changes: int = 0
    lost_vectors: int = 0  # of passages; they can be computed again


class ErasableStore(Protocol):
    """The administration that each part of a composite store has."""

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        """Return the entries that pass the filter, the newest first."""

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        """Delete the items, erase their states and edges from the change log, and log "purge".

        Items that were deleted before are erased too.
        """

    def compact(self, keys: Sequence[Key]) -> str:
        """Overwrite what was erased, with the derived data of these purged items.

        Return the reason if something may be left in the files, else "".
        """

    def erase_history(self, space: str, until: datetime) -> int:
        """Erase the states in changes of the space up to a time; return their number."""


class Upkeep(ErasableStore, Protocol):
    """The administration of a store of items."""

    def record(self, at: datetime, actor: str, action: str, subject: str) -> None:
        """Add an entry about an action on the whole store."""

    def retention(self) -> dict[str, int]:
        """Return the days that the history of each limited space is kept."""

    def set_retention(self, space: str, days: int | None) -> None:
        """Limit the history of a space to so many days; None: it is kept forever."""

    def location(self) -> Path:
        """Return the file that `copy_to` copies; raise Invalid if the store has none."""

    def copy_to(self, path: Path, header: BackupHeader) -> None:
        """Write one state of the store to a new file, verify it, and remove it if it is damaged."""

    def backups(self) -> dict[str, datetime]:
        """Return the recorded backups: their paths and times."""

    def update_backups(self, added: Mapping[str, datetime], removed: Sequence[str]) -> None:
        """Change the recorded backups."""

    def find_backups_with(self, keys: Sequence[Key], paths: Sequence[str]) -> dict[str, str]:
        """Return those backups that have one of the items, or a state of it, by path.

        The value is "" for a backup that has it, and a reason for one that cannot be read.
        """


class PackableStore(ErasableStore, Protocol):
    """The administration of a store that can be a part of the backup of another."""

    def state(self) -> str:
        """Return a text that differs after each write of an item."""

    def pack(self, at: datetime) -> PackedStore:
        """Return a verified copy of one state, made at this time."""

    def has_packed(self, data: bytes, keys: Sequence[Key]) -> bool:
        """Return True if such a copy has one of the items, or a state of it."""


class KeyTable(Protocol):
    """API keys in the database of a store, as JSON by id. Each call reads or writes it."""

    @property
    def name(self) -> str:
        """The database, without secrets."""

    def read(self, ids: Sequence[str] | None = None) -> dict[str, str]:
        """Return the keys with these ids, None: all."""

    def put(self, id: str, data: str, at: datetime, actor: str, action: str) -> None:
        """Add or replace a key, with an entry about the action in the audit log."""

    def close(self) -> None: ...


def select_entries(log: Sequence[Change], only: AuditFilter, limit: int) -> list[AuditEntry]:
    """Return the entries of a log that pass the filter, the newest first."""
    entries: list[AuditEntry] = []
    for change in reversed(log):
        key = (change.space, change.id)
        entry = AuditEntry(change.number, change.at, change.actor, change.action, *key, change.link)
        if len(entries) < limit and only.allows(entry):
            entries.append(entry)
    return entries


def is_about(change: Change, keys: frozenset[Key]) -> bool:
    """Return True for a change of one of the items, or of an edge at one."""
    ends = {(change.space, change.id), *(change.link[:2] if change.link else ())}
    return not keys.isdisjoint(ends)


def erase(change: Change) -> Change:
    """Return the change without what was before it."""
    return change if change.before is None else replace(change, before=None, erased=True)
