"""Links that a reader keeps must be those of the file, whatever was asked before and whoever changed it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from knowloom.model import Batch
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
def test_links_are_those_that_memory_knows(
    sqlite: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(edges.EdgeCache.__init__, "__defaults__", (seed,))
    chance, memory, other = (
        random.Random(seed),
        MemoryStore(),
        SqliteStore.open(str(tmp_path / "knowloom.db")),
    )
    items = batch([item(id, space=space) for space in SPACES for id in IDS])
    memory.apply(items)
    sqlite.apply(items)
    for _ in range(60):
        if chance.random() < 0.3:
            near, far = chance.sample(SPACES, 2)
            given = edge(
                chance.choice(IDS),
                chance.choice(IDS),
                chance.choice((0.0, 0.2, 0.5, 1.0)),
                type=chance.choice(("knows", "likes")),
                space=near,
                target_space=chance.choice(("", far)),
            )
            change = (
                Batch(NOW, edges=(given,))
                if chance.random() < 0.7
                else Batch(NOW, deleted_edges=(given.key,))
            )
            memory.apply(change)
            chance.choice((sqlite, other)).apply(change)
        keys = [(chance.choice(SPACES), chance.choice(IDS)) for _ in range(chance.randint(0, 6))]
        asked = (
            chance.sample(SPACES, chance.randint(1, 2)),
            chance.choice(((), ("knows",))),
            chance.choice((1, 2, 100)),
            chance.choice((0.0, 5e-324, 0.3)),
        )
        assert sqlite.edges_of(keys, *asked) == memory.edges_of(keys, *asked)
    other.close()


def test_what_was_read_is_not_read_again(sqlite: SqliteStore) -> None:
    sqlite.apply(
        batch([item(id) for id in IDS], [edge("a", "b"), edge("a", "c", 0.2), edge("c", "d")])
    )
    first = sqlite.edges_of([("acme", "a"), ("acme", "e")], ["acme"], min_weight=MIN_EDGE_WEIGHT)
    seen = statements(sqlite)
    assert (
        sqlite.edges_of([("acme", "e"), ("acme", "a")], ["acme"], min_weight=MIN_EDGE_WEIGHT)
        == first
    )
    assert [one.target for one in sqlite.edges_of([("acme", "a")], ["acme"], min_weight=0.5)] == [
        "b"
    ]
    assert not [sql for sql in seen if "edge" in sql]
    sqlite.edges_of([("acme", "c")], ["acme"])
    assert [sql for sql in seen if "edge" in sql]


def test_of_links_read_down_to_a_weight_only_lighter_ones_are_read_again(
    sqlite: SqliteStore,
) -> None:
    sqlite.apply(
        batch([item(id) for id in IDS], [edge("a", "b"), edge("a", "c", 0.5), edge("a", "d", 0.2)])
    )

    def found(least: float) -> list[str]:
        return [one.target for one in sqlite.edges_of([("acme", "a")], ["acme"], min_weight=least)]

    assert found(0.5) == ["b", "c"]
    seen = statements(sqlite)
    assert (found(0.5), found(0.7)) == (["b", "c"], ["b"])
    assert not [sql for sql in seen if "edge" in sql]
    assert found(0.1) == ["b", "c", "d"]
    assert [sql for sql in seen if "edge" in sql]


def test_a_reader_does_not_remember_every_link_it_ever_saw(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edges.EdgeCache.__init__, "__defaults__", (10,))
    sqlite.apply(batch([item(str(number)) for number in range(200)]))
    with sqlite.reading() as reader:
        reader.edges = edges.EdgeCache()
        for number in range(200):
            sqlite.edges_of([("acme", str(number))], ["acme"])
            assert sum(len(known) for known in reader.edges._edges.values()) <= 12


def test_all_links_of_a_hub_are_not_kept(
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
            sum(len(pairs) for known in reader.edges._edges.values() for _, pairs in known.values())
            <= 10
        )


def test_what_a_caller_does_to_a_link_is_not_given_to_the_next(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a"), item("b")], [edge("a", "b", properties={"since": "2020"})]))
    for _ in range(3):
        (found,) = sqlite.edges_of([("acme", "a")], ["acme"])
        assert found.properties == {"since": "2020"}
        assert isinstance(found.properties, dict)
        found.properties["since"] = "2021"


def test_what_a_caller_does_to_an_item_is_not_given_to_the_next(sqlite: SqliteStore) -> None:
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


def test_a_reader_asks_the_file_nothing_twice_until_somebody_writes(
    sqlite: SqliteStore, tmp_path: Path
) -> None:
    sqlite.apply(batch([item("a")]))
    other = SqliteStore.open(str(tmp_path / "knowloom.db"))

    def told() -> tuple[object, ...]:
        return (
            sqlite.spaces(),
            sqlite.spaces(["acme"]),
            sqlite.fingerprint(),
            sqlite.get([("acme", "a")]),
            sqlite.edges_of([("acme", "a")], ["acme"]),
        )

    before = told()
    seen = statements(sqlite)
    assert told() == before
    assert {sql.split(" ")[0] for sql in seen} <= {"BEGIN", "PRAGMA", "ROLLBACK"}
    other.apply(batch([item("a", "new"), item("b")], [edge("a", "b")]))
    other.put_vectors({("acme", "a"): np.array([1.0, 0.0], np.float32)}, "other")
    after = told()
    assert all(one != another for one, another in zip(before, after, strict=True))
    other.close()


def test_a_block_sees_one_state_from_its_first_moment_on(
    sqlite: SqliteStore, tmp_path: Path
) -> None:
    sqlite.apply(batch([item("a", "old")]))
    other = SqliteStore.open(str(tmp_path / "knowloom.db"))
    for text, before in (("newer", "old"), ("newest", "newer")):
        with sqlite.reading():
            other.apply(batch([item("a", text)]))
            assert [one.text for one in sqlite.get([("acme", "a")])] == [before]
        assert [one.text for one in sqlite.get([("acme", "a")])] == [text]
    other.close()


def test_what_is_large_is_not_kept(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
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
            assert [one.properties for one in sqlite.get([("acme", "a"), ("acme", "b")])] == [
                {},
                large,
            ]
            assert len(sqlite.edges_of([("acme", "a")], ["acme"])) == 1
        assert list(reader.views(["acme"])["acme"]._decoded) == ["a"]
        assert (
            sum(len(pairs) for known in reader.edges._edges.values() for _, pairs in known.values())
            == 0
        )


def test_a_reader_does_not_remember_every_answer(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a")]))
    with sqlite.reading() as reader:
        for number in range(3 * MAX_CACHED_RESULTS):
            assert [info.name for info in sqlite.spaces(["acme", str(number)])] == ["acme"]
            assert len(reader._results) <= MAX_CACHED_RESULTS
