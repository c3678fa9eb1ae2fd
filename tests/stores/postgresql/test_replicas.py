"""Read replicas: within the bound, with the writes of the process, and never the only way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from knowloom.errors import Invalid, Unavailable
from knowloom.stores.postgresql.address import parse_address
from knowloom.stores.postgresql.reading import replicas
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing.knowledge import ACME, batch, item
from postgresql_server import require_server, url_of
from servers.postgresql import Server

MAX_LAG_S = 60  # only `pass_time` lets it pass


@pytest.fixture(scope="module")
def replica() -> Iterator[Server]:
    server = Server(f"replica-of-{require_server().port}", require_server())
    server.erase()
    server.start()
    yield server
    server.erase()


@pytest.fixture
def reader(server: Server, store: PostgresqlStore, replica: Server) -> Iterator[PostgresqlStore]:
    """A store with the replica, which is known to be usable."""
    replica.start()
    opened = PostgresqlStore.open(replica_url(server, replica))
    opened.apply(batch([item("a", "water")]))
    await_true(lambda: reads_from_replica(opened))
    yield opened
    opened.close()


def replica_url(server: Server, replica: Server) -> str:
    return f"{url_of(server)}&replicas=127.0.0.1:{replica.port}&max_lag={MAX_LAG_S}"


def reads_from_replica(store: PostgresqlStore) -> bool:
    with store.reading() as session:
        ((is_replica,),) = session.fetch("SELECT pg_is_in_recovery()")
        return bool(is_replica)


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read(store: PostgresqlStore) -> list[str]:
    with store.reading():
        return [each.id for each in store.find(ACME, 99)]


def control(replica: Server, statement: str) -> None:
    with psycopg.connect(replica.url, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.fixture
def stopped_replay(replica: Server, reader: PostgresqlStore) -> Iterator[None]:
    control(replica, "SELECT pg_wal_replay_pause()")
    yield
    control(replica, "SELECT pg_wal_replay_resume()")


def test_requests_are_read_from_a_replica_and_single_reads_from_the_primary(
    reader: PostgresqlStore,
) -> None:
    with reader.reading() as session:
        assert reader.search_text("water", ACME, 9).considered == 1
        assert session.fetch("SELECT pg_is_in_recovery()") == [(True,)]
    with reader._reading() as session:
        assert session.fetch("SELECT pg_is_in_recovery()") == [(False,)]


def test_a_process_reads_its_own_writes(reader: PostgresqlStore) -> None:
    for number in range(20):
        reader.apply(batch([item(f"{number:02}", "fire")]))
        assert len(read(reader)) == number + 2
    await_true(lambda: reads_from_replica(reader))
    assert len(read(reader)) == 21 and reader.verify() == []


@pytest.mark.usefixtures("stopped_replay")
def test_a_replica_that_lags_is_used_within_the_bound_and_no_longer(
    reader: PostgresqlStore, store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reads_from_replica(reader)
    store.apply(batch([item("b", "fire")]))
    assert read(reader) == ["a"]  # 60 s have not passed
    monkeypatch.setattr(replicas, "monotonic", lambda: time.monotonic() + MAX_LAG_S)
    assert read(reader) == ["a", "b"] and not reads_from_replica(reader)
    monitor = reader._pool._monitor
    assert monitor is not None
    await_true(lambda: monitor._samples[-1][0] > time.monotonic() + MAX_LAG_S / 2)
    assert read(reader) == ["a", "b"] and not reads_from_replica(reader)


@pytest.mark.usefixtures("stopped_replay")
def test_own_writes_are_read_from_the_primary_until_the_replica_has_them(
    reader: PostgresqlStore, replica: Server
) -> None:
    reader.apply(batch([item("b", "fire")]))
    assert read(reader) == ["a", "b"] and not reads_from_replica(reader)
    control(replica, "SELECT pg_wal_replay_resume()")
    await_true(lambda: reads_from_replica(reader))
    assert read(reader) == ["a", "b"]


@pytest.mark.parametrize(("stop", "start"), [("kill", "start"), ("pause", "resume")])
def test_a_dead_or_paused_replica_fails_no_request_and_is_used_again(
    replica: Server, reader: PostgresqlStore, stop: str, start: str
) -> None:
    getattr(replica, stop)()
    try:
        assert [read(reader) for _ in range(3)] == [["a"]] * 3
    finally:
        getattr(replica, start)()
    await_true(lambda: reads_from_replica(reader))


def test_a_replica_that_dies_during_a_request_is_replaced_by_the_primary(
    replica: Server, reader: PostgresqlStore
) -> None:
    with reader.reading() as session:
        assert reader.count(ACME) == 1
        replica.kill()
        assert [each.id for each in reader.find(ACME, 9)] == ["a"]
        assert session.fetch("SELECT pg_is_in_recovery()") == [(False,)]


def test_a_request_whose_knowledge_changed_as_its_replica_died_is_refused(
    replica: Server, reader: PostgresqlStore, store: PostgresqlStore
) -> None:
    with pytest.raises(Unavailable, match="retry") as caught, reader.reading():
        assert reader.count(ACME) == 1
        replica.kill()
        store.apply(batch([item("b", "fire")]))
        reader.find(ACME, 9)
    assert caught.value.code == "replica_lost" and read(reader) == ["a", "b"]


def test_a_replica_that_was_promoted_is_not_read_any_more(
    replica: Server, reader: PostgresqlStore
) -> None:
    control(replica, "SELECT pg_promote()")
    control(replica, "CREATE TABLE other_history(no integer)")
    await_true(lambda: not reads_from_replica(reader) and read_state(reader).replayed == 0)
    assert read(reader) == ["a"]
    replica.erase()


def read_state(store: PostgresqlStore) -> replicas.Replica:
    assert store._pool._monitor is not None
    return store._pool._monitor.replicas[0]


@pytest.mark.parametrize(
    "option",
    [
        "replicas=",
        "replicas=h:x",
        "replicas=u:s3cret@h",
        "replicas=h/db",
        "replicas=h,",
        "max_lag=2",
    ],
)
def test_a_bad_list_of_replicas_is_refused(option: str) -> None:
    with pytest.raises(Invalid, match="replicas") as caught:
        parse_address(f"u@h/db?{option}")
    assert "s3cret" not in str(caught.value)


def test_replicas_are_hosts_and_ports() -> None:
    address = parse_address("u@h/db?replicas=a,b:6000,[::1]:5433&max_lag=9")
    assert address.replicas == (("a", 5432), ("b", 6000), ("::1", 5433)) and address.max_lag_s == 9
