"""The contracts of all roles, against a real server."""

from __future__ import annotations

import pytest

from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing import LinkStoreContract, NearestItemsContract, StoreContract


class TestPostgresql(StoreContract, LinkStoreContract, NearestItemsContract):
    @pytest.fixture
    def store(self, store: PostgresqlStore) -> PostgresqlStore:
        return store
