"""A server that is stopped, killed, paused or refuses: typed errors, no passwords, recovery."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from knowloom.errors import Unavailable
from knowloom.stores.postgresql import driver
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing.knowledge import ACME, batch, item
from postgresql_server import SCHEMA, execute, url_of
from servers.postgresql import Server


@pytest.fixture
def own_store(server: Server, store: PostgresqlStore) -> Iterator[PostgresqlStore]:
    """A store of the emptied schema with short timeouts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "SPARE_S", 0.1)
        opened = PostgresqlStore.open(f"{url_of(server)}&statement_timeout=1&connect_timeout=2")
        yield opened
        opened.close()


def test_a_stopped_server_is_reported_and_used_again_once_it_is_back(
    server: Server, own_store: PostgresqlStore
) -> None:
    own_store.apply(batch([item("a")]))
    assert own_store.find(ACME, 10) == [item("a")]
    server.stop()
    for call in (lambda: own_store.find(ACME, 10), lambda: own_store.apply(batch([item("b")]))):
        with pytest.raises(Unavailable) as caught:
            call()
        assert caught.value.code == "unreachable" and "127.0.0.1" in str(caught.value)
    server.start()
    assert own_store.find(ACME, 10) == [item("a")]
    own_store.apply(batch([item("b")]))
    assert own_store.find(ACME, 10) == [item("a"), item("b")]


def test_a_killed_server_loses_nothing_that_was_acknowledged(
    server: Server, own_store: PostgresqlStore
) -> None:
    for number in range(20):
        own_store.apply(batch([item(f"{number:02}", "water")]))
    server.kill()
    with pytest.raises(Unavailable):
        own_store.search_text("water", ACME, 5)
    server.start()
    assert own_store.search_text("water", ACME, 5).considered == 20
    assert own_store.verify() == []


def test_a_restart_between_two_calls_is_not_noticed(
    server: Server, own_store: PostgresqlStore
) -> None:
    own_store.apply(batch([item("a")]))
    own_store.find(ACME, 10)
    server.stop()
    server.start()
    own_store.apply(batch([item("b")]))
    assert own_store.find(ACME, 10) == [item("a"), item("b")]


def test_a_paused_server_gives_an_error_in_time_and_answers_once_it_is_resumed(
    server: Server, own_store: PostgresqlStore
) -> None:
    own_store.apply(batch([item("a")]))
    own_store.find(ACME, 10)
    server.pause()
    try:
        for call in (lambda: own_store.find(ACME, 10), lambda: own_store.apply(batch([item("b")]))):
            begin = time.monotonic()
            with pytest.raises(Unavailable) as caught:
                call()
            assert caught.value.code == "timeout" and time.monotonic() - begin < 10
    finally:
        server.resume()
    assert own_store.find(ACME, 10)[:1] == [item("a")]
    own_store.apply(batch([item("c")]))
    assert own_store.find(ACME, 10)[-1] == item("c")


def test_a_connection_that_is_cut_in_a_snapshot_is_an_error_and_the_next_one_works(
    server: Server, own_store: PostgresqlStore
) -> None:
    own_store.apply(batch([item("a")]))
    with pytest.raises(Unavailable) as caught, own_store.reading():
        own_store.find(ACME, 10)
        _cut_connections(server)
        own_store.changes("acme")
    assert caught.value.code == "unreachable"
    assert own_store.find(ACME, 10) == [item("a")]


def _cut_connections(server: Server) -> None:
    execute(
        server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'",
    )


def test_a_write_that_is_cut_off_changes_nothing(
    server: Server, own_store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowloom.stores.postgresql.writing.batch_rows import BatchRows

    own_store.apply(batch([item("a")]))
    store_rows = BatchRows.store

    def cut_off(self: BatchRows, *arguments: object) -> None:
        store_rows(self, *arguments)  # type: ignore[arg-type]
        _cut_connections(server)

    with monkeypatch.context() as patch:
        patch.setattr(BatchRows, "store", cut_off)
        with pytest.raises(Unavailable):
            own_store.apply(batch([item("b")], deleted=[("acme", "a")]))
    assert own_store.find(ACME, 10) == [item("a")] and own_store.verify() == []
    own_store.apply(batch([item("b")]))
    assert own_store.find(ACME, 10) == [item("a"), item("b")]


def test_a_locked_space_is_busy_and_a_slow_statement_times_out(
    server: Server, own_store: PostgresqlStore
) -> None:
    own_store.apply(batch([item("a")]))
    with psycopg.connect(server.url) as blocker:
        blocker.execute(f"SELECT * FROM {SCHEMA}.space FOR UPDATE".encode())
        with pytest.raises(Unavailable) as caught:
            own_store.apply(batch([item("b")]))
        assert caught.value.code == "busy"
    with pytest.raises(Unavailable) as caught, own_store.reading() as session:
        session.fetch("SELECT pg_sleep(5)")
    assert caught.value.code == "timeout"
    assert own_store.find(ACME, 10) == [item("a")]


def test_a_read_only_database_can_be_read_and_refuses_writes(
    server: Server, store: PostgresqlStore
) -> None:
    store.apply(batch([item("a")]))
    execute(
        server,
        "DROP ROLE IF EXISTS reader; CREATE ROLE reader SUPERUSER LOGIN; "
        "ALTER ROLE reader SET default_transaction_read_only TO on",
    )
    reader = PostgresqlStore.open(url_of(server).replace("postgres@", "reader@"))
    assert reader.find(ACME, 10) == [item("a")]
    with pytest.raises(Unavailable) as caught:
        reader.apply(batch([item("b")]))
    assert caught.value.code == "read_only"
    reader.close()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("postgres@", "secured:wr0ng-s3cret@", "access_denied"),
        ("/postgres?", "/nowhere?", "no_database"),
        ("postgres@127.0.0.1:", "u:wr0ng-s3cret@127.0.0.1:1/db?schema=", "unreachable"),
        ("postgres@127.0.0.1", "u:wr0ng-s3cret@nowhere.invalid", "unreachable"),
    ],
    ids=["password", "database", "port", "host"],
)
def test_a_server_that_cannot_be_used_is_named_without_its_password(
    server: Server, old: str, new: str, code: str
) -> None:
    execute(server, "DROP ROLE IF EXISTS secured; CREATE ROLE secured LOGIN PASSWORD 'right'")
    url = url_of(server).replace(old, new)
    url = url[: url.index("schema=")] + "schema=knowloom"
    with pytest.raises(Unavailable) as caught:
        PostgresqlStore.open(url)
    host = "nowhere.invalid" if "nowhere.invalid" in url else "127.0.0.1"
    assert caught.value.code == code and host in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__
