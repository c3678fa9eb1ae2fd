"""Statistics, verification, embedding and reindexing of stored knowledge."""

from __future__ import annotations

import pytest
from engine_samples import AxisEmbedder, link, node, request_context

import knowloom
from knowloom import (
    Conflict,
    Invalid,
    Unavailable,
)


def test_stats_count_items_edges_and_missing_vectors(kb):
    kb.add([node("a"), node("b", space="t")], [link("a", "a")])
    assert [(info.name, info.items, info.edges) for info in kb.maintenance.stats().spaces] == [
        ("s", 1, 1),
        ("t", 1, 0),
    ]
    assert kb.maintenance.stats().without_vector == 2


def test_verify_reports_no_problem_after_a_delete(refund_kb):
    refund_kb.delete("refund-3", space="s")
    assert refund_kb.verify() == []


def test_reindexing_without_an_embedder_keeps_ready_vectors():
    kb = knowloom.open("memory:", embedder=None)
    kb.add(knowloom.Item("a", "one", title="refund"), vectors=[[1.0, 0.0]])
    kb.reindex()
    assert [
        hit.item.id for hit in kb.search("", spaces=["one"], mode="vector", vector=[1.0, 0.0])
    ] == ["a"]


def test_reindexing_changes_no_answer(refund_kb):
    before = request_context(refund_kb).text
    assert refund_kb.reindex() == 0
    assert request_context(refund_kb).text == before


def test_a_different_embedder_is_flagged_until_reindex(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=AxisEmbedder()) as kb:
        kb.add([node("a", "refund"), node("b", "money")])
    with knowloom.open(str(tmp_path / "k.db"), embedder=AxisEmbedder(("money",), "axes-2")) as kb:
        assert [problem.code for problem in request_context(kb).degraded] == ["reindex_required"]
        with pytest.raises(Conflict, match="run reindex") as caught:
            kb.search("refund", spaces=["s"], mode="vector")
        assert caught.value.code == "reindex_required"
        assert kb.reindex() == 2
        assert request_context(kb).degraded == ()
        assert kb.maintenance.stats().embedder == "axes-2"


def test_reindex_keeps_the_vectors_if_the_embedder_is_down(store_url):
    embedder = AxisEmbedder()
    with knowloom.open(store_url, embedder=embedder) as kb:
        kb.add([node("a", "refund"), node("b", "car")])
        embedder.down = True
        with pytest.raises(Unavailable, match="connection refused"):
            kb.reindex()
        assert kb.maintenance.stats().without_vector == 0
        embedder.down = False
        assert kb.reindex() == 2


def test_embedding_without_an_embedder_is_refused(refund_kb):
    with pytest.raises(Invalid, match="no embedder: pass one"):
        refund_kb.maintenance.embed()
