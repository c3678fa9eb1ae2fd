"""The contract of link stores that concerns nearest items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from knowloom.linking.ports import LinkStore
from knowloom.model import Item
from knowloom.ports import LinkUpdate, Vector
from knowloom.testing.knowledge import batch, item, long_item, unit
from knowloom.vectors import nearest_lists
from knowloom.vectors.nearest_lists import SMALL_DIMENSIONS, hash_ids
from knowloom.vectors.signs import measure_distances, pack_signs, round_vectors

Pairs = dict[frozenset[str], float]
STEPS = 25


class NearestItemsContract:
    """The promises of `LinkStore.nearest_items`: override the fixture `store` with an empty store.

    Whatever the order of changes, the pairs are those of a store that has all vectors from the
    beginning.
    """

    @pytest.fixture
    def store(self) -> LinkStore:
        raise NotImplementedError("override the fixture `store`")

    def test_two_items_are_near_if_each_is_among_the_nearest_of_the_other(
        self, store: LinkStore
    ) -> None:
        vectors = {f"{number:02}": unit(1, 0.01 * number, 0, 0) for number in range(40)}
        vectors |= {"x": unit(0, 0, 1, 0), "y": unit(0, 0, 1, 0.1)}
        store.apply(batch([item(id) for id in ("bare", *vectors)] + [item("00", space="zoo")]))
        put_vectors(store, vectors)
        pairs = update_pairs(store, {}, [*vectors, "bare", "unknown"])
        assert pairs == pytest.approx(mutual_pairs(vectors), abs=1e-3)
        assert frozenset("xy") in pairs and frozenset(("00", "x")) not in pairs
        assert not store.nearest_items("nowhere", ["00"], 0.0).ids
        assert not store.nearest_items("zoo", ["00"], 0.0).pairs

    def test_a_new_item_changes_the_pairs_of_others(self, store: LinkStore) -> None:
        last = nearest_lists.NEAREST
        vectors = {f"{number:02}": unit(1, 0.01 * number) for number in range(last + 1)}
        store.apply(batch([item(id) for id in (*vectors, "new")]))
        put_vectors(store, vectors)
        before = update_pairs(store, {}, list(vectors))
        far = frozenset(("00", f"{last:02}"))
        assert far in before
        put_vectors(store, {"new": unit(1, 0.005)})
        after = update_pairs(store, before, ["new"])
        assert far not in after and frozenset(("00", "new")) in after
        assert after.keys() == mutual_pairs(vectors | {"new": unit(1, 0.005)}).keys()

    def test_an_item_is_as_similar_as_its_nearest_passage(self, store: LinkStore) -> None:
        store.apply(batch([long_item("a", *"xyz"), long_item("b", *"xy"), item("c"), item("d")]))
        vectors = {
            "a": np.stack([unit(1, 0, 0, 0), unit(0, 1, 0, 0), unit(1, 1, 0, 0)]),
            "b": np.stack([unit(0, 0, 0, 1), unit(1, 0, 0, 0.5)]),
            "c": unit(0, 1, 0, 0.1),
            "d": unit(0, 0, 1, 0),
        }
        put_vectors(store, vectors)
        pairs = store.nearest_items("acme", ["d", "b", "a", "c"], 0.85).pairs
        assert sorted((*sorted((id, other)), round(cosine, 2)) for id, other, cosine in pairs) == [
            ("a", "b", 0.89),
            ("a", "c", 1.0),
        ]

    @pytest.mark.parametrize("dimensions", [3, SMALL_DIMENSIONS + 8])
    @pytest.mark.parametrize("kind", ["spread", "narrow", "equal"])
    def test_changes_give_the_pairs_of_a_rebuild(
        self, store: LinkStore, kind: str, dimensions: int
    ) -> None:
        rng = np.random.default_rng([dimensions, len(kind)])
        ids = [f"{number:02}" for number in range(60)]
        vectors: dict[str, Vector] = {}
        pairs: Pairs = {}
        for step in range(STEPS):
            chosen = rng.choice(ids, int(rng.integers(1, 12)), replace=False).tolist()
            leaving = [id for id in chosen if id in vectors and rng.random() < 0.6]
            new = [_draw(rng, kind, dimensions, int(rng.integers(1, 4))) for _ in chosen]
            store.apply(batch(deleted=[("acme", id) for id in leaving]))
            arriving = dict(zip(chosen, new, strict=True))
            arriving = {id: vector for id, vector in arriving.items() if id not in leaving}
            store.apply(batch([_item(id, step, len(vector)) for id, vector in arriving.items()]))
            put_vectors(store, arriving)
            vectors = {id: vector for id, vector in vectors.items() if id not in leaving} | arriving
            half = len(chosen) // 2
            for page in (chosen[:half], chosen[half:]):
                pairs = update_pairs(store, pairs, page)
            pairs = {pair: cosine for pair, cosine in pairs.items() if not pair & set(leaving)}
            assert pairs == pytest.approx(mutual_pairs(vectors), abs=2e-3)


def _draw(rng: np.random.Generator, kind: str, dimensions: int, count: int) -> Vector:
    """Return the vectors of the passages of an item."""
    if kind == "equal":
        return np.stack([unit(*[1.0] * dimensions)] * count)
    centre = 0.0 if kind == "spread" else 3.0
    return np.stack([unit(*row) for row in rng.normal(size=(count, dimensions)) + centre])


def _item(id: str, step: int, passages: int) -> Item:
    words = [f"step{step} part{number}" for number in range(passages)]
    return item(id, words[0]) if passages == 1 else long_item(id, *words)


def put_vectors(store: LinkStore, vectors: Mapping[str, Vector]) -> None:
    put = {("acme", id): vector for id, vector in vectors.items()}
    store.put_vectors(put, "four")  # type: ignore[attr-defined]


def update_pairs(store: LinkStore, pairs: Pairs, ids: list[str]) -> Pairs:
    """Return the pairs after a change of the ids, and store the lists behind them."""
    result = store.nearest_items("acme", ids, 0.0)
    version = store.dirty_items("acme", []).version
    assert store.put_links(LinkUpdate("acme", version, nearest=result.lists))
    unchanged = {pair: cosine for pair, cosine in pairs.items() if not pair & set(result.ids)}
    return unchanged | {frozenset((id, other)): cosine for id, other, cosine in result.pairs}


def mutual_pairs(vectors: Mapping[str, Vector]) -> Pairs:
    """Return the pairs by the definition: every item is compared with every other."""
    vectors = {id: np.atleast_2d(passages) for id, passages in vectors.items()}
    hashes = dict(zip(vectors, hash_ids(vectors).tolist(), strict=True))
    nearest: dict[str, list[str]] = {}
    for id, vector in vectors.items():
        others = [other for other in vectors if other != id]
        nearest[id] = sorted(
            others,
            key=lambda other, id=id, vector=vector: (  # type: ignore[misc]
                _distance(vector, vectors[other]),
                hashes[id] ^ hashes[other],
            ),
        )[: nearest_lists.NEAREST]
    return {
        frozenset((id, other)): float(np.clip(np.max(vectors[id] @ vectors[other].T), 0, 1))
        for id, others in nearest.items()
        for other in others
        if id in nearest[other]
    }


def _distance(passages: Vector, others: Vector) -> int:
    """Return the distance of the nearest passages of two items."""
    if passages.shape[1] > SMALL_DIMENSIONS:
        differing = pack_signs(passages)[:, None] ^ pack_signs(others)
        return int(np.bitwise_count(differing).sum(axis=2, dtype=np.intp).min())
    return int(measure_distances(round_vectors(passages), round_vectors(others)).min())
