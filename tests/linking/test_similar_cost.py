"""Bounds on `similar` edges: few per item for any vectors, and one comparison per new vector."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import knowloom
from knowloom import Item
from knowloom.stores.sqlite.links import nearest_index
from knowloom.vectors.nearest_lists import NEAREST, SMALL_DIMENSIONS
from sqlite_files import execute_sql

ITEMS = 120
DIMENSIONS = SMALL_DIMENSIONS + 64


def narrow_vectors(count: int, dimensions: int = DIMENSIONS, seed: int = 1) -> list[list[float]]:
    """Return vectors with a mean cosine of 0.89."""
    rng = np.random.default_rng(seed)
    centre, spread = rng.normal(size=dimensions), rng.normal(size=(count, dimensions))
    return (centre + 0.35 * spread).tolist()


def items(first: int, last: int) -> list[Item]:
    return [Item(f"{number:03}", "s", text=f"text {number}") for number in range(first, last)]


def edges(kb: knowloom.Engine) -> dict[tuple[str, str], float]:
    return {(edge.source, edge.target): edge.weight for edge in kb.edges(["s"], automatic=True)}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else str(tmp_path / "k.db")


@pytest.mark.parametrize("vectors", ["narrow", "equal"])
@pytest.mark.parametrize("dimensions", [4, DIMENSIONS])
def test_an_item_has_few_edges_whatever_the_vectors_are(url, vectors, dimensions):
    numbers = narrow_vectors(ITEMS, dimensions)
    if vectors == "equal":
        numbers = [numbers[0]] * ITEMS
    with knowloom.open(url, embedder=None, links=["similar"]) as kb:
        kb.add(items(0, 80), vectors=numbers[:80])
        kb.add(items(80, ITEMS), vectors=numbers[80:])
        degrees = Counter(id for pair in edges(kb) for id in pair)
        assert max(degrees.values()) <= NEAREST
        assert len(degrees) > ITEMS // 2  # they are spread over the items
        before = edges(kb)
        kb.maintenance.relink()
        assert edges(kb) == before


def test_a_change_compares_each_new_vector_once(tmp_path, monkeypatch):
    calls: list[int] = []
    original = nearest_index.count_differing

    def count(signs: Any, bits: Any) -> Any:
        calls.append(1)
        return original(signs, bits)

    vectors = narrow_vectors(ITEMS + 4)
    with knowloom.open(str(tmp_path / "k.db"), embedder=None, links=["similar"]) as kb:
        monkeypatch.setattr(nearest_index, "count_differing", count)
        kb.add(items(0, ITEMS), vectors=vectors[:ITEMS])
        assert len(calls) == ITEMS
        calls.clear()
        kb.add(items(ITEMS, ITEMS + 3), vectors=vectors[ITEMS : ITEMS + 3])
        assert len(calls) == 3
        calls.clear()
        kb.add(items(5, 6), vectors=vectors[-1:])
        kb.delete(["007", "008"], space="s")
        assert len(calls) <= 1 + 2 * NEAREST  # the neighbours of deleted items are visited


def test_lists_are_read_once_and_then_only_what_changed(tmp_path, monkeypatch):
    path = str(tmp_path / "k.db")
    with knowloom.open(path, embedder=None, links=["similar"]) as kb:
        kb.add(items(0, ITEMS), vectors=narrow_vectors(ITEMS))
        first = edges(kb)
    with knowloom.open(path, embedder=None) as kb:  # another process continues
        kb.delete("000", space="s")
        kb.add(items(0, 1), vectors=narrow_vectors(ITEMS)[:1])
        assert edges(kb) == first and kb.verify() == []


def test_knowledge_linked_by_an_earlier_rule_is_linked_anew(tmp_path):
    path = str(tmp_path / "k.db")
    with knowloom.open(path, embedder=None, links=["similar"]) as kb:
        kb.add(items(0, 20), vectors=narrow_vectors(20))
        expected = edges(kb)
    execute_sql(
        path,
        "UPDATE meta SET value = 'similar/1' WHERE key = 'link_rules'",
        "DELETE FROM nearest",
        "DELETE FROM edge",
    )
    with knowloom.open(path, embedder=None) as kb:
        kb.add(Item("other", "elsewhere", text="x"), embed=False)
        kb.maintenance.link()
        assert edges(kb) == expected
