"""Files that survive a kill: whole or not at all, one writer at a time, and under names that no id can misuse."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import ModuleType

from knowloom.errors import Unavailable, unnamed

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_TIMEOUT_S = 30.0  # how long a writer waits for another process
CHECKINS = ".checkins"  # the records of texts taken in lie beside the knowledge
LONG = 120  # characters; most file systems allow 255 bytes
_PLAIN = re.compile(rb"[a-z0-9_-]")


def safe_name(prefix: str, name: str) -> str:
    """A file name for any text, a different one for each: small letters and digits stay, all else is written as %xx. What is long
    ends in a hash. The prefix keeps it from being a reserved or hidden name; no two differ only in case."""
    plain = "".join(
        chr(byte) if _PLAIN.match(bytes([byte])) else f"%{byte:02x}"
        for byte in name.encode("utf-8", "surrogatepass")
    )
    if len(plain) > LONG:
        plain = f"{plain[:60]}.{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"
    return f"{prefix}-{plain}"


def file_of(url: str) -> Path | None:
    """The file behind a path or an SQLite URL; None for other stores."""
    scheme, colon, rest = url.partition(":")
    plain = not colon or len(scheme) == 1  # a path, perhaps on a drive
    if not plain and scheme != "sqlite":
        return None
    name = url if plain else rest.removeprefix("///")
    if not name.strip():
        raise unnamed(url)
    return Path(name)


def beside(url: str, end: str) -> Path:
    """A name beside the file of a store; for a store that is not a file, in this folder."""
    file = file_of(url) or Path("knowloom")
    return file.with_name(f"{file.name}{end}")


def write_whole(path: Path, data: bytes) -> None:
    """The file has these bytes, or those it had before, whatever happens meanwhile; once this returns they are on the disk."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """A new name is on the disk only when its folder is."""
    if os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Turns:
    """Memory that follows files: one thread at a time, and nothing any more once it is closed. `refresh` looks what other processes wrote."""

    def __init__(self, name: str, refresh: Callable[[], None]) -> None:
        self._name, self._refresh = name, refresh
        self._lock, self._depth, self._closed = RLock(), 0, False

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The outermost block looks what other processes wrote; inside it nothing changes."""
        with self.alone():
            if not self._depth:
                self._refresh()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._name!r} was closed", "closed")
            yield


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Alone with the files that this lock file guards, or beside other readers. The system lets go when a process dies."""
    with path.open("ab") as file:
        _acquire(file.fileno(), path, shared)
        try:
            yield
        finally:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_UN)


def _acquire(handle: int, path: Path, shared: bool) -> None:
    until = time.monotonic() + LOCK_TIMEOUT_S
    while not _tried(handle, shared):
        if time.monotonic() > until:
            raise Unavailable(
                f"{str(path.parent)!r} is being written by another process for more than {LOCK_TIMEOUT_S:g} s",
                "busy",
            )
        time.sleep(0.002)


def _tried(handle: int, shared: bool) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        else:
            import msvcrt

            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # let go when the file is closed
        return True
    except OSError:
        return False


@contextmanager
def translated(where: str) -> Iterator[None]:
    """The system's errors as knowloom's, with what a user can do."""
    try:
        yield
    except PermissionError as error:
        raise Unavailable(
            f"{where!r} cannot be written or read: permission denied for {error.filename!r}",
            "read_only",
        ) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise Unavailable(
            f"{where!r} is not a folder: {error.filename!r} is a file", "no_folder"
        ) from error
    except OSError as error:
        raise Unavailable(
            f"{where!r}: {error.strerror or error} ({error.filename!r})",
            "disk_full" if error.errno == 28 else "",
        ) from error
