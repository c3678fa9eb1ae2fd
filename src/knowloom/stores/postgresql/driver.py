"""Connections with a deadline for each answer, and text columns that can hold NUL characters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Buffer, PQGen
from psycopg.pq import Format
from psycopg.types.string import StrDumper, TextLoader

from knowloom.stores.postgresql.address import Address
from knowloom.stores.postgresql.failures import NoAnswerError

RV = TypeVar("RV")

WAIT_INTERVAL_S = 0.1  # between looks at the clock
SPARE_S = 5.0  # after `statement_timeout`, by which the server itself ends a statement
LOCK_SHARE = 0.8  # of the timeout of a statement: how long a writer waits for another one
# Each statement looks up few rows by an index. After a large write the server still plans by the
# statistics of the tables as they were, and would read all rows for each.
PLANS = "SET enable_seqscan TO off; SET enable_hashjoin TO off; SET enable_mergejoin TO off"
# PostgreSQL has no NUL characters. The escape keeps the order of texts.
_ESCAPES = {0: "\x01\x01", 1: "\x01\x02"}


def escape(text: str) -> str:
    return text.translate(_ESCAPES) if "\0" in text or "\x01" in text else text


def unescape(text: str) -> str:
    if "\x01" not in text:
        return text
    return text.replace("\x01\x01", "\0").replace("\x01\x02", "\x01")


class EscapedTextDumper(StrDumper):
    """Writes a text; its type is text, never unknown."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escape(obj))


class EscapedTextLoader(TextLoader):
    """Reads a text in PostgreSQL's text format."""

    def load(self, data: Buffer) -> str:
        return unescape(bytes(data).decode())


class EscapedBinaryLoader(EscapedTextLoader):
    """Reads a text in PostgreSQL's binary format, which has the same bytes."""

    format = Format.BINARY


class DeadlineConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that raises NoAnswerError if the server does not answer in time.

    The timeouts of the server do not help if it is paused or cut off.
    """

    deadline_s = 60.0
    # False as soon as it is known that the server does not answer.
    is_answering: Callable[[], bool] = staticmethod(lambda: True)
    meta: Mapping[str, str] = {}  # the table, as it was when the last write began

    def wait(
        self, gen: PQGen[RV], interval: float = WAIT_INTERVAL_S, timeout: float | None = None
    ) -> RV:
        try:
            limited = _limit(gen, self.deadline_s, self.is_answering)
            return super().wait(limited, interval, timeout)
        except NoAnswerError:
            self.close()  # its state is unknown, and nothing else should wait for it
            raise


def _limit(gen: PQGen[RV], limit_s: float, is_answering: Callable[[], bool]) -> PQGen[RV]:
    """Run the generator of a statement; it is sent 0 whenever nothing came for a while."""
    deadline = 0.0
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                deadline = 0.0
            elif not deadline:
                deadline = monotonic() + limit_s
            elif monotonic() > deadline or not is_answering():
                raise NoAnswerError(f"no answer within {limit_s:g} s")
            state = gen.send(ready)
    except StopIteration as result:
        return result.value  # type: ignore[no-any-return]


def connect(address: Address, further_settings: str = "") -> DeadlineConnection:
    """Open a connection outside of any transaction, whose names are those of the schema."""
    connection = DeadlineConnection.connect(**address.connection_parameters(), autocommit=True)
    connection.deadline_s = address.statement_timeout_s + SPARE_S
    connection.adapters.register_dumper(str, EscapedTextDumper)
    for loader in (EscapedTextLoader, EscapedBinaryLoader):
        connection.adapters.register_loader("text", loader)
    timeout_ms = int(address.statement_timeout_s * 1000)
    settings = (
        f"SET search_path TO {address.schema}; SET statement_timeout TO {timeout_ms}; "
        f"SET lock_timeout TO {int(timeout_ms * LOCK_SHARE)}; SET jit TO off; "
        "SET idle_in_transaction_session_timeout TO '10min'; SET timezone TO 'UTC'; "
        f"{PLANS}; {further_settings}"
    )
    try:
        connection.execute(settings.encode())
    except BaseException:
        connection.close()
        raise
    return connection
