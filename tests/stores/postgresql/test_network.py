"""A network that cuts, stalls and delays, and a disk that is full: errors, then recovery."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import knowloom
from knowloom.errors import Unavailable
from knowloom.stores.postgresql import driver
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing.knowledge import ACME, batch, edge, item
from letters import Letters
from postgresql_server import SCHEMA, execute, url_of
from servers.postgresql import Server
from servers.relay import Relay

SECRET = "s3cret-of-the-relay"


@pytest.fixture
def relay(server: Server, store: PostgresqlStore) -> Iterator[Relay]:
    """A relay in front of the emptied schema."""
    with Relay(server.port) as relay:
        yield relay


@pytest.fixture
def url(server: Server, relay: Relay) -> str:
    url = url_of(server).replace(f":{server.port}/", f":{relay.port}/")
    url = url.replace("postgres@", f"postgres:{SECRET}@")
    return f"{url}&statement_timeout=1&connect_timeout=2"


@pytest.fixture
def far_store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresqlStore]:
    """A store behind the relay with an item."""
    monkeypatch.setattr(driver, "SPARE_S", 0.1)
    store = PostgresqlStore.open(url)
    store.apply(batch([item("a", "water")]))
    yield store
    store.close()


def assert_described(error: Unavailable, relay: Relay, code: str) -> None:
    """Check the code and that the message has the host, and no part of the chain the password."""
    assert error.code == code and f"127.0.0.1:{relay.port}" in str(error)
    cause: BaseException | None = error
    while cause is not None:
        assert SECRET not in repr(cause)
        cause = cause.__cause__


def test_a_query_that_is_cut_off_is_an_error_and_the_next_one_works(
    relay: Relay, far_store: PostgresqlStore
) -> None:
    with pytest.raises(Unavailable) as caught, far_store.reading():
        far_store.spaces()
        relay.cut_after = b"FROM change"
        far_store.changes("acme")
    assert_described(caught.value, relay, "unreachable")
    assert far_store.find(ACME, 9) == [item("a", "water")]


BEFORE, AFTER = [item("a", "water")], [item("b", "fire"), item("c", "fire")]
WRITE = batch(AFTER, deleted=[("acme", "a")])


def test_a_write_that_never_arrives_changes_nothing(
    relay: Relay, far_store: PostgresqlStore
) -> None:
    relay.cut_before = b"COMMIT"
    with pytest.raises(Unavailable) as caught:
        far_store.apply(WRITE)
    assert_described(caught.value, relay, "unreachable")
    assert far_store.find(ACME, 9) == BEFORE and far_store.verify() == []


def test_a_write_whose_answer_is_lost_is_done_wholly_or_not_at_all(
    relay: Relay, far_store: PostgresqlStore
) -> None:
    relay.cut_after = b"COMMIT"
    with pytest.raises(Unavailable) as caught:
        far_store.apply(WRITE)
    assert_described(caught.value, relay, "unreachable")
    assert far_store.find(ACME, 9) in (BEFORE, AFTER)
    far_store.apply(WRITE)
    assert far_store.find(ACME, 9) == AFTER and far_store.verify() == []
    assert far_store.search_text("fire", ACME, 9).considered == 2


def test_a_connection_that_is_lost_before_a_write_is_replaced(
    relay: Relay, far_store: PostgresqlStore
) -> None:
    relay.cut_before = b"pg_advisory_xact_lock"
    far_store.apply(WRITE)
    assert far_store.find(ACME, 9) == AFTER


def test_a_stalled_network_times_out_and_is_used_again_at_once(
    relay: Relay, far_store: PostgresqlStore
) -> None:
    relay.stall()
    for call in (
        lambda: far_store.find(ACME, 9),
        lambda: far_store.apply(batch([item("b", "fire")])),
    ):
        with pytest.raises(Unavailable) as caught:
            call()
        assert_described(caught.value, relay, "timeout")
    relay.resume()
    assert far_store.find(ACME, 9)[0] == item("a", "water")
    far_store.apply(batch([item("c", "earth")]))
    assert far_store.find(ACME, 9)[-1] == item("c", "earth") and far_store.verify() == []


def test_a_slow_network_gives_the_same_answers(relay: Relay, far_store: PostgresqlStore) -> None:
    relay.delay_s = 0.2
    far_store.apply(batch([item("b", "water")]))
    assert far_store.search_text("water", ACME, 9).considered == 2


def test_a_full_disk_rolls_the_write_back_and_says_so(
    server: Server, far_store: PostgresqlStore, relay: Relay
) -> None:
    execute(
        server,
        f"""CREATE FUNCTION {SCHEMA}.fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'could not extend file: No space left on device'
            USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER fill BEFORE INSERT ON {SCHEMA}.edge FOR EACH STATEMENT
            EXECUTE FUNCTION {SCHEMA}.fill()""",
    )
    try:
        with pytest.raises(Unavailable, match="rolled back") as caught:
            far_store.apply(batch([item("b", "fire")], [edge("b", "a")]))
        assert_described(caught.value, relay, "disk_full")
    finally:
        execute(server, f"DROP FUNCTION {SCHEMA}.fill CASCADE")
    assert far_store.find(ACME, 9) == [item("a", "water")]
    far_store.apply(batch([item("b", "fire")], [edge("b", "a")]))
    assert len(far_store.edges_of([("acme", "a")], ["acme"])) == 1


def test_a_context_names_the_layer_that_is_down_and_uses_it_again_once_it_is_back(
    server: Server, store: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "SPARE_S", 0.1)
    url = f"postgresql://{url_of(server)}&statement_timeout=1&connect_timeout=2"
    with knowloom.open(tmp_path / "k.db", embedder=Letters(), vectors=url) as kb:
        kb.add(knowloom.Item("refund", "s", text="How a refund is paid."))
        whole = kb.context("refund", spaces=["s"], max_tokens=200)
        assert whole.degraded == ()
        for stop, start in ((server.kill, server.start), (server.pause, server.resume)):
            stop()
            try:
                partial = kb.context("refund", spaces=["s"], max_tokens=200)
            finally:
                start()
            assert "How a refund is paid." in partial.text
            assert {problem.part for problem in partial.degraded} == {"vectors"}
            assert await_whole(kb).text == whole.text


def await_whole(kb: knowloom.Engine) -> knowloom.Context:
    """Return the first context without a problem: a layer that failed slowly is left alone first.

    The deadline is generous, because machines are slow; see RETRY_S of the composite store.
    """
    deadline = time.monotonic() + 60
    while True:
        context = kb.context("refund", spaces=["s"], max_tokens=200)
        if not context.degraded or time.monotonic() > deadline:
            assert context.degraded == ()
            return context
        time.sleep(0.05)
