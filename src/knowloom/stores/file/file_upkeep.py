"""The administration of a file store: erasure, copies, and its part of the audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from knowloom import codec
from knowloom.model import Change, Key
from knowloom.ports import AuditEntry, AuditFilter, Batch, PackedStore
from knowloom.ports.upkeep import is_about, select_entries
from knowloom.stores.file.packing import has_packed_state


class LoggedStore(Protocol):
    """The operations of a file store that erasure needs."""

    def apply(self, batch: Batch) -> None: ...

    def log_purges(self, keys: Sequence[Key], at: datetime, actor: str) -> None: ...

    def erase_states(self, is_chosen: Callable[[Change], bool]) -> int: ...

    def read_log(self) -> list[Change]: ...

    def pack(self) -> PackedStore: ...


class FileUpkeep:
    """Use it as `store.upkeep()`."""

    def __init__(self, store: LoggedStore) -> None:
        self._store = store

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        return select_entries(self._store.read_log(), only, limit)

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        purged = frozenset(keys)
        logged = {(change.space, change.id) for change in self._store.read_log()}
        self._store.apply(Batch(at, deleted=tuple(keys), actor=actor))
        if stored := [key for key in keys if key in logged]:
            self._store.log_purges(stored, at, actor)
        self._store.erase_states(lambda change: is_about(change, purged))

    def compact(self, keys: Sequence[Key]) -> str:
        return ""  # each file was replaced or deleted

    def erase_history(self, space: str, until: datetime) -> int:
        return self._store.erase_states(lambda change: change.space == space and change.at <= until)

    def state(self) -> str:
        return str(len(self._store.read_log()))

    def pack(self, at: datetime) -> PackedStore:
        return self._store.pack()

    def has_packed(self, data: bytes, keys: Sequence[Key]) -> bool:
        return has_packed_state(data, keys)


def encode_purge(number: int, key: Key, at: datetime, actor: str) -> str:
    """Return the line of the log about a purge."""
    row = {"number": number, "at": codec.time_to_text(at), "space": key[0], "id": key[1]}
    return codec.to_json(row | {"action": "purge", "before": None, "actor": actor}) + "\n"
