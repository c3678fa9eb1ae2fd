"""Opening a knowloom file: the schema and its migrations, the settings of a connection, SQLite's errors in knowloom's words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from knowloom.errors import Corrupt, Invalid, Unavailable
from knowloom.text import words

APPLICATION = 0x4B4E4C4D  # "KNLM": tells our files from other people's
BUSY_TIMEOUT_MS = 30_000  # how long a writer waits for another process's commit
WRITER_CACHE_KB = 65_536
READER_CACHE_KB = 16_384  # the system keeps the file in memory, too, and readers keep what they made of it: with four times as much they are no faster

# One entry per schema version. Never edit one that was released: add the next.
MIGRATIONS = (
    f"""
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO meta VALUES ('commits', 0), ('analyser', '{words.ANALYSER}'), ('embedder', ''), ('dimensions', 0);

    -- `next` is the number the space's next item gets; `reset` the last commit that took rows out of `fresh`.
    CREATE TABLE space(
        no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, next INTEGER NOT NULL, items INTEGER NOT NULL, edges INTEGER NOT NULL,
        length INTEGER NOT NULL, digest TEXT NOT NULL, version INTEGER NOT NULL, reset INTEGER NOT NULL);

    -- An item's row is (space number << 32) + its number in the space: a space's rows lie together.
    CREATE TABLE item(row INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, UNIQUE(space, id));

    -- What filters and scores need, as arrays of fixed-size records, CHUNK items a row (view.py).
    CREATE TABLE record(space INTEGER, chunk INTEGER, version INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY(space, chunk));
    CREATE TABLE sign(space INTEGER, chunk INTEGER, version INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY(space, chunk));
    CREATE TABLE vector(row INTEGER PRIMARY KEY, data BLOB NOT NULL);

    -- Who holds a word: for BLOCK items a row, their places in the block (u16) and then the counts (u8). Recent items are in `fresh`.
    CREATE TABLE posting(id INTEGER PRIMARY KEY, space INTEGER NOT NULL, word TEXT NOT NULL, block INTEGER NOT NULL, data BLOB NOT NULL,
        UNIQUE(space, word, block));
    CREATE TABLE fresh(row INTEGER PRIMARY KEY, version INTEGER NOT NULL, words TEXT NOT NULL);

    -- `body` is JSON, only where an edge has more than the columns say: most links are just that, and read twice as fast.
    CREATE TABLE edge(space INTEGER, source TEXT, target_space INTEGER, target TEXT, type TEXT, weight REAL NOT NULL, body TEXT,
        PRIMARY KEY(space, source, target_space, target, type)) WITHOUT ROWID;
    CREATE INDEX edge_out ON edge(space, source, weight DESC, target, type, target_space, body);
    CREATE INDEX edge_in ON edge(target_space, target, weight DESC, source, type, space, body);

    CREATE TABLE change(number INTEGER PRIMARY KEY, space INTEGER NOT NULL, at TEXT NOT NULL, id TEXT NOT NULL, action TEXT NOT NULL,
        before TEXT);
    CREATE INDEX change_of ON change(space, number);
    """,
    """
    -- Links that knowloom makes have the origin 'knowloom'; they are counted apart from what people know.
    ALTER TABLE edge ADD COLUMN origin TEXT NOT NULL DEFAULT '';
    DROP INDEX edge_out;
    DROP INDEX edge_in;
    CREATE INDEX edge_out ON edge(space, source, weight DESC, target, type, target_space, body, origin);
    CREATE INDEX edge_in ON edge(target_space, target, weight DESC, source, type, space, body, origin);
    ALTER TABLE space ADD COLUMN links INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE space ADD COLUMN links_digest TEXT NOT NULL DEFAULT '0';

    -- Items whose links wait to be made. `before` is the item when they were last made: NULL for a new one, '' for what it is now.
    CREATE TABLE unlinked(space INTEGER, id TEXT, before TEXT, PRIMARY KEY(space, id)) WITHOUT ROWID;
    INSERT INTO unlinked SELECT space, id, NULL FROM item;
    -- Labels that too many items carry for a link to mean anything.
    CREATE TABLE common(space INTEGER, label TEXT, PRIMARY KEY(space, label)) WITHOUT ROWID;
    INSERT INTO meta VALUES ('links', '');
    """,
    # The log names the edge of every link, and is read by item. A new link did not say where it led before.
    """
    ALTER TABLE change ADD COLUMN target_space INTEGER;
    ALTER TABLE change ADD COLUMN target TEXT;
    ALTER TABLE change ADD COLUMN type TEXT;
    UPDATE change SET target = json_extract(before, '$.target'), type = coalesce(json_extract(before, '$.type'), 'related'),
        target_space = coalesce((SELECT no FROM space WHERE name = json_extract(before, '$.target_space')), space)
        WHERE action IN ('link', 'unlink') AND before IS NOT NULL;
    CREATE INDEX change_of_item ON change(space, id, number);
    CREATE INDEX change_of_target ON change(target_space, target, number) WHERE target IS NOT NULL;
    """,
    """
    -- The index of names: who is entered under a label, and all labels of an item (JSON), so that it can be taken out again.
    CREATE TABLE entry(space INTEGER, label TEXT, id TEXT, PRIMARY KEY(space, label, id)) WITHOUT ROWID;
    CREATE TABLE entered(space INTEGER, id TEXT, labels TEXT NOT NULL, PRIMARY KEY(space, id));
    -- Items whose links by names are out of date.
    CREATE TABLE stale(space INTEGER, id TEXT, PRIMARY KEY(space, id)) WITHOUT ROWID;
    -- All rules there were before: from now on all there are.
    UPDATE meta SET value = '' WHERE key = 'links' AND value = 'shared_tag/1 similar/1';
    """,
)
VERSION = len(MIGRATIONS)


def connect(path: str, cache_kb: int) -> apsw.Connection:
    """A connection to a file of the current schema, which keeps so much of it in memory. A file that cannot be written is opened for reading."""
    with translate_errors(path):
        connection = _open(path)
        for pragma in ("synchronous=FULL", f"cache_size=-{cache_kb}", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.config(
            apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1
        )  # else links are planned anew for every item they are read of: four times as long
        migrate(connection, path)
        return connection


def _open(path: str) -> apsw.Connection:
    _check_name(path)
    if not Path(path).exists() and not Path(path).absolute().parent.is_dir():
        raise Unavailable(
            f"cannot create {path!r}: the folder {str(Path(path).absolute().parent)!r} does not exist"
        )
    try:
        connection = apsw.Connection(path)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _refuse_foreign(connection, path)
        if not connection.readonly("main"):
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if not Path(path).is_file():
            raise
        return _open_in_read_only_folder(path)


def _check_name(path: str) -> None:
    try:
        os.stat(path)
    except FileNotFoundError:
        return
    except ValueError as error:
        raise Invalid(f"{path!r} cannot be the name of a file: {error}") from None
    except OSError as error:
        raise Unavailable(f"cannot open {path[:200]!r}: {error.strerror}") from error


def _open_in_read_only_folder(path: str) -> apsw.Connection:
    """SQLite cannot make its side files there; nobody else can be writing either, so it may do without."""
    waiting = Path(f"{path}-wal")
    if waiting.exists() and waiting.stat().st_size:
        raise Unavailable(
            f"the last writes to {path!r} wait in {str(waiting)!r}: open it once with write permission",
            "read_only",
        )
    uri = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    _refuse_foreign(connection, path)
    return connection


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring a file up to this program's schema, each step in one transaction."""
    found = connection.pragma("user_version")
    if found == VERSION:
        return
    if connection.readonly("main"):
        raise Unavailable(
            f"{path!r} is read-only and has schema {found}, not {VERSION}: open it once with write permission",
            "read_only",
        )
    with write_transaction(connection):
        found = connection.pragma("user_version")  # another process may have been quicker
        for number in range(found, VERSION):
            connection.execute(MIGRATIONS[number])
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")


def _refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """Files of other programs and of newer versions stay as they are: this comes before anything is written."""
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
    if tables and connection.pragma("application_id") != APPLICATION:
        raise Corrupt(f"{path!r} is an SQLite file of another program", "foreign_file")
    found = connection.pragma("user_version")
    if found > VERSION:
        raise Unavailable(
            f"{path!r} was written by a newer knowloom (schema {found}, this one knows {VERSION}): upgrade knowloom",
            "newer_version",
        )


@contextmanager
def write_transaction(connection: apsw.Connection) -> Iterator[None]:
    """One transaction: all of the block is stored, or nothing. Waits for the writers of other processes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have rolled back already
            connection.execute("ROLLBACK")
        raise


def _damaged(path: str, error: Exception) -> Corrupt:
    return Corrupt(
        f"{path!r} is damaged or not an SQLite file ({error}): restore it from a backup or an export"
    )


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """SQLite's errors as knowloom's, with what a user can do."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error
    except apsw.FullError as error:
        raise Unavailable(
            f"no room left while writing {path!r}: this write was undone, what was written before stays; make room and do it again",
            "disk_full",
        ) from error
    except apsw.ReadOnlyError as error:
        raise Unavailable(
            f"{path!r} cannot be written: the file or its folder is read-only", "read_only"
        ) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Unavailable(
            f"{path!r} is being written by another process for more than {BUSY_TIMEOUT_MS // 1000} s",
            "busy",
        ) from error
    except apsw.CantOpenError as error:
        raise Unavailable(f"cannot open {path!r}: {error}") from error
    except apsw.SQLError as error:
        lost = str(error).startswith(
            "no such "
        )  # our statements do not change: the file has lost a table
        raise _damaged(path, error) if lost else Unavailable(f"{path!r}: {error}") from error
    except apsw.Error as error:
        raise Unavailable(f"{path!r}: {error}") from error
