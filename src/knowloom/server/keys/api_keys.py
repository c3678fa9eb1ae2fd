"""API keys: their roles, tiers, and the spaces and items that they may read and write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from knowloom import codec, tiers
from knowloom.errors import Forbidden, Invalid
from knowloom.filters.condition_json import validate_where, where_to_json
from knowloom.model import ItemCondition
from knowloom.wire import JsonObject

ROLES = ("viewer", "editor", "admin")  # each includes the ones before it
ALL_SPACES = "*"
# Raised by `parse_key` for a row that is not a key.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, Invalid)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret: its role, its tier, and its spaces ("*" for all)."""

    id: str
    name: str
    hash: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    role: str = "viewer"
    tier: str = "teams"
    created_at: str = ""
    revoked_at: str = ""
    where: tuple[ItemCondition, ...] = ()  # of every item that the key may read or write
    expires_at: str = ""  # "" for never

    def is_active(self, now: datetime) -> bool:
        """Return True unless the key was revoked or has expired."""
        if self.revoked_at:
            return False
        return not self.expires_at or now < codec.text_to_time(self.expires_at)

    @property
    def actor(self) -> str:
        """The key in the change log: names need not be unique."""
        return f"{self.name} ({self.id})"

    def check_read(self, spaces: Sequence[str]) -> None:
        self._check("read", spaces, {*self.reads, *self.writes})

    def check_stored(self, spaces: Sequence[str]) -> None:
        """Check access to items and links as they are stored, which not every tier has."""
        self.check_read(spaces)
        tiers.check_full(tiers.tier_of_key(self.tier), "reading items and links as they are stored")

    def check_write(self, space: str) -> None:
        self.check_role("editor")
        self._check("write", [space], set(self.writes))

    def check_role(self, role: str) -> None:
        if ROLES.index(self.role) < ROLES.index(role):
            raise Forbidden(f"role must be {role!r}, got {self.role!r}")
        if role == "admin" and self.where:
            raise Forbidden("a key with a filter may not maintain the knowledge")

    def check_all(self, action: str) -> None:
        """Check that the key administers all spaces; `action` is "read" or "write"."""
        self.check_role("admin")
        allowed = {*self.writes, *(self.reads if action == "read" else ())}
        if ALL_SPACES not in allowed:
            spaces = ", ".join(map(repr, sorted(allowed))) or "none"
            raise Forbidden(f"the key must {action} all spaces ('*') for this, not only {spaces}")

    def _check(self, action: str, spaces: Sequence[str], allowed: set[str]) -> None:
        for space in spaces:
            if ALL_SPACES not in allowed and space not in allowed:
                raise Forbidden(f"the key may not {action} space {space!r}")

    def writable(self, spaces: Sequence[str]) -> list[str]:
        return [space for space in spaces if ALL_SPACES in self.writes or space in self.writes]

    def visible(self, spaces: Sequence[str]) -> list[str]:
        allowed = {*self.reads, *self.writes}
        return [space for space in spaces if ALL_SPACES in allowed or space in allowed]


# The key of requests to a server without keys.
ANONYMOUS = ApiKey(
    "open", "any local process", "", (ALL_SPACES,), (ALL_SPACES,), "admin", "enterprise"
)


def key_to_json(key: ApiKey) -> JsonObject:
    row = asdict(replace(key, where=()))
    del row["where"]
    if not key.expires_at:  # earlier versions cannot read it
        del row["expires_at"]
    return row | ({"where": where_to_json(key.where)} if key.where else {})


def parse_key(row: JsonObject) -> ApiKey:
    """Return a key; raise if a part of it cannot be read, such as its filter."""
    spaces = {name: tuple(map(str, row.get(name, ()))) for name in ("reads", "writes")}
    where = validate_where(row["where"]) if "where" in row else ()
    if "where" in row and not where:
        raise ValueError
    texts = {name: str(value) for name, value in row.items() if name not in (*spaces, "where")}
    key = ApiKey(**texts, **spaces, where=where)  # type: ignore[arg-type]
    if key.role not in ROLES or not key.hash.isascii():
        raise ValueError
    if key.expires_at:
        codec.text_to_time(key.expires_at)
    return key


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret: 32 random bytes need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()
