"""The places of API keys: a file beside the knowledge, or the database of the store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from time import sleep, time

from knowloom import codec
from knowloom.commit import LOCAL
from knowloom.errors import Corrupt, Unavailable
from knowloom.ports import KeyTable
from knowloom.server.keys.api_keys import UNREADABLE, ApiKey, key_to_json, parse_key

STALE_S = 5.0  # after which a file that is being written was left behind
LOCK_TRIES = 100
LOCK_PAUSE_S = 0.05
KeyLog = Callable[[datetime, str, str], None]  # of the time, the action and the id of the key


class StoredKeys:
    """The keys in a database: each call reads it, so that a revoked key is refused at once."""

    path = None

    def __init__(self, table: KeyTable) -> None:
        self._table = table

    @property
    def name(self) -> str:
        return self._table.name

    def exists(self) -> bool:
        return bool(self._table.read())

    def find(self, id: str) -> ApiKey | None:
        rows = self._table.read([id])
        return self._parse(id, rows[id]) if id in rows else None

    def keys(self) -> dict[str, ApiKey]:
        return {id: self._parse(id, data) for id, data in self._table.read().items()}

    def put(self, key: ApiKey, at: datetime, action: str) -> None:
        self._table.put(key.id, codec.to_json(key_to_json(key)), at, LOCAL, action)

    def close(self) -> None:
        self._table.close()

    def _parse(self, id: str, data: str) -> ApiKey:
        try:
            return parse_key(json.loads(data))
        except UNREADABLE as error:
            kind = type(error).__name__
            raise Corrupt(f"the key {id!r} in {self.name} cannot be read: {kind}") from error


class KeyFile:
    """The keys of a file, reread when it changes: servers and `knowloom keys` share it."""

    def __init__(self, path: Path, log: KeyLog | None = None) -> None:
        self.path, self._log = path, log
        self._lock = Lock()
        # Modification time, size and inode of the file that was read.
        self._stamp: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}

    @property
    def name(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    def find(self, id: str) -> ApiKey | None:
        with self._lock:
            self._refresh()
            return self._keys.get(id)

    def keys(self) -> dict[str, ApiKey]:
        with self._lock:
            self._refresh()
            return dict(self._keys)

    def put(self, key: ApiKey, at: datetime, action: str) -> None:
        self._update(lambda keys: {**keys, key.id: key})
        if self._log is not None:
            self._log(at, action, key.id)

    def close(self) -> None:
        """Do nothing: the file is only open while it is read."""

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
                self._keys, self._stamp = {key.id: key for key in map(parse_key, rows)}, stamp
        except FileNotFoundError:
            self._keys, self._stamp = {}, None
        except OSError as error:
            raise Unavailable(f"cannot read keys from {path!r}: {error.strerror}") from error
        except UNREADABLE as error:
            raise Corrupt(f"{path!r} is not a key file: {type(error).__name__}") from error


def _remove_stale(partial: Path) -> None:
    """Delete the file of a process that was killed: a write takes milliseconds."""
    with suppress(FileNotFoundError):
        if time() - partial.stat().st_mtime > STALE_S:
            partial.unlink()


def _write_keys(path: Path, keys: Iterable[ApiKey]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump({"keys": [key_to_json(key) for key in keys]}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
