"""Cached edges must match the file, whatever was read before and whoever changed it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from knowloom.ports import Batch
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite import edges
from knowloom.stores.sqlite.connections import MAX_CACHED_RESULTS
from knowloom.stores.sqlite.space_view import MAX_CACHED_LENGTH
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW, batch, edge, item
from watched import statements

IDS = "abcdef"
SPACES = ("acme", "beta")


@pytest.mark.parametrize("seed", range(20))
def test_edges_match_those_of_the_memory_store(
    sqlite: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(edges.EdgeCache.__init__, "__defaults__", (seed,))
    rng, memory, other = (
        random.Random(seed),
        MemoryStore(),
        SqliteStore.open(path),
    )
    items = batch([item(id, space=space) for space in SPACES for id in IDS])
    memory.apply(items)
    sqlite.apply(items)
    for _ in range(60):
        if rng.random() < 0.3:
            near, far = rng.sample(SPACES, 2)
            changed_edge = edge(
                rng.choice(IDS),
                rng.choice(IDS),
                rng.choice((0.0, 0.2, 0.5, 1.0)),
                type=rng.choice(("knows", "likes")),
                space=near,
                target_space=rng.choice(("", far)),
            )
            change = (
                Batch(NOW, edges=(changed_edge,))
                if rng.random() < 0.7
                else Batch(NOW, deleted_edges=(changed_edge.key,))
            )
            memory.apply(change)
            rng.choice((sqlite, other)).apply(change)
        keys = [(rng.choice(SPACES), rng.choice(IDS)) for _ in range(rng.randint(0, 6))]
        arguments = (
            rng.sample(SPACES, rng.randint(1, 2)),
            rng.choice(((), ("knows",))),
            rng.choice((1, 2, 100)),
            rng.choice((0.0, 5e-324, 0.3)),
        )
        assert sqlite.edges_of(keys, *arguments) == memory.edges_of(keys, *arguments)
    other.close()


def test_cached_edges_are_not_read_again(sqlite: SqliteStore) -> None:
    sqlite.apply(
        batch([item(id) for id in IDS], [edge("a", "b"), edge("a", "c", 0.2), edge("c", "d")])
    )
    first = sqlite.edges_of([("acme", "a"), ("acme", "e")], ["acme"], min_weight=MIN_EDGE_WEIGHT)
    seen = statements(sqlite)
    assert (
        sqlite.edges_of([("acme", "e"), ("acme", "a")], ["acme"], min_weight=MIN_EDGE_WEIGHT)
        == first
    )
    assert [edge.target for edge in sqlite.edges_of([("acme", "a")], ["acme"], min_weight=0.5)] == [
        "b"
    ]
    assert not [sql for sql in seen if "edge" in sql]
    sqlite.edges_of([("acme", "c")], ["acme"])
    assert [sql for sql in seen if "edge" in sql]


def test_edges_below_the_cached_weight_are_read_again(
    sqlite: SqliteStore,
) -> None:
    sqlite.apply(
        batch([item(id) for id in IDS], [edge("a", "b"), edge("a", "c", 0.5), edge("a", "d", 0.2)])
    )

    def targets(min_weight: float) -> list[str]:
        return [
            edge.target
            for edge in sqlite.edges_of([("acme", "a")], ["acme"], min_weight=min_weight)
        ]

    assert targets(0.5) == ["b", "c"]
    seen = statements(sqlite)
    assert (targets(0.5), targets(0.7)) == (["b", "c"], ["b"])
    assert not [sql for sql in seen if "edge" in sql]
    assert targets(0.1) == ["b", "c", "d"]
    assert [sql for sql in seen if "edge" in sql]


def test_the_edge_cache_is_bounded(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges.EdgeCache.__init__, "__defaults__", (10,))
    sqlite.apply(batch([item(str(number)) for number in range(200)]))
    with sqlite.reading() as reader:
        reader.edges = edges.EdgeCache()
        for number in range(200):
            sqlite.edges_of([("acme", str(number))], ["acme"])
            assert sum(len(cached) for cached in reader.edges._edges.values()) <= 12


def test_a_hub_larger_than_the_cache_is_not_cached(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edges.EdgeCache.__init__, "__defaults__", (10,))
    sqlite.apply(
        batch(
            [item(str(number)) for number in range(50)],
            [edge(str(number), "0") for number in range(50)],
        )
    )
    with sqlite.reading() as reader:
        reader.edges = edges.EdgeCache()
        assert len(sqlite.edges_of([("acme", "0")], ["acme"], limit=1000)) == 50
        assert (
            sum(
                len(pairs)
                for cached in reader.edges._edges.values()
                for _, pairs in cached.values()
            )
            <= 10
        )


def test_changes_to_a_returned_edge_are_not_cached(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a"), item("b")], [edge("a", "b", properties={"since": "2020"})]))
    for _ in range(3):
        (read,) = sqlite.edges_of([("acme", "a")], ["acme"])
        assert read.properties == {"since": "2020"}
        assert isinstance(read.properties, dict)
        read.properties["since"] = "2021"


def test_changes_to_a_returned_item_are_not_cached(sqlite: SqliteStore) -> None:
    sqlite.apply(
        batch([item("a", properties={"plan": "gold", "limits": {"seats": [1, 2]}}), item("b")])
    )
    for _ in range(3):
        first, second = sqlite.get([("acme", "a"), ("acme", "b")])
        assert (first.properties, second.properties) == (
            {"plan": "gold", "limits": {"seats": [1, 2]}},
            {},
        )
        assert isinstance(first.properties, dict) and isinstance(second.properties, dict)
        first.properties["limits"]["seats"].append(3)
        second.properties["plan"] = "none"


def test_repeated_reads_use_the_caches_until_another_connection_writes(
    sqlite: SqliteStore, path: str
) -> None:
    sqlite.apply(batch([item("a")]))
    other = SqliteStore.open(path)

    def read_all() -> tuple[object, ...]:
        return (
            sqlite.spaces(),
            sqlite.spaces(["acme"]),
            sqlite.fingerprint(),
            sqlite.get([("acme", "a")]),
            sqlite.edges_of([("acme", "a")], ["acme"]),
        )

    before = read_all()
    seen = statements(sqlite)
    assert read_all() == before
    assert {sql.split(" ")[0] for sql in seen} <= {"BEGIN", "PRAGMA", "ROLLBACK"}
    other.apply(batch([item("a", "new"), item("b")], [edge("a", "b")]))
    other.put_vectors({("acme", "a"): np.array([1.0, 0.0], np.float32)}, "other")
    after = read_all()
    assert all(value != other for value, other in zip(before, after, strict=True))
    other.close()


def test_a_reading_block_sees_the_state_at_its_start(sqlite: SqliteStore, path: str) -> None:
    sqlite.apply(batch([item("a", "old")]))
    other = SqliteStore.open(path)
    for text, before in (("newer", "old"), ("newest", "newer")):
        with sqlite.reading():
            other.apply(batch([item("a", text)]))
            assert [item.text for item in sqlite.get([("acme", "a")])] == [before]
        assert [item.text for item in sqlite.get([("acme", "a")])] == [text]
    other.close()


def test_large_items_and_edges_are_not_cached(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {"notes": "x" * MAX_CACHED_LENGTH}
    sqlite.apply(
        batch(
            [item("a"), item("b", properties=large)],
            [edge("a", "b", properties={"notes": "x" * 10 * edges.CHARACTERS_PER_EDGE})],
        )
    )
    monkeypatch.setattr(edges.EdgeCache.__init__, "__defaults__", (10,))
    with sqlite.reading() as reader:
        reader.edges = edges.EdgeCache()
        for _ in range(2):
            assert [item.properties for item in sqlite.get([("acme", "a"), ("acme", "b")])] == [
                {},
                large,
            ]
            assert len(sqlite.edges_of([("acme", "a")], ["acme"])) == 1
        assert list(reader.views(["acme"])["acme"]._decoded) == ["a"]
        assert (
            sum(
                len(pairs)
                for cached in reader.edges._edges.values()
                for _, pairs in cached.values()
            )
            == 0
        )


def test_the_result_cache_is_bounded(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a")]))
    with sqlite.reading() as reader:
        for number in range(3 * MAX_CACHED_RESULTS):
            assert [info.name for info in sqlite.spaces(["acme", str(number)])] == ["acme"]
            assert len(reader._results) <= MAX_CACHED_RESULTS
