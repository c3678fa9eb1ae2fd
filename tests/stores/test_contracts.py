"""The contracts of every store, alone and in combination."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowloom import Kind
from knowloom.registry import open_stores
from knowloom.stores.file.store import FileStore
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.networkx import NetworkxStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing import GraphStoreContract, HistoryContract, ItemStoreContract, StoreContract
from knowloom.testing.knowledge import NOW, batch, edge, item
from profile_contract import ProfilesOnly


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore.open()


class TestSqlite(StoreContract):
    @pytest.fixture
    def store(self, sqlite: SqliteStore) -> SqliteStore:
        return sqlite


class TestSqliteWithSmallLimits(StoreContract):
    @pytest.fixture
    def store(self, small_limits: None, sqlite: SqliteStore) -> SqliteStore:
        return sqlite


class TestFileAsMetadata(ItemStoreContract, HistoryContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileStore:
        return FileStore.open(str(tmp_path / "profiles"))


class TestFileAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileStore:
        return FileStore.open(str(tmp_path / "graph"))


class TestNetworkxAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> NetworkxStore:
        return NetworkxStore.open(str(tmp_path / "graph.json"))


class TestNetworkxInMemoryAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self) -> NetworkxStore:
        return NetworkxStore.open("")


def open_composite(url: str, **roles: str) -> Any:
    """Open stores; profiles in a store of their own are not indexed and not searched."""
    return open_stores(url, roles).items


class TestProfilesInMemory(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Any]:
        yield open_composite("memory:", metadata="memory:profiles")


class TestProfilesInSqlite(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        store = open_composite(str(tmp_path / "k.db"), metadata=str(tmp_path / "profiles.db"))
        yield store
        store.close()


class TestProfilesInFiles(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        store = open_composite(
            str(tmp_path / "k.db"),
            metadata=f"file:{tmp_path}/profiles",
            graph=f"networkx:{tmp_path}/graph.json",
        )
        yield store
        store.close()


class TestOnlyProfilesInFiles(ProfilesOnly, ItemStoreContract, GraphStoreContract):
    """Batches of the same microsecond in two logs have no order; see the test below."""

    test_the_change_log_records_each_action_and_the_state_before = None  # type: ignore[assignment]
    test_edges_of_a_deleted_item_are_logged_by_key = None  # type: ignore[assignment]
    test_an_unlinked_edge_is_logged = None  # type: ignore[assignment]

    def test_the_change_logs_of_both_stores_are_merged(self, store: Any) -> None:
        for minute, step in enumerate(
            [
                batch([item("p", kind=Kind.PROFILE), item("a")], [edge("p", "a")]),
                batch([item("q", kind=Kind.PROFILE), item("p")]),
                batch([item("p", "new", kind=Kind.PROFILE)], deleted=[("acme", "a")]),
            ]
        ):
            store.apply(replace(step, at=NOW + timedelta(minutes=minute)))
        assert [(change.id, change.action) for change in store.changes("acme")] == [
            *[("a", "add"), ("p", "add"), ("p", "link")],
            *[("p", "delete"), ("p", "add"), ("q", "add")],
            *[("p", "unlink"), ("a", "delete"), ("p", "delete"), ("p", "add")],
        ]
        assert [change.number for change in store.changes("acme", after=4, limit=3)] == [5, 6, 7]

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        store = open_composite(str(tmp_path / "k.db"), metadata=f"file:{tmp_path}/profiles")
        yield store
        store.close()


class TestGraphInFiles(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        yield open_composite("memory:", graph=f"file:{tmp_path}/graph")


class TestEveryRoleElsewhere(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        roles = {"words": f"{tmp_path}/w.db", "vectors": "memory:v", "graph": f"{tmp_path}/g.db"}
        store = open_composite(str(tmp_path / "k.db"), **roles)
        yield store
        store.close()
