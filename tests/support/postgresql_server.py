"""A PostgreSQL for the tests of this process, and empty schemas in it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import psycopg
import pytest

from knowloom.errors import Unavailable
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.stores.postgresql.table_definitions import MIGRATIONS
from servers.postgresql import Server, ServerError

SCHEMA = "knowloom"


@cache
def running_server() -> Server | ServerError:
    """Start the server of this worker once, or return why that is impossible."""
    server = Server(os.environ.get("PYTEST_XDIST_WORKER", "main"))
    try:
        server.start()
    except ServerError as error:
        return error
    atexit.register(server.stop)
    return server


def require_server() -> Server:
    """Return the server; skip the test, with the reason, if it cannot be started."""
    server = running_server()
    if isinstance(server, ServerError):
        pytest.skip(f"without PostgreSQL its tests are skipped: {server}")
    server.start()  # a test may have stopped it
    return server


def execute(server: Server, script: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(script.encode())


def url_of(server: Server, schema: str = SCHEMA) -> str:
    """Return the URL of a schema, without "postgresql://", as stores get it."""
    return f"{server.url.removeprefix('postgresql://')}?schema={schema}"


@contextmanager
def empty_store(server: Server) -> Iterator[PostgresqlStore]:
    """Yield a store whose schema has just been emptied: creating one takes ten times as long."""
    store = _idle.pop() if _idle else PostgresqlStore.open(url_of(server))
    execute(server, f"SET search_path TO {SCHEMA}; {EMPTY}")
    yield store
    try:
        store.spaces()
    except Unavailable:  # the test closed it
        store.close()
    else:
        _idle.append(store)


_idle: list[PostgresqlStore] = []
_TABLES = [
    *("item", "record", "removed", "vector", "posting", "edge", "change", "dirty", "dirty_name"),
    *("frequent_label", "name_index", "name_labels", "nearest", "space", "calibration", "meta"),
    *("api_key", "vector_index"),
]
_META = MIGRATIONS[0][MIGRATIONS[0].index("INSERT INTO meta") :].split(";")[0]
EMPTY = (
    "".join(f"DELETE FROM {table};" for table in _TABLES)
    + f"{_META}; UPDATE meta SET value = {len(MIGRATIONS)} WHERE key = 'version'"
)
