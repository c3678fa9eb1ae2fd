"""The API keys of a server: created, found by their secrets, and revoked."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from knowloom import codec, tiers, validation
from knowloom.errors import Invalid, NotFound, unknown_name
from knowloom.filters.condition_json import WhereArgument, validate_where
from knowloom.server.keys.api_keys import ROLES, ApiKey, hash_secret
from knowloom.server.keys.key_sources import KeyFile, StoredKeys


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

    def __init__(self, location: Path | str) -> None:
        self._source: KeySource
        if isinstance(location, Path):
            self._source = KeyFile(location)
        else:
            from knowloom.registry import open_key_table

            self._source = StoredKeys(open_key_table(location))

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

    def active(self) -> list[ApiKey]:
        return [key for key in self.keys() if not key.revoked_at]

    def keys(self) -> list[ApiKey]:
        return sorted(self._source.keys().values(), key=lambda key: key.id)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key with this secret, unless it was revoked."""
        id = secret.split("_")[1] if secret.count("_") >= 2 else ""
        key = self._source.find(id) if id else None
        if key is None or key.revoked_at or not hmac.compare_digest(key.hash, hash_secret(secret)):
            return None
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
        id = secrets.token_hex(4)
        secret = f"knowloom_{id}_{secrets.token_urlsafe(32)}"
        spaces = (tuple(reads), tuple(writes))
        created_at = codec.time_to_text(now)
        key = ApiKey(
            id, name, hash_secret(secret), *spaces, role, tier, created_at, where=conditions
        )
        self._source.put(key, now, "add key")
        return key, secret

    def revoke(self, id: str, now: datetime) -> ApiKey:
        keys = self._source.keys()
        if id not in keys:
            raise NotFound(f"unknown key {id!r}; available: {', '.join(sorted(keys)) or 'none'}")
        key = replace(keys[id], revoked_at=keys[id].revoked_at or codec.time_to_text(now))
        self._source.put(key, now, "revoke key")
        return key
