"""The administration of several stores: all are purged, and one backup has what they have.

Layers are no part of it: a copy of the items has all of their content, and the instruction to write
them anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from knowloom.errors import Invalid, Unavailable
from knowloom.model import Key
from knowloom.ports import (
    AuditEntry,
    AuditFilter,
    BackupHeader,
    Batch,
    ErasableStore,
    PackableStore,
    Store,
    Upkeep,
)
from knowloom.stores.composite.delivery import Delivery
from knowloom.stores.composite.layers import is_index_layer
from knowloom.stores.composite.store_layers import unwrap_layer

UNLIMITED = 1_000_000_000  # entries
LAYERS = ("words", "vectors", "graph")
MAX_ATTEMPTS = 20  # to copy the profiles while nothing changes them
MAX_PROFILES = 900_000_000  # bytes: SQLite stores less than 1 GB as one value


class CompositeUpkeep:
    """Use it as `store.upkeep()`."""

    def __init__(
        self,
        primary: Store,
        metadata: Store | None,
        layers: Mapping[str, Any],
        graph: Store,
        delivery: Delivery,
    ) -> None:
        self._primary_store = primary
        self._delivery = delivery
        self._problems: list[str] = []
        roles = {"metadata": metadata, **layers, "graph": graph}
        self._others: dict[str, Any] = {}  # the first role of each store but the primary one
        for role, store in roles.items():
            inner = unwrap_layer(store)
            if store is not None and all(
                inner is not other for other in (primary, *self._others.values())
            ):
                self._others[role] = inner

    @property
    def _primary(self) -> Upkeep:
        primary: Upkeep = _require_upkeep(self._primary_store, "items")
        return primary

    def _logged(self) -> list[ErasableStore]:
        """Return the parts that log changes of items of their own."""
        profiles = self._others.get("metadata")
        parts = [] if profiles is None else [_require_upkeep(profiles, "metadata")]
        return [self._primary, *parts]

    def audit(self, only: AuditFilter, limit: int) -> list[AuditEntry]:
        """Merge the logs by time; numbers are positions in the result."""
        logs = [part.audit(AuditFilter(), UNLIMITED) for part in self._logged()]
        merged = sorted((entry for log in logs for entry in log), key=_order)
        numbered = [replace(entry, number=number) for number, entry in enumerate(merged, 1)]
        return [entry for entry in reversed(numbered) if only.allows(entry)][:limit]

    def record(self, at: datetime, actor: str, action: str, subject: str) -> None:
        self._primary.record(at, actor, action, subject)

    def purge(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        """Erase items everywhere; a layer that fails is given the change later."""
        changes = self._delivery.plan(tuple(self._others), tuple(keys))
        self._delivery.announce(changes)
        self._primary.purge(keys, at, actor)
        for role, store in self._others.items():
            try:
                _purge_part(store, keys, at, actor)
            except Unavailable as error:
                if role == "metadata":
                    raise
                self._problems.append(f"the {role} may still have it: {error}")
        self._delivery.deliver(changes)

    def compact(self, keys: Sequence[Key]) -> str:
        problems = [*self._problems, self._primary.compact(keys)]
        for role, store in self._others.items():
            try:
                part = _find_upkeep(store)
                problems.append("" if part is None else part.compact(keys))
            except Unavailable as error:
                problems.append(f"the {role} may still have it: {error}")
        return "; ".join(dict.fromkeys(filter(None, problems)))

    def retention(self) -> dict[str, int]:
        return self._primary.retention()

    def set_retention(self, space: str, days: int | None) -> None:
        self._primary.set_retention(space, days)

    def erase_history(self, space: str, until: datetime) -> int:
        parts = [*filter(None, map(_find_upkeep, self._others.values()))]
        return self._primary.erase_history(space, until) + sum(
            part.erase_history(space, until) for part in parts
        )

    def location(self) -> Path:
        return self._primary.location()

    def copy_to(self, path: Path, header: BackupHeader) -> None:
        """Copy the items, and the profiles as they were at the same moment.

        Layers that are in use after a restore are first written anew.
        """
        queued = self._delivery.encode(self._delivery.plan(LAYERS, is_complete=True))
        header = replace(header, items=queued)
        if "metadata" not in self._others:
            self._primary.copy_to(path, header)
            return
        part = _require_packable(self._others["metadata"])
        for _ in range(MAX_ATTEMPTS):
            state = part.state()
            with self._primary_store.reading():
                packed = part.pack(header.at)
                if packed.state == state:  # no profile changed since before the items were read
                    files = {**header.files, "metadata": _check_size(packed.data)}
                    complete = replace(header, files=files, elsewhere=packed.keys)
                    self._primary.copy_to(path, complete)
                    return
        raise Unavailable("the profiles change faster than they can be copied", "busy")

    def backups(self) -> dict[str, datetime]:
        return self._primary.backups()

    def update_backups(self, added: Mapping[str, datetime], removed: Sequence[str]) -> None:
        self._primary.update_backups(added, removed)

    def find_backups_with(self, keys: Sequence[Key], paths: Sequence[str]) -> dict[str, str]:
        reasons = self._primary.find_backups_with(keys, paths)
        if "metadata" in self._others:
            part = _require_packable(self._others["metadata"])
            for path in paths:
                if path not in reasons and self._has_packed(part, path, keys):
                    reasons[path] = ""
        return reasons

    def _has_packed(self, part: PackableStore, path: str, keys: Sequence[Key]) -> bool:
        primary: Any = self._primary  # it wrote the backup, and can thus read it
        data = primary.read_backup(Path(path)).files.get("metadata")
        return data is not None and part.has_packed(data, keys)


def _purge_part(store: Any, keys: Sequence[Key], at: datetime, actor: str) -> None:
    part = _find_upkeep(store)
    if part is not None:
        part.purge(keys, at, actor)
    elif is_index_layer(store):
        store.remove(keys)
    else:  # it has no log: its files have the current state only
        store.apply(Batch(at, deleted=tuple(keys), actor=actor))


def _find_upkeep(store: Store) -> ErasableStore | None:
    try:
        part: ErasableStore = store.upkeep()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        return None
    return part


def _require_upkeep(store: Store, role: str) -> Any:
    upkeep = _find_upkeep(store)
    if upkeep is None:
        raise Invalid(f"the store of the {role} cannot be administered", "unsupported")
    return upkeep


def _require_packable(store: Store) -> PackableStore:
    upkeep = _find_upkeep(store)
    if not hasattr(upkeep, "pack"):
        raise Invalid(
            "cannot back up the profiles of the metadata store: they must be in an SQLite file or "
            "in a folder (file:); export them, or use the backup of their database",
            "unsupported",
        )
    part: PackableStore = upkeep  # type: ignore[assignment]
    return part


def _check_size(data: bytes) -> bytes:
    if len(data) > MAX_PROFILES:
        raise Invalid(
            f"the profiles have {len(data):,} bytes, a backup has room for {MAX_PROFILES:,}: "
            "store them with the items, or export them",
            "too_large",
        )
    return data


def _order(entry: AuditEntry) -> tuple[datetime, int]:
    return (entry.at, entry.number)
