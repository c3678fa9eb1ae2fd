"""Approximate vector search by choice: candidates of pgvector, scores and filters of ours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest

from knowloom.errors import Invalid, Unavailable
from knowloom.model import Filter
from knowloom.ports import Vector
from knowloom.stores.postgresql.address import parse_address
from knowloom.stores.postgresql.approximate import index_building, index_search, index_tables
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing.knowledge import ACME, BOTH, NOW, batch, item
from postgresql_server import SCHEMA, execute, url_of
from servers.postgresql import Server

COUNT, DIMENSIONS = 300, 16
FAQ = Filter(("acme",), types=("faq",))


@pytest.fixture
def near(
    server: Server, store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresqlStore]:
    """A store that searches approximately, and indexes spaces of 100 items."""
    for module in (index_tables, index_search, index_building):
        monkeypatch.setattr(module, "MIN_VECTORS", 100)
    monkeypatch.setattr(index_building, "MIN_MISSING", 50)
    execute(server, "CREATE EXTENSION IF NOT EXISTS vector")
    opened = PostgresqlStore.open(f"{url_of(server)}&vectors=hnsw&ef_search=100")
    yield opened
    opened.close()
    for table in tables(server):
        execute(server, f"DROP TABLE {SCHEMA}.{table}")


def tables(server: Server) -> list[str]:
    with psycopg.connect(server.url) as connection:
        connection.execute(f"SET search_path TO {SCHEMA}".encode())
        return index_tables.find_tables(connection)


def indexed_numbers(server: Server) -> list[int]:
    (table,) = tables(server)
    with psycopg.connect(server.url) as connection:
        query = f"SELECT DISTINCT no FROM {SCHEMA}.{table} ORDER BY no"
        return [no for (no,) in connection.execute(query.encode())]


def random_vectors(count: int, seed: int) -> Vector:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fill(store: PostgresqlStore, space: str, count: int = COUNT, seed: int = 1) -> None:
    """Add items, every second of the type faq, and their vectors."""
    items = [
        item(f"{number:04}", "text", space=space, type=("faq", "note")[number % 2])
        for number in range(count)
    ]
    store.apply(batch(items))
    vectors = random_vectors(count, seed)
    store.put_vectors({each.key: row for each, row in zip(items, vectors, strict=True)}, "e")


def test_an_index_gives_the_answers_of_an_exact_search(
    server: Server, store: PostgresqlStore, near: PostgresqlStore
) -> None:
    fill(near, "acme")
    fill(near, "zoo", seed=2)
    assert len(tables(server)) == 2
    for only in (ACME, FAQ, BOTH):
        for query in random_vectors(3, seed=3):
            assert near.search_vector(query, only, 20) == store.search_vector(query, only, 20)


def test_what_was_written_since_is_found_and_what_was_deleted_is_not(
    server: Server, store: PostgresqlStore, near: PostgresqlStore
) -> None:
    fill(near, "acme")
    build = tables(server)
    query = random_vectors(1, seed=3)[0]
    best = store.search_vector(query, ACME, 3).matches
    near.apply(batch([item("new", "text"), item("moved", "text")], deleted=[best[0][0]]))
    store.put_vectors({("acme", "new"): query, best[1][0]: -query}, "e")
    result = near.search_vector(query, ACME, 20)
    assert result == store.search_vector(query, ACME, 20)
    assert result.matches[0][0] == ("acme", "new")
    assert best[0][0] not in dict(result.matches) and tables(server) == build


def test_an_index_follows_once_it_lacks_many_vectors_and_is_rebuilt_for_more(
    server: Server, store: PostgresqlStore, near: PostgresqlStore
) -> None:
    fill(near, "acme", 200)
    build = tables(server)
    near.apply(batch(deleted=[("acme", "0000")]))
    assert len(indexed_numbers(server)) == 200
    items = [item(f"more {number}", "text") for number in range(80)]
    near.apply(batch(items))
    vectors = random_vectors(80, seed=4)
    near.put_vectors({each.key: row for each, row in zip(items, vectors, strict=True)}, "e")
    assert len(indexed_numbers(server)) == 279 and tables(server) == build
    fill(near, "acme", 700, seed=5)
    assert len(indexed_numbers(server)) == 780 and tables(server) != build
    query = random_vectors(1, seed=6)[0]
    assert near.search_vector(query, ACME, 9) == store.search_vector(query, ACME, 9)


def test_candidates_come_from_the_index_and_verify_reports_those_it_lacks(
    server: Server, store: PostgresqlStore, near: PostgresqlStore
) -> None:
    fill(near, "acme")
    query = random_vectors(1, seed=3)[0]
    best, *others = store.search_vector(query, ACME, 10).matches
    execute(server, f"DELETE FROM {SCHEMA}.{tables(server)[0]} WHERE no = {int(best[0][1])}")
    assert near.search_vector(query, ACME, 9).matches == tuple(others)
    (problem,) = near.verify()
    assert "lacks vectors of 1 items: run reindex" in problem
    near.rebuild_words(near.find(ACME, COUNT))
    assert near.verify() == [] and near.search_vector(query, ACME, 9).matches[0] == best


def test_an_index_that_is_replaced_during_a_search_gives_an_exact_answer(
    server: Server, store: PostgresqlStore, near: PostgresqlStore
) -> None:
    fill(near, "acme")
    query = random_vectors(1, seed=3)[0]
    exact = store.search_vector(query, ACME, 9)
    with near.reading():
        near.spaces(["acme"])
        execute(server, f"DROP TABLE {SCHEMA}.{tables(server)[0]}")
        assert near.search_vector(query, ACME, 9) == exact
        assert near.count(ACME) == COUNT


def test_erased_vectors_are_removed_from_the_index(server: Server, near: PostgresqlStore) -> None:
    fill(near, "acme")
    upkeep = near.upkeep()
    upkeep.purge([("acme", "0007")], NOW, "test")
    upkeep.compact([("acme", "0007")])
    assert len(indexed_numbers(server)) == COUNT - 1 and 7 not in indexed_numbers(server)
    near.forget_vectors()
    assert tables(server) == []


def test_the_extension_is_required_and_never_created(server: Server, store: object) -> None:
    execute(server, "DROP DATABASE IF EXISTS plain")
    execute(server, "CREATE DATABASE plain")
    url = f"{url_of(server)}&vectors=hnsw".replace("/postgres?", "/plain?")
    with pytest.raises(Unavailable, match="CREATE EXTENSION vector") as caught:
        PostgresqlStore.open(url)
    assert caught.value.code == "no_pgvector" and "127.0.0.1" in str(caught.value)
    with psycopg.connect(f"{server.url.rpartition('/')[0]}/plain") as connection:
        query = "SELECT count(*) FROM pg_extension WHERE extname = 'vector'"
        assert connection.execute(query).fetchall() == [(0,)]
    execute(server, "DROP DATABASE plain")


@pytest.mark.parametrize(
    "option", ["vectors=ivf", "vectors=hnsw&ef_search=1001", "ef_search=50", "vectors=HNSW"]
)
def test_other_options_are_refused(option: str) -> None:
    with pytest.raises(Invalid, match=r"hnsw|1000"):
        parse_address(f"u@h/db?{option}")
