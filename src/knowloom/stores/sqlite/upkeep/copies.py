"""Copies of the file: one state with a header, which becomes complete under another name first."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from knowloom import codec
from knowloom.errors import Corrupt, Invalid, Unavailable
from knowloom.files import sync_folder, translate_errors
from knowloom.model import Key
from knowloom.ports import BackupHeader, Batch
from knowloom.stores.sqlite.change_log import ERASED
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from knowloom.stores.sqlite.writing.writer import BatchWriter

PAGES = 4096  # copied at a time
HEADER = """
    CREATE TABLE backup_header(at TEXT NOT NULL, source TEXT NOT NULL);
    CREATE TABLE backup_file(
        role TEXT PRIMARY KEY, digest BLOB NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
"""
ELSEWHERE = "keys of profiles"  # the role of the list of items in another store
SIDE_FILES = ("-wal", "-shm", "-journal")
MAGIC = b"SQLite format 3\0"

Check = Callable[[apsw.Connection], Sequence[str]]


def write_backup(
    source: apsw.Connection, path: Path, header: BackupHeader, find_problems: Check
) -> None:
    """Write the state that the source reads to a new file, which appears complete and verified.

    Raise Corrupt if the copy has problems; then there is no file.
    """
    with complete_file(path) as partial:
        copy_pages(source, partial)
        with closing(apsw.Connection(str(partial), vfs=register_vfs())) as copy:
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, without side files
            if header.items:
                _add_items(copy, header)
            _write_header(copy, header, path)
            problems = find_problems(copy)
        if problems:
            raise Corrupt(
                f"the backup {str(path)!r} was not written: the copy has {len(problems)} problems, "
                f"such as: {problems[0]}"
            )


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield another name in the folder; the new file gets its own name if the block succeeds."""
    with scratch_file(path) as partial:
        yield partial
        if path.exists():
            raise Unavailable(f"{str(path)!r} exists: name another file", "exists")
        move(partial, path)


@contextmanager
def scratch_file(path: Path) -> Iterator[Path]:
    """Yield the name of an empty private file beside a path, which is deleted at the end."""
    partial = path.with_name(f".{path.name}.partial")
    with translate_errors(str(path)):
        remove_file(partial)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            yield partial
        finally:
            remove_file(partial)


def move(partial: Path, path: Path) -> None:
    """Give a complete file its name, durably."""
    handle = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    partial.replace(path)
    sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Delete a database with its side files, as far as they exist."""
    for suffix in ("", *SIDE_FILES):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def open_file(path: Path) -> apsw.Connection:
    """Open a file for reading and writing, as it is."""
    return apsw.Connection(str(path), vfs=register_vfs())


def copy_pages(source: apsw.Connection, path: Path) -> None:
    with closing(apsw.Connection(str(path), vfs=register_vfs())) as target:
        target.execute("PRAGMA synchronous=OFF")  # the complete file is synced
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES)


def _write_header(copy: apsw.Connection, header: BackupHeader, path: Path) -> None:
    with copy:
        copy.execute("DROP TABLE IF EXISTS backup_header; DROP TABLE IF EXISTS backup_file")
        copy.execute(HEADER)
        row = (codec.time_to_text(header.at), header.source)
        copy.execute("INSERT INTO backup_header VALUES (?, ?)", row)
        if list(copy.execute("SELECT 1 FROM sqlite_schema WHERE name = 'backup'")):
            # A restored file knows of the backup that it came from.
            copy.execute("INSERT OR REPLACE INTO backup VALUES (?, ?)", (str(path), row[0]))
        files = dict(header.files)
        if header.elsewhere:
            files[ELSEWHERE] = codec.to_json(header.elsewhere).encode()
        for role, data in sorted(files.items()):
            digest = hashlib.sha256(data).digest()
            copy.execute("INSERT INTO backup_file VALUES (?, ?, ?)", (role, digest, data))


def _add_items(copy: apsw.Connection, header: BackupHeader) -> None:
    with copy:
        batch = Batch(header.at, header.items)
        BatchWriter(copy, codec.time_to_text(header.at)).apply(batch)


def remove_header(connection: apsw.Connection) -> None:
    """Turn a backup into the file that was copied."""
    connection.execute("DROP TABLE backup_header; DROP TABLE backup_file")


def read_header(connection: apsw.Connection, path: Path) -> BackupHeader:
    """Return the header of a backup; raise Invalid for a file without one."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    if "backup_header" not in tables:
        raise Invalid(f"{str(path)!r} is not a backup; knowloom opens it as it is", "no_backup")
    rows = list(connection.execute("SELECT at, source FROM backup_header"))
    if len(rows) != 1:
        raise Corrupt(f"the backup {str(path)!r} is damaged: it has {len(rows)} headers, not 1")
    ((at, source),) = rows
    files: dict[str, bytes] = {}
    for role, digest, data in connection.execute("SELECT role, digest, data FROM backup_file"):
        if not isinstance(data, bytes) or hashlib.sha256(data).digest() != digest:
            raise Corrupt(f"the backup {str(path)!r} is damaged: its copy of the {role} differs")
        files[role] = data
    rows = json.loads(files.pop(ELSEWHERE, b"[]"))
    elsewhere = tuple((space, id) for space, id in rows)
    schema = connection.pragma("user_version")
    return BackupHeader(codec.text_to_time(at), source, schema, files, elsewhere=elsewhere)


def open_immutable(path: Path) -> apsw.Connection:
    """Open a file that no process writes, without creating side files."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(uri, flags=flags, vfs=register_vfs())


def is_own_file(path: Path, application_id: int) -> bool:
    """Return True for a knowledge file, damaged or not."""
    with path.open("rb") as file:
        start = file.read(72)
    if start[:16] != MAGIC or start[68:72] == application_id.to_bytes(4):
        return start[:16] == MAGIC
    if not path.with_name(f"{path.name}-wal").exists():
        return False
    with closing(open_file(path)) as connection:  # the first page may still be in the log
        return bool(connection.pragma("application_id") == application_id)


def has_state(path: Path, keys: Sequence[Key]) -> bool:
    """Return True if a backup has one of the items, or an earlier state of it."""
    query = f"""SELECT 1 FROM space JOIN item ON item.space = space.no AND item.id = ?2
        WHERE space.name = ?1 UNION ALL
        SELECT 1 FROM space JOIN change_log AS log ON log.space = space.no AND log.id = ?2
        WHERE space.name = ?1 AND log.before <> '{ERASED}' LIMIT 1"""
    with closing(open_immutable(path)) as connection:
        return any(list(connection.execute(query, key)) for key in keys)
