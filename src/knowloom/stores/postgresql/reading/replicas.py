"""Read replicas: those that are known to be within the bound, and sessions that can leave them.

The primary is asked regularly for the end of its log. A replica that has replayed what the primary
had written at a moment is as old as that moment at most, whatever the clocks say and however quiet
the primary is. A replica that cannot be checked is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import psycopg

from knowloom.errors import Unavailable
from knowloom.stores.postgresql.address import Address
from knowloom.stores.postgresql.approximate.index_tables import Hnsw
from knowloom.stores.postgresql.driver import DeadlineConnection
from knowloom.stores.postgresql.failures import NoAnswerError
from knowloom.stores.postgresql.sessions import ReadSession, Row, Values

log = logging.getLogger(__name__)

Observe = Callable[[float, Row | None], None]  # with the time before the check
Connect = Callable[[Address], DeadlineConnection]

CHECKS_PER_LAG = 6
MAX_INTERVAL_S = 0.5  # between two checks
CONNECT_TIMEOUT_S = 2
ANSWER_S = 1.0  # a server that does not answer a check in this time is left alone
# A commit that is not durable is in the log after three rounds of its writer, 200 ms each.
ASYNC_COMMIT_S = 0.6
# Positions in the log as numbers of bytes, with the identity of the cluster.
WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint"
_PRIMARY = f"{WRITTEN}, system_identifier FROM pg_control_system()"
_REPLICA = """SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint, 0),
    system_identifier FROM pg_control_system() WHERE pg_is_in_recovery()"""


class Replica:
    """A replica as it was last seen: `replayed` is 0 while it must not be used."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.replayed = 0
        self.is_answering = True
        self.idle: list[ReplicaSession] = []


class ReplicaMonitor:
    """Threads that check the primary and each replica, and the choice that follows from it."""

    def __init__(self, address: Address, connect: Connect) -> None:
        self._connect, self._max_lag_s = connect, address.max_lag_s
        timeout_s = min(CONNECT_TIMEOUT_S, address.connect_timeout_s)
        alone = replace(address, replicas=(), connect_timeout_s=timeout_s)
        self.replicas = [
            Replica(replace(alone, host=host, port=port)) for host, port in address.replicas
        ]
        self._cluster = 0
        self._samples: list[tuple[float, int]] = []  # times, and the end of the log; oldest first
        self._written: int | None = 0  # by this process; None: unknown since `_unknown_since`
        self._unknown_since = 0.0
        self._turn = 0
        self._lock = Lock()
        self._closed = Event()
        self._interval_s = min(MAX_INTERVAL_S, self._max_lag_s / CHECKS_PER_LAG)
        tasks: list[tuple[Address, str, Observe]] = [(alone, _PRIMARY, self._see_primary)]
        tasks += [
            (replica.address, _REPLICA, _observer(replica, self)) for replica in self.replicas
        ]
        for task in tasks:
            Thread(target=self._watch, args=task, daemon=True, name="knowloom replicas").start()

    def close(self) -> None:
        self._closed.set()

    # what the threads do

    def _watch(self, address: Address, query: str, observe: Observe) -> None:
        connection: DeadlineConnection | None = None
        while not self._closed.is_set():
            started = monotonic()
            try:
                if connection is None:
                    connection = self._connect(address)
                    connection.deadline_s = ANSWER_S
                rows = connection.execute(query.encode()).fetchall()
                observe(started, rows[0] if rows else None)
            except (psycopg.Error, NoAnswerError) as error:
                observe(started, None)
                log.debug("%s was not checked: %s", address.name, type(error).__name__)
                if connection is not None:
                    connection.close()
                    connection = None
            self._closed.wait(self._interval_s)
        if connection is not None:
            connection.close()

    def _see_primary(self, started: float, row: Row | None) -> None:
        if row is None:
            return
        with self._lock:
            self._cluster = row[1]
            self._samples = [*self._fresh_samples(started), (started, row[0])]
            if self._written is None and started > self._unknown_since:
                self._written = row[0]

    def see_replica(self, replica: Replica, row: Row | None) -> None:
        """Record a check; a server that was promoted, or is of another cluster, has no row."""
        replica.is_answering = row is not None
        is_ours = row is not None and row[1] == self._cluster
        replica.replayed = row[0] if is_ours and row is not None else 0

    # what requests do

    def note_written(self, position: int) -> None:
        """Remember the end of the log after a write of this process."""
        with self._lock:
            if self._written is not None:
                self._written = max(self._written, position)

    def note_unknown(self) -> None:
        """Remember that a write failed, which may have been done or have seen a newer state."""
        with self._lock:
            self._written, self._unknown_since = None, monotonic()

    def _fresh_samples(self, now: float) -> list[tuple[float, int]]:
        oldest = now + ASYNC_COMMIT_S - self._max_lag_s
        return [sample for sample in self._samples if sample[0] >= oldest]

    def choose(self) -> Replica | None:
        """Return a replica within the bound that has the writes of this process, in turns."""
        with self._lock:
            samples = self._fresh_samples(monotonic())
            if not samples or self._written is None:
                return None
            required = max(samples[0][1], self._written, 1)
            usable = [replica for replica in self.replicas if replica.replayed >= required]
            self._turn += 1
            return usable[self._turn % len(usable)] if usable else None

    def connect(self, replica: Replica) -> DeadlineConnection:
        """Open a connection to a replica that still is one, and not an older copy."""
        connection = self._connect(replica.address)
        try:
            rows = connection.execute(_REPLICA.encode()).fetchall()
        except BaseException:
            connection.close()
            raise
        if not rows or rows[0][1] != self._cluster or rows[0][0] < replica.replayed:
            connection.close()
            raise psycopg.OperationalError(f"{replica.address.name} is not the replica it was")
        connection.is_answering = lambda: replica.is_answering
        return connection


def _observer(replica: Replica, monitor: ReplicaMonitor) -> Observe:
    return lambda _, row: monitor.see_replica(replica, row)


class ReplicaSession(ReadSession):
    """A session on a replica that goes on with the primary if the replica fails."""

    def __init__(
        self,
        replica: Replica,
        open_connection: Callable[[], DeadlineConnection],
        open_primary: Callable[[], DeadlineConnection],
        hnsw: Hnsw | None,
    ) -> None:
        self.replica = replica
        self._open_primary = open_primary
        self.has_left = False  # the replica
        super().__init__(open_connection, hnsw)

    def fetch(self, query: str, values: Values = ()) -> list[Row]:
        try:
            return super().fetch(query, values)
        except (psycopg.Error, NoAnswerError):
            # An error that is not the replica's comes again.
            if self.has_left:
                raise
        self._leave()
        return super().fetch(query, values)

    def fetch_tentatively(self, query: str, values: Values) -> list[Row]:
        try:
            return super().fetch_tentatively(query, values)
        except psycopg.errors.UndefinedTable:
            raise
        except (psycopg.Error, NoAnswerError):
            if self.has_left:
                raise
        self._leave()
        return super().fetch_tentatively(query, values)

    def _leave(self) -> None:
        """Go on with the primary, if the spaces that were read are the same there."""
        self.has_left, self.replica.replayed = True, 0
        self.connection.close()
        self._open_connection = self._open_primary
        self.connection, self._in_transaction = self._open_primary(), False
        expected = self.space_versions()
        query = "SELECT name, version FROM space WHERE name = ANY(%s)"
        versions: dict[str, Any] = dict(super().fetch(query, (list(expected),)))
        if any(versions.get(name) != version for name, version in expected.items()):
            raise Unavailable(
                f"{self.replica.address.name} failed in the middle of a request, and the knowledge "
                "changed meanwhile: retry",
                "replica_lost",
            )


def close_idle(replicas: Sequence[Replica]) -> None:
    """Close the connections that are not in use."""
    for replica in replicas:
        sessions, replica.idle = replica.idle, []
        for session in sessions:
            session.connection.close()
