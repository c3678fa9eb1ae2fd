"""Redis that is killed, paused, full, read-only, of another program, or wants another password."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Corrupt, Invalid, Item, Kind, Unavailable
from knowloom.keyvalue.redis_address import parse_redis_address
from knowloom.stores.redis import scripts, space_writer
from knowloom.stores.redis.store import RedisStore
from knowloom.testing.knowledge import batch, item
from redis_data import empty
from servers.redis import Cluster, Redis, SecuredRedis, send

KEY = ("acme", "a")


@pytest.fixture
def store(redis_server: Redis) -> Iterator[RedisStore]:
    empty(redis_server)
    store = open_store(redis_server.url, timeout="0.3")
    yield store
    store.close()


def open_store(url: str, **options: str) -> RedisStore:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return RedisStore.open(f"{url.removeprefix('redis://')}{'&' if '?' in url else '?'}{query}")


def code_of(store: RedisStore) -> str:
    with pytest.raises(Unavailable) as caught:
        store.apply(batch([item("b")]))
    return caught.value.code


def test_a_killed_server_is_unavailable_and_used_again_when_it_is_back(
    store: RedisStore, redis_server: Redis
) -> None:
    store.apply(batch([item("a", "acknowledged")]))
    redis_server.kill()
    assert code_of(store) == "unreachable"
    redis_server.start()
    assert store.get([KEY]) == [item("a", "acknowledged")]
    store.apply(batch([item("b")]))
    assert store.verify() == []


def test_a_paused_server_fails_in_time_and_then_at_once(
    store: RedisStore, redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch([item("a")]))
    redis_server.pause()
    try:
        assert code_of(store) == code_of(store) == "timeout"
    finally:
        redis_server.resume()
    monkeypatch.setattr(store._client, "_paused", None)  # instead of waiting for a second
    assert store.get([KEY]) == [item("a")]


def test_a_wrong_password_is_refused_without_naming_it(secured_redis: SecuredRedis) -> None:
    address = secured_redis.url.removeprefix("redis://")
    for secret in ("", ":s3cr3t-canary@"):
        with pytest.raises(Unavailable, match=r"redis://127\.0\.0\.1") as caught:
            RedisStore.open(f"{secret}{address}")
        assert caught.value.code == "access_denied"
        assert "canary" not in f"{caught.value!r} {caught.value.__cause__!r}"
    store = RedisStore.open(f":secret@{address}")
    store.apply(batch([item("a")]))
    assert store.get([KEY]) == [item("a")]
    store.close()


def test_a_full_server_refuses_writes_wholly_and_still_answers(
    store: RedisStore, redis_server: Redis
) -> None:
    store.apply(batch([item("a")]))
    send(redis_server.port, "CONFIG", "SET", "maxmemory", "1")
    try:
        assert code_of(store) == "memory_full"
        assert store.get([KEY]) == [item("a")] and store.verify() == []
    finally:
        send(redis_server.port, "CONFIG", "SET", "maxmemory", "0")
    store.apply(batch([item("b")]))


@pytest.mark.parametrize("cause", ["replica", "replicas"])
def test_a_server_that_may_not_write_is_read_only(
    store: RedisStore, redis_server: Redis, cause: str
) -> None:
    store.apply(batch([item("a")]))
    commands = {
        "replica": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
        "replicas": tuple(("CONFIG", "SET", "min-replicas-to-write", n) for n in ("1", "0")),
    }
    begin, end = commands[cause]
    send(redis_server.port, *begin)
    try:
        assert code_of(store) == "read_only"
        assert store.get([KEY]) == [item("a")]
    finally:
        send(redis_server.port, *end)
    store.apply(batch([item("b")]))
    assert store.verify() == []


def test_keys_of_another_program_are_refused_and_left_as_they_are(redis_server: Redis) -> None:
    empty(redis_server)
    send(redis_server.port, "SET", "knowloom:{acme.space}:ids", "theirs")
    store = open_store(redis_server.url)
    with pytest.raises(Corrupt, match="another program") as caught:
        store.apply(batch([item("a")]))
    assert caught.value.code == "foreign_file" and store.get([KEY]) == []
    assert send(redis_server.port, "GET", "knowloom:{acme.space}:ids").endswith("theirs")
    store.close()
    send(redis_server.port, "SET", "knowloom:format", "theirs")
    with pytest.raises(Corrupt, match="another prefix"):
        open_store(redis_server.url)
    open_store(redis_server.url, prefix="other").close()
    send(redis_server.port, "SET", "knowloom:format", "99")
    with pytest.raises(Unavailable, match="newer knowloom"):
        open_store(redis_server.url)


def test_damaged_items_are_reported_and_named(store: RedisStore, redis_server: Redis) -> None:
    store.apply(batch([item("a"), item("b")]))
    send(redis_server.port, "HSET", "knowloom:{acme.space}:items", "a", "{")
    with pytest.raises(Corrupt, match="item 'a' of space 'acme'"):
        store.get([KEY])
    assert len(store.verify()) == 1
    send(redis_server.port, "HDEL", "knowloom:{acme.space}:items", "a")
    assert store.verify() == [
        "the items of space 'acme' differ from its digest",
        "the items of space 'acme' differ from its change log",
    ]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://", "must be like"),
        ("redis://h:99999", "host:port"),
        ("redis://h/x", "must be a number"),
        ("redis://h1,h2", "add cluster=true"),
        ("redis://h/2?cluster=true", "only the database 0"),
        ("redis://h?prefix={", "must consist of"),
        ("redis://h?timeout=-1", "seconds from"),
        ("redis://:hidden/@h", "host:port"),
    ],
)
def test_an_invalid_url_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        parse_redis_address(url)
    assert "hidden" not in str(caught.value)


# several spaces


def stop_after(count: int, monkeypatch: pytest.MonkeyPatch, store: RedisStore) -> None:
    """Fail, as if this process were killed, at the script after `count` others."""
    run = store._client.run_script
    calls = iter(range(100))

    def run_script(*arguments: Any) -> Any:
        if next(calls) >= count:
            raise KeyboardInterrupt
        return run(*arguments)

    monkeypatch.setattr(store._client, "run_script", run_script)


@pytest.mark.parametrize("count", range(5))
def test_a_killed_write_to_two_spaces_is_done_in_both_or_in_none(
    redis_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Two scripts stage it and two finish it; the decision is in between."""
    empty(*redis_cluster.nodes)
    url = f"{redis_cluster.nodes[0].url}?cluster=true"
    killed, other = open_store(url), open_store(url)
    keys = [("acme", "a"), ("zoo", "a")]
    other.apply(batch([item("a", "old"), item("a", "old", space="zoo")]))
    with monkeypatch.context() as patch:
        stop_after(count, patch, killed)
        new = batch([item("a", "new"), item("a", "new", space="zoo")])
        if count < 4:
            with pytest.raises(KeyboardInterrupt):
                killed.apply(new)
        else:
            killed.apply(new)
    expected = "old" if count < 2 else "new"
    assert [profile.text for profile in other.get(keys)] == [expected] * 2
    monkeypatch.setattr(space_writer, "ABANDONED_S", 0)
    other.apply(batch([item("b"), item("b", space="zoo")]))
    assert [profile.text for profile in other.get(keys)] == [expected] * 2
    assert other.verify() == []
    killed.close()
    other.close()


def test_a_writer_that_was_too_slow_does_not_commit(store: RedisStore) -> None:
    writer = store._writer
    decision = writer.keys("acme").decision("1")
    assert writer._decide(decision, scripts.ABORTED) == scripts.ABORTED
    assert writer._decide(decision, scripts.COMMITTED) == scripts.ABORTED


def add_profiles(url: str, name: str) -> None:
    store = RedisStore.open(url)
    for number in range(25):
        store.apply(batch([item(f"{name}-{number}"), item("shared", name, space="zoo")]))
    store.close()


def test_processes_that_write_at_the_same_time_lose_nothing(redis_server: Redis) -> None:
    empty(redis_server)
    url = redis_server.url.removeprefix("redis://")
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=add_profiles, args=(url, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    store = RedisStore.open(url)
    assert [info.items for info in store.spaces()] == [50, 1]
    assert len(store.changes("zoo")) == 50 and store.verify() == []
    store.close()


# behind an engine


def test_requests_go_on_without_profiles_and_say_so(redis_server: Redis, tmp_path: Path) -> None:
    empty(redis_server)
    url = f"{redis_server.url}?timeout=0.3"
    with knowloom.open(str(tmp_path / "k.db"), embedder=None, metadata=url) as kb:
        kb.add(
            [
                Item("maya", "support", Kind.PROFILE, subject="maya", properties={"plan": "gold"}),
                Item("returns", "support", text="Returns within 30 days."),
            ]
        )
        whole = kb.context("returns", spaces=["support"])
        redis_server.kill()
        without = kb.context("returns", spaces=["support"])
        with pytest.raises(Unavailable, match="redis://"):
            kb.add(Item("ben", "support", Kind.PROFILE, title="Ben"))
        redis_server.start()
        again = kb.context("returns", spaces=["support"])
        assert kb.get("maya", space="support")[0].properties == {"plan": "gold"}
    assert [problem.part for problem in without.degraded] == ["metadata"]
    assert "Returns within 30 days." in without.text
    assert (again.text, whole.degraded, again.degraded) == (whole.text, (), ())


def test_purged_profiles_leave_no_text_in_the_store(store: RedisStore, redis_server: Redis) -> None:
    store.apply(batch([item("a", "canary-1"), item("b", "stays")]))
    store.apply(batch([item("a", "canary-2")]))
    store.upkeep().purge([KEY], batch().at, "ada")
    actions = [change.action for change in store.changes_of([KEY])]
    assert actions == ["add", "update", "delete", "purge"]
    assert "canary" not in send(redis_server.port, "HGETALL", "knowloom:{acme.space}:log")
    assert "BGREWRITEAOF" in store.upkeep().compact([KEY])
    assert store.upkeep().erase_history("acme", batch().at) == 0 and store.verify() == []
