"""The time at which each API key was last used."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

log = logging.getLogger("knowloom.http")

PRECISION = timedelta(minutes=1)  # between two records of a key by one process


class KeyUses:
    """A folder beside the file of the keys with an empty file per key.

    Its modification time is the last use: servers write it without locks, about once a minute.
    Keys in a database have no such folder, and nothing is recorded.
    """

    def __init__(self, keys: Path | None) -> None:
        self._folder = keys and keys.with_name(f"{keys.name.removesuffix('.json')}.used")
        self._recorded: dict[str, datetime] = {}

    def record(self, id: str, now: datetime) -> None:
        """Note that a key was used. A read-only disk must not stop requests."""
        last = self._recorded.get(id)
        if self._folder is None or (last is not None and now - last < PRECISION):
            return
        self._recorded[id] = now
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            file = self._folder / id
            file.touch()
            os.utime(file, (now.timestamp(), now.timestamp()))
        except OSError as error:
            log.debug("cannot record the use of key %s: %s", id, error.strerror)

    def last_used(self, id: str) -> datetime | None:
        """Return the last use to the minute, None if there is none on record."""
        if self._folder is None:
            return None
        try:
            return datetime.fromtimestamp((self._folder / id).stat().st_mtime, UTC)
        except OSError:
            return None
