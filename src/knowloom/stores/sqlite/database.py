"""Open the database file: schema and migrations, connection settings, error translation."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from knowloom.errors import Corrupt, Invalid, Unavailable
from knowloom.stores.sqlite.damage import page_checksums
from knowloom.stores.sqlite.upkeep import upgrades
from knowloom.stores.sqlite.writing import segmentation
from knowloom.text import words

log = logging.getLogger(__name__)

APPLICATION_ID = 0x4B4E4C4D  # "KNLM"
LEGACY_APPLICATION_ID = 0x57454654  # files of pre-release versions, in another format
BUSY_TIMEOUT_MS = 30_000  # how long a writer waits for another process's commit
WRITER_CACHE_KB = 65_536
# The operating system caches the file as well, and read connections cache decoded values: four
# times as much page cache is no faster.
READER_CACHE_KB = 16_384

# One entry per schema version. Never edit a released one: add the next.
MIGRATIONS = (
    f"""
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO meta VALUES
        ('commits', 0), ('analyser', '{words.ANALYSER}'), ('embedder', ''), ('dimensions', 0),
        ('link_rules', '');

    -- `next_slot` is the slot of the space's next item; slots are never reused. `delta_reset` is
    -- the last commit that removed rows from `delta`. `links` counts the automatic edges, which
    -- have a digest of their own; `edges` counts the explicit ones.
    CREATE TABLE space(
        no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, next_slot INTEGER NOT NULL DEFAULT 0,
        items INTEGER NOT NULL DEFAULT 0, edges INTEGER NOT NULL DEFAULT 0,
        links INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0,
        digest TEXT NOT NULL DEFAULT '0', links_digest TEXT NOT NULL DEFAULT '0',
        version INTEGER NOT NULL DEFAULT 0, delta_reset INTEGER NOT NULL DEFAULT 0);

    -- An item's row is (space number << 32) + its slot: the rows of a space are contiguous.
    CREATE TABLE item(
        row INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
        UNIQUE(space, id));

    -- Fixed-size records for filters and scores, and sign bits of vectors, CHUNK items a row.
    CREATE TABLE item_meta(
        space INTEGER, chunk INTEGER, version INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY(space, chunk));
    CREATE TABLE sign(
        space INTEGER, chunk INTEGER, version INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY(space, chunk));
    CREATE TABLE vector(row INTEGER PRIMARY KEY, data BLOB NOT NULL);

    -- Postings of a term, BLOCK items a row: slots within the block (u16), then counts (u8).
    -- Items written recently are in `delta` (terms as JSON) until they are merged.
    CREATE TABLE posting(
        id INTEGER PRIMARY KEY, space INTEGER NOT NULL, term TEXT NOT NULL,
        block INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE(space, term, block));
    CREATE TABLE delta(
        row INTEGER PRIMARY KEY, version INTEGER NOT NULL, terms TEXT NOT NULL);

    -- `body` is JSON, NULL when the columns say all: most edges are such, and read twice as fast.
    -- `origin` is '' for explicit edges.
    CREATE TABLE edge(
        space INTEGER, source TEXT, target_space INTEGER, target TEXT, type TEXT,
        weight REAL NOT NULL, body TEXT, origin TEXT NOT NULL DEFAULT '',
        PRIMARY KEY(space, source, target_space, target, type)) WITHOUT ROWID;
    CREATE INDEX edge_out
        ON edge(space, source, weight DESC, target, type, target_space, body, origin);
    CREATE INDEX edge_in
        ON edge(target_space, target, weight DESC, source, type, space, body, origin);

    -- `target_space`, `target` and `type` identify the edge of 'link' and 'unlink'.
    CREATE TABLE change_log(
        number INTEGER PRIMARY KEY, space INTEGER NOT NULL, at TEXT NOT NULL, id TEXT NOT NULL,
        action TEXT NOT NULL, before TEXT, target_space INTEGER, target TEXT, type TEXT);
    CREATE INDEX change_by_space ON change_log(space, number);
    CREATE INDEX change_by_item ON change_log(space, id, number);
    CREATE INDEX change_by_target ON change_log(target_space, target, number)
        WHERE target IS NOT NULL;

    -- Items whose automatic edges must be recomputed. `before` is the item when they were last
    -- computed: NULL for a new item, '' for one that has not changed since.
    CREATE TABLE dirty(space INTEGER, id TEXT, before TEXT, PRIMARY KEY(space, id)) WITHOUT ROWID;
    -- Items whose automatic edges by name are out of date.
    CREATE TABLE dirty_name(space INTEGER, id TEXT, PRIMARY KEY(space, id)) WITHOUT ROWID;
    -- Labels of so many items that an edge for a shared one would mean nothing.
    CREATE TABLE frequent_label(
        space INTEGER, label TEXT, PRIMARY KEY(space, label)) WITHOUT ROWID;
    -- The name index: items by label, and the labels of each item (JSON), to remove them again.
    CREATE TABLE name_index(
        space INTEGER, label TEXT, id TEXT, PRIMARY KEY(space, label, id)) WITHOUT ROWID;
    CREATE TABLE name_labels(
        space INTEGER, id TEXT, labels TEXT NOT NULL, PRIMARY KEY(space, id));
    """,
    # From here on an item has a slot for each of its passages, and its row is that of the first.
    "INSERT INTO meta VALUES ('segmenter', '')",
    # The list of the nearest items of each item with a vector, for automatic edges.
    """
    CREATE TABLE nearest(row INTEGER PRIMARY KEY, version INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE INDEX nearest_by_version ON nearest(version);
    """,
    # From here on the text index has the most frequent words as well, and words without accents.
    "DELETE FROM posting; DELETE FROM delta",
    # The author of each change; the backups that may contain an item; the days that the history of
    # a space is kept (NULL: forever). From here on an erased `change_log.before` is ''.
    """
    ALTER TABLE change_log ADD COLUMN actor TEXT NOT NULL DEFAULT '';
    ALTER TABLE space ADD COLUMN retention_days INTEGER;
    CREATE TABLE backup(path TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
    """,
    # From here on the text index has the parts of names in camel case as well.
    "DELETE FROM posting; DELETE FROM delta",
)
VERSION = len(MIGRATIONS)
# Functions that convert the data after the migration to a schema version.
CONVERSIONS = {2: segmentation.cut_items, 6: segmentation.index_items}


def connect(path: str, cache_kb: int) -> apsw.Connection:
    """Open a connection with this page cache and migrate the file to the current schema.

    A file that cannot be written is open_twin read-only.
    """
    with translate_errors(path):
        connection = _open(path)
        for pragma in ("synchronous=FULL", f"cache_size=-{cache_kb}", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        # A stable query plan: otherwise the edge query is planned again for each item it is
        # executed with, which takes four times as long.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        migrate(connection, path)
        return connection


def _open(path: str) -> apsw.Connection:
    _validate_path(path)
    folder = Path(path).absolute().parent
    if not Path(path).exists() and not folder.is_dir():
        raise Unavailable(
            f"cannot create {path!r}: the folder {str(folder)!r} does not exist", "no_folder"
        )
    try:
        connection = apsw.Connection(path, vfs=page_checksums.register_vfs())
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        refuse_foreign(connection, path)
        if not connection.readonly("main"):
            if not connection.pragma("page_count"):
                page_checksums.reserve_bytes(connection)
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if not Path(path).is_file():
            raise
        return _open_in_read_only_folder(path)


def _validate_path(path: str) -> None:
    try:
        os.stat(path)
    except FileNotFoundError:
        return
    except ValueError as error:
        raise Invalid(f"{path!r} is not a valid file name: {error}") from None
    except OSError as error:
        raise Unavailable(f"cannot open {path[:200]!r}: {error.strerror}") from error


def _open_in_read_only_folder(path: str) -> apsw.Connection:
    """Open without side files: SQLite cannot create them here, and no other process can write."""
    wal = Path(f"{path}-wal")
    if wal.exists() and wal.stat().st_size:
        raise Unavailable(
            f"the last writes to {path!r} are still in {str(wal)!r}: "
            "open it once with write permission",
            "read_only",
        )
    uri = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(uri, flags=flags, vfs=page_checksums.register_vfs())
    refuse_foreign(connection, path)
    return connection


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the file to the current schema, in one transaction."""
    version = connection.pragma("user_version")
    if version == VERSION:
        return
    if connection.readonly("main"):
        raise Unavailable(
            f"{path!r} is read-only and has schema {version}, which must be upgraded to "
            f"{VERSION}: open it once with write permission",
            "read_only",
        )
    with write_transaction(connection):
        version = connection.pragma("user_version")  # another process may have migrated it
        backup = upgrades.back_up(path) if 0 < version < VERSION else None
        for script in MIGRATIONS[version:]:
            connection.execute(script)
        # Last: they write like this version does, which needs all of its tables.
        for number, convert in CONVERSIONS.items():
            if number > version:
                convert(connection)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        if backup is not None:
            upgrades.record(connection, backup)
    if backup is not None:
        log.warning(
            "%s was upgraded from schema %d to %d; the file as it was is %s",
            *(path, version, VERSION, backup),
        )


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """Raise for files of other programs, formats and newer versions, before anything is written."""
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
    application_id = connection.pragma("application_id")
    if application_id == LEGACY_APPLICATION_ID:
        raise Corrupt(
            f"{path!r} was written by a pre-release version with another file format; "
            "export it with that version and load it again",
            "foreign_file",
        )
    if tables and application_id != APPLICATION_ID:
        raise Corrupt(f"{path!r} is an SQLite file of another program", "foreign_file")
    version = connection.pragma("user_version")
    if version > VERSION:
        raise Unavailable(
            f"{path!r} was written by a newer knowloom (schema {version}, "
            f"this one supports {VERSION}): upgrade knowloom",
            "newer_version",
        )


@contextmanager
def write_transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commit the whole block or nothing. Waits for writers of other processes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have rolled back already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors as knowloom's, with advice for the user."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise _damaged_file(path, error) from error
    except apsw.FullError as error:
        raise Unavailable(
            f"no space left while writing {path!r}: this step was rolled back, "
            "earlier writes are kept; free some space and retry",
            "disk_full",
        ) from error
    except apsw.ReadOnlyError as error:
        raise Unavailable(
            f"cannot write {path!r}: the file or its folder is read-only", "read_only"
        ) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Unavailable(
            f"{path!r} has been locked by another writer for more than {BUSY_TIMEOUT_MS // 1000} s",
            "busy",
        ) from error
    except apsw.CantOpenError as error:
        raise Unavailable(f"cannot open {path!r}: {error}") from error
    except apsw.SQLError as error:
        # Our statements do not change: "no such table" means that the file has lost it.
        if str(error).startswith("no such "):
            raise _damaged_file(path, error) from error
        raise Unavailable(f"{path!r}: {error}") from error
    except apsw.IOError as error:
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
            raise _damaged_file(path, error) from error
        raise Unavailable(
            f"{path!r} could not be read or written now ({error}): try again", "io_error"
        ) from error
    except apsw.Error as error:
        raise Unavailable(f"{path!r}: {error}") from error


def close_connection(connection: apsw.Connection, path: str) -> None:
    """Close a connection, even if the disk is full.

    The last one copies the write-ahead log into the file. If it cannot, the log stays, and the next
    process that opens the file reads it.
    """
    try:
        connection.close()
    except apsw.Error as error:
        log.warning("%r was closed, and its write-ahead log kept: %s", path, error)


def _damaged_file(path: str, error: Exception) -> Corrupt:
    return Corrupt(
        f"{path!r} is damaged or not an SQLite file ({error}): "
        "restore it from a backup, or salvage what can be read with `knowloom repair`"
    )
