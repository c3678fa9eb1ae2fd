"""Cached vectors must match the file, whatever was read before and however small the cache."""

import apsw
import numpy as np
import pytest

from knowloom.errors import Corrupt
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from knowloom.stores.sqlite.rows import decode_float16
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.stores.sqlite.vector_cache import VectorCache
from knowloom.testing.knowledge import ACME, batch, item

DIMENSIONS = 4


def all_of(size):
    return np.ones(size, np.bool_)


class Stored:
    """The vectors of a file, which records the slots that were read."""

    def __init__(self, size):
        self.vectors = np.random.default_rng(size).random((size, DIMENSIONS)).astype(np.float32)
        self.read = []

    def __call__(self, slots):
        self.read += slots.tolist()
        return self.vectors[slots]


@pytest.mark.parametrize("room", [0, 1, 7, 30, 1000])
def test_cached_vectors_match_the_stored_ones(room):
    rng, stored, cache = (
        np.random.default_rng(room),
        Stored(40),
        VectorCache(room * DIMENSIONS * 4),
    )
    for _ in range(300):
        if rng.random() < 0.2:
            first = int(rng.integers(0, 40))
            stored.vectors[first : first + 5] += 1
            cache.forget(first, first + 5)
        size = int(rng.integers(30, 41))
        slots = rng.permutation(size)[: rng.integers(1, 20)]
        assert np.array_equal(cache.get(slots, all_of(size), stored), stored.vectors[slots])


def test_cached_vectors_are_not_read_again():
    stored, cache = Stored(10), VectorCache()
    for requested in ([1, 2], [2, 1, 5], [5], [1, 2, 5]):
        cache.get(np.array(requested), all_of(10), stored)
    assert stored.read == [1, 2, 5]


def test_only_changed_vectors_are_read_again():
    stored, cache = Stored(10), VectorCache()
    cache.get(np.arange(10), all_of(10), stored)
    cache.forget(3, 5)
    cache.get(np.arange(10), all_of(10), stored)
    assert stored.read == [*range(10), 3, 4]


def test_all_vectors_are_read_once_half_of_them_were_read_singly():
    stored, cache, has_vector = Stored(10), VectorCache(), all_of(10)
    has_vector[9] = False
    for requested in ([0, 1], [2, 3], [4]):
        cache.get(np.array(requested), has_vector, stored)
    assert stored.read == [0, 1, 2, 3, *range(4, 9)]  # and none where there is none
    stored.vectors[6] += 1
    cache.forget(6, 7)
    assert np.array_equal(
        cache.get(np.array([8, 6, 5]), has_vector, stored), stored.vectors[[8, 6, 5]]
    )
    assert stored.read[9:] == [6]


def test_a_cache_too_small_for_the_space_never_reads_all():
    stored, cache = Stored(10), VectorCache(9 * DIMENSIONS * 4)
    for slot in range(9):
        cache.get(np.array([slot]), all_of(10), stored)
    assert stored.read == [*range(9)]


def test_a_full_cache_is_emptied():
    stored, cache = Stored(10), VectorCache(4 * DIMENSIONS * 4)
    for requested in ([0, 1, 2], [2, 3, 4], [2, 3, 4]):
        cache.get(np.array(requested), all_of(10), stored)
    assert stored.read == [0, 1, 2, 3, 4, 2, 3, 4]


def test_vectors_of_another_width_raise_no_error():
    cache = VectorCache()
    cache.get(np.array([1]), all_of(10), lambda slots: np.ones((len(slots), 3), np.float32))
    cache.forget(0, 10)
    assert (
        cache.get(
            np.array([2, 1]), all_of(10), lambda slots: np.full((len(slots), 5), 2.0, np.float32)
        ).tolist()
        == [[2.0] * 5] * 2
    )


def test_every_finite_float16_is_decoded_exactly():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    read = decode_float16(halves.tobytes())
    assert read.dtype == np.float32
    assert read.tobytes() == halves.astype(np.float32).tobytes()  # signs of nothing included
    assert decode_float16(b"").shape == (0,)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vector SET data = substr(data, 1, length(data) - 1)",
        "UPDATE vector SET data = substr(data, 1, length(data) - 2)",
        "UPDATE vector SET data = substr(data, 1, 2) WHERE row = (SELECT min(row) FROM vector)",
        "DELETE FROM vector WHERE row = (SELECT min(row) FROM vector)",
    ],
)
def test_truncated_or_missing_vectors_are_reported(path, damage):
    query = np.eye(1, DIMENSIONS, dtype=np.float32)[0]
    store = SqliteStore.open(path)
    store.apply(batch([item(str(number)) for number in range(6)]))
    store.put_vectors({("acme", str(number)): query for number in range(6)}, "some")
    apsw.Connection(path, vfs=register_vfs()).execute(damage)
    for ask in (
        lambda: store.search_vector(query, ACME, 3),
        lambda: store.score_vectors(query, [("acme", "0"), ("acme", "1")]),
    ):
        with pytest.raises(Corrupt, match="`knowloom reindex` rebuilds all of them"):
            ask()
    store.forget_vectors()
    assert store.search_vector(query, ACME, 3).matches == ()
    store.close()
