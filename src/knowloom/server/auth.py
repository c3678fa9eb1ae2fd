"""The API keys of a server: created, found by their secrets, and revoked."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from knowloom import codec, tiers, validation
from knowloom.errors import Invalid, NotFound, unknown_name
from knowloom.filters.condition_json import WhereArgument, validate_where
from knowloom.server.keys.api_keys import ROLES, ApiKey, hash_secret
from knowloom.server.keys.key_sources import KeyFile, KeyLog, StoredKeys
from knowloom.server.keys.key_uses import KeyUses


class KeySource(Protocol):
    """The place of keys, which servers and `knowloom keys` share; it is read at each call."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path | None: ...

    def exists(self) -> bool:
        """Return True once a key was added, even if all were revoked since."""

    def find(self, id: str) -> ApiKey | None: ...

    def keys(self) -> dict[str, ApiKey]: ...

    def put(self, key: ApiKey, at: datetime, action: str) -> None:
        """Add or replace a key; the action is logged where there is an audit log."""

    def close(self) -> None: ...


class Keyring:
    """The keys in a file, or in the database behind the URL of a store."""

    def __init__(
        self,
        location: Path | str,
        *,
        open_until_added: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        log: KeyLog | None = None,
    ) -> None:
        """`open_until_added` admits requests without a key until the file has the first key.

        `log` is called with each change of a file; a database logs its changes itself.
        """
        self._clock, self._open_until_added = clock, open_until_added
        self._source: KeySource
        if isinstance(location, Path):
            self._source = KeyFile(location, log)
        else:
            from knowloom.registry import open_key_table

            self._source = StoredKeys(open_key_table(location))

        self.uses = KeyUses(self._source.path)

    @property
    def name(self) -> str:
        """The place of the keys, for messages."""
        return self._source.name

    @property
    def file(self) -> Path | None:
        """The file of the keys, None for a database."""
        return self._source.path

    @property
    def path(self) -> Path:
        """The file of the keys; raise Invalid for a database."""
        if self.file is None:
            raise Invalid(f"the keys are in {self.name}, not in a file")
        return self.file

    def close(self) -> None:
        self._source.close()

    def exists(self) -> bool:
        """Return True once a key was added, even if all were revoked since."""
        return self._source.exists()

    def is_open(self) -> bool:
        """Return True while no key was ever added; a file that vanishes opens nothing."""
        if self._open_until_added and self._source.exists():
            self._open_until_added = False
        return self._open_until_added

    def active(self) -> list[ApiKey]:
        return [key for key in self.keys() if key.is_active(self._clock())]

    def keys(self) -> list[ApiKey]:
        return sorted(self._source.keys().values(), key=lambda key: key.id)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key with this secret, unless it was revoked or has expired."""
        id = secret.split("_")[1] if secret.count("_") >= 2 else ""
        key = self._source.find(id) if id else None
        if key is None or not hmac.compare_digest(key.hash, hash_secret(secret)):
            return None
        now = self._clock()
        if not key.is_active(now):
            return None
        self.uses.record(key.id, now)
        return key

    def add(
        self,
        name: str,
        *,
        reads: Sequence[str],
        writes: Sequence[str],
        role: str,
        tier: str,
        now: datetime,
        where: WhereArgument = None,
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it and its secret, which is never stored."""
        if role not in ROLES:
            raise unknown_name("role", role, ROLES)
        tiers.validate_tier(tier)
        if not reads and not writes:
            raise Invalid("a key needs at least one space to read or write; * for all")
        if writes and role == "viewer":
            raise Invalid("a viewer cannot write: use the role editor or admin, or only read")
        conditions = validate_where(where)
        if conditions and role == "admin":
            raise Invalid("an admin sees everything: use the role viewer or editor with a filter")
        validation.validate_names("names of a key and its spaces", [name, *reads, *writes])
        spaces = (tuple(reads), tuple(writes))
        key = ApiKey("", name, "", *spaces, role, tier, where=conditions)
        return self._create(key, now, expires_at, "add key")

    def rotate(
        self, id: str, now: datetime, overlap: timedelta, expires_at: datetime | None = None
    ) -> tuple[ApiKey, str]:
        """Create a key with the rights of another one, which expires after the overlap."""
        old = self._get(id)
        if not old.is_active(now):
            raise Invalid(f"key {id!r} is revoked or has expired: add a new one")
        created = self._create(old, now, expires_at, "rotate key")
        end = codec.time_to_text(now + overlap)
        if not old.expires_at or end < old.expires_at:
            self._source.put(replace(old, expires_at=end), now, "expire key")
        return created

    def revoke(self, id: str, now: datetime) -> ApiKey:
        key = self._get(id)
        key = replace(key, revoked_at=key.revoked_at or codec.time_to_text(now))
        self._source.put(key, now, "revoke key")
        return key

    def _get(self, id: str) -> ApiKey:
        keys = self._source.keys()
        if id not in keys:
            raise NotFound(f"unknown key {id!r}; available: {', '.join(sorted(keys)) or 'none'}")
        return keys[id]

    def _create(
        self, rights: ApiKey, now: datetime, expires_at: datetime | None, action: str
    ) -> tuple[ApiKey, str]:
        """Store a new key with these rights."""
        if expires_at is not None and expires_at <= now:
            raise Invalid(f"expires_at must be in the future, got {codec.time_to_text(expires_at)}")
        id = secrets.token_hex(4)
        secret = f"knowloom_{id}_{secrets.token_urlsafe(32)}"
        key = replace(
            rights,
            id=id,
            hash=hash_secret(secret),
            created_at=codec.time_to_text(now),
            expires_at="" if expires_at is None else codec.time_to_text(expires_at),
        )
        self._source.put(key, now, action)
        return key, secret
