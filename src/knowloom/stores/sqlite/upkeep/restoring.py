"""Restoring a backup: to a new file, or over a file that no process has open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from knowloom.errors import Conflict, Corrupt, Invalid, Unavailable
from knowloom.model import Key
from knowloom.ports import BackupHeader
from knowloom.stores.sqlite import verify
from knowloom.stores.sqlite.database import (
    APPLICATION_ID,
    VERSION,
    refuse_foreign,
    translate_errors,
)
from knowloom.stores.sqlite.upkeep import copies

BUSY_TIMEOUT_MS = 1000  # for others to close the file


def read_backup(path: Path) -> BackupHeader:
    """Return the header of a backup; raise for files that are none, and for damaged ones."""
    if not path.is_file():
        raise Invalid(f"no backup {str(path)!r}", "no_file")
    with translate_errors(str(path)), closing(copies.open_immutable(path)) as connection:
        refuse_foreign(connection, str(path))
        return copies.read_header(connection, path)


def restore(backup: Path, target: Path, overwrite: bool) -> None:
    """Restore a verified copy of the backup; on any error the target is as it was.

    With `overwrite` an existing file is replaced in one transaction, unless it is open elsewhere.
    """
    with prepare_restore(backup, target, overwrite):
        pass


@contextmanager
def unpack(data: bytes, path: str, overwrite: bool) -> Iterator[None]:
    """Restore a packed store at the end of the block; raise before it if that is impossible."""
    if not data.startswith(copies.MAGIC):
        raise Invalid(
            f"the backup has the profiles of a folder, got the SQLite file {path!r}: "
            "name a folder, such as file:profiles/",
            "unsupported",
        )
    with unpacked_file(data) as backup, prepare_restore(backup, Path(path), overwrite):
        yield


@contextmanager
def unpacked_file(data: bytes) -> Iterator[Path]:
    """Yield the path of a temporary file with the bytes of a packed store."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "packed")
        path.write_bytes(data)
        yield path


@contextmanager
def prepare_restore(backup: Path, target: Path, overwrite: bool) -> Iterator[None]:
    """Verify a copy of the backup, and give it the name of the target at the end of the block."""
    header = read_backup(backup)
    exists = target.exists() and bool(target.stat().st_size)
    if exists and not overwrite:
        raise Conflict(f"{str(target)!r} exists: pass overwrite to replace it", "exists")
    if exists and not copies.is_own_file(target, APPLICATION_ID):
        raise Corrupt(
            f"{str(target)!r} is not a knowledge file: move it away, or name another",
            "foreign_file",
        )
    with translate_errors(str(target)), copies.scratch_file(target) as partial:
        shutil.copyfile(backup, partial)
        _prepare(partial, backup, header)
        yield
        if exists:
            _replace_content(target, partial)
        else:
            copies.move(partial, target)


def _prepare(partial: Path, backup: Path, header: BackupHeader) -> None:
    """Verify the copy of a backup and remove its header."""
    with translate_errors(str(backup)), closing(copies.open_file(partial)) as connection:
        problems = find_problems(connection, header.elsewhere)
        if problems:
            raise Corrupt(
                f"the backup {str(backup)!r} is damaged and was not restored: {problems[0]}"
            )
        copies.remove_header(connection)


def find_problems(connection: apsw.Connection, elsewhere: Sequence[Key]) -> list[str]:
    """Verify a file of the current schema; of an older one, which is upgraded later, its pages."""
    if connection.pragma("user_version") == VERSION:
        return verify.find_problems(connection, frozenset(elsewhere))
    return [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]


def _replace_content(target: Path, partial: Path) -> None:
    """Replace an existing file in one transaction; one that is too damaged to open, by a rename."""
    try:
        with closing(copies.open_file(target)) as connection:
            _lock(connection, target)
            with (
                closing(copies.open_file(partial)) as source,
                connection.backup("main", source, "main") as backup,
            ):
                backup.step(-1)
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError):
        for suffix in copies.SIDE_FILES:
            target.with_name(f"{target.name}{suffix}").unlink(missing_ok=True)
        copies.move(partial, target)


def _lock(connection: apsw.Connection, target: Path) -> None:
    """Lock out all others; raise Unavailable if another process, or an engine, has it open.

    A running process has caches that a restored file, with its lower version numbers, would not
    invalidate.
    """
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
        connection.execute("BEGIN EXCLUSIVE; COMMIT")
        mode = connection.pragma("journal_mode", "DELETE")
    except (apsw.BusyError, apsw.LockedError):
        mode = "wal"
    if mode == "wal":
        raise Unavailable(
            f"{str(target)!r} is open elsewhere: stop the server and close it first", "busy"
        )
