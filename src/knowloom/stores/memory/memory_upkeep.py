"""The administration of a memory store: the audit log, retention and erasure. It has no copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from knowloom.errors import Invalid
from knowloom.model import Change, Key
from knowloom.ports import AuditEntry, AuditFilter, BackupHeader, Batch
from knowloom.ports.upkeep import erase, is_about, select_entries
from knowloom.stores.memory.item_store import MemoryItems

WHOLE_STORE = ""  # in place of a space


class MemoryUpkeep:
    """Use it as `store.upkeep()`."""

    def __init__(self, store: MemoryItems) -> None:
        self._store = store

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        with self._store.reading():
            return select_entries(self._store.log, only, limit)

    def record(self, at: datetime, actor: str, action: str, subject: str) -> None:
        with self._store.reading():
            self._append(at, (WHOLE_STORE, subject), action, actor)

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        with self._store.reading():
            self._store.apply(Batch(at, deleted=tuple(keys), actor=actor))
            purged = frozenset(keys)
            log = self._store.log
            log[:] = [erase(change) if is_about(change, purged) else change for change in log]
            for key in keys:
                self._append(at, key, "purge", actor)

    def compact(self, keys: Sequence[Key]) -> str:
        with self._store.reading():
            self._store.forget_derived(keys)
        return ""

    def _append(self, at: datetime, key: Key, action: str, actor: str) -> None:
        number = len(self._store.log) + 1
        self._store.log.append(Change(number, at, *key, action, actor=actor))

    def retention(self) -> dict[str, int]:
        with self._store.reading():
            return dict(sorted(self._store.retention_days.items()))

    def set_retention(self, space: str, days: int | None) -> None:
        with self._store.reading():
            self._store.retention_days.pop(space, None)
            if days is not None:
                self._store.retention_days[space] = days

    def erase_history(self, space: str, until: datetime) -> int:
        with self._store.reading():
            log = self._store.log
            chosen = [
                place
                for place, change in enumerate(log)
                if change.space == space and change.at <= until and change.before is not None
            ]
            for place in chosen:
                log[place] = erase(log[place])
            return len(chosen)

    def location(self) -> Path:
        self._refuse()

    def copy_to(self, path: Path, header: BackupHeader) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Invalid("'memory:' is not stored in a file and has no backups: export it", "no_file")

    def backups(self) -> dict[str, datetime]:
        return {}

    def update_backups(self, added: Mapping[str, datetime], removed: Sequence[str]) -> None:
        self._refuse()

    def find_backups_with(self, keys: Sequence[Key], paths: Sequence[str]) -> dict[str, str]:
        return {}
