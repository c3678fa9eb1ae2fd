"""Statements to Neo4j with a deadline, and its errors as knowloom's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from os import getpid
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from knowloom.errors import Invalid, KnowloomError, MissingExtra, Unavailable
from knowloom.ports.views import require_process
from knowloom.stores.neo4j.graph_address import GraphAddress

try:
    import neo4j
    from neo4j import exceptions
except ImportError as missing:
    raise MissingExtra(
        f"neo4j needs a package that is not installed ({missing.name}): "
        "pip install 'knowloom[neo4j]'"
    ) from missing

T = TypeVar("T")
Statement = tuple[str, Mapping[str, Any]]

GRACE_S = 1.0  # after the server's own deadline
# By a part of the code of Neo4j: the code of the error, and advice.
_ADVICE: Mapping[str, tuple[str, str]] = {
    "Security": ("access_denied", "check the user, the password and its privileges"),
    "DatabaseNotFound": ("no_database", "create it, or name another one in the URL"),
    "TimedOut": ("timeout", "raise timeout in the URL"),
    "Terminated": ("timeout", "the server ended the transaction: retry"),
    "ReadOnly": ("read_only", "write to the leader"),
    "NotALeader": ("read_only", "write to the leader"),
    "OutOfDisk": ("disk_full", "free some space"),
    "OutOfMemory": ("memory_full", "raise the memory of the server"),
    "MemoryPool": ("memory_full", "raise the memory of the server"),
    "TransientError": ("busy", "retry"),
}


class BoltClient:
    """Sends statements; safe to share between threads.

    The driver has no limit for the wait for an answer: each call runs in a thread that is left
    behind, with its connections, if the server does not answer.
    """

    def __init__(self, address: GraphAddress) -> None:
        self.address = address
        self._driver: Any = None
        self._process = getpid()
        self._lock, self._closed = Lock(), False

    def read(self, text: str, **parameters: object) -> list[list[Any]]:
        """Return the rows of a statement; a connection that was lost is replaced once."""
        statement = [(text, parameters)]
        try:
            return self._run(lambda driver: self._send(driver, statement, "READ"))
        except Unavailable as error:
            if error.code != "unreachable":
                raise
            return self._run(lambda driver: self._send(driver, statement, "READ"))

    def write(self, statements: Sequence[Statement]) -> None:
        """Run statements as one transaction; it is repeated after a deadlock."""
        deadline = time.monotonic() + self.address.timeout_s
        pause_s = 0.01
        while True:
            try:
                self._run(lambda driver: self._send(driver, statements, "WRITE"))
                return
            except Unavailable as error:
                if error.code != "busy" or time.monotonic() > deadline:
                    raise
            time.sleep(pause_s * random.random())
            pause_s = min(0.5, pause_s * 2)

    def define(self, text: str) -> None:
        """Run a statement that defines an index or a constraint."""
        self._run(lambda driver: self._send(driver, [(text, {})], "WRITE"))

    def _send(self, driver: Any, statements: Sequence[Statement], access: str) -> list[list[Any]]:
        rows: list[list[Any]] = []
        database = self.address.database or None
        with (
            driver.session(database=database, default_access_mode=access) as session,
            session.begin_transaction(timeout=self.address.timeout_s) as transaction,
        ):
            for text, parameters in statements:
                rows = transaction.run(text, parameters).values()
            transaction.commit()
        return rows

    def require_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self.address.name!r} was closed", "closed")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            driver, self._driver = self._driver, None
        if driver is not None:
            _in_thread(driver.close, GRACE_S)

    def _run(self, work: Callable[[Any], T]) -> T:
        self.require_open()
        require_process(self._process)
        driver = self._connect()
        limit_s = self.address.timeout_s + GRACE_S
        outcome = _in_thread(lambda: work(driver), limit_s)
        if not outcome:
            self._abandon(driver)
            raise Unavailable(
                f"{self.address.name}: no answer within {limit_s:g} s (it may be paused, or cut "
                "off)",
                "timeout",
            )
        (result,) = outcome
        if isinstance(result, _Failure):
            raise describe(self.address, result.error) from result.error
        return result

    def _connect(self) -> Any:
        with self._lock:
            if self._driver is None:
                address = self.address
                credentials = (address.user, address.password) if address.user else None
                self._driver = neo4j.GraphDatabase.driver(
                    address.server,
                    auth=credentials,
                    encrypted=address.is_encrypted,
                    connection_timeout=address.connect_timeout_s,
                    connection_acquisition_timeout=address.connect_timeout_s + 1,
                    user_agent="knowloom",
                    notifications_min_severity="OFF",
                    telemetry_disabled=True,
                )
            return self._driver

    def _abandon(self, driver: Any) -> None:
        with self._lock:
            if self._driver is driver:
                self._driver = None
        Thread(target=_close_quietly, args=(driver,), daemon=True).start()


class _Failure:
    def __init__(self, error: Exception) -> None:
        self.error = error


def _in_thread(work: Callable[[], T], limit_s: float) -> tuple[T | _Failure, ...]:
    """Return the result of the work or its failure; nothing if it takes longer."""
    results: list[T | _Failure] = []
    done = Event()

    def run() -> None:
        try:
            results.append(work())
        except (exceptions.Neo4jError, exceptions.DriverError, OSError, ValueError) as error:
            results.append(_Failure(error))
        finally:
            done.set()

    Thread(target=run, daemon=True).start()
    return tuple(results) if done.wait(limit_s) else ()


def _close_quietly(driver: Any) -> None:
    _in_thread(driver.close, GRACE_S)


def describe(address: GraphAddress, error: Exception) -> KnowloomError:
    """Return the error that a caller sees, with the host and never the password."""
    reason = " ".join((str(getattr(error, "message", "") or error)).split())[:300]
    if address.password:
        reason = reason.replace(address.password, "***")
    if isinstance(error, UnicodeEncodeError):
        return Invalid("text must be valid Unicode")
    code = str(getattr(error, "code", "") or "")
    entry = next((entry for part, entry in _ADVICE.items() if part in code), None)
    if entry is not None:
        return Unavailable(f"{address.name}: {reason} ({entry[1]})", entry[0])
    unreachable = (exceptions.ServiceUnavailable, exceptions.SessionExpired, OSError)
    if isinstance(error, unreachable) or "routing" in reason.lower():
        advice = "check the address and that the server runs"
        return Unavailable(f"{address.name}: {reason} ({advice})", "unreachable")
    if isinstance(error, exceptions.ConfigurationError):
        return Invalid(f"{address.name}: {reason}")
    return Unavailable(f"{address.name}: {reason}", "unavailable")
