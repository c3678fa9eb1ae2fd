"""The memory and SQLite stores give the same answers, and those of an independent BM25."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowloom import Edge, Item
from knowloom.model import Filter, Key
from knowloom.ports import Vector
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NOW,
    assert_close,
    babble,
    batch,
    directions,
    item,
    section,
)
from knowloom.text.passages import count_passages
from sqlite_files import temporary_folder

KEYS = [(space, f"{number}") for space in ("acme", "zoo", "ark") for number in range(6)]
TEXTS = [
    "",
    "refund policy",
    "refunds and parcels",
    "a parcel on monday",
    "返金ポリシー",
    "water " * 300,
    "policy policy monday",
    section("refund policy") + section("parcel"),
    section("monday") * 3 + section("refund"),
    "A parcel on monday, and a refund. " * 90,
]
VECTORS = directions(60, 24)
QUESTIONS = ["refund", "parcel policy monday", "返金 water", "unknown"]
FILTERS = [
    ACME,
    BOTH,
    Filter(("ark", "zoo", "acme")),
    replace(BOTH, types=("faq",)),
    replace(BOTH, exclude_types=("faq",), tags=("vip",)),
    replace(ACME, subjects=("anna",), valid_at=NOW),
    replace(ACME, min_confidence=0.5),
]
_keys = st.sampled_from(KEYS)
_item = st.builds(
    lambda key, **fields: Item(key[1], key[0], created_at=NOW, **fields),
    _keys,
    type=st.sampled_from(["", "faq"]),
    title=st.sampled_from(TEXTS),
    text=st.sampled_from(TEXTS),
    tags=st.sampled_from([(), ("vip",)]),
    subject=st.sampled_from([None, "anna"]),
    confidence=st.sampled_from([None, 0.5]),
    valid_to=st.sampled_from([None, NOW]),
)
_edge = st.builds(
    lambda source, target, type, weight: Edge(
        source[1], target[1], type, weight, source[0], target_space=target[0]
    ),
    _keys,
    _keys,
    st.sampled_from(["related", "part of"]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
_write = st.fixed_dictionaries(
    {
        "items": st.lists(_item, max_size=4),
        "edges": st.lists(_edge, max_size=4),
        "deleted": st.lists(_keys, max_size=2),
        "deleted_edges": st.lists(_edge.map(lambda edge: edge.key), max_size=2),
    }
)
# One vector for an item, or a row for each of its passages and some more.
_embed = st.dictionaries(
    _keys, st.tuples(st.integers(0, 19), st.sampled_from([None, 0, 0, 0, 1])), max_size=8
)
_steps = st.lists(
    _write
    | _write
    | _embed
    | st.sampled_from(["forget", "rebuild", "reopen"])
    | st.sampled_from([200, 400, 800, 2000]),
    max_size=14,
)


class TestSqliteMatchesMemory:
    @pytest.mark.usefixtures("small_limits")
    def test_random_writes_give_the_same_answers(self) -> None:
        self.check_random_steps()

    @settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @given(_steps)
    def check_random_steps(self, steps: list[Any]) -> None:
        with temporary_folder() as parent:
            memory, sqlite = MemoryStore(), SqliteStore.open(f"{parent}/knowloom.db")
            for step in steps:
                sqlite = apply_step(step, memory, sqlite, f"{parent}/knowloom.db")
                assert_same_answers(memory, sqlite)
            assert sqlite.verify() == []
            sqlite.close()

    def test_batches_of_different_sizes_give_the_same_answers(self, sqlite: SqliteStore) -> None:
        memory, texts, vectors = MemoryStore(), babble(2600, 1), directions(2600, 24)
        for start, end in pairwise([0, 1, 6, 306, 307, 1007, 1012, 1100, 1900, 2600]):
            for store in (memory, sqlite):
                store.apply(
                    batch(item(f"{number:05}", texts[number]) for number in range(start, end))
                )
                store.put_vectors(
                    {("acme", f"{number:05}"): vectors[number] for number in range(start, end)},
                    "e1",
                )
        assert_same_answers(memory, sqlite)
        assert sqlite.verify() == []


def apply_step(step: Any, memory: MemoryStore, sqlite: SqliteStore, path: str) -> SqliteStore:
    """Apply one step to both stores; return the SQLite store, which may be reopened."""
    if step == "reopen":
        sqlite.close()
        return SqliteStore.open(path)
    for store in (memory, sqlite):
        if step == "forget":
            store.forget_vectors()
        elif isinstance(step, int):
            store.resegment(step)
        elif step == "rebuild":
            store.rebuild_words(memory.find(Filter(("acme", "zoo", "ark")), 1000))
        elif "items" in step:
            existing = {item.key for item in step["items"]} | {
                key for key in KEYS if store.get([key]) and key not in step["deleted"]
            }
            edges = [
                edge for edge in step["edges"] if {edge.source_key, edge.target_key} <= existing
            ]
            store.apply(batch(step["items"], edges, step["deleted"], step["deleted_edges"]))
        else:
            vectors = {
                key: VECTORS[number] if more is None else passage_vectors(store, key, number, more)
                for key, (number, more) in step.items()
            }
            store.put_vectors(vectors, "e1")
    return sqlite


def passage_vectors(store: MemoryStore | SqliteStore, key: Key, number: int, more: int) -> Vector:
    texts = [item.text for item in store.get([key])]
    count = count_passages(texts[0] if texts else "", store.passage_size()) + more
    return np.stack([VECTORS[(number + place) % 59] for place in range(count)])


def assert_same_answers(memory: MemoryStore, sqlite: SqliteStore) -> None:
    names = ["zoo", "acme", "ark"]
    for query in (
        lambda store: store.spaces(),
        lambda store: [store.find(filter, 5) for filter in FILTERS],
        lambda store: [store.find(filter, 5, KEYS[8]) for filter in FILTERS],
        lambda store: [store.visible(KEYS[::-1], filter) for filter in FILTERS],
        lambda store: [store.edges_of(KEYS, names, limit=limit) for limit in (1, 2, 100)],
        lambda store: [
            store.edges_of(KEYS, names[:2], ["part of"], min_weight=0.6),
            store.edges(names, 100),
        ],
        lambda store: [store.changes(name) for name in names],
        lambda store: (
            store.fingerprint(),
            store.missing_vectors(names, 1000),
            store.count_missing(names),
            store.passage_size(),
        ),
        lambda store: [store.dirty_ids(name) for name in names],
        lambda store: [store.tag_holders(name, ["vip"], 3) for name in names],
    ):
        assert query(sqlite) == query(memory)
    for filter in FILTERS:
        for question in QUESTIONS:
            assert_same_words(memory, sqlite, question, filter)
        assert_same_neighbours(memory, sqlite, filter)
    assert_same_vectors(memory, sqlite)


def assert_same_words(
    memory: MemoryStore, sqlite: SqliteStore, question: str, filter: Filter
) -> None:
    for limit in (1, 3, 9999):
        actual, expected = (
            store.search_text(question, filter, limit, also=KEYS) for store in (sqlite, memory)
        )
        assert [score for _, score in actual.matches] == pytest.approx(
            [score for _, score in expected.matches], abs=1.1e-6
        )
        assert dict(actual.others) == pytest.approx(dict(expected.others), abs=1.1e-6)
        assert actual.considered == expected.considered
    assert dict(actual.matches) == pytest.approx(dict(expected.matches), abs=1.1e-6)
    assert sqlite.search_text(question, filter, 0, also=KEYS).others == actual.others
    assert_close(
        sqlite.score_text_passages(question, filter, KEYS),
        memory.score_text_passages(question, filter, KEYS),
        1.1e-6,
    )


def assert_same_neighbours(memory: MemoryStore, sqlite: SqliteStore, filter: Filter) -> None:
    for limit in (2, 500):
        actual, expected = (
            store.search_vector(VECTORS[-1], filter, limit) for store in (sqlite, memory)
        )
        assert [score for _, score in actual.matches] == pytest.approx(
            [score for _, score in expected.matches], abs=2e-3
        )
        assert actual.considered == expected.considered


def assert_same_vectors(memory: MemoryStore, sqlite: SqliteStore) -> None:
    assert sqlite.score_vectors(VECTORS[-1], KEYS) == pytest.approx(
        memory.score_vectors(VECTORS[-1], KEYS), abs=2e-3
    )
    assert_close(
        sqlite.score_vector_passages(VECTORS[-1], KEYS),
        memory.score_vector_passages(VECTORS[-1], KEYS),
        2e-3,
    )
    for name in ("zoo", "acme", "ark"):
        near, reference = (
            {
                (min(id, other), max(id, other)): cosine
                for id, other, cosine in store.nearest_items(
                    name, [id for _, id in KEYS], 0.0
                ).pairs
            }
            for store in (sqlite, memory)
        )
        assert near == pytest.approx(reference, abs=2e-3)


def test_text_scores_match_an_independent_bm25() -> None:
    texts, question = babble(200, 11), ["zeta", "tau"]
    reference = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    reference.index([text.split() for text in texts], show_progress=False)
    store = MemoryStore()
    store.apply(batch(item(f"{number}", text) for number, text in enumerate(texts)))
    matched = dict(store.search_text("zeta tau", ACME, 200).matches)
    scores = np.array([matched.get(("acme", f"{number}"), 0.0) for number in range(200)])
    expected = reference.get_scores(question)
    assert scores / scores.max() == pytest.approx(expected / expected.max(), abs=1e-5)
