"""Memory over a client returns the same values as over an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import knowloom
from knowloom import Client, Engine, Invalid, Memory, MemoryTemplate, RankingOptions, SearchResult
from knowloom.client.memory import RemoteMemory
from knowloom.server.auth import Keyring
from live_server import Letters, serving

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=Letters()) as kb:
        yield kb


@pytest.fixture
def local(kb: Engine) -> Memory:
    return Memory(kb, "maya")


@pytest.fixture
def remote(kb: Engine) -> Iterator[RemoteMemory]:
    with serving(kb) as url, Client(url) as client:
        yield client.memory("maya")


def remember_three(memory: RemoteMemory) -> list[knowloom.Remembered]:
    first = memory.remember(
        "Ada lives in Kiel",
        type="fact",
        conversation="c1",
        confidence=0.9,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    second = memory.remember(
        "Ada drinks tea",
        pinned=True,
        tags=("drinks",),
        metadata={"cups": 2},
        speaker="Bob",
        created_at=datetime(2026, 2, 1, tzinfo=UTC),
    )
    third = memory.remember(
        "Ada moved to Hamburg",
        supersedes=[first.id],
        related={second.id: "about"},
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    return [first, second, third]


def without_hits(results: Any) -> Any:
    def without_hit(result: SearchResult) -> SearchResult:
        return replace(result, hit=None)

    return (
        [without_hit(result) for result in results]
        if isinstance(results, list)
        else replace(results, memories=tuple(without_hit(result) for result in results.memories))
    )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 1, "mode": "bm25"},
    {"include_relationships": True, "relationship_depth": 2},
    {"as_of": datetime(2026, 2, 15, tzinfo=UTC), "memory_types": ["fact"]},
    {
        "ranking": RankingOptions(similarity_weight=0.1, recency_weight=0.9, confidence_weight=0.0),
        "ranker": "recency",
    },
]
SHAPES: list[dict[str, Any]] = [
    {},
    {"template": "detailed", "token_budget": 60},
    {"template": MemoryTemplate("mine", "* {{content}}", header="Known:\n", order="time")},
    {"template": "xml", "include_relationships": True, "include_metadata": True},
]


def test_stored_memories_are_those_of_the_engine(local: Memory, remote: RemoteMemory) -> None:
    first, second, third = remember_three(remote)
    assert local.get([second.id, third.id]) == [second, third]
    assert (second.pinned, second.metadata, third.conversation) == (
        True,
        {"speaker": "Bob", "cups": 2},
        None,
    )
    assert local.get(first.id)[0].superseded_by == third.id
    assert (
        remote.forget([first.id, "nobody"]),
        remote.forget(second.id),
        local.get([first.id, second.id]),
    ) == (1, 1, [])


@pytest.mark.parametrize("options", OPTIONS)
def test_search_results_are_the_same(
    local: Memory, remote: RemoteMemory, options: dict[str, Any]
) -> None:
    remember_three(remote)
    results = remote.search("Where does Ada live?", now=NOW, **options)
    assert results and results == without_hits(
        local.search("Where does Ada live?", now=NOW, **options)
    )


def test_many_searches_are_the_same(local: Memory, remote: RemoteMemory) -> None:
    remember_three(remote)
    queries = [f"Where does Ada live in {number}?" for number in range(120)]
    results = remote.search_many(queries, now=NOW, limit=2)
    assert results == [
        without_hits(answer) for answer in local.search_many(queries, now=NOW, limit=2)
    ]
    assert any(result.links for answer in results for result in answer)
    assert remote.search_many([], now=NOW) == []
    for wrong in ("tea", 7, [" "], [None]):
        with pytest.raises(Invalid):
            remote.search_many(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_context_and_its_preview_are_the_same(
    local: Memory, remote: RemoteMemory, shape: dict[str, Any]
) -> None:
    remember_three(remote)
    assert remote.build_context("Ada", now=NOW, **shape) == without_hits(
        local.build_context("Ada", now=NOW, **shape)
    )
    assert remote.preview("Ada", now=NOW, **shape) == without_hits(
        local.preview("Ada", now=NOW, **shape)
    )


def test_a_supplied_vector_is_used(local: Memory, remote: RemoteMemory) -> None:
    remember_three(remote)
    vector = Letters().embed(["tea"])[0].tolist()
    assert remote.search_by_vector(vector, now=NOW) == without_hits(
        local.search_by_vector(vector, now=NOW)
    )
    assert remote.build_context_by_vector(vector, now=NOW) == without_hits(
        local.build_context_by_vector(vector, now=NOW)
    )
    assert remote.preview_by_vector(vector, now=NOW) == without_hits(
        local.preview_by_vector(vector, now=NOW)
    )


@pytest.mark.parametrize(
    "wrong", [{"colour": 1}, {"ranker": len}, {"limit": 0}, {"template": "none"}]
)
def test_invalid_options_are_rejected(remote: RemoteMemory, wrong: dict[str, Any]) -> None:
    remember_three(remote)
    with pytest.raises(Invalid):
        remote.build_context("Ada", **wrong)


def test_a_key_sees_only_its_workspaces(kb: Engine, tmp_path: Any) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    _, secret = keyring.add(
        "writer", reads=(), writes=("maya",), role="editor", tier="teams", now=NOW
    )
    with serving(kb, keyring) as url, Client(url, key=secret) as client:
        client.memory("maya").remember("Ada drinks tea")
        with pytest.raises(knowloom.Forbidden):
            client.memory("other").search("tea")
    with pytest.raises(Invalid), Client("http://localhost:1") as client:
        client.memory("a\0")
