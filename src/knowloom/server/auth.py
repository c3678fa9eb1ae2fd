"""API keys: roles, readable and writable spaces, and the file that stores their hashes."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from time import sleep, time

from knowloom import codec, tiers, validation
from knowloom.errors import Corrupt, Forbidden, Invalid, NotFound, Unavailable, unknown_name
from knowloom.filters.condition_json import WhereArgument, validate_where, where_to_json
from knowloom.model import ItemCondition
from knowloom.wire import JsonObject

ROLES = ("viewer", "editor", "admin")  # each includes the ones before it
ALL_SPACES = "*"
STALE_S = 5.0  # after which a file that is being written was left behind
LOCK_TRIES = 100
LOCK_PAUSE_S = 0.05


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


class Keyring:
    """The keys of a file, reread when it changes: servers and `knowloom keys` share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        # Modification time, size and inode of the file that was read.
        self._stamp: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}

    def active(self) -> list[ApiKey]:
        return [key for key in self.keys() if not key.revoked_at]

    def keys(self) -> list[ApiKey]:
        with self._lock:
            self._refresh()
            return sorted(self._keys.values(), key=lambda key: key.id)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key with this secret, unless it was revoked."""
        with self._lock:
            self._refresh()
            key = self._keys.get(secret.split("_")[1] if secret.count("_") >= 2 else "")
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
        self._update(lambda keys: {**keys, id: key})
        return key, secret

    def revoke(self, id: str, now: datetime) -> ApiKey:
        keys = {key.id: key for key in self.keys()}
        if id not in keys:
            raise NotFound(f"unknown key {id!r}; available: {', '.join(keys) or 'none'}")
        key = replace(keys[id], revoked_at=keys[id].revoked_at or codec.time_to_text(now))
        self._update(lambda keys: {**keys, id: key})
        return key

    def _update(self, change: Callable[[dict[str, ApiKey]], dict[str, ApiKey]]) -> None:
        """Replace the file atomically; only its owner can read it."""
        with self._lock:
            partial = self._lock_file()
            try:
                self._refresh()
                _write_keys(partial, change(dict(self._keys)).values())
                partial.replace(self.path)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise self._unwritable(error) from error
            except BaseException:
                partial.unlink(missing_ok=True)
                raise

    def _lock_file(self) -> Path:
        """Create the file to write to. It is also the lock: creation fails while it exists."""
        partial = self.path.with_name(f"{self.path.name}.partial")
        for _ in range(LOCK_TRIES):
            try:
                os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return partial
            except FileExistsError:
                _remove_stale(partial)
                sleep(LOCK_PAUSE_S)
            except OSError as error:
                raise self._unwritable(error) from error
        raise Unavailable(
            f"another process is changing the keys; if none is, delete {str(partial)!r}"
        )

    def _unwritable(self, error: OSError) -> Unavailable:
        return Unavailable(f"cannot write keys to {str(self.path)!r}: {error.strerror}")

    def _refresh(self) -> None:
        path = str(self.path)
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._stamp != stamp:
                rows = json.loads(self.path.read_text("utf-8"))["keys"]
                self._keys, self._stamp = {key.id: key for key in map(_parse_key, rows)}, stamp
        except FileNotFoundError:
            self._keys, self._stamp = {}, None
        except OSError as error:
            raise Unavailable(f"cannot read keys from {path!r}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Invalid) as error:
            raise Corrupt(f"{path!r} is not a key file: {type(error).__name__}") from error


def _remove_stale(partial: Path) -> None:
    """Delete the file of a process that was killed: a write takes milliseconds."""
    with suppress(FileNotFoundError):
        if time() - partial.stat().st_mtime > STALE_S:
            partial.unlink()


def _write_keys(path: Path, keys: Iterable[ApiKey]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump({"keys": [_key_to_json(key) for key in keys]}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def _key_to_json(key: ApiKey) -> JsonObject:
    row = asdict(replace(key, where=()))
    del row["where"]
    return row | ({"where": where_to_json(key.where)} if key.where else {})


def _parse_key(row: JsonObject) -> ApiKey:
    """Return a key; a filter that cannot be read makes the file invalid, never the key wider."""
    spaces = {name: tuple(map(str, row.get(name, ()))) for name in ("reads", "writes")}
    where = validate_where(row["where"]) if "where" in row else ()
    if "where" in row and not where:
        raise ValueError
    texts = {name: str(value) for name, value in row.items() if name not in (*spaces, "where")}
    key = ApiKey(**texts, **spaces, where=where)  # type: ignore[arg-type]
    if key.role not in ROLES or not key.hash.isascii():
        raise ValueError
    return key


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret: 32 random bytes need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()
