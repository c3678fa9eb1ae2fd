"""The contract of vector indexes for items of several passages."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from knowloom.errors import Conflict
from knowloom.ports import Vector, VectorIndex
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    assert_close,
    batch,
    directions,
    item,
    long_item,
    matches,
    unit,
)
from knowloom.text.passages import split_passages

LONG, SHORT = ("acme", "long"), ("acme", "short")


class VectorPassageContract:
    """The promises of `ports.VectorIndex` for items of several passages.

    Each passage has a vector, or none of the item has one. The similarity of an item is that of
    its nearest passage.
    """

    @pytest.fixture
    def store(self) -> VectorIndex:
        raise NotImplementedError("override the fixture `store`")

    def test_an_item_is_as_near_as_its_nearest_passage(self, store: VectorIndex) -> None:
        store.apply(batch([long_item("long", "a", "b", "c"), item("short", "x"), item("bare")]))
        rows = [unit(0, 1, 0), unit(4, 3, 0), unit(-1, 0, 0)]
        store.put_vectors({LONG: np.stack(rows), SHORT: unit(3, 4, 0)}, "e1")
        query, keys = unit(1, 0, 0), [SHORT, ("acme", "bare"), LONG, ("acme", "missing")]
        result = store.search_vector(query, ACME, 10)
        assert matches(result) == ["long", "short"] and result.considered == 2
        assert store.score_vectors(query, keys) == pytest.approx({LONG: 0.8, SHORT: 0.6}, abs=2e-3)
        assert_close(store.score_vector_passages(query, keys), {LONG: (0, 0.8, 0)}, 2e-3)

    def test_one_vector_serves_all_passages(self, store: VectorIndex) -> None:
        store.apply(batch([long_item("long", "a", "b", "c")]))
        store.put_vectors({LONG: unit(3, 4)}, "e1")
        assert_close(store.score_vector_passages(unit(1, 0), [LONG]), {LONG: [0.6] * 3}, 2e-3)
        assert store.count_missing(["acme"]) == 0 and store.dimensions() == 2
        assert matches(store.search_vector(unit(1, 0), ACME, 5)) == ["long"]

    def test_vectors_of_another_number_of_passages_are_ignored(self, store: VectorIndex) -> None:
        long = long_item("long", "a", "b", "c")
        store.apply(batch([long, item("short", "x")]))
        for count in (1, 2, 4):
            rows = np.stack([unit(1, 0)] * count)
            store.put_vectors({LONG: rows, SHORT: rows[:1], ("acme", "missing"): rows}, "e1")
            assert store.missing_vectors(["acme"], 10) == [LONG]
            assert store.score_vectors(unit(1, 0), [LONG]) == {}
        store.put_vectors(
            {LONG: np.stack([unit(1, 0)] * 3), SHORT: np.stack([unit(1, 0)] * 2)}, "e1"
        )
        assert store.count_missing(["acme"]) == 0

    def test_missing_vectors_are_counted_by_item(self, store: VectorIndex) -> None:
        items = [
            long_item(id, "a", "b", "c", space=space) for id in "ba" for space in ("zoo", "acme")
        ]
        store.apply(batch([*items, item("c")]))
        assert store.count_missing(["acme", "zoo"]) == 5
        keys = [("acme", "a"), ("acme", "b"), ("acme", "c"), ("zoo", "a"), ("zoo", "b")]
        assert store.missing_vectors(["zoo", "acme"], 10) == keys
        assert store.missing_vectors(["zoo", "acme"], 2) == keys[:2]
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        assert store.missing_vectors(["acme"], 10) == keys[1:3]

    def test_a_limit_of_neighbours_counts_items(self, store: VectorIndex) -> None:
        store.apply(batch([long_item("many", *"a" * 50), *(item(f"{n}") for n in range(9))]))
        near = np.stack([unit(1, 0, number / 1000) for number in range(50)])
        far = {("acme", f"{n}"): unit(1, 1 + n, 0) for n in range(9)}
        store.put_vectors({("acme", "many"): near, **far}, "e1")
        for limit in (1, 4, 10, 30):
            result = store.search_vector(unit(1, 0, 0), ACME, limit)
            assert matches(result) == ["many", *"012345678"][:limit]
            assert result.considered == 10

    def test_ties_of_nearest_passages_are_ordered_by_id_and_space(self, store: VectorIndex) -> None:
        keys = [(space, id) for id in "cab" for space in ("zoo", "acme")]
        store.apply(batch(long_item(id, "a", "b", space=space) for space, id in keys))
        rows = np.stack([unit(0, 1), unit(1, 0)])
        for number, key in enumerate(keys):
            store.put_vectors({key: rows[:: 1 - 2 * (number % 2)]}, "e1")
        result = store.search_vector(unit(1, 0), BOTH, 5)
        expected = sorted(keys, key=lambda key: key[::-1])[:5]
        assert [key for key, _ in result.matches] == expected and result.considered == 6

    def test_changed_texts_lose_all_vectors_of_the_item(self, store: VectorIndex) -> None:
        long = long_item("long", "a", "b", "c", title="t")
        for changed in (
            long_item("long", "a", "b", "x", title="t"),
            long_item("long", "a", "b", "c", title="u"),
            long_item("long", "a", "b", title="t"),
            long_item("long", "a", "b", "c", "d", title="t"),
            item("long", "a", title="t"),
            replace(long, embedding_text="e"),
        ):
            store.apply(batch([long]))
            store.put_vectors({LONG: np.stack([unit(1, 0)] * 3)}, "e1")
            store.apply(batch([replace(long, tags=("vip",), summary="s")]))
            assert store.count_missing(["acme"]) == 0
            store.apply(batch([changed]))
            assert store.missing_vectors(["acme"], 5) == [LONG]
            assert store.search_vector(unit(1, 0), ACME, 5).matches == ()
            assert store.score_vectors(unit(1, 0), [LONG]) == {}
            assert store.score_vector_passages(unit(1, 0), [LONG]) == {}

    def test_a_text_for_embedding_keeps_its_vector_while_the_passages_stay(
        self, store: VectorIndex
    ) -> None:
        long = long_item("long", "a", "b", embedding_text="e")
        store.apply(batch([long]))
        store.put_vectors({LONG: unit(1, 0)}, "e1")
        store.apply(batch([long_item("long", "x", "b", embedding_text="e")]))
        assert store.count_missing(["acme"]) == 0
        store.apply(batch([long_item("long", "x", "b", "c", embedding_text="e")]))
        assert store.count_missing(["acme"]) == 1

    def test_a_deleted_item_loses_all_vectors(self, store: VectorIndex) -> None:
        store.apply(batch([long_item("long", "a", "b"), item("short")]))
        store.put_vectors({LONG: np.stack([unit(1, 0), unit(0, 1)]), SHORT: unit(1, 1)}, "e1")
        store.apply(batch(deleted=[LONG]))
        assert matches(store.search_vector(unit(1, 0), ACME, 5)) == ["short"]
        store.apply(batch([long_item("long", "a", "b")]))
        assert store.missing_vectors(["acme"], 5) == [LONG]

    def test_filters_apply_to_long_items(self, store: VectorIndex) -> None:
        faq = long_item("faq", "a", "b", "c", type="faq", tags=("vip",))
        store.apply(batch([faq, long_item("long", "a", "b"), item("short", type="faq")]))
        rows = np.stack([unit(0, 1), unit(1, 0), unit(0, 1)])
        store.put_vectors({faq.key: rows, LONG: rows[:2], SHORT: unit(1, 1)}, "e1")
        for only, expected in (
            (replace(ACME, types=("faq",)), ["faq", "short"]),
            (replace(ACME, exclude_types=("faq",)), ["long"]),
            (replace(ACME, tags=("vip",)), ["faq"]),
        ):
            result = store.search_vector(unit(1, 0), only, 5)
            assert matches(result) == expected and result.considered == len(expected)

    @pytest.mark.parametrize("seed", range(3))
    def test_random_vectors_are_found_by_their_nearest_passage(
        self, store: VectorIndex, seed: int
    ) -> None:
        chance = random.Random(seed)
        counts = {("acme", f"{number}"): chance.choice([1, 1, 2, 3, 8]) for number in range(40)}
        store.apply(batch(long_item(id, *"a" * count) for (_, id), count in counts.items()))
        rows, (query, *_) = iter(directions(400, 16, seed)), directions(1, 16, seed + 99)
        vectors = {key: np.stack([next(rows) for _ in range(n)]) for key, n in counts.items()}
        store.put_vectors(vectors, "e1")
        exact = {key: np.clip(stored @ query, 0, 1).tolist() for key, stored in vectors.items()}
        best = {key: max(values) for key, values in exact.items()}
        result = store.search_vector(query, ACME, 40)
        assert dict(result.matches) == pytest.approx(best, abs=2e-3)
        assert store.score_vectors(query, list(counts)) == dict(result.matches)
        several = {key: values for key, values in exact.items() if len(values) > 1}
        passages = store.score_vector_passages(query, list(counts))
        assert_close(passages, several, 2e-3)
        assert all(max(values) == dict(result.matches)[key] for key, values in passages.items())

    def test_only_items_that_are_cut_anew_lose_their_vectors(self, store: VectorIndex) -> None:
        prose = item("prose", " ".join(["zeta rho tau omega."] * 100))
        store.apply(batch([prose, long_item("long", "a", "b"), item("short", "x")]))
        count = len(split_passages(prose.text, store.passage_size()))
        rows = np.stack([unit(1, 0)] * count)
        store.put_vectors({prose.key: rows, LONG: rows[:2], SHORT: unit(1, 0)}, "e1")
        store.resegment(600)  # the sections of "long" are still passages
        assert store.missing_vectors(["acme"], 5) == [prose.key]
        assert sorted(matches(store.search_vector(unit(1, 0), ACME, 5))) == ["long", "short"]
        assert store.score_vector_passages(unit(1, 0), [LONG]).keys() == {LONG}
        assert store.passage_size() == 600

    def test_matrices_must_have_the_stored_dimensions(self, store: VectorIndex) -> None:
        store.apply(batch([long_item("long", "a", "b"), item("short")]))
        store.put_vectors({LONG: np.stack([unit(1, 0, 0)] * 2)}, "e1")
        with pytest.raises(Conflict) as caught:
            store.put_vectors({SHORT: np.stack([unit(1, 0)])}, "e1")
        assert (caught.value.code, store.dimensions()) == ("reindex_required", 3)

    def test_later_changes_to_a_callers_matrix_are_not_stored(self, store: VectorIndex) -> None:
        store.apply(batch([long_item("long", "a", "b")]))
        rows: Vector = np.stack([unit(1, 0), unit(1, 0)])
        store.put_vectors({LONG: rows}, "e1")
        rows[:] = unit(0, 1)
        assert_close(store.score_vector_passages(unit(1, 0), [LONG]), {LONG: (1, 1)}, 2e-3)
