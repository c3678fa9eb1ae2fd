"""The contracts of layers: copies of items that suggest candidates with a bound."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pytest

from knowloom.errors import KnowloomError, Unavailable
from knowloom.model import Filter, Item, Key
from knowloom.ports import (
    EXACT,
    Candidates,
    IndexEntry,
    IndexLayer,
    ItemStore,
    TextIndex,
    TextLayer,
    Vector,
    VectorIndex,
    VectorLayer,
)
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NASTY,
    NOBODY,
    SCRIPTS,
    babble,
    batch,
    directions,
    item,
    long_item,
)
from knowloom.text.passages import split_passages

SIZE = 800


class ReferenceStore(ItemStore, TextIndex, VectorIndex, Protocol):
    """A store that scores items by words and vectors."""


HOSTILE = [
    *("a OR *:*", 'a" OR "1"="1', "'; DROP TABLE item;--", "x' OR '1'='1", "id:[* TO *]", "\\"),
    *(
        '{"match_all":{}}',
        '"}}\n{"delete":{"_id":"a"}}\n',
        "space:zoo",
        "a/../_all",
        "_id",
        "%2e%2e",
    ),
    *("🧵", "é", "e\u0301", "a b", "A", "\x01", "x" * 500, "${jndi:ldap://x}", "(a|b)*", "NULL"),
]


def build_entry(
    item: Item, version: str = "1", vectors: Vector | None = None, fingerprint: str = "e1"
) -> IndexEntry:
    """Return an entry; a single vector is that of each passage."""
    if vectors is None:
        return IndexEntry(item, version, SIZE)
    if vectors.ndim == 1:
        vectors = np.tile(vectors, (len(split_passages(item.text, SIZE)), 1))
    return IndexEntry(item, version, SIZE, vectors.astype(np.float32), fingerprint)


def random_items(count: int, seed: int) -> list[Item]:
    """Return items of two spaces, every fifth with several passages."""
    chance, texts = random.Random(seed), babble(count * 4, seed)
    items = []
    for number in range(count):
        space = chance.choice(["acme", "zoo"])
        fields = {"type": chance.choice(["", "faq"]), "tags": ("vip",) * (number % 2)}
        if number % 5:
            built = item(f"{number:03}", texts[number], space=space)
        else:
            built = long_item(f"{number:03}", *texts[number : number + 3], space=space)
        title = texts[-number - 1][:20]
        items.append(replace(built, title=title, **fields))  # type: ignore[arg-type]
    return items


def fill_reference(store: ReferenceStore, entries: Sequence[IndexEntry]) -> ReferenceStore:
    """Write entries to a store whose scores the bounds must cover."""
    store.apply(batch(entry.item for entry in entries))
    vectors = {entry.item.key: entry.vectors for entry in entries if entry.vectors is not None}
    store.put_vectors(vectors, "e1")
    return store


def assert_covers(
    candidates: Candidates, scores: Mapping[Key, float], only: Filter, limit: int
) -> None:
    """Check that no item which the candidates leave out can be among the best."""
    assert all(space in only.spaces for space, _ in candidates.keys)
    left_out = [score for key, score in scores.items() if key not in candidates.keys]
    if candidates.bound == EXACT:
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0][::-1]))[:limit]
        assert set(candidates.keys) >= {key for key, _ in best}
    else:
        assert max(left_out, default=0.0) <= candidates.bound
        assert candidates.bound > 0 or not left_out


class IndexLayerContract:
    """The promises of `ports.IndexLayer`: override the fixture `layer` with an empty layer.

    `reference` must be an empty store that passes `StoreContract`, such as `memory:`.
    """

    @pytest.fixture
    def reference(self) -> ReferenceStore:
        raise NotImplementedError("override the fixture `reference`")

    @pytest.fixture
    def layer(self) -> IndexLayer:
        raise NotImplementedError("override the fixture `layer`")

    def test_entries_are_listed_by_id_with_their_versions(self, layer: IndexLayer) -> None:
        names = ["b", "a", "B", "é", "z z", "10", "9"]
        layer.put([build_entry(item(name, "x"), f"v {name}") for name in names])
        layer.put([build_entry(item("q", "x", space="zoo"), "other")])
        expected = [(name, f"v {name}") for name in sorted(names)]
        assert layer.versions("acme", "", 100) == expected
        assert layer.versions("acme", "a", 2) == expected[expected.index(("a", "v a")) + 1 :][:2]
        assert layer.versions("nowhere", "", 100) == []
        assert layer.indexed_spaces() == ["acme", "zoo"]

    def test_entries_are_replaced_and_removed(self, layer: IndexLayer) -> None:
        layer.put([build_entry(item("a", "x"), "1"), build_entry(item("b", "x"), "1")])
        layer.put([build_entry(item("a", "y"), "2")])
        layer.remove([("acme", "b"), ("acme", "missing"), ("nowhere", "a")])
        assert layer.versions("acme", "", 10) == [("a", "2")]
        layer.remove([("acme", "a")])
        layer.remove([])
        layer.put([])
        assert (layer.versions("acme", "", 10), layer.indexed_spaces()) == ([], [])
        layer.put([build_entry(item("a", "z"), "3")])
        assert layer.versions("acme", "", 10) == [("a", "3")]

    def test_hostile_names_are_names(self, layer: IndexLayer) -> None:
        items = [item(name, name, space=space) for name in HOSTILE for space in ("acme", name)]
        layer.put([build_entry(each, "1") for each in items])
        assert layer.indexed_spaces() == sorted({"acme", *HOSTILE})
        assert [id for id, _ in layer.versions("acme", "", 1000)] == sorted(HOSTILE)
        for name in HOSTILE:
            assert layer.versions(name, "", 10) == [(name, "1")]
        layer.remove([("acme", name) for name in HOSTILE[1:]])
        assert [id for id, _ in layer.versions("acme", "", 1000)] == HOSTILE[:1]
        assert len(layer.indexed_spaces()) == len({*HOSTILE}) + 1

    def test_a_closed_layer_says_so(self, layer: IndexLayer) -> None:
        layer.close()
        layer.close()
        for call in (lambda: layer.put([build_entry(item("a"))]), layer.indexed_spaces):
            with pytest.raises(Unavailable) as caught:
                call()
            assert caught.value.code == "closed"


class TextLayerContract(IndexLayerContract):
    """The promises of `ports.TextLayer`."""

    @pytest.fixture
    def layer(self) -> TextLayer:
        raise NotImplementedError("override the fixture `layer`")

    def test_no_item_that_is_left_out_exceeds_the_bound(
        self, layer: TextLayer, reference: ReferenceStore
    ) -> None:
        entries = [build_entry(each) for each in random_items(160, 3)]
        layer.put(entries)
        store = fill_reference(reference, entries)
        for only in (ACME, BOTH, replace(BOTH, types=("faq",), tags=("vip",))):
            for text in ("zeta", "kappa rho tau", "zeta tau unknown omega omega psi"):
                scores = dict(store.search_text(text, only, 1000).matches)
                for limit in (1, 20):
                    assert_covers(layer.match_text(text, only, limit), scores, only, limit)

    def test_texts_that_were_replaced_or_removed_are_not_matched(self, layer: TextLayer) -> None:
        layer.put([build_entry(item(id, "refund")) for id in "abc"])
        layer.put([build_entry(item("a", "parcel"), "2")])
        layer.remove([("acme", "b")])
        assert layer.match_text("refund", ACME, 10).keys == (("acme", "c"),)
        assert layer.match_text("parcel", ACME, 10).keys == (("acme", "a"),)

    def test_other_spaces_are_neither_matched_nor_counted(self, layer: TextLayer) -> None:
        layer.put([build_entry(item(f"{n}", f"refund {n} canary")) for n in range(60)])
        alone = [layer.match_text("refund canary 7", ACME, limit) for limit in (1, 5)]
        crowd = [item(f"{n}", "refund canary canary", space="zoo") for n in range(100)]
        layer.put([build_entry(each) for each in crowd])
        for before, limit in zip(alone, (1, 5), strict=True):
            after = layer.match_text("refund canary 7", ACME, limit)
            assert (set(after.keys), after.considered) == (set(before.keys), before.considered)
            assert after.bound == pytest.approx(before.bound)
        assert layer.match_text("refund", NOBODY, 5).keys == ()
        assert layer.match_text("refund", Filter(("nowhere",)), 5).keys == ()

    def test_any_text_is_a_query_and_no_syntax(
        self, layer: TextLayer, reference: ReferenceStore
    ) -> None:
        entries = [build_entry(item(f"{n}", each)) for n, each in enumerate(SCRIPTS.values())]
        layer.put(entries)
        store = fill_reference(reference, entries)
        for text in (*NASTY, *HOSTILE, *SCRIPTS.values()):
            if "\ud800" not in text:
                scores = dict(store.search_text(text, ACME, 100).matches)
                candidates = layer.match_text(text, ACME, 100)
                assert_covers(candidates, scores, ACME, 100)
                assert set(candidates.keys) == set(scores), text

    def test_long_words_and_long_questions_are_matched(self, layer: TextLayer) -> None:
        many = " ".join(f"word{n}" for n in range(3000))
        entries = [build_entry(item("a", "x" * 40_000)), build_entry(item("b", many))]
        layer.put([*entries, build_entry(item("c", "else"))])
        assert layer.match_text("x" * 40_000, ACME, 5).keys == (("acme", "a"),)
        candidates = layer.match_text(many, ACME, 5)
        assert ("acme", "b") in candidates.keys or candidates.bound > 0.9


class VectorLayerContract(IndexLayerContract):
    """The promises of `ports.VectorLayer`."""

    @pytest.fixture
    def layer(self) -> VectorLayer:
        raise NotImplementedError("override the fixture `layer`")

    def test_no_item_that_is_left_out_is_nearer_than_the_bound(
        self, layer: VectorLayer, reference: ReferenceStore
    ) -> None:
        vectors = [_half_precision(vector) for vector in directions(160, 16)]
        items = random_items(160, 4)
        entries = [build_entry(*pair) for pair in zip(items, ["1"] * 160, vectors, strict=True)]
        layer.put(entries)
        store = fill_reference(reference, entries)
        for only in (BOTH, replace(ACME, types=("faq",)), Filter(("nowhere",)), NOBODY):
            for query in directions(3, 16, seed=5):
                scores = dict(store.search_vector(query, only, 1000).matches)
                for limit in (5, 200):
                    assert_covers(layer.match_vector(query, only, limit), scores, only, limit)

    def test_the_best_passage_of_an_item_counts(self, layer: VectorLayer) -> None:
        near, far, other = _half_precision(np.eye(3, dtype=np.float32))
        long = long_item("long", "alpha", "beta")
        count = len(split_passages(long.text, SIZE))
        layer.put([build_entry(long, "1", np.array([far] * (count - 1) + [near]))])
        layer.put([build_entry(item("b", "x"), "1", other)])
        assert ("acme", "long") in layer.match_vector(near, ACME, 1).keys
        layer.put([build_entry(replace(long, text="short"), "2", far)])
        layer.put([build_entry(item("c", "x"), "1", near)])
        assert ("acme", "c") in layer.match_vector(near, ACME, 1).keys
        assert layer.match_vector(near, ACME, 9).considered == 3

    def test_vectors_of_another_embedder_replace_all(self, layer: VectorLayer) -> None:
        layer.put([build_entry(item(id, "x"), "1", np.eye(3)[0]) for id in "ab"])
        layer.put([build_entry(item("c", "x"), "1", np.eye(3)[1], "e2")])
        assert layer.match_vector(_unit(3), ACME, 9).keys == (("acme", "c"),)
        layer.put([build_entry(item("b", "x"), "2", np.eye(5)[1], "e3")])
        assert layer.match_vector(_unit(5), ACME, 9).keys == (("acme", "b"),)
        assert dict(layer.versions("acme", "", 9))["b"] == "2"

    def test_a_vector_of_another_size_is_refused(self, layer: VectorLayer) -> None:
        assert layer.match_vector(_unit(4), ACME, 9) == Candidates()
        layer.put([build_entry(item("a", "x"), "1", np.eye(3)[0])])
        with pytest.raises(KnowloomError, match="dimensions"):
            layer.match_vector(_unit(4), ACME, 9)

    def test_items_without_vectors_are_not_matched(self, layer: VectorLayer) -> None:
        layer.put([build_entry(item("a", "x"), "1", np.eye(3)[0]), build_entry(item("b", "x"))])
        assert layer.match_vector(_unit(3), ACME, 9).keys == (("acme", "a"),)
        layer.put([build_entry(item("a", "x"), "2")])
        assert layer.match_vector(_unit(3), ACME, 9).keys == ()


def _unit(dimensions: int) -> Vector:
    vector: Vector = np.eye(dimensions, dtype=np.float32)[0]
    return vector


def _half_precision(vector: Vector) -> Vector:
    return vector.astype(np.float16).astype(np.float32)
