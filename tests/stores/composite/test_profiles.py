"""Profiles in a metadata store of their own behave as in a single store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowloom import Conflict, Edge, Engine, Item, Kind
from knowloom.model import Filter
from knowloom.registry import open_stores
from knowloom.stores.file.store import FileStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW
from letters import Letters
from profiles import maya, node


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Engine]:
    minutes = iter(range(1000))
    stores = open_stores(
        str(tmp_path / "k.db"),
        {"metadata": f"file:{tmp_path}/profiles", "graph": f"networkx:{tmp_path}/graph.json"},
    )
    with Engine(stores, Letters(), clock=lambda: NOW + timedelta(minutes=next(minutes))) as kb:
        yield kb


def test_a_profile_is_stored_only_in_the_metadata_store(kb: Engine, tmp_path: Path) -> None:
    kb.add([maya(), node("a")], [Edge("maya", "a", space="s")])
    assert [path.name for path in (tmp_path / "profiles" / "items").rglob("*.json")] == [
        "i-maya.json"
    ]
    with SqliteStore.open(str(tmp_path / "k.db")).reading() as reader:
        assert [row[0] for row in reader.connection.execute("SELECT id FROM item")] == ["a"]
    assert [item.id for item in kb.items()] == ["a", "maya"]
    assert kb.get("maya", space="s")[0].properties == {"plan": "gold"}
    assert (kb.verify(), [info.items for info in kb.maintenance.stats().spaces]) == ([], [2])


def test_the_digest_does_not_depend_on_the_stores(kb: Engine) -> None:
    with Engine(open_stores("memory:", {}), None, clock=lambda: NOW) as plain:
        for engine in (kb, plain):
            engine.add(
                [maya(created_at=NOW), node("a", created_at=NOW)], [Edge("maya", "a", space="s")]
            )
        assert kb.maintenance.stats().spaces == plain.maintenance.stats().spaces


def test_profiles_are_neither_searched_nor_embedded(kb: Engine) -> None:
    kb.add([node("a", "refund policy"), maya(title="refund lover")], embed=True)
    assert [hit.item.id for hit in kb.search("refund", spaces=["s"])] == ["a"]
    assert kb.maintenance.stats().without_vector == 0
    assert kb.context("refund", spaces=["s"]).degraded == ()


def test_missing_vectors_are_reported_only_as_pending() -> None:
    with Engine(
        open_stores("memory:", {"metadata": "memory:profiles"}), Letters(), clock=lambda: NOW
    ) as kb:
        kb.add([node("a", "refund"), maya()], embed=False)
        assert {problem.code for problem in kb.context("refund", spaces=["s"]).degraded} == {
            "vectors_pending"
        }


@pytest.mark.parametrize("moved_back", [False, True])
def test_an_item_whose_kind_changes_moves_and_keeps_its_edges(
    kb: Engine, tmp_path: Path, moved_back: bool
) -> None:
    kb.add(
        [maya(), node("a")],
        [Edge("maya", "a", space="s"), Edge("a", "maya", weight=0.5, space="s")],
    )
    edges = list(kb.edges())
    kb.add(maya(kind=Kind.NODE, text="refund"))
    if moved_back:
        kb.add(maya())
    profiles = FileStore.open(str(tmp_path / "profiles"))
    assert [item.id for item in profiles.find(Filter(("s",)), 9)] == (
        ["maya"] if moved_back else []
    )
    assert [hit.item.id for hit in kb.search("refund", spaces=["s"], mode="bm25")] == (
        [] if moved_back else ["maya"]
    )
    assert (list(kb.edges()), kb.verify(), kb.maintenance.stats().spaces[0].items) == (edges, [], 2)


def test_deleting_a_profile_deletes_its_edges_and_restoring_returns_them(kb: Engine) -> None:
    kb.add([maya(), node("a")], [Edge("maya", "a", space="s"), Edge("a", "maya", space="s")])
    before, edges = kb.maintenance.stats().spaces, list(kb.edges())
    kb.delete("maya", space="s")
    assert (list(kb.edges()), kb.verify()) == ([], [])
    assert kb.history.restore("maya", space="s").edges == 2
    assert (kb.maintenance.stats().spaces, list(kb.edges()), kb.verify()) == (before, edges, [])


def test_an_expected_version_is_checked_in_either_store(kb: Engine) -> None:
    kb.add([maya(), node("a")])
    for key in ("maya", "a"):
        (stored,) = kb.get(key, space="s")
        with pytest.raises(Conflict):
            kb.add(Item(key, "s", stored.kind, text="new"), expected={stored.key: "0" * 16})
        kb.add(
            Item(key, "s", Kind.PROFILE, text="new"),
            expected={stored.key: kb.history.version(stored)},
        )
        assert kb.get(key, space="s")[0].text == "new"


_step = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([Kind.NODE, Kind.PROFILE, None]),
        st.sampled_from(["x", "y"]),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(_step, min_size=1, max_size=6), st.data())
def test_a_composite_store_answers_and_rolls_back_like_a_single_store(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], data: Any
) -> None:
    folder, now = tmp_path_factory.mktemp("stores"), NOW
    roles = {"metadata": f"file:{folder}/profiles", "graph": f"networkx:{folder}/graph.json"}
    with (
        Engine(open_stores("memory:", {}), None, clock=lambda: now) as plain,
        Engine(open_stores("memory:", roles), None, clock=lambda: now) as split,
    ):
        moments = []
        for step in steps:
            for id, kind, text, other in step:
                now += timedelta(seconds=1)
                for kb in (plain, split):
                    if kind is None and kb.maintenance.stats().spaces:
                        kb.delete(id, space="s")
                    elif kind is not None:
                        existing = {item.id for item in kb.items()} | {id}
                        kb.add(
                            Item(id, "s", kind, text=text),
                            [Edge(id, other, space="s")] if other in existing else [],
                        )
            assert snapshot(plain) == snapshot(split)
            moments.append((now, snapshot(split)))
        moment, expected = data.draw(st.sampled_from(moments))
        now += timedelta(seconds=1)
        split.history.rollback(moment)
        assert (snapshot(split)[1:], split.verify()) == (expected[1:], [])


def snapshot(kb: Engine) -> list[Any]:
    return [
        [info.digest for info in kb.maintenance.stats().spaces if info.items],
        list(kb.items()),
        list(kb.edges()),
    ]
