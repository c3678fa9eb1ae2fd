"""Maintenance of the knowledge: vectors, automatic edges, backups, erasure, the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TextIO

from knowloom import caching
from knowloom.commit import Committer
from knowloom.embedding import EmbeddingService
from knowloom.errors import Forbidden, Invalid
from knowloom.linking.linker import Linker
from knowloom.operations import backups, purging
from knowloom.operations.backups import Backup, RecordedBackup
from knowloom.operations.export import Exported, export
from knowloom.operations.purging import Purged
from knowloom.options import validate_ids
from knowloom.ports import (
    HIDDEN_SPACES,
    AuditEntry,
    AuditFilter,
    Progress,
    SpaceInfo,
    Stores,
    Upkeep,
)
from knowloom.reader import Reader
from knowloom.validation import (
    validate_int,
    validate_name,
    validate_names,
    validate_time,
)

MAX_RETENTION_DAYS = 36_500
MAX_ENTRIES = 10_000  # of the audit log at a time


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of the stores and of the embedding cache."""

    spaces: tuple[SpaceInfo, ...]
    embedder: str  # the fingerprint of the stored vectors
    without_vector: int
    cache_hits: int
    cache_misses: int
    disk_vectors: int = 0  # in the file of the embedding cache, if there is one
    disk_hits: int = 0  # since that file was created
    cache_problem: str = ""


class Maintenance:
    """Use it as `kb.maintenance`. Spaces default to all."""

    def __init__(
        self,
        reader: Reader,
        embedding: EmbeddingService,
        linker: Linker,
        commits: Committer,
        records: Path | None = None,
    ) -> None:
        self._reader = reader
        self._embedding = embedding
        self._linker = linker
        self._commits = commits
        self._records = records  # the folder of check-in records

    def restrict(
        self, reader: Reader, embedding: EmbeddingService, commits: Committer
    ) -> Maintenance:
        """Return the maintenance of a restricted engine."""
        return Maintenance(reader, embedding, self._linker, commits, self._records)

    def act_as(self, commits: Committer) -> Maintenance:
        """Return the maintenance of an engine whose actions have another author."""
        other = copy(self)
        other._commits = commits
        return other

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Embed items that have no vector; return their number."""
        names = self._reader.resolve_spaces(spaces)
        embedded = self._embedding.embed(names, progress)
        self._linker.catch_up(names, progress)
        return embedded

    def link(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Add pending automatic edges, as after an interrupted write; return the items examined."""
        return self._linker.link(self._reader.resolve_spaces(spaces), progress)

    def relink(self, progress: Progress | None = None) -> int:
        """Delete and rebuild the automatic edges of all spaces; return the items examined."""
        return self._linker.relink(self._reader.resolve_spaces(), progress)

    def stats(self, spaces: Sequence[str] | None = None) -> Statistics:
        """Count the items of the spaces (None: of all), and what the embedding cache did."""
        with self._reader.snapshot() as stores:
            infos = tuple(self._reader.spaces())
            if spaces is not None:
                infos = tuple(info for info in infos if info.name in spaces)
            missing = stores.vectors.count_missing([info.name for info in infos])
            fingerprint = stores.vectors.fingerprint()
            return Statistics(infos, fingerprint, missing, *self._embedding.cache_stats)

    # Copies

    def export(
        self,
        to: str | Path | TextIO,
        *,
        spaces: Sequence[str] | None = None,
        target_spaces: Sequence[str] | None = None,
    ) -> Exported:
        """Write items and explicit edges of one state as JSON Lines, to a file or a text stream.

        A file is complete when it appears. `load` reads it back. `target_spaces` leaves out edges
        that lead to other spaces.
        """
        return export(self._reader, to, spaces, target_spaces)

    def backup(
        self,
        to: str | Path | None = None,
        *,
        keep: int | None = None,
        keys: str | Path | None = None,
    ) -> Backup:
        """Write a verified copy of everything to a new file, while others read and write.

        `to` is a file, or a folder in which the backup gets a name with its time; by default one
        beside the knowledge. `keep` deletes all but so many of its backups there. `keys` is the
        file of the API keys, by default the one beside the knowledge, if there is one.
        """
        upkeep = self._upkeep("back up")
        if upkeep.retention():
            self.apply_retention()
        result = backups.write_backup(upkeep, self._reader.now(), to, keep, keys)
        if not result.problems:
            self._record("backup", Path(result.path).name)
        return result

    def backups(self) -> list[RecordedBackup]:
        """Return the backups that were written, oldest first."""
        recorded = self._upkeep("list backups of").backups()
        return [RecordedBackup(path, at, Path(path).exists()) for path, at in recorded.items()]

    # Erasure

    def purge(self, ids: str | Sequence[str], *, space: str | None = None) -> Purged:
        """Erase items from the store, its history and log, the caches and check-in records.

        The log then says only that they were purged, when and by whom. Backups are not changed:
        the report names those that still have an item. The whole file is written anew.
        """
        upkeep = self._upkeep("purge items of")
        space = self._reader.resolve_space(space)
        requested = [(space, id) for id in dict.fromkeys(validate_ids(ids))]
        with self._reader.snapshot() as stores:
            keys = purging.find_stored(requested, stores)
            texts = purging.collect_texts(keys, stores)
        missing = tuple(id for _, id in requested if (space, id) not in keys)
        if not keys:
            return Purged((), missing)
        upkeep.purge(keys, self._reader.now(), self._commits.actor)
        problems = [*self._linker.catch_up([space]), upkeep.compact(keys)]
        self._embedding.forget_texts(texts)
        caching.clear()
        deleted, unreadable = purging.delete_records(self._records, keys)
        holders = backups.find_holders(upkeep, keys)
        reasons = tuple(filter(None, [*problems, *unreadable]))
        return Purged(tuple(id for _, id in keys), missing, deleted, holders, reasons)

    def retention(self) -> dict[str, int]:
        """Return the days that the history of each limited space is kept."""
        return self._upkeep("read the retention of").retention()

    def set_retention(self, space: str | None, days: int | None) -> int:
        """Keep the history of a space for so many days, None for ever, and erase older states.

        Items themselves stay. Return the number of states that were erased.
        """
        upkeep = self._upkeep("limit the history of")
        space = self._reader.resolve_space(space)
        if days is not None:
            validate_int("days", days, 0, MAX_RETENTION_DAYS)
        upkeep.set_retention(space, days)
        self._record("retention", f"{space}: {'forever' if days is None else f'{days} days'}")
        return self.apply_retention()

    def apply_retention(self) -> int:
        """Erase the states that are older than the retention of their space; return their number.

        Each backup does so first.
        """
        upkeep, now = self._upkeep("limit the history of"), self._reader.now()
        return sum(
            upkeep.erase_history(space, now - timedelta(days=days))
            for space, days in upkeep.retention().items()
        )

    # The audit log

    def audit(
        self,
        spaces: Sequence[str] = (),
        *,
        id: str = "",
        actor: str = "",
        actions: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[AuditEntry]:
        """Return who did what to which item and when, the newest first.

        `before`, the number of the last entry seen, gives the next page. Entries have no texts.
        """
        only = AuditFilter(
            tuple(validate_names("spaces", spaces)),
            validate_name("id", id) if id else "",
            validate_name("actor", actor) if actor else "",
            tuple(validate_names("actions", actions)),
            None if since is None else validate_time("since", since),
            None if until is None else validate_time("until", until),
            None if before is None else validate_int("before", before, 1),
            HIDDEN_SPACES,
        )
        count = validate_int("limit", limit, 1, MAX_ENTRIES)
        return self._upkeep("audit").audit(only, count)

    def _record(self, action: str, subject: str) -> None:
        now, actor = self._reader.now(), self._commits.actor
        self._upkeep("audit").record(now, actor, action, subject)

    def _upkeep(self, action: str) -> Upkeep:
        """Return the administration of the store; raise if it has none, or for restricted use."""
        if self._reader.is_restricted:
            raise Forbidden(f"a restricted engine cannot {action} the store: it sees a part of it")
        with self._reader.snapshot() as stores:
            return require_upkeep(stores, action)


def require_upkeep(stores: Stores, action: str) -> Upkeep:
    """Return the administration of the item store; raise Invalid if it has none."""
    create = getattr(stores.items, "upkeep", None)
    if create is None:
        name = type(stores.items).__name__
        raise Invalid(f"cannot {action} the store: {name} does not support it", "unsupported")
    upkeep: Upkeep = create()
    return upkeep
