"""Read transactions on pooled connections, and write transactions with their locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock, local
from types import TracebackType
from typing import Any, TypeVar

import psycopg

from knowloom.errors import Unavailable
from knowloom.stores.postgresql.address import Address
from knowloom.stores.postgresql.driver import DeadlineConnection, connect
from knowloom.stores.postgresql.edge_queries import HeaviestEdges
from knowloom.stores.postgresql.failures import NoAnswerError, is_lost, translate_errors
from knowloom.stores.postgresql.space_arrays import SPACE_COLUMNS, SpaceArrays
from knowloom.stores.postgresql.table_definitions import LOCK_CLASS, prepare_schema

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]

_META = """SELECT key, value FROM meta
    UNION ALL SELECT 'vectors', EXISTS (SELECT 1 FROM vector)::integer::text
    UNION ALL SELECT 'calibration:' || fingerprint, md5(fingerprint) || md5(data)
        FROM calibration"""
# With a row for `meta`, which nearly every block needs too: its keys and values.
_SPACES = f"""SELECT name, {SPACE_COLUMNS}, NULL::text[], NULL::text[] FROM space
    WHERE name = ANY(%s)
    UNION ALL SELECT NULL, {", ".join(["NULL"] * len(SPACE_COLUMNS.split(", ")))},
        array_agg(key), array_agg(value) FROM ({_META}) AS meta"""
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Ordinary writes share this lock; writes to all spaces hold it alone.
LOCK = "SELECT pg_advisory_xact_lock{}({}, to_regnamespace(current_schema())::oid::integer)"


class ReadSession:
    """A connection for reading, and the spaces as it last saw them. Not shared by threads."""

    def __init__(self, open_connection: Callable[[], DeadlineConnection]) -> None:
        self._open_connection = open_connection
        self._current: dict[str, SpaceArrays | None] = {}  # in this transaction
        self._rows: dict[str, tuple[Any, ...] | None] = {}  # of spaces in this transaction
        self._meta: dict[str, str] = {}  # in this transaction
        self._calibration = ("", b"")  # the last one that was read, with its digest
        self._in_transaction = False
        # In this transaction there was a search, and one by vectors: see `reading.prefetch`.
        self.reads_hits = self.reads_vectors = False
        self.deferred: dict[int, list[int]] = {}  # by space: hits whose texts are still to be read
        self._connect()

    def _connect(self) -> None:
        """Open a connection and forget the spaces.

        A server that crashed may have lost the last automatic edges, and counts versions anew.
        """
        self.connection = self._open_connection()
        self._arrays: dict[str, SpaceArrays] = {}
        self.edges = HeaviestEdges()

    def fetch(self, query: str, values: Values = ()) -> list[Row]:
        """Return the rows of a statement; the first one of a block opens its transaction."""
        if self._in_transaction:
            cursor = self.connection.cursor(binary=True)
            return cursor.execute(query.encode(), values).fetchall()
        try:
            return self._begin(query, values)
        except psycopg.Error as error:
            if not is_lost(error, self.connection):
                raise
        self._connect()  # the server was restarted since the last block
        return self._begin(query, values)

    def _begin(self, query: str, values: Values) -> list[Row]:
        cursor = self.connection.cursor(binary=True)
        self._in_transaction = True
        with self.connection.pipeline():
            self.connection.execute(BEGIN_READING)
            cursor.execute(query.encode(), values)
        return cursor.fetchall()

    def meta(self, key: str) -> str:
        """Return a value of `meta`; "vectors" is "1" if there are any."""
        if not self._meta:
            self._meta = dict(self.fetch(_META))
        return self._meta[key]

    def calibration(self, fingerprint: str) -> bytes:
        """Return the stored calibration of an embedder, b"" if there is none."""
        self.meta("version")
        digest = self._meta.get(f"calibration:{fingerprint}")
        if digest is None:
            return b""
        if self._calibration[0] != digest:
            query = "SELECT data FROM calibration WHERE fingerprint = %s"
            ((data,),) = self.fetch(query, (fingerprint,))
            self._calibration = digest, bytes(data)
        return self._calibration[1]

    def space_rows(self, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return the rows (SPACE_COLUMNS) of the existing ones of the spaces."""
        missing = [name for name in dict.fromkeys(names) if name not in self._rows]
        if missing:
            rows = self.fetch(_SPACES, (missing,))
            self._rows |= dict.fromkeys(missing)
            for name, *row in rows:
                if name is None:
                    self._meta = dict(zip(*row[-2:], strict=True))
                else:
                    self._rows[name] = tuple(row[:-2])
        rows_by_name = ((name, self._rows[name]) for name in dict.fromkeys(names))
        return {name: row for name, row in rows_by_name if row is not None}

    def views(self, names: Sequence[str]) -> dict[str, SpaceArrays]:
        """Return the existing ones of the spaces, each as it is in this transaction."""
        missing = [name for name in dict.fromkeys(names) if name not in self._current]
        if missing:
            rows = self.space_rows(missing)
            for name in missing:
                self._current[name] = self._refresh(name, rows[name]) if name in rows else None
        views = ((name, self._current[name]) for name in dict.fromkeys(names))
        return {name: view for name, view in views if view is not None}

    def current_views(self) -> dict[str, SpaceArrays]:
        """Return the spaces that were read in this transaction."""
        return {name: view for name, view in self._current.items() if view is not None}

    def _refresh(self, name: str, row: Sequence[Any]) -> SpaceArrays:
        view = self._arrays.get(name)
        if view is None or view.no != row[0]:
            view = self._arrays[name] = SpaceArrays(row[0])
        view.refresh(self.fetch, row)
        return view

    def end(self) -> None:
        """End the transaction of a block."""
        for values in (self._current, self._rows, self._meta, self.deferred):
            values.clear()
        self.reads_hits = self.reads_vectors = False
        if self._in_transaction:
            self._in_transaction = False
            self.connection.execute("ROLLBACK")


class Pool:
    """The connections of one store: for reading up to a limit, and for writing."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.thread = local()  # `thread.session`: the one that this thread is reading by
        self._idle: list[ReadSession] = []
        self._writers: list[DeadlineConnection] = []
        self._lock = Lock()
        self._slots = BoundedSemaphore(address.pool_size)
        self._closed = False
        with translate_errors(address):
            session = ReadSession(self._connect)
            try:
                prepare_schema(session.connection, address)
            except BaseException:
                session.connection.close()
                raise
        self._idle.append(session)

    def _connect(self) -> DeadlineConnection:
        return connect(self.address)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections = [session.connection for session in self._idle] + self._writers
            self._idle, self._writers = [], []
        for connection in connections:
            connection.close()

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self.address.name} was closed", "closed")

    def acquire(self) -> ReadSession:
        self.check_open()
        if not self._slots.acquire(timeout=self.address.statement_timeout_s):
            limit = self.address.pool_size
            raise Unavailable(
                f"{self.address.name}: all {limit} connections of this process are in use: "
                "raise pool_size in the URL",
                "busy",
            )
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()  # the last used has the warmest caches
            return ReadSession(self._connect)
        except BaseException:
            self._slots.release()
            raise

    def release(self, session: ReadSession) -> None:
        """Take a session back; one that is broken, or in an unknown state, is dropped."""
        try:
            session.end()
        except (psycopg.Error, NoAnswerError):
            session.connection.close()
        finally:
            self._slots.release()
        with self._lock:
            if not self._closed and not session.connection.closed:
                self._idle.append(session)
                return
        session.connection.close()

    @contextmanager
    def writing(
        self, exclusive: bool = False, durable: bool = True
    ) -> Iterator[DeadlineConnection]:
        """Run the block in one transaction; an exclusive one waits until no other is running.

        Statements are sent together, up to the next one whose rows are read.
        """
        self.check_open()
        with translate_errors(self.address):
            connection = self._begin_writing(exclusive, durable)
            try:
                with connection.pipeline():
                    yield connection
                    connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            finally:
                self._release_writer(connection)

    @contextmanager
    def connecting(self) -> Iterator[DeadlineConnection]:
        """Use a connection of its own, outside of any transaction."""
        self.check_open()
        connection = self._connect()
        try:
            yield connection
        finally:
            connection.close()

    def _release_writer(self, connection: DeadlineConnection) -> None:
        with self._lock:
            if not self._closed and not connection.closed:
                self._writers.append(connection)
                return
        connection.close()

    def _begin_writing(self, exclusive: bool, durable: bool) -> DeadlineConnection:
        with self._lock:
            connection = self._writers.pop() if self._writers else None
        statements = ["BEGIN", LOCK.format("" if exclusive else "_shared", LOCK_CLASS)]
        if not durable:
            statements.insert(1, "SET LOCAL synchronous_commit TO off")
        for attempt in range(2):
            is_new = connection is None
            if connection is None:
                connection = self._connect()
            try:
                with connection.pipeline():
                    for statement in statements:
                        connection.execute(statement.encode())
                    rows = connection.execute("SELECT key, value FROM meta")
                connection.meta = dict(rows.fetchall())
                return connection
            except (psycopg.Error, NoAnswerError) as error:
                is_stale = not is_new and is_lost(error, connection)
                self._roll_back(connection)
                connection.close()
                if attempt or not is_stale:
                    raise
                connection = None  # the server was restarted since
        raise AssertionError("unreachable")

    def _roll_back(self, connection: DeadlineConnection) -> None:
        try:
            if not connection.closed:
                connection.execute("ROLLBACK")
        except (psycopg.Error, NoAnswerError):
            connection.close()


class SnapshotBlock:
    """A context manager: one snapshot for all reads of a block; nested blocks join it."""

    __slots__ = ("_nested", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> ReadSession:
        pool = self._pool
        pool.check_open()
        session: ReadSession | None = getattr(pool.thread, "session", None)
        self._nested = session is not None
        if session is None:
            with translate_errors(pool.address):
                session = pool.thread.session = pool.acquire()
        return session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool = self._pool
        if not self._nested:
            session, pool.thread.session = pool.thread.session, None
            if isinstance(error, NoAnswerError):
                session.connection.close()
            pool.release(session)
        if isinstance(error, psycopg.Error | NoAnswerError | UnicodeEncodeError):
            with translate_errors(pool.address):
                raise error
