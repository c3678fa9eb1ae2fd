"""Vectors that are kept must be the ones that are stored, whatever was asked before and however little room there is."""

import apsw
import numpy as np
import pytest

from knowloom.errors import Corrupt
from knowloom.stores.sqlite.rows import decode_float16
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.stores.sqlite.vector_cache import VectorCache
from knowloom.testing.knowledge import ACME, batch, item

DIMENSIONS = 4


def all_of(size):
    return np.ones(size, np.bool_)


class Stored:
    """What a file holds, and which places were read from it."""

    def __init__(self, size):
        self.vectors = np.random.default_rng(size).random((size, DIMENSIONS)).astype(np.float32)
        self.read = []

    def __call__(self, places):
        self.read += places.tolist()
        return self.vectors[places]


@pytest.mark.parametrize("room", [0, 1, 7, 30, 1000])
def test_what_is_asked_for_is_what_is_stored(room):
    chance, stored, kept = (
        np.random.default_rng(room),
        Stored(40),
        VectorCache(room * DIMENSIONS * 4),
    )
    for _ in range(300):
        if chance.random() < 0.2:
            first = int(chance.integers(0, 40))
            stored.vectors[first : first + 5] += 1
            kept.forget(first, first + 5)
        size = int(chance.integers(30, 41))
        places = chance.permutation(size)[: chance.integers(1, 20)]
        assert np.array_equal(kept.get(places, all_of(size), stored), stored.vectors[places])


def test_what_was_read_is_not_read_again():
    stored, kept = Stored(10), VectorCache()
    for asked in ([1, 2], [2, 1, 5], [5], [1, 2, 5]):
        kept.get(np.array(asked), all_of(10), stored)
    assert stored.read == [1, 2, 5]


def test_only_what_changed_is_read_again():
    stored, kept = Stored(10), VectorCache()
    kept.get(np.arange(10), all_of(10), stored)
    kept.forget(3, 5)
    kept.get(np.arange(10), all_of(10), stored)
    assert stored.read == [*range(10), 3, 4]


def test_all_are_read_when_half_of_them_were_asked_for_one_by_one():
    stored, kept, held = Stored(10), VectorCache(), all_of(10)
    held[9] = False
    for asked in ([0, 1], [2, 3], [4]):
        kept.get(np.array(asked), held, stored)
    assert stored.read == [0, 1, 2, 3, *range(4, 9)]  # and none where there is none
    stored.vectors[6] += 1
    kept.forget(6, 7)
    assert np.array_equal(kept.get(np.array([8, 6, 5]), held, stored), stored.vectors[[8, 6, 5]])
    assert stored.read[9:] == [6]


def test_what_has_no_room_for_all_is_never_read_as_a_whole():
    stored, kept = Stored(10), VectorCache(9 * DIMENSIONS * 4)
    for place in range(9):
        kept.get(np.array([place]), all_of(10), stored)
    assert stored.read == [*range(9)]


def test_when_it_is_full_it_begins_anew():
    stored, kept = Stored(10), VectorCache(4 * DIMENSIONS * 4)
    for asked in ([0, 1, 2], [2, 3, 4], [2, 3, 4]):
        kept.get(np.array(asked), all_of(10), stored)
    assert stored.read == [0, 1, 2, 3, 4, 2, 3, 4]


def test_vectors_of_another_width_are_no_error():
    kept = VectorCache()
    kept.get(np.array([1]), all_of(10), lambda places: np.ones((len(places), 3), np.float32))
    kept.forget(0, 10)
    assert (
        kept.get(
            np.array([2, 1]), all_of(10), lambda places: np.full((len(places), 5), 2.0, np.float32)
        ).tolist()
        == [[2.0] * 5] * 2
    )


def test_every_short_float_is_read_as_the_number_it_is():
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
def test_vectors_that_are_cut_off_or_missing_are_told_and_never_taken_for_others(tmp_path, damage):
    path = str(tmp_path / "knowloom.db")
    asked = np.eye(1, DIMENSIONS, dtype=np.float32)[0]
    store = SqliteStore.open(path)
    store.apply(batch([item(str(number)) for number in range(6)]))
    store.put_vectors({("acme", str(number)): asked for number in range(6)}, "some")
    apsw.Connection(path).execute(damage)
    for ask in (
        lambda: store.search_vector(asked, ACME, 3),
        lambda: store.score_vectors(asked, [("acme", "0"), ("acme", "1")]),
    ):
        with pytest.raises(Corrupt, match="`knowloom reindex` rebuilds all of them"):
            ask()
    store.forget_vectors()
    assert store.search_vector(asked, ACME, 3).matches == ()
    store.close()
