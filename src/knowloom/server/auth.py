"""Who may do what: API keys, of which only hashes are stored, in one small file beside the knowledge."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any

from knowloom import codec, tiers, validation
from knowloom.errors import Corrupt, Forbidden, Invalid, NotFound, Unavailable, unknown

ROLES = ("viewer", "editor", "admin")  # each may do what the ones before it may
ALL = "*"
LOCK_TRIES = 100  # of 50 ms each


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret: the spaces it may read and write ("*" for all), its role and its tier."""

    id: str
    name: str
    hash: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    role: str = "viewer"
    tier: str = "teams"
    created_at: str = ""
    revoked_at: str = ""

    def check_read(self, spaces: Sequence[str]) -> None:
        self._check("read", spaces, {*self.reads, *self.writes})

    def check_stored(self, spaces: Sequence[str]) -> None:
        """To read items and links as they are stored: not every tier may."""
        self.check_read(spaces)
        tiers.check_full(tiers.stored(self.tier), "reading items and links as they are stored")

    def check_write(self, space: str) -> None:
        self.check_role("editor")
        self._check("write", [space], set(self.writes))

    def check_role(self, role: str) -> None:
        if ROLES.index(self.role) < ROLES.index(role):
            raise Forbidden(f"this needs the role {role!r}; the key has {self.role!r}")

    def _check(self, what: str, spaces: Sequence[str], allowed: set[str]) -> None:
        for space in spaces:
            if ALL not in allowed and space not in allowed:
                raise Forbidden(f"the key may not {what} space {space!r}")

    def writable(self, spaces: Sequence[str]) -> list[str]:
        return [space for space in spaces if ALL in self.writes or space in self.writes]

    def visible(self, spaces: Sequence[str]) -> list[str]:
        allowed = {*self.reads, *self.writes}
        return [space for space in spaces if ALL in allowed or space in allowed]


EVERYBODY = Key("open", "anyone on this machine", "", (ALL,), (ALL,), "admin", "enterprise")


class Keyring:
    """The keys of a file. It is read again whenever it changes, so several servers and `knowloom keys` share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._seen: tuple[int, int, int] | None = (
            None  # time, size and number of the file that was read
        )
        self._keys: dict[str, Key] = {}

    def active(self) -> list[Key]:
        return [key for key in self.keys() if not key.revoked_at]

    def keys(self) -> list[Key]:
        with self._lock:
            self._refresh()
            return sorted(self._keys.values(), key=lambda key: key.id)

    def find(self, secret: str) -> Key | None:
        """The key whose secret this is, unless it was revoked."""
        with self._lock:
            self._refresh()
            key = self._keys.get(secret.split("_")[1] if secret.count("_") >= 2 else "")
        if key is None or key.revoked_at or not hmac.compare_digest(key.hash, hashed(secret)):
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
    ) -> tuple[Key, str]:
        """A new key and its secret, which is shown once and never stored."""
        if role not in ROLES:
            raise unknown("role", role, ROLES)
        tiers.name_of(tier)
        if not reads and not writes:
            raise Invalid("a key needs a space to read or to write; * means all")
        if writes and role == "viewer":
            raise Invalid(
                "a viewer cannot write: give the role editor or admin, or no space to write"
            )
        validation.names("the names of a key and its spaces", [name, *reads, *writes])
        id = secrets.token_hex(4)
        secret = f"knowloom_{id}_{secrets.token_urlsafe(32)}"
        key = Key(
            id,
            name,
            hashed(secret),
            tuple(reads),
            tuple(writes),
            role,
            tier,
            codec.time_to_text(now),
        )
        self._change(lambda keys: {**keys, id: key})
        return key, secret

    def revoke(self, id: str, now: datetime) -> Key:
        found = {key.id: key for key in self.keys()}
        if id not in found:
            raise NotFound(f"no key {id!r}; known: {', '.join(found) or 'none'}")
        key = replace(found[id], revoked_at=found[id].revoked_at or codec.time_to_text(now))
        self._change(lambda keys: {**keys, id: key})
        return key

    def _change(self, change: Callable[[dict[str, Key]], dict[str, Key]]) -> None:
        """Write the file anew, whole or not at all, readable by its owner alone."""
        with self._lock:
            partial = self._alone()
            try:
                self._refresh()
                _write(partial, change(dict(self._keys)).values())
                partial.replace(self.path)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise Unavailable(
                    f"cannot write the keys to {str(self.path)!r}: {error.strerror}"
                ) from error
            except BaseException:
                partial.unlink(missing_ok=True)
                raise

    def _alone(self) -> Path:
        """The file to write to. Whoever made it is the only one who changes the keys, until it has become them."""
        partial = self.path.with_name(f"{self.path.name}.partial")
        for _ in range(LOCK_TRIES):
            try:
                os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return partial
            except FileExistsError:
                sleep(0.05)
            except OSError as error:
                raise Unavailable(
                    f"cannot write the keys to {str(self.path)!r}: {error.strerror}"
                ) from error
        raise Unavailable(
            f"another process is changing the keys; if none is, delete {str(partial)!r}"
        )

    def _refresh(self) -> None:
        try:
            stat = self.path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._seen != seen:
                rows = json.loads(self.path.read_text("utf-8"))["keys"]
                self._keys, self._seen = {key.id: key for key in map(_key, rows)}, seen
        except FileNotFoundError:
            self._keys, self._seen = {}, None
        except OSError as error:
            raise Unavailable(
                f"cannot read the keys in {str(self.path)!r}: {error.strerror}"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Corrupt(
                f"{str(self.path)!r} is not a file of keys: {type(error).__name__}"
            ) from error


def _write(path: Path, keys: Iterable[Key]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump({"keys": [asdict(key) for key in keys]}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def _key(row: dict[str, Any]) -> Key:
    spaces = {name: tuple(map(str, row.get(name, ()))) for name in ("reads", "writes")}
    texts = {name: str(value) for name, value in row.items() if name not in spaces}
    key = Key(**texts, **spaces)  # type: ignore[arg-type]
    if key.role not in ROLES or not key.hash.isascii():
        raise ValueError
    return key


def hashed(secret: str) -> str:
    """Secrets are 32 random bytes, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()
