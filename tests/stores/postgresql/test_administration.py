"""The audit log, retention and erasure: the same as in memory, and nothing left in the tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from knowloom.errors import Invalid
from knowloom.ports import AuditFilter
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing.knowledge import ACME, NOW, batch, edge, item, long_item
from postgresql_server import SCHEMA
from servers.postgresql import Server

LATER = NOW + timedelta(microseconds=1)
FILTERS = [
    AuditFilter(),
    AuditFilter(spaces=("zoo",)),
    AuditFilter(spaces=("",)),
    AuditFilter(id="b"),
    AuditFilter(actor="anna"),
    AuditFilter(actions=("delete", "backup")),
    AuditFilter(since=LATER),
    AuditFilter(until=NOW, hidden=("zoo", "")),
]


def write(store: Any) -> None:
    items = [item("a", "alpha"), item("b", "beta"), item("z", space="zoo")]
    edges = [edge("a", "b"), edge("b", "z", target_space="zoo")]
    store.apply(replace(batch(items, edges), actor="anna"))
    store.apply(replace(batch([item("b", "new")], deleted=[("acme", "a")]), at=LATER))
    store.upkeep().record(LATER, "otto", "backup", "k.db")


def test_the_audit_log_is_that_of_a_memory_store(store: PostgresqlStore) -> None:
    memory = MemoryStore.open()
    write(memory)
    write(store)
    for only in FILTERS:
        entries, expected = (each.upkeep().audit(only, 9) for each in (store, memory))
        assert [replace(entry, number=0) for entry in entries] == [
            replace(entry, number=0) for entry in expected
        ]
    third = store.upkeep().audit(AuditFilter(), 3)[-1].number
    assert store.upkeep().audit(AuditFilter(before=third), 1)[0].number == third - 1
    assert store.changes("acme")[0].actor == "anna"


def test_a_purged_item_is_in_no_table(server: Server, store: PostgresqlStore) -> None:
    secret, partner = long_item("s", "zyzzyva", "quokka"), item("p", "plain")
    store.apply(batch([secret, partner], [edge("p", "s", properties={"why": "zyzzyva"})]))
    store.apply(batch([replace(secret, title="Zyzzyva")]))
    store.upkeep().purge([("acme", "s"), ("nowhere", "x")], NOW, "anna")
    assert "VACUUM" in store.upkeep().compact([("acme", "s")])
    with psycopg.connect(server.url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        for (table,) in connection.execute(query, (SCHEMA,)).fetchall():
            rows = connection.execute(f"SELECT * FROM {SCHEMA}.{table}".encode()).fetchall()
            assert "zyzzyva" not in str(rows).lower() and "quokka" not in str(rows), table
    assert [(change.action, change.erased) for change in store.changes_of([("acme", "s")])] == [
        *[("add", False), ("link", False), ("update", True), ("unlink", True)],
        *[("delete", True), ("purge", False)],
    ]
    assert store.find(ACME, 9) == [partner] and store.verify() == []
    assert store.search_text("plain", ACME, 9).considered == 1


def test_the_history_of_a_space_is_limited(store: PostgresqlStore) -> None:
    write(store)
    store.upkeep().set_retention("acme", 30)
    assert store.upkeep().retention() == {"acme": 30}
    assert store.upkeep().erase_history("acme", NOW) == 0
    assert store.upkeep().erase_history("acme", LATER) == 3
    assert all(change.before is None for change in store.changes("acme"))
    store.upkeep().set_retention("acme", None)
    assert store.upkeep().retention() == {} and store.verify() == []


def test_copies_are_left_to_the_server(store: PostgresqlStore) -> None:
    with pytest.raises(Invalid, match="pg_dump"):
        store.upkeep().location()
    assert store.upkeep().backups() == {}
