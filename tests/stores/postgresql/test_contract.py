"""The contracts of all roles, against a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing import LinkStoreContract, NearestItemsContract, StoreContract
from postgresql_server import empty_store, require_server


class TestPostgresql(StoreContract, LinkStoreContract, NearestItemsContract):
    @pytest.fixture
    def store(self) -> Iterator[PostgresqlStore]:
        with empty_store(require_server()) as store:
            yield store
