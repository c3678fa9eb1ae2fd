"""Opening: what is refused, and that nothing changes in schemas of other programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from knowloom.errors import Conflict, Invalid, KnowloomError, Unavailable
from knowloom.registry import open_stores
from knowloom.stores.postgresql import table_definitions
from knowloom.stores.postgresql.address import parse_address
from knowloom.stores.postgresql.driver import connect
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.stores.postgresql.writing.batch_writer import BatchApplier
from knowloom.testing.knowledge import ACME, batch, item, unit
from knowloom.text.passages import PASSAGE_SIZE
from postgresql_server import execute, url_of
from servers.postgresql import Server


@pytest.fixture
def schema(server: Server) -> Iterator[str]:
    """The name of a schema that does not exist."""
    drop = "DROP SCHEMA IF EXISTS other CASCADE"
    execute(server, drop)
    yield "other"
    execute(server, drop)


def tables(server: Server) -> list[tuple[str, ...]]:
    query = """SELECT nspname, relname FROM pg_class JOIN pg_namespace ON relnamespace =
        pg_namespace.oid WHERE nspname !~ '^pg_|information_schema' ORDER BY 1, 2"""
    with psycopg.connect(server.url) as connection:
        return connection.execute(query).fetchall()


def test_a_schema_is_created_once_and_found_again(server: Server, schema: str) -> None:
    for _ in range(2):
        stores = open_stores(f"postgresql://{url_of(server, schema)}", {})
        stores.items.apply(batch([item("a")]))
        assert stores.items.find(ACME, 10) == [item("a")]
        stores.items.close()
    assert {name for name, _ in tables(server)} >= {schema}


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE other.customer(name text)",
        "CREATE TABLE other.meta(key text, value text)",
        "CREATE TABLE other.meta(id integer)",
        "CREATE TABLE other.meta(key text, value text); "
        "INSERT INTO other.meta VALUES ('program', 'shop'), ('version', '1')",
    ],
    ids=["table", "empty meta", "other columns", "other program"],
)
def test_a_schema_of_another_program_is_refused_and_left_alone(
    server: Server, schema: str, script: str
) -> None:
    execute(server, f"CREATE SCHEMA other; {script}")
    before = tables(server)
    with pytest.raises(KnowloomError) as caught:
        PostgresqlStore.open(url_of(server, schema))
    assert caught.value.code == "foreign_schema" and "?schema=" in str(caught.value)
    assert tables(server) == before


def test_a_newer_schema_an_older_server_and_another_encoding_are_refused(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresqlStore.open(url_of(server, schema)).close()
    execute(server, "UPDATE other.meta SET value = '99' WHERE key = 'version'")
    with pytest.raises(Unavailable, match="newer knowloom") as caught:
        PostgresqlStore.open(url_of(server, schema))
    assert caught.value.code == "newer_version"
    monkeypatch.setattr(table_definitions, "MIN_SERVER", 99)
    with pytest.raises(Unavailable, match="99 or newer is required") as caught:
        PostgresqlStore.open(url_of(server, schema))
    assert caught.value.code == "server_too_old"


def test_a_database_of_another_encoding_is_refused(server: Server) -> None:
    execute(server, "DROP DATABASE IF EXISTS latin")
    execute(server, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(Unavailable, match="LATIN1") as caught:
        PostgresqlStore.open(url_of(server).replace("/postgres?", "/latin?"))
    assert caught.value.code == "wrong_encoding"


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_a_clock_that_is_far_off_is_refused_and_nothing_is_created(
    server: Server, schema: str, skew_s: int
) -> None:
    before = tables(server)
    address = parse_address(url_of(server, schema))
    with connect(address) as connection, pytest.raises(Unavailable, match="differ by 3") as caught:
        table_definitions.prepare_schema(connection, address, lambda: time.time() + skew_s)
    assert caught.value.code == "clock_skew" and tables(server) == before


def test_vectors_of_another_size_are_refused(store: PostgresqlStore) -> None:
    store.apply(batch([item("a"), item("b")]))
    store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
    with pytest.raises(Conflict, match="stored 2") as caught:
        store.put_vectors({("acme", "b"): unit(1, 0, 0)}, "e1")
    assert caught.value.code == "reindex_required"
    assert store.dimensions() == 2 and store.missing_vectors(["acme"], 9) == [("acme", "b")]


def test_a_user_without_privileges_creates_nothing(server: Server, schema: str) -> None:
    execute(server, "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    before = tables(server)
    with pytest.raises(Unavailable) as caught:
        PostgresqlStore.open(url_of(server, schema).replace("postgres@", "guest@"))
    assert caught.value.code == "access_denied" and tables(server) == before


@pytest.mark.parametrize(
    "url",
    [
        *("u:s3cret@h", "u:s3cret@h/", "u:s3cret@h:99999/db", "u:s3cret@[::1/db", "u:s3/cret@h/db"),
        *("u:12/s3cret@h/db", "u:s3cret@h/a/b", "u:s3cret@h/db\0", "u:s3cret@h/db?sslmod=require"),
        *("u:s3cret@h/db?schema=A", "u:s3cret@h/db?schema=pg_x", "u:s3cret@h/db?schema="),
        *("u:s3cret@h/db?pool_size=0", "u:s3cret@h/db?statement_timeout=x"),
        "u:s3cret@h/db?sslmode=maybe",
    ],
)
def test_a_bad_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_address(url)
    assert "s3" not in str(caught.value) and "cret" not in str(caught.value)


def test_names_in_a_url_may_be_encoded() -> None:
    address = parse_address("a%40b:c%2Fd@[::1]:5433/my%20db?schema=s1&sslmode=require")
    assert (address.user, address.password, address.host) == ("a@b", "c/d", "::1")
    assert address.name == "postgresql://[::1]:5433/my db schema 's1'"
    assert address.ssl == (("sslmode", "require"),) and "c/d" not in repr(address)


@pytest.mark.parametrize("version", range(1, table_definitions.VERSION))
def test_an_older_schema_is_upgraded_once_by_several_processes_and_keeps_its_items(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    create_version(server, schema, version, monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: PostgresqlStore.open(url_of(server, schema)), range(4)))
    for store in stores:
        assert stored_version(server) == table_definitions.VERSION
        assert store.find(ACME, 9) == [item("a")] and store.verify() == []
        store.close()


def test_an_upgrade_that_fails_changes_nothing(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_version(server, schema, 1, monkeypatch)
    before = tables(server)
    broken = (*table_definitions.MIGRATIONS, "CREATE TABLE half(no integer); SELECT 1 / 0")
    monkeypatch.setattr(table_definitions, "MIGRATIONS", broken)
    with pytest.raises(Unavailable, match="division"):
        PostgresqlStore.open(url_of(server, schema))
    assert tables(server) == before and stored_version(server) == 1


def create_version(
    server: Server, schema: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Create a schema by the first migrations, with an item that an older version has written."""
    address = parse_address(url_of(server, schema))
    with connect(address) as connection, monkeypatch.context() as patch:
        patch.setattr(table_definitions, "MIGRATIONS", table_definitions.MIGRATIONS[:version])
        patch.setattr(table_definitions, "VERSION", version)
        table_definitions.prepare_schema(connection, address)
    with connect(address) as connection, connection.transaction():
        BatchApplier(connection, PASSAGE_SIZE).apply(batch([item("a")]))


def stored_version(server: Server) -> int:
    with psycopg.connect(server.url) as connection:
        query = "SELECT value FROM other.meta WHERE key = 'version'"
        ((version,),) = connection.execute(query).fetchall()
    return int(version)
