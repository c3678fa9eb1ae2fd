"""The administration of a Redis store: erasure, and its part of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from knowloom.model import Change, Key
from knowloom.ports import AuditEntry, AuditFilter, Batch
from knowloom.ports.upkeep import is_about, select_entries


class ErasableLog(Protocol):
    """The operations of a store that erasure needs."""

    def apply(self, batch: Batch) -> None: ...

    def log_purges(self, keys: Sequence[Key], batch: Batch) -> None: ...

    def erase_states(self, space: str, numbers: Sequence[int]) -> None: ...

    def read_log(self) -> list[Change]: ...

    def changes_of(self, keys: Sequence[Key]) -> list[Change]: ...

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]: ...


class RedisUpkeep:
    """Use it as `store.upkeep()`."""

    def __init__(self, store: ErasableLog, name: str) -> None:
        self._store, self._name = store, name

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        return select_entries(self._store.read_log(), only, limit)

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        purged = frozenset(keys)
        logged = {(change.space, change.id) for change in self._store.changes_of(keys)}
        batch = Batch(at, deleted=tuple(keys), actor=actor)
        self._store.apply(batch)
        self._store.log_purges([key for key in keys if key in logged], batch)
        changes = self._store.changes_of(keys)
        self._erase([change for change in changes if change.before and is_about(change, purged)])

    def compact(self, keys: Sequence[Key]) -> str:
        return (
            f"the append-only file and the snapshots of {self._name} may still have it "
            "until they are rewritten (BGREWRITEAOF, BGSAVE)"
        )

    def erase_history(self, space: str, until: datetime) -> int:
        chosen: list[Change] = []
        after = 0
        while page := self._store.changes(space, after):
            chosen += [change for change in page if change.before and change.at <= until]
            after = page[-1].number
        self._erase(chosen)
        return len(chosen)

    def _erase(self, changes: Sequence[Change]) -> None:
        for space in dict.fromkeys(change.space for change in changes):
            numbers = [change.number for change in changes if change.space == space]
            self._store.erase_states(space, numbers)
