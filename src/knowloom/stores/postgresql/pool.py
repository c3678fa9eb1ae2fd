"""The connections of a store: read transactions, and write transactions with their locks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock, local
from types import TracebackType
from typing import Any

import psycopg

from knowloom.errors import Unavailable
from knowloom.stores.postgresql.address import Address
from knowloom.stores.postgresql.approximate.index_tables import Hnsw, open_hnsw
from knowloom.stores.postgresql.driver import DeadlineConnection, connect
from knowloom.stores.postgresql.failures import NoAnswerError, is_lost, translate_errors
from knowloom.stores.postgresql.reading.replicas import (
    WRITTEN,
    ReplicaMonitor,
    ReplicaSession,
    close_idle,
)
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.table_definitions import LOCK_CLASS, prepare_schema

# Ordinary writes share this lock; writes to all spaces hold it alone.
LOCK = "SELECT pg_advisory_{}({}, to_regnamespace(current_schema())::oid::integer)"
WRITERS = {True: "xact_lock", False: "xact_lock_shared"}


class Pool:
    """The connections of one store: for reading up to a limit, and for writing."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.thread = local()  # `thread.session`: the one that this thread is reading by
        self._idle: list[ReadSession] = []
        self._writers: list[DeadlineConnection] = []
        self._lock = Lock()
        self._slots = BoundedSemaphore(address.pool_size)
        self._writer_slots = BoundedSemaphore(address.pool_size)
        self._closed = False
        self.hnsw: Hnsw | None = None
        with translate_errors(address):
            session = ReadSession(self._connect)
            try:
                prepare_schema(session.connection, address)
                self.hnsw = session.hnsw = open_hnsw(session.connection, address)
                if self.hnsw is not None:
                    session.connection.execute(self.hnsw.settings().encode())
            except BaseException:
                session.connection.close()
                raise
        self._idle.append(session)
        self._monitor: ReplicaMonitor | None = None
        if address.replicas:
            self._monitor = ReplicaMonitor(address, self._connect_to)

    def _connect_to(self, address: Address) -> DeadlineConnection:
        return connect(address, self.hnsw.settings() if self.hnsw else "")

    def _connect(self) -> DeadlineConnection:
        return self._connect_to(self.address)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections = [session.connection for session in self._idle] + self._writers
            self._idle, self._writers = [], []
        for connection in connections:
            connection.close()
        if self._monitor is not None:
            self._monitor.close()
            close_idle(self._monitor.replicas)

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self.address.name} was closed", "closed")

    def acquire(self, may_lag: bool) -> ReadSession:
        """Return a session; one on a replica only if it may lag behind."""
        self.check_open()
        self._take_slot(self._slots)
        try:
            session = self._replica_session() if may_lag else None
            if session is not None:
                return session
            with self._lock:
                if self._idle:
                    return self._idle.pop()  # the last used has the warmest caches
            return ReadSession(self._connect, self.hnsw)
        except BaseException:
            self._slots.release()
            raise

    def _take_slot(self, slots: BoundedSemaphore) -> None:
        if not slots.acquire(timeout=self.address.statement_timeout_s):
            limit = self.address.pool_size
            raise Unavailable(
                f"{self.address.name}: all {limit} connections of this process are in use: "
                "raise pool_size in the URL",
                "busy",
            )

    def _replica_session(self) -> ReadSession | None:
        """Return a session on a replica within the bound, None without one."""
        monitor = self._monitor
        replica = monitor.choose() if monitor is not None else None
        if monitor is None or replica is None:
            return None
        with self._lock:
            if replica.idle:
                return replica.idle.pop()
        try:
            return ReplicaSession(
                replica, lambda: monitor.connect(replica), self._connect, self.hnsw
            )
        except (psycopg.Error, NoAnswerError):
            replica.replayed = 0
            return None

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
                if not isinstance(session, ReplicaSession):
                    self._idle.append(session)
                    return
                if not session.has_left:
                    session.replica.idle.append(session)
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
        self._take_slot(self._writer_slots)
        try:
            with translate_errors(self.address):
                connection = self._begin_writing(exclusive, durable)
                try:
                    with connection.pipeline():
                        yield connection
                        connection.execute("COMMIT")
                        position = self._request_position(connection, durable)
                    self._note_position(position)
                except BaseException:
                    self._roll_back(connection)
                    raise
                finally:
                    self._release_writer(connection)
        except BaseException:
            if self._monitor is not None:
                self._monitor.note_unknown()
            raise
        finally:
            self._writer_slots.release()

    def _request_position(
        self, connection: DeadlineConnection, durable: bool
    ) -> psycopg.Cursor[tuple[Any, ...]] | None:
        """Ask, with the commit, for the position that a replica must have replayed to show it."""
        if self._monitor is None:
            return None
        query = WRITTEN if durable else WRITTEN.replace("flush", "insert")
        return connection.execute(query.encode())

    def _note_position(self, position: psycopg.Cursor[tuple[Any, ...]] | None) -> None:
        if self._monitor is not None and position is not None:
            ((written,),) = position.fetchall()
            self._monitor.note_written(written)

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
        statements = ["BEGIN", LOCK.format(WRITERS[exclusive], LOCK_CLASS)]
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
    """A context manager: one snapshot for all reads of a block; nested blocks join it.

    A block that may lag behind can be read from a replica. Reads that precede a write must not.
    """

    __slots__ = ("_may_lag", "_nested", "_pool")

    def __init__(self, pool: Pool, may_lag: bool = False) -> None:
        self._pool, self._may_lag = pool, may_lag

    def __enter__(self) -> ReadSession:
        pool = self._pool
        pool.check_open()
        session: ReadSession | None = getattr(pool.thread, "session", None)
        self._nested = session is not None
        if session is None:
            with translate_errors(pool.address):
                session = pool.thread.session = pool.acquire(self._may_lag)
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
