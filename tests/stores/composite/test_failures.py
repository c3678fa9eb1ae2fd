"""Writes that fail in one of several stores are reported and repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Engine, Kind, Unavailable
from knowloom.ports import Batch, Stores
from knowloom.stores.composite.store import CompositeStore
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW
from letters import Letters
from profiles import maya, node


def use_for_all_roles(store: CompositeStore) -> Stores:
    return Stores(store, store, store, store, store)


class FailingStore(MemoryStore):
    """A memory store that fails on demand."""

    failing = False
    closed = 0

    def apply(self, batch: Batch) -> None:
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
