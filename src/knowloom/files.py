"""Reading users' files, and writing our own so that they survive a kill."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from knowloom.errors import Invalid, Unavailable, invalid_store_url

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_TIMEOUT_S = 30.0  # how long a writer waits for another process
KEYS_SUFFIX = ".keys.json"  # of the file with API keys, beside the knowledge
RECORDS_SUFFIX = ".checkins"  # of the folder with check-in records, beside the knowledge
MAX_ESCAPED_NAME = 120  # characters; most file systems allow 255 bytes
_PLAIN = re.compile(rb"[a-z0-9_-]")


def read_text(path: str | Path) -> str:
    """Return the text of a user's UTF-8 file without a byte order mark."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"0x{data[error.start]:02x} at byte {error.start}"
        raise Invalid(f"{str(path)!r} must be UTF-8 text, got {byte}") from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the tables of a user's TOML file."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path}: not TOML: {error}") from None


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a user's file; one that cannot be read is Invalid."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise Invalid(f"no file {str(path)!r}", "no_file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Invalid(f"cannot read {str(path)!r}: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def safe_name(prefix: str, name: str) -> str:
    """Return a distinct file name for any text.

    Lower-case letters and digits stay, other bytes become %xx, and a long name ends in a hash. The
    prefix avoids reserved and hidden names; no two names differ only in case.
    """
    data = name.encode("utf-8", "surrogatepass")
    escaped = "".join(chr(byte) if _PLAIN.match(bytes([byte])) else f"%{byte:02x}" for byte in data)
    if len(escaped) > MAX_ESCAPED_NAME:
        escaped = f"{escaped[:60]}.{hashlib.blake2b(data, digest_size=20).hexdigest()}"
    return f"{prefix}-{escaped}"


def store_file(url: str) -> Path | None:
    """Return the file behind a path or an SQLite URL; None for other stores."""
    scheme, colon, rest = url.partition(":")
    is_path = not colon or len(scheme) == 1  # a single letter is a drive
    if not is_path and scheme != "sqlite":
        return None
    name = url if is_path else rest.removeprefix("///")
    if not name.strip():
        raise invalid_store_url(url)
    return Path(name)


def sibling_path(url: str, suffix: str) -> Path:
    """Return a path beside the file of a store; in the working directory if it has no file."""
    file = store_file(url) or Path("knowloom")
    return file.with_name(f"{file.name}{suffix}")


def write_atomic(path: Path, data: bytes) -> None:
    """Replace the content of a file, atomically and durably."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder: a new name is durable only after that."""
    if os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class RefreshLock:
    """A reentrant lock for an in-memory copy of files, which `refresh` brings up to date."""

    def __init__(self, name: str, refresh: Callable[[], None]) -> None:
        self._name, self._refresh = name, refresh
        self._lock, self._depth, self._closed = RLock(), 0, False

    def close(self) -> None:
        """Make every later use Unavailable."""
        self._closed = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock; the outermost block refreshes first, and inside it nothing changes."""
        with self.exclusive():
            if not self._depth:
                self._refresh()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._name!r} is closed", "closed")
            yield


@contextmanager
def lock_file(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock file against other processes; the system releases it when a process dies."""
    with path.open("ab") as file:
        _acquire(file.fileno(), path, shared)
        try:
            yield
        finally:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_UN)


def _acquire(handle: int, path: Path, shared: bool) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while not _try_lock(handle, shared):
        if time.monotonic() > deadline:
            folder = str(path.parent)
            raise Unavailable(
                f"{folder!r} is locked by another process for more than {LOCK_TIMEOUT_S:g} s",
                "busy",
            )
        time.sleep(0.002)


def _try_lock(handle: int, shared: bool) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        else:
            import msvcrt

            os.lseek(handle, 0, os.SEEK_SET)
            # Closing the file releases it.
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return True
    except OSError:
        return False


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turn the system's errors about our own files into Unavailable."""
    try:
        yield
    except PermissionError as error:
        raise Unavailable(
            f"cannot read or write {path!r}: permission denied for {error.filename!r}", "read_only"
        ) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise Unavailable(
            f"{path!r} must be a folder, got the file {error.filename!r}", "no_folder"
        ) from error
    except OSError as error:
        code = "disk_full" if error.errno == errno.ENOSPC else ""
        raise Unavailable(
            f"{path!r}: {error.strerror or error} ({error.filename!r})", code
        ) from error
