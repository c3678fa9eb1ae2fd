"""The contracts of profiles in Redis, on one server and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowloom import Invalid, Kind
from knowloom.model import Filter
from knowloom.registry import open_stores
from knowloom.stores.redis.store import RedisStore
from knowloom.testing import GraphStoreContract, HistoryContract, ItemStoreContract
from knowloom.testing.knowledge import NOW, batch, edge, item
from profile_contract import MERGED_LOGS, ProfilesOnly
from redis_data import empty
from servers.redis import Cluster, Redis


def open_composite(folder: Path, url: str) -> Any:
    return open_stores(str(folder / "k.db"), {"metadata": url}).items


class TestProfilesInRedis(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, redis_server: Redis) -> Iterator[Any]:
        empty(redis_server)
        store = open_composite(tmp_path, redis_server.url)
        yield store
        store.close()


class TestOnlyProfilesInRedis(ProfilesOnly, ItemStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, redis_server: Redis) -> Iterator[Any]:
        empty(redis_server)
        store = open_composite(tmp_path, redis_server.url)
        yield store
        store.close()


class TestOnlyProfilesInACluster(ProfilesOnly, ItemStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, redis_cluster: Cluster) -> Iterator[Any]:
        empty(*redis_cluster.nodes)
        store = open_composite(tmp_path, f"{redis_cluster.nodes[0].url}?cluster=true")
        yield store
        store.close()


for contract in (TestOnlyProfilesInRedis, TestOnlyProfilesInACluster):
    for name in MERGED_LOGS:
        setattr(contract, name, None)


@pytest.fixture(params=["server", "cluster"])
def store(request: pytest.FixtureRequest) -> Iterator[RedisStore]:
    if request.param == "server":
        servers: list[Redis] = [request.getfixturevalue("redis_server")]
        url = servers[0].url
    else:
        servers = request.getfixturevalue("redis_cluster").nodes
        url = ",".join(f"127.0.0.1:{node.port}" for node in servers) + "?cluster=true"
    empty(*servers)
    store = RedisStore.open(url.removeprefix("redis://"))
    yield store
    store.close()


def test_edges_are_refused(store: RedisStore) -> None:
    with pytest.raises(Invalid, match="profiles only"):
        store.apply(batch(edges=[edge("a", "b")]))


def test_the_log_records_each_action_and_the_state_before(store: RedisStore) -> None:
    later = NOW + timedelta(microseconds=1)
    store.apply(batch([item("a", "old"), item("b", space="zoo")]))
    store.apply(batch([item("a", "new")], at=later))
    store.apply(batch(deleted=[("acme", "a"), ("zoo", "b")], at=later))
    changes = store.changes("acme")
    assert [(change.at, change.action, change.before) for change in changes] == [
        (NOW, "add", None),
        (later, "update", item("a", "old")),
        (later, "delete", item("a", "new")),
    ]
    assert [change.action for change in store.changes_of([("zoo", "b"), ("acme", "a")])] == [
        *("add", "add", "update", "delete", "delete")
    ]
    assert store.verify() == []


def test_profiles_are_found_by_subject_without_reading_the_others(store: RedisStore) -> None:
    subjects = ["anna", "anna ", "ann", "", None, "anna"]
    profiles = [
        item(f"{number}", subject=subject, kind=Kind.PROFILE)
        for number, subject in enumerate(subjects)
    ]
    store.apply(batch(profiles))
    store.apply(batch([item("5", subject="ben", kind=Kind.PROFILE)]))
    for names, expected in ((("anna",), ["0"]), (("ben", "ann"), ["2", "5"]), (("",), ["3"])):
        only = Filter(("acme",), subjects=names)
        assert [profile.id for profile in store.find(only, 10)] == expected
        assert store.count(only) == len(expected)


INJECTIONS = [
    *("\r\nFLUSHALL\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "*3\r\n$3\r\nSET\r\n", "$-1\r\n", "+OK\r\n"),
    *(
        "{acme.space}",
        "}{",
        "a b",
        "a%20b",
        '"]]; redis.call("FLUSHALL") --',
        "\0",
        "\\u0000",
        "🧵",
    ),
]


def test_texts_that_look_like_commands_stay_texts(store: RedisStore) -> None:
    spaces = [f"s{number}{text}" for number, text in enumerate(INJECTIONS)]
    profiles = [
        item(text, text, space=space, subject=text, properties={text: text})
        for space in spaces
        for text in INJECTIONS
    ]
    store.apply(batch([item("canary", space="other")]))
    store.apply(batch(profiles))
    assert store.get([profile.key for profile in profiles]) == profiles
    assert [info.name for info in store.spaces()] == sorted(["other", *spaces])
    store.apply(batch(deleted=[(spaces[1], text) for text in INJECTIONS]))
    left = [profile for profile in profiles if profile.space != spaces[1]]
    assert store.get([profile.key for profile in profiles]) == left
    assert store.get([("other", "canary")]) and store.verify() == []
