"""The contract of vector indexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowloom.errors import Conflict, Invalid, KnowloomError
from knowloom.model import Filter, Item
from knowloom.ports import IndexResult, Vector, VectorIndex
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NOBODY,
    allowed,
    batch,
    directions,
    few_examples,
    ids,
    item,
    matches,
    settle,
    some_filters,
    some_items,
    unit,
)
from knowloom.testing.vector_passages import VectorPassageContract


class VectorIndexContract(VectorPassageContract):
    """The promises of `ports.VectorIndex`: override the fixture `store` with an empty store.

    Scores are cosines, negative ones as 0, within 0.002 of the exact value: a store may keep 16-bit
    numbers. Ties are ordered by (id, space). Vectors of another embedder or of other dimensions are
    a Conflict until the stored ones are forgotten.
    """

    @pytest.fixture
    def store(self) -> VectorIndex:
        raise NotImplementedError("override the fixture `store`")

    def test_the_nearest_come_first_and_negative_cosines_count_as_0(
        self, store: VectorIndex
    ) -> None:
        embed(store, [unit(1, 1), unit(1, 0), unit(-1, 0), unit(-1, 0.1)])
        result = store.search_vector(unit(1, 0), ACME, 10)
        assert matches(result) == ["00001", "00000", "00002", "00003"]
        assert [score for _, score in result.matches] == pytest.approx(
            [1, 0.5**0.5, 0, 0], abs=2e-3
        )

    def test_later_changes_to_a_callers_vector_are_not_stored(self, store: VectorIndex) -> None:
        store.apply(batch([item("a")]))
        vector = unit(1, 0)
        store.put_vectors({("acme", "a"): vector}, "e1")
        vector[:] = unit(0, 1)
        assert store.score_vectors(unit(1, 0), [("acme", "a")]) == {
            ("acme", "a"): pytest.approx(1, abs=2e-3)
        }

    @pytest.mark.parametrize("limit", range(1, 5))
    def test_negative_cosines_are_ties(self, store: VectorIndex, limit: int) -> None:
        embed(store, [unit(-1, 0), unit(-1, 2), unit(1, 1), unit(-1, 5)])
        assert (
            matches(store.search_vector(unit(1, 0), ACME, limit))
            == ["00002", "00000", "00001", "00003"][:limit]
        )

    def test_similarities_are_between_0_and_1(self, store: VectorIndex) -> None:
        some = directions(50, 24)
        embed(store, some)
        scores = [
            score for vector in some for _, score in store.search_vector(vector, ACME, 50).matches
        ]
        assert min(scores) == 0 and max(scores) <= 1

    def test_equally_near_items_go_by_id_and_then_by_space(self, store: VectorIndex) -> None:
        keys = [("zoo", "b"), ("acme", "c"), ("acme", "b"), ("zoo", "a")]
        store.apply(batch(item(id, space=space) for space, id in keys))
        store.put_vectors(dict.fromkeys(keys, unit(1, 2)), "e1")
        assert [key for key, _ in store.search_vector(unit(1, 1), BOTH, 3).matches] == [
            ("zoo", "a"),
            ("acme", "b"),
            ("zoo", "b"),
        ]

    @pytest.mark.parametrize("limit", [0, 1, 3, 10])
    def test_results_are_limited_and_all_candidates_counted(
        self, store: VectorIndex, limit: int
    ) -> None:
        embed(store, [unit(1, number) for number in range(5)])
        result = store.search_vector(unit(1, 0), ACME, limit)
        assert (matches(result), result.considered) == (
            ["00000", "00001", "00002", "00003", "00004"][:limit],
            5,
        )

    def test_an_empty_store_has_no_vectors(self, store: VectorIndex) -> None:
        assert store.search_vector(unit(1, 0), ACME, 10) == IndexResult()
        assert (
            store.fingerprint(),
            store.missing_vectors(["acme"], 10),
            store.count_missing(["acme"]),
        ) == ("", [], 0)

    def test_a_filter_without_spaces_finds_no_vector(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        assert store.search_vector(unit(1, 0), NOBODY, 10) == IndexResult()

    def test_an_item_without_a_vector_is_not_found(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        store.apply(batch([item("new")]))
        result = store.search_vector(unit(1, 0), ACME, 10)
        assert (matches(result), result.considered) == (["00000"], 1)

    def test_the_filter_is_applied_before_the_limit(self, store: VectorIndex) -> None:
        some = directions(2000, 64)
        order = np.argsort([-(some[0] @ vector) for vector in some]).tolist()
        store.apply(
            batch(
                item(f"{place:05}", type="rare" if place in order[-10:] else "common")
                for place in range(2000)
            )
        )
        store.put_vectors(
            {("acme", f"{place:05}"): vector for place, vector in enumerate(some)}, "e1"
        )
        result = store.search_vector(some[0], replace(ACME, types=("rare",)), 10)
        assert sorted(matches(result)) == sorted(f"{place:05}" for place in order[-10:])

    @few_examples
    @given(some_items, some_filters, st.integers(1, 30))
    def test_vector_search_returns_what_the_filter_allows(
        self, store: VectorIndex, items: list[Item], only: Filter, limit: int
    ) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        store.put_vectors(
            {
                item.key: vector
                for item, vector in zip(items, directions(len(items), 8), strict=True)
            },
            "e1",
        )
        result = store.search_vector(unit(*[1] * 8), only, limit)
        expected = allowed(items, only)
        assert {key for key, _ in result.matches} <= expected
        assert (len(result.matches), result.considered) == (
            min(limit, len(expected)),
            len(expected),
        )

    def test_the_ten_nearest_of_three_thousand_are_the_ten_nearest(
        self, store: VectorIndex
    ) -> None:
        chance = np.random.default_rng(3)
        centres = chance.normal(size=(40, 64))
        some = [
            unit(*(centres[number % 40] + chance.normal(size=64) * 0.6)) for number in range(3000)
        ]
        embed(store, some)
        for question in (unit(*(centre + chance.normal(size=64) * 0.6)) for centre in centres):
            exact = np.sort(np.array(some) @ question)[::-1][:10]
            assert [
                score for _, score in store.search_vector(question, ACME, 10).matches
            ] == pytest.approx(exact, abs=2e-3)

    def test_named_keys_get_the_score_of_the_search(self, store: VectorIndex) -> None:
        some = directions(40, 24)
        embed(store, some)
        searched = dict(store.search_vector(some[3], ACME, 40).matches)
        assert store.score_vectors(some[3], list(searched)) == searched

    def test_only_items_with_a_vector_have_a_score(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        store.apply(batch([item("new"), item("z", space="zoo")]))
        keys = [
            ("acme", "new"),
            ("acme", "00000"),
            ("acme", "x"),
            ("nowhere", "00000"),
            ("zoo", "z"),
        ]
        assert store.score_vectors(unit(1, 0), keys) == pytest.approx(
            {("acme", "00000"): 1.0}, abs=2e-3
        )
        assert store.score_vectors(unit(1, 0), []) == {}

    def test_a_new_vector_replaces_the_old(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0), unit(1, 1)])
        assert matches(store.search_vector(unit(1, 0), ACME, 10)) == ["00000", "00001"]
        store.put_vectors({("acme", "00000"): unit(0, 1)}, "e1")
        assert matches(store.search_vector(unit(1, 0), ACME, 10)) == ["00001", "00000"]

    def test_new_items_have_no_vector_yet(self, store: VectorIndex) -> None:
        store.apply(batch([item("z", space="zoo"), item("b"), item("a")]))
        assert store.missing_vectors(["zoo", "acme", "x"], 10) == [
            ("acme", "a"),
            ("acme", "b"),
            ("zoo", "z"),
        ]
        assert (
            ids(store.missing_vectors(["zoo", "acme"], 2)),
            ids(store.missing_vectors(["zoo"], 2)),
        ) == (["a", "b"], ["z"])
        assert (store.count_missing(["zoo", "acme", "zoo"]), store.count_missing([])) == (3, 0)

    def test_an_embedded_item_is_no_longer_missing(self, store: VectorIndex) -> None:
        store.apply(batch([item("a"), item("b")]))
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        assert (store.missing_vectors(["acme"], 10), store.count_missing(["acme"])) == (
            [("acme", "b")],
            1,
        )

    def test_an_item_whose_text_changes_loses_its_vector(self, store: VectorIndex) -> None:
        store.apply(batch([item("a", "old"), item("b", "old")]))
        store.put_vectors({("acme", "a"): unit(1, 0), ("acme", "b"): unit(0, 1)}, "e1")
        store.apply(batch([item("a", "new")]))
        assert (
            matches(store.search_vector(unit(1, 0), ACME, 10)),
            store.missing_vectors(["acme"], 10),
        ) == (["b"], [("acme", "a")])
        assert list(store.score_vectors(unit(1, 0), [("acme", "a"), ("acme", "b")])) == [
            ("acme", "b")
        ]

    def test_an_item_whose_text_stays_keeps_its_vector(self, store: VectorIndex) -> None:
        store.apply(batch([item("a", "same")]))
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        store.apply(batch([item("a", "same", tags=("vip",), confidence=0.5)]))
        assert (
            matches(store.search_vector(unit(1, 0), ACME, 10)),
            store.count_missing(["acme"]),
        ) == (["a"], 0)

    def test_a_deleted_item_loses_its_vector(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0), unit(0, 1)])
        store.apply(batch(deleted=[("acme", "00000")]))
        assert matches(store.search_vector(unit(1, 0), ACME, 10)) == ["00001"]
        store.apply(batch([item("00000")]))
        assert store.missing_vectors(["acme"], 10) == [("acme", "00000")]

    def test_a_batch_that_fails_deletes_no_vector(self, store: VectorIndex) -> None:
        store.apply(batch([item("a", "old")]))
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(batch([item("a", "new"), item("b", properties={"bad": {1, 2}})]))
        assert (
            matches(store.search_vector(unit(1, 0), ACME, 10)),
            store.count_missing(["acme"]),
        ) == (["a"], 0)

    def test_keys_without_an_item_are_ignored(self, store: VectorIndex) -> None:
        store.apply(batch([item("a")]))
        store.put_vectors({("acme", "x"): unit(1, 0), ("nowhere", "a"): unit(1, 0)}, "e1")
        assert (
            store.search_vector(unit(1, 0), Filter(("acme", "nowhere")), 10),
            store.fingerprint(),
        ) == (IndexResult(), "")
        assert store.count_missing(["acme", "nowhere"]) == 1

    def test_dimensions_are_those_of_the_stored_vectors(self, store: VectorIndex) -> None:
        assert store.dimensions() == 0
        embed(store, [unit(1, 0)])
        assert store.dimensions() == 2
        store.forget_vectors()
        assert store.dimensions() == 0
        embed(store, [unit(1, 0, 0)])
        assert store.dimensions() == 3

    def test_putting_no_vectors_changes_nothing(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        store.put_vectors({}, "e2")
        assert store.fingerprint() == "e1"

    @pytest.mark.parametrize("bad", [(2, 0), (0, 0), (0.9, 0), (float("nan"), 0), (1e30, 0)])
    def test_only_unit_vectors_are_stored(
        self, store: VectorIndex, bad: tuple[float, float]
    ) -> None:
        store.apply(batch([item("a"), item("b")]))
        vectors = {("acme", "a"): unit(1, 0), ("acme", "b"): np.array(bad, np.float32)}
        with pytest.raises(Invalid, match="must have unit length, got"):
            store.put_vectors(vectors, "e1")
        assert (store.fingerprint(), store.count_missing(["acme"])) == ("", 2)

    def test_the_first_calibration_of_an_embedder_is_stored_until_all_is_forgotten(
        self, store: VectorIndex
    ) -> None:
        assert store.calibration("e1") == b""
        store.put_calibration("e1", b"first\0")
        store.put_calibration("e1", b"second")
        store.put_calibration("e2", b"other")
        assert (store.calibration("e1"), store.calibration("e2")) == (b"first\0", b"other")
        embed(store, [unit(1, 0)])
        assert store.calibration("e1") == b"first\0"
        store.forget_vectors()
        assert (store.calibration("e1"), store.calibration("e2")) == (b"", b"")

    def test_vectors_of_another_embedder_are_a_conflict(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        with pytest.raises(Conflict) as caught:
            store.put_vectors({("acme", "00000"): unit(0, 1)}, "e2")
        assert (caught.value.code, store.fingerprint()) == ("reindex_required", "e1")
        assert store.score_vectors(unit(1, 0), [("acme", "00000")]) == pytest.approx(
            {("acme", "00000"): 1.0}, abs=2e-3
        )

    @pytest.mark.parametrize("dimensions", [1, 3, 65])
    def test_vectors_of_another_size_are_a_conflict(
        self, store: VectorIndex, dimensions: int
    ) -> None:
        embed(store, [unit(1, 0), unit(1, 1)])
        with pytest.raises(Conflict) as caught:
            store.put_vectors(
                {("acme", "00000"): unit(1, 0), ("acme", "00001"): unit(*[1] * dimensions)}, "e1"
            )
        assert caught.value.code == "reindex_required"
        assert store.score_vectors(unit(1, 0), [("acme", "00001")])[
            "acme", "00001"
        ] == pytest.approx(0.5**0.5, abs=2e-3)

    def test_vectors_of_two_sizes_are_a_conflict_from_the_start(self, store: VectorIndex) -> None:
        store.apply(batch([item("a"), item("b")]))
        with pytest.raises(Conflict):
            store.put_vectors({("acme", "a"): unit(1, 0), ("acme", "b"): unit(1, 0, 0)}, "e1")
        assert (store.fingerprint(), store.count_missing(["acme"])) == ("", 2)

    @pytest.mark.parametrize("dimensions", [2, 3, 100])
    def test_after_forgetting_another_embedder_is_accepted(
        self, store: VectorIndex, dimensions: int
    ) -> None:
        embed(store, [unit(1, 0), unit(1, 1)])
        store.forget_vectors()
        assert (
            store.fingerprint(),
            store.count_missing(["acme"]),
            store.search_vector(unit(1, 0), ACME, 10),
        ) == ("", 2, IndexResult())
        embed(store, directions(1200, dimensions), "e2")
        nearest = store.search_vector(directions(1200, dimensions)[700], ACME, 1)
        assert (store.fingerprint(), nearest.considered) == ("e2", 1200) and nearest.matches[0][
            1
        ] > 0.998

    @pytest.mark.parametrize("dimensions", [2, 100])
    def test_when_all_vectors_are_deleted_another_embedder_is_accepted(
        self, store: VectorIndex, dimensions: int
    ) -> None:
        embed(store, directions(1200, 2))
        store.apply(batch(deleted=[("acme", f"{place:05}") for place in range(1200)]))
        assert store.fingerprint() == ""
        embed(store, directions(700, dimensions), "e2")
        nearest = store.search_vector(directions(700, dimensions)[400], ACME, 1)
        assert (store.fingerprint(), nearest.considered) == ("e2", 700) and nearest.matches[0][
            1
        ] > 0.998

    def test_the_order_of_writing_changes_no_similarity(self, store: VectorIndex) -> None:
        some = directions(700, 24)
        embed(store, some)
        before = store.search_vector(some[0], ACME, 50)
        store.apply(batch(deleted=[("acme", f"{place:05}") for place in range(700)]))
        for start in range(4):
            places = range(start, 700, 4)[::-1]
            store.apply(batch(item(f"{place:05}") for place in places))
            store.put_vectors({("acme", f"{place:05}"): some[place] for place in places}, "e1")
        assert store.search_vector(some[0], ACME, 50) == before


def embed(store: VectorIndex, vectors: Sequence[Vector], fingerprint: str = "e1") -> None:
    """Write items 00000, 00001, … with these vectors."""
    store.apply(batch(item(f"{place:05}") for place in range(len(vectors))))
    store.put_vectors(
        {("acme", f"{place:05}"): vector for place, vector in enumerate(vectors)}, fingerprint
    )
