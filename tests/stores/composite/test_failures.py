"""Writes that fail in one of several stores are reported and repaired."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Engine, Kind, Unavailable
from knowloom.model import Filter
from knowloom.ports import Batch, Stores
from knowloom.stores.composite import delivery
from knowloom.stores.composite.store import CompositeStore
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW, batch
from letters import Letters
from profiles import maya, node


def use_for_all_roles(store: CompositeStore) -> Stores:
    return Stores(store, store, store, store, store)


class FailingStore(MemoryStore):
    """A memory store that fails on demand."""

    failing = False
    attempts = closed = 0

    def apply(self, batch: Batch) -> None:
        self.attempts += 1
        if self.failing:
            raise Unavailable("out of order")
        super().apply(batch)

    def close(self) -> None:
        self.closed += 1
        if self.failing:
            raise Unavailable("out of order")


@pytest.mark.parametrize("role", ["words", "vectors", "graph"])
def test_an_index_that_missed_writes_is_reported_and_repaired(tmp_path: Path, role: str) -> None:
    primary, failing = SqliteStore.open(str(tmp_path / "k.db")), FailingStore()
    roles: dict[str, Any] = {
        name: failing if name == role else primary for name in ("words", "vectors", "graph")
    }
    composite = CompositeStore(primary, **roles)
    with Engine(use_for_all_roles(composite), Letters(), clock=lambda: NOW) as kb:
        kb.add([node("a", "refund"), node("b")], [Edge("a", "b", space="s")])
        failing.failing = True
        kb.add(
            [node("a", "parcel"), node("c", "parcel")],
            [Edge("a", "b", weight=0.5, space="s"), Edge("c", "a", space="s")],
        )
        kb.delete("b", space="s")
        assert [item.id for item in kb.items()] == ["a", "c"]
        assert [problem for problem in kb.verify() if "run reindex" in problem]
        failing.failing = False
        kb.reindex()
        assert kb.verify() == []
        assert [hit.item.id for hit in kb.search("parcel", spaces=["s"], mode="bm25")] == ["a", "c"]
        assert [edge.source for edge in kb.edges(automatic=False)] == ["c"]


def test_an_item_in_two_stores_is_reported_and_repaired(tmp_path: Path) -> None:
    profiles, nodes = FailingStore(), MemoryStore()
    composite = CompositeStore(nodes, nodes, nodes, nodes, profiles)
    with Engine(use_for_all_roles(composite), None, clock=lambda: NOW) as kb:
        kb.add(maya())
        profiles.failing = True
        with pytest.raises(Unavailable):
            kb.add(maya(kind=Kind.NODE))
        profiles.failing = False
        assert any("two stores" in problem for problem in kb.verify())
        kb.reindex()
        assert (kb.verify(), [item.kind for item in kb.items()]) == ([], [Kind.NODE])


def test_a_failed_move_to_the_metadata_store_loses_nothing(tmp_path: Path) -> None:
    profiles, nodes = FailingStore(), MemoryStore()
    composite = CompositeStore(nodes, nodes, nodes, nodes, profiles)
    with Engine(use_for_all_roles(composite), None, clock=lambda: NOW) as kb:
        kb.add(maya(kind=Kind.NODE))
        profiles.failing = True
        with pytest.raises(Unavailable):
            kb.add(maya())
        profiles.failing = False
        assert ([item.kind for item in kb.items()], kb.verify()) == ([Kind.NODE], [])


def test_closing_closes_every_store_once_even_if_one_fails() -> None:
    stores = [FailingStore() for _ in range(4)]
    composite = CompositeStore(stores[0], stores[1], stores[1], stores[2], stores[3])
    stores[3].failing = True
    with pytest.raises(Unavailable):
        Engine(use_for_all_roles(composite)).close()
    assert [store.closed for store in stores] == [1, 1, 1, 1]


@pytest.mark.parametrize("role", ["words", "vectors", "graph"])
def test_a_layer_that_is_added_to_stored_items_is_not_trusted_before_it_has_them(
    tmp_path: Path, role: str
) -> None:
    path, layer = tmp_path / "k.db", {role: str(tmp_path / "layer.db")}
    with knowloom.open(path, embedder=Letters()) as kb:
        kb.add([node("a", "refund"), node("b")], [Edge("a", "b", space="s")])
        expected = kb.context("refund", spaces=["s"])
    with knowloom.open(path, embedder=Letters(), **layer) as kb:
        context = kb.context("refund", spaces=["s"])
        assert context.text == expected.text
        assert (role, "index_pending") in {
            (problem.part, problem.code) for problem in context.degraded
        }
        kb.reindex()
        repaired = kb.context("refund", spaces=["s"])
        assert (repaired.text, repaired.degraded) == (expected.text, expected.degraded)
        assert kb.verify() == []


@pytest.mark.parametrize("role", ["words", "vectors", "graph"])
def test_a_layer_that_loses_its_content_meanwhile_is_noticed(tmp_path: Path, role: str) -> None:
    layer: Any = {role: str(tmp_path / "layer.db")}
    with knowloom.open(tmp_path / "k.db", embedder=Letters(), **layer) as kb:
        kb.add([node("a", "refund"), node("b", "zebra")], [Edge("a", "b", space="s")])
        expected = kb.context("refund", spaces=["s"], now=NOW)
        with closing(SqliteStore.open(layer[role])) as other:
            edges = tuple(edge.key for edge in other.edges(["s"], 10))
            other.apply(Batch(NOW, deleted=(("s", "a"),), deleted_edges=edges))
        context = kb.context("refund", spaces=["s"], now=NOW)
        assert context.text == expected.text
        assert {(problem.part, problem.code) for problem in context.degraded} == {
            (role, "index_pending")
        }
        kb.reindex()
        assert (kb.context("refund", spaces=["s"], now=NOW).degraded, kb.verify()) == ((), [])


def test_vectors_that_a_layer_lacks_are_noticed(tmp_path: Path) -> None:
    url = f"{tmp_path}/vectors.db"
    with knowloom.open(tmp_path / "k.db", embedder=Letters(), vectors=url) as kb:
        kb.add([node("a", "refund"), node("b", "zebra")])
    with closing(SqliteStore.open(url)) as layer:
        layer.forget_vectors()
    with knowloom.open(tmp_path / "k.db", embedder=Letters(), vectors=url) as kb:
        hits = kb.search("refund", spaces=["s"], mode="vector")
        assert [hit.item.id for hit in hits] == ["a", "b"]
        assert [problem.code for problem in hits.degraded] == ["index_pending"]


def test_requests_deliver_even_a_large_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_CHANGES", 4)
    monkeypatch.setattr(delivery, "RETRY_S", 0.0)
    truth, layer = MemoryStore(), FailingStore()
    composite = CompositeStore(truth, layer, layer, layer)
    with Engine(use_for_all_roles(composite), Letters(), clock=lambda: NOW) as kb:
        layer.failing = True
        kb.add([node(f"{number}", "refund") for number in range(11)])
        assert set(composite.pending()) == {"graph", "vectors"}
        layer.failing = False
        for _ in range(60):
            kb.search("refund", spaces=["s"])
        assert composite.pending() == {} and layer.count(Filter(("s",))) == 11


def test_writes_do_not_wait_again_for_a_layer_that_just_timed_out() -> None:
    now = iter(range(10**6))
    truth, layer = MemoryStore(), FailingStore()
    composite = CompositeStore(truth, layer, truth, truth, monotonic=lambda: next(now) / 4)
    layer.failing = True
    for number in range(8):
        composite.apply(batch([node(f"{number}")]))
    assert layer.attempts < 8
    layer.failing = False
    assert composite.deliver() == {} and layer.count(Filter(("s",))) == 8


def test_an_item_that_was_purged_while_a_layer_was_down_is_erased_there(tmp_path: Path) -> None:
    truth, layer = SqliteStore.open(str(tmp_path / "k.db")), FailingStore()
    composite = CompositeStore(truth, layer, layer, truth)
    with Engine(use_for_all_roles(composite), Letters(), clock=lambda: NOW) as kb:
        kb.add(node("a", "a private matter"))
        kb.add(node("a", "another private matter"))
        layer.failing = True
        assert "may still have it" in " ".join(kb.maintenance.purge("a", space="s").problems)
        layer.failing = False
        kb.reindex()
        assert "private" not in str(layer.log) and kb.verify() == []
