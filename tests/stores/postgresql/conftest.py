"""Fixtures of the tests with a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowloom.stores.postgresql.store import PostgresqlStore
from postgresql_server import empty_store, require_server
from servers.postgresql import Server


@pytest.fixture
def server() -> Server:
    return require_server()


@pytest.fixture
def store(server: Server) -> Iterator[PostgresqlStore]:
    with empty_store(server) as store:
        yield store
