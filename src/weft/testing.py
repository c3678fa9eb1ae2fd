"""Contract suites: what every adapter promises. Shipped for plug-ins: subclass one and give it a fixture."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.errors import Conflict, WeftError
from weft.model import Batch, Edge, EdgeKey, Filter, Found, Item, Key, Kind
from weft.ports import Embedder, GraphStore, ItemStore, TextIndex, Vector, VectorIndex
from weft.words import words

ODD_TEXTS = {
    "empty": "",
    "whitespace": " \t\n ",
    "very long": "refund policy " * 7_200,  # 100,800 characters
    "emoji": "🧵👩‍👩‍👧 🇮🇱",
    "right-to-left": "مرحبا שלום",
    "NUL": "before\0after",
}


class EmbedderContract:
    """Override `embedder`; everything else is inherited."""

    TEXTS = ("How do I get a refund?", "Parcels leave on Mondays.", "The office is closed.", "Ask for Anna.", "Water boils at 100 °C.")

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("override the fixture `embedder`")

    def test_the_same_text_gives_the_same_vector(self, embedder: Embedder) -> None:
        first, second = embedder.embed(["refund"]), embedder.embed(["refund"])
        np.testing.assert_array_equal(first, second)

    def test_different_texts_give_different_vectors(self, embedder: Embedder) -> None:
        vectors = embedder.embed(self.TEXTS)
        assert len({vector.tobytes() for vector in vectors}) == len(self.TEXTS)

    def test_vectors_have_unit_length(self, embedder: Embedder) -> None:
        lengths = [np.linalg.norm(vector) for vector in embedder.embed(self.TEXTS)]
        np.testing.assert_allclose(lengths, 1.0, atol=1e-5)

    def test_vectors_have_the_announced_dimensions(self, embedder: Embedder) -> None:
        announced = embedder.dimensions
        assert [vector.shape for vector in embedder.embed(self.TEXTS)] == [(announced,)] * len(self.TEXTS)

    def test_vectors_come_in_the_order_of_the_texts_however_they_are_batched(self, embedder: Embedder) -> None:
        together = embedder.embed(self.TEXTS)
        one_by_one = [embedder.embed([text])[0] for text in self.TEXTS]
        np.testing.assert_allclose(together, one_by_one, atol=1e-5)

    def test_the_order_of_the_texts_changes_no_vector(self, embedder: Embedder) -> None:
        forwards, backwards = embedder.embed(self.TEXTS), embedder.embed(self.TEXTS[::-1])
        np.testing.assert_allclose(forwards, backwards[::-1], atol=1e-5)

    def test_a_text_asked_for_twice_is_answered_twice(self, embedder: Embedder) -> None:
        first, other, again = embedder.embed(["refund", "shipping", "refund"])
        np.testing.assert_allclose(first, again, atol=1e-5)
        assert not np.allclose(first, other, atol=1e-5)

    def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert embedder.embed([]) == []

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
    def test_any_text_gives_a_finite_float32_unit_vector(self, embedder: Embedder, text: str) -> None:
        (vector,) = embedder.embed([text])
        assert vector.dtype == np.float32 and np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)

    def test_an_odd_text_leaves_its_neighbours_alone(self, embedder: Embedder) -> None:
        alone = embedder.embed(["refund"])[0]
        among = embedder.embed([*ODD_TEXTS.values(), "refund"])[-1]
        np.testing.assert_allclose(among, alone, atol=1e-5)


# Stores. The builders fill in what a test does not care about.

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
ACME = Filter(("acme",))
BOTH = Filter(("acme", "zoo"))
NOBODY = Filter(())

SCRIPTS = {
    "Chinese": "退款政策说明",
    "Japanese": "返金ポリシー",
    "Thai": "นโยบายการคืนเงิน",
    "Arabic": "سياسة الاسترداد",
    "Hebrew": "מדיניות החזרים",
    "Russian": "Возврат денег",
    "accents": "crème brûlée",
    "full width": "\uff52\uff45\uff46\uff55\uff4e\uff44",  # refund
}
NASTY = [
    *('"', "'", "*", "(", ")", "^a", "-a", "%_%", "\\", "\0", "AND", "NEAR(", "NOT NEAR(a b, 3)", "{a b}:c", "\x01type="),
    *('refund" OR "', "refund AND", "title:refund", "ref*", "'; DROP TABLE item;--"),
    *("\ud800", "🧵👩‍👩‍👧 🇮🇱", "מ\u202eת", "a\u0301" * 40, "x" * 5000, "y " * 2500),
]


def item(id: str, text: str = "", *, space: str = "acme", **fields: Any) -> Item:
    return Item(id, space, text=text, **{"created_at": NOW, **fields})


def edge(source: str, target: str, weight: float = 1.0, *, type: str = "related", space: str = "acme", **fields: Any) -> Edge:
    return Edge(source, target, type, weight, space, **fields)


def batch(
    items: Iterable[Item] = (),
    edges: Iterable[Edge] = (),
    deleted: Iterable[Key] = (),
    deleted_edges: Iterable[EdgeKey] = (),
    at: datetime = NOW,
) -> Batch:
    return Batch(at, tuple(items), tuple(edges), tuple(deleted), tuple(deleted_edges))


def unit(*numbers: float) -> Vector:
    """The unit vector in this direction."""
    vector = np.array(numbers, np.float32)
    return vector / np.linalg.norm(vector).astype(np.float32)


def directions(count: int, dimensions: int, seed: int = 1) -> list[Vector]:
    """Random unit vectors, the same for the same seed."""
    numbers = np.random.default_rng(seed).normal(size=(count, dimensions))
    return [unit(*row) for row in numbers]


def babble(count: int, seed: int) -> list[str]:
    """Random texts of 1 to 20 words that have no other forms, the same for the same seed."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(["kappa", "zeta", "rho", "tau", "omega", "psi"], k=chance.randint(1, 20))) for _ in range(count)]


def ids(keys: Iterable[Key]) -> list[str]:
    return [id for _, id in keys]


def matches(found: Found) -> list[str]:
    return ids(key for key, _ in found.matches)


def bm25(query: str, documents: Mapping[Key, str]) -> dict[Key, float]:
    """The formula, as plainly as it can be written; words are what blanks separate."""
    texts = {key: Counter(text.split()) for key, text in documents.items()}
    mean = sum(words.total() for words in texts.values()) / len(texts)
    holding = {word: sum(word in words for words in texts.values()) for word in query.split()}
    rarity = {word: math.log(1 + (len(texts) - held + 0.5) / (held + 0.5)) for word, held in holding.items()}
    norm = {key: 1.2 * (1 - 0.75 + 0.75 * words.total() / mean) for key, words in texts.items()}
    scores = {key: sum(rarity[word] * words[word] / (words[word] + norm[key]) for word in rarity) for key, words in texts.items()}
    return {key: score / sum(rarity.values()) for key, score in scores.items() if score}


# Random knowledge. Every example lives in spaces of its own, so that one store serves them all.

_numbers = itertools.count(1)
_days = st.sampled_from([NOW + timedelta(days=day, microseconds=day) for day in (-400, -1, 0, 1, 30)])
_confidences = st.sampled_from([0.0, 0.5, 0.7, 0.70000001, 1.0]) | st.floats(0, 1)
_vocabulary = st.lists(st.sampled_from(["refund", "parcel", "monday", "anna", "water", "shared"]), max_size=12).map(" ".join)
_items = st.lists(
    st.builds(
        Item,
        id=st.sampled_from([f"i{number:02}" for number in range(30)]),
        space=st.sampled_from(["one", "two"]),
        kind=st.sampled_from(list(Kind)),
        type=st.sampled_from(["", "faq", "note", "a b"]),
        title=_vocabulary,
        text=_vocabulary.map("shared {}".format),
        tags=st.lists(st.sampled_from(["vip", "eu", "a=b", "VIP"]), max_size=3).map(tuple),
        subject=st.sampled_from([None, "", "anna", "ben"]),
        confidence=st.none() | _confidences,
        created_at=_days,
        valid_from=st.none() | _days,
        valid_to=st.none() | _days,
    ),
    max_size=25,
    unique_by=lambda item: item.key,
)


def _some(*values: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


_spaces = st.sampled_from([("one",), ("one", "two"), ("two", "one", "two"), ("one", "nowhere"), ("nowhere",), ()])
_restrictions: dict[str, st.SearchStrategy[Any]] = {
    "kinds": _some(*Kind),
    "types": _some("", "faq", "note", "a b", "unknown"),
    "exclude_types": _some("", "faq", "unknown"),
    "tags": _some("vip", "eu", "a=b", "unknown"),
    "subjects": _some("", "anna", "unknown"),
    "created_from": _days,
    "created_to": _days,
    "valid_at": _days,
    "min_confidence": _confidences,
}
# Two restrictions at most: with more, next to nothing is allowed and next to nothing is tested.
_filters = st.lists(st.sampled_from(list(_restrictions)), max_size=2).flatmap(
    lambda names: st.builds(Filter, spaces=_spaces, **{name: _restrictions[name] for name in names})
)
_unconcerned = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors, HealthCheck.too_slow]
_examples = settings(max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=_unconcerned)


def settle(items: Iterable[Item], only: Filter = BOTH) -> tuple[list[Item], Filter]:
    """The items and the filter, moved to spaces nobody has used before."""
    number = next(_numbers)
    moved = [replace(item, space=f"{item.space}-{number}") for item in items]
    return moved, replace(only, spaces=tuple(f"{space}-{number}" for space in only.spaces))


def allowed(items: Iterable[Item], only: Filter) -> set[Key]:
    return {item.key for item in items if only.allows(item)}


class ItemStoreContract:
    """Override `store`; everything else is inherited."""

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    # items

    def test_an_item_comes_back_with_every_field(self, store: ItemStore) -> None:
        odd = {"nested": {"list": [1, 2.5, None, True, {"deep": "ü"}]}, "big": 2**60, "tiny": 1e-300, "": ""}
        said = Item("ä/1 \0'\"", "acme ☂", Kind.CLAIM, "fäq", "Títle", "text\r\n\ttabs\0 and 🧵", "סיכום", odd, ("vip", "ß", "vip"))
        about = replace(said, section="rules", subject="anna", confidence=0.1 + 0.2, source="a/b.md#L1", embedding_text="embed this")
        dated = replace(about, created_at=NOW.replace(microsecond=123456), updated_at=NOW.replace(microsecond=1))
        full = replace(dated, valid_from=datetime(1, 1, 1, tzinfo=UTC), valid_to=datetime.max.replace(tzinfo=UTC))
        store.apply(batch([full]))
        assert store.get([full.key]) == [full]

    def test_an_item_with_nothing_but_a_name_comes_back_as_it_was(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([("acme", "a")]) == [item("a")]

    def test_a_time_of_another_zone_is_the_same_time(self, store: ItemStore) -> None:
        there = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
        store.apply(batch([item("a", created_at=there, valid_to=there)]))
        assert store.get([("acme", "a")]) == [item("a", valid_to=NOW)]

    def test_items_come_in_the_order_asked(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c", space="zoo")]))
        assert ids(found.key for found in store.get([("zoo", "c"), ("acme", "b"), ("acme", "a"), ("acme", "b")])) == ["c", "b", "a", "b"]

    def test_unknown_keys_are_left_out(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([("acme", "x"), ("nowhere", "a"), ("acme", "a"), ("acme", "A")]) == [item("a")]

    def test_no_keys_give_no_items(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([]) == []

    def test_an_item_replaces_the_one_of_its_name(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old", tags=("vip",))]))
        store.apply(batch([item("a", "new")]))
        assert store.get([("acme", "a")]) == store.find(ACME, 10) == [item("a", "new")]

    def test_the_last_of_two_in_one_batch_wins(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "first", type="faq"), item("a", "second")]))
        assert store.find(ACME, 10) == [item("a", "second")]
        assert store.find(replace(ACME, types=("faq",)), 10) == []

    def test_the_same_id_in_two_spaces_is_two_items(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "here"), item("a", "there", space="zoo")]))
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.find(BOTH, 10) == [item("a", "there", space="zoo")]

    def test_what_the_caller_changes_afterwards_is_not_stored(self, store: ItemStore) -> None:
        properties = {"plan": "gold"}
        store.apply(batch([item("a", properties=properties)]))
        properties["plan"] = "none"
        assert store.get([("acme", "a")])[0].properties == {"plan": "gold"}

    # batches

    def test_an_empty_batch_does_nothing(self, store: ItemStore) -> None:
        store.apply(batch())
        assert store.spaces() == []

    def test_a_batch_that_fails_in_the_middle_leaves_nothing_behind(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old")]))
        before = store.spaces()
        with pytest.raises((TypeError, WeftError)):
            store.apply(batch([item("a", "new"), item("b", properties={"bad": {1, 2}}), item("c", space="zoo")], deleted=[("acme", "a")]))
        assert (store.spaces(), store.find(BOTH, 10), len(store.changes("acme"))) == (before, [item("a", "old")], 1)

    def test_a_batch_whose_edge_fails_leaves_nothing_behind(self, store: ItemStore) -> None:
        with pytest.raises((TypeError, WeftError)):
            store.apply(batch([item("a"), item("b")], [edge("a", "b"), edge("b", "a", properties={"bad": {1, 2}})]))
        assert (store.spaces(), store.find(ACME, 10), store.changes("acme")) == ([], [], [])

    def test_a_failed_batch_does_not_stop_the_next(self, store: ItemStore) -> None:
        with pytest.raises((TypeError, WeftError)):
            store.apply(batch([item("a"), item("b", properties={"bad": {1, 2}})]))
        store.apply(batch([item("a", "good")]))
        assert (store.find(ACME, 10), store.verify()) == ([item("a", "good")], [])

    def test_deletes_come_before_puts(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old")]))
        store.apply(batch([item("a", "new")], deleted=[("acme", "a")]))
        assert store.find(ACME, 10) == [item("a", "new")]

    def test_a_deleted_item_is_gone(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")]))
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.get([("acme", "a")]) == []
        assert store.visible([("acme", "a"), ("acme", "b")], ACME) == [("acme", "b")]
        assert store.find(ACME, 10) == [item("b")]

    def test_deleting_what_is_not_there_is_harmless(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        before = store.spaces()
        edges = [edge("a", "x").key, edge("a", "b", space="nowhere").key]
        store.apply(batch(deleted=[("acme", "x"), ("nowhere", "a")], deleted_edges=edges))
        assert (store.spaces(), len(store.changes("acme")), store.verify()) == (before, 1, [])

    # spaces

    def test_an_unused_store_has_no_spaces(self, store: ItemStore) -> None:
        assert store.spaces() == []

    def test_spaces_come_by_name_with_their_counts(self, store: ItemStore) -> None:
        store.apply(batch([item("z", space="zoo"), item("a"), item("b")], [edge("a", "b"), edge("a", "z", target_space="zoo")]))
        assert [(space.name, space.items, space.edges) for space in store.spaces()] == [("acme", 2, 2), ("zoo", 1, 0)]

    def test_an_emptied_space_is_still_known(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b")]))
        store.apply(batch(deleted=[("acme", "a"), ("acme", "b")]))
        assert [(space.name, space.items, space.edges, int(space.digest, 16)) for space in store.spaces()] == [("acme", 0, 0, 0)]

    def test_counts_follow_updates_and_deletes(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c")], [edge("a", "b"), edge("b", "c"), edge("c", "c")]))
        store.apply(batch([item("a", "new")], [edge("a", "b", 2)], deleted=[("acme", "c")]))
        assert [(space.items, space.edges) for space in store.spaces()] == [(2, 1)]

    def test_the_digest_does_not_depend_on_the_order_of_writing(self, store: ItemStore) -> None:
        for space, names in (("acme", "abcd"), ("zoo", "dbca")):
            for name in names:
                store.apply(batch([item(name, f"text {name}", space=space)]))
        with_own_names = {space.name: space.digest for space in store.spaces()}
        store.apply(batch(deleted=[("acme", name) for name in "abcd"]))
        store.apply(batch([item(name, f"text {name}") for name in "cadb"]))
        assert {space.name: space.digest for space in store.spaces()} == with_own_names

    def test_the_digest_does_not_depend_on_how_the_knowledge_got_there(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "one", properties={"x": 1, "y": 2}), item("b")], [edge("a", "b", 0.5)]))
        straight = store.spaces()
        store.apply(batch([item("a", "two"), item("c")], [edge("a", "b", 0.7), edge("c", "a"), edge("b", "c")]))
        store.apply(batch([item("a", "one", properties={"y": 2, "x": 1})], [edge("a", "b", 0.5)], deleted=[("acme", "c")]))
        assert store.spaces() == straight

    @pytest.mark.parametrize(
        "other",
        [
            batch([item("a", "two")]),
            batch([item("a", "one", properties={"x": 1})]),
            batch([item("a", "one", updated_at=NOW)]),
            batch([item("b", "one")]),
            batch(deleted=[("acme", "a")]),
            batch(edges=[edge("a", "b", 2)]),
            batch(edges=[edge("a", "b", item_id="a")]),
            batch(edges=[edge("b", "a")]),
            batch(deleted_edges=[edge("a", "b").key]),
        ],
        ids=["text", "properties", "time", "other item", "deleted", "weight", "explained", "new edge", "no edge"],
    )
    def test_the_digest_tells_when_anything_differs(self, store: ItemStore, other: Batch) -> None:
        store.apply(batch([item("a", "one"), item("b")], [edge("a", "b")]))
        before = store.spaces()[0].digest
        store.apply(other)
        assert store.spaces()[0].digest != before

    def test_a_whole_number_is_the_same_weight_as_its_float(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b", 2)]))
        whole = store.spaces()
        store.apply(batch(edges=[edge("a", "b", 2.0)]))
        assert (store.spaces(), store.verify()) == (whole, [])

    def test_the_digest_of_a_space_is_its_own(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        before = store.spaces()[0]
        store.apply(batch([item("a", "other", space="zoo")]))
        assert store.spaces()[0] == before

    # finding and filtering

    def test_find_walks_everything_exactly_once_in_the_order_of_keys(self, store: ItemStore) -> None:
        stored = [item(f"{number}", space=space) for number in range(30) for space in ("zoo", "acme")] + [item("ä"), item("é"), item("🧵")]
        store.apply(batch(stored))
        assert walk(store, BOTH, 7) == sorted(stored, key=lambda one: one.key)

    def test_find_walks_a_filtered_set_exactly_once(self, store: ItemStore) -> None:
        stored = [item(f"{number}", type="faq" if number % 3 else "note") for number in range(40)]
        store.apply(batch(stored))
        expected = sorted((one for one in stored if one.type == "faq"), key=lambda one: one.key)
        assert walk(store, replace(ACME, types=("faq",)), 4) == expected

    def test_find_goes_on_behind_a_key_that_is_not_there(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("c"), item("a", space="zoo")]))
        assert [one.key for one in store.find(BOTH, 10, ("acme", "b"))] == [("acme", "c"), ("zoo", "a")]
        assert [one.key for one in store.find(BOTH, 10, ("middle", "x"))] == [("zoo", "a")]

    def test_find_gives_no_more_than_asked(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("a", space="zoo")]))
        assert (len(store.find(BOTH, 2)), store.find(BOTH, 0)) == (2, [])

    def test_no_space_sees_nothing(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert (store.find(NOBODY, 10), store.visible([("acme", "a")], NOBODY)) == ([], [])

    def test_visible_keys_come_in_the_order_asked(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b", type="faq"), item("c"), item("d", space="zoo")]))
        asked = [("zoo", "d"), ("acme", "c"), ("acme", "x"), ("acme", "b"), ("acme", "a")]
        assert store.visible(asked, replace(ACME, exclude_types=("faq",))) == [("acme", "c"), ("acme", "a")]

    @_examples
    @given(_items, _filters, st.integers(1, 30))
    def test_find_and_visible_show_what_the_filter_allows(self, store: ItemStore, items: list[Item], only: Filter, limit: int) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        expected = allowed(items, only)
        assert [one.key for one in store.find(only, limit)] == sorted(expected)[:limit]
        assert store.visible([one.key for one in items], only) == [one.key for one in items if one.key in expected]

    @pytest.mark.parametrize("at", [NOW, NOW - timedelta(microseconds=1), NOW + timedelta(microseconds=1)], ids=["at", "before", "after"])
    def test_filters_are_exact_to_the_microsecond(self, store: ItemStore, at: datetime) -> None:
        stored = [item("from", valid_from=NOW), item("to", valid_to=NOW), item("made", created_at=NOW)]
        store.apply(batch(stored))
        for only in (replace(ACME, valid_at=at), replace(ACME, created_from=at), replace(ACME, created_to=at)):
            assert {one.key for one in store.find(only, 10)} == allowed(stored, only)

    @pytest.mark.parametrize("least", [0.7, 0.70000001, 0.3, 0.1 + 0.2, 1.0])
    def test_filters_are_exact_to_the_last_digit(self, store: ItemStore, least: float) -> None:
        stored = [item(f"{number}", confidence=number) for number in (None, 0, 0.1 + 0.2, 0.3, 0.7, 0.70000001, 1.0)]
        store.apply(batch(stored))
        only = replace(ACME, min_confidence=least)
        assert {one.key for one in store.find(only, 10)} == allowed(stored, only)

    @pytest.mark.parametrize("field", ["types", "tags", "subjects", "kinds", "min_confidence"])
    def test_a_filter_follows_an_update(self, store: ItemStore, field: str) -> None:
        value: Any = {"types": ("faq",), "tags": ("vip",), "subjects": ("anna",), "kinds": (Kind.CLAIM,), "min_confidence": 0.5}[field]
        only = replace(ACME, **{field: value})
        store.apply(batch([item("a", type="faq", tags=("vip",), subject="anna", kind=Kind.CLAIM, confidence=0.9)]))
        assert ids(store.visible([("acme", "a")], only)) == ["a"]
        store.apply(batch([item("a", type="note"), item("b")]))
        assert (store.visible([("acme", "a"), ("acme", "b")], only), store.find(only, 10)) == ([], [])

    # change log

    def test_the_change_log_tells_what_happened_and_what_was_there_before(self, store: ItemStore) -> None:
        later = NOW + timedelta(microseconds=1)
        store.apply(batch([item("a", "old"), item("b")], [edge("a", "b")]))
        store.apply(batch([item("a", "new")], [edge("a", "b", 2)], at=later))
        store.apply(batch(deleted=[("acme", "b")], at=later))
        assert [(one.at, one.id, one.action, one.before) for one in store.changes("acme")] == [
            (NOW, "a", "add", None),
            (NOW, "b", "add", None),
            (NOW, "a", "link", None),
            (later, "a", "update", item("a", "old")),
            (later, "a", "link", edge("a", "b")),
            (later, "a", "unlink", edge("a", "b", 2)),
            (later, "b", "delete", item("b")),
        ]

    def test_an_unlinked_edge_is_logged(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b", 0.25, properties={"why": "ü"})]))
        store.apply(batch(deleted_edges=[edge("a", "b").key]))
        last = store.changes("acme")[-1]
        assert (last.action, last.before) == ("unlink", edge("a", "b", 0.25, properties={"why": "ü"}))

    def test_a_deleted_items_edges_are_logged_in_the_order_of_their_keys(self, store: ItemStore) -> None:
        links = [edge("c", "a", 9), edge("a", "b", 1), edge("a", "a", 5, type="x"), edge("b", "a", 3)]
        store.apply(batch([item("a"), item("b"), item("c")], links))
        store.apply(batch(deleted=[("acme", "a")]))
        assert [one.before for one in store.changes("acme")[7:-1]] == sorted(links, key=lambda one: one.key)

    def test_the_change_log_is_numbered_upwards_and_read_in_pages(self, store: ItemStore) -> None:
        for number in range(10):
            store.apply(batch([item(f"{number}"), item(f"{number}", space="zoo")]))
        numbers = [one.number for one in store.changes("acme")]
        assert numbers == sorted(set(numbers)) and numbers[0] > 0
        assert ids(("acme", one.id) for one in store.changes("acme", after=numbers[3], limit=4)) == ["4", "5", "6", "7"]

    def test_each_space_has_its_own_change_log(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("z", space="zoo")]))
        assert [(one.space, one.id) for one in store.changes("zoo")] == [("zoo", "z")]
        assert store.changes("nowhere") == []

    # the store itself

    def test_reads_inside_a_reading_block_answer_as_usual(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        with store.reading(), store.reading():
            assert store.get([("acme", "a")]) == store.find(ACME, 10) == [item("a")]

    def test_an_error_inside_a_reading_block_does_no_harm(self, store: ItemStore) -> None:
        with pytest.raises(KeyError), store.reading():
            raise KeyError("a")
        store.apply(batch([item("a")]))
        assert store.find(ACME, 10) == [item("a")]

    def test_all_is_well_after_many_writes(self, store: ItemStore) -> None:
        for number in range(30):
            store.apply(batch([item(f"{number % 7}", f"text {number}"), item("b")], [edge("b", f"{number % 7}", number)]))
            store.apply(batch(deleted=[("acme", f"{number % 5}")]))
        assert store.verify() == []

    def test_closing_twice_is_harmless(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        store.close()
        store.close()


def walk(store: ItemStore, only: Filter, page: int) -> list[Item]:
    """Everything that `find` gives, page by page."""
    found: list[Item] = []
    while part := store.find(only, page, found[-1].key if found else None):
        found += part
    return found


class TextIndexContract:
    """Override `store`; everything else is inherited."""

    @pytest.fixture
    def store(self) -> TextIndex:
        raise NotImplementedError("override the fixture `store`")

    def test_items_that_share_a_word_are_found_best_first(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund policy"), item("c", "parcel and a lot of other words")]))
        assert matches(store.search_text("refund policy", ACME, 10)) == ["b", "a"]

    def test_scores_are_between_nothing_and_one(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund " * 1000, title="refund " * 1000), item("b", "refund"), item("c", "x " * 1000)]))
        scores = [score for _, score in store.search_text("refund", ACME, 10).matches]
        assert len(scores) == 2 and 1 > scores[0] > scores[1] > 0

    def test_scores_are_those_of_the_formula(self, store: TextIndex) -> None:
        texts = {("acme", f"{number}"): text for number, text in enumerate(babble(60, seed=7))}
        store.apply(batch(item(id, text) for (_, id), text in texts.items()))
        found = store.search_text("zeta tau psi sigma", ACME, 100)
        assert dict(found.matches) == pytest.approx(bm25("zeta tau psi sigma", texts), abs=2e-6)

    def test_words_of_the_title_count_twice(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "kappa tau", title="zeta rho"), item("b", "kappa zeta")]))
        texts = {("acme", "a"): "zeta rho zeta rho kappa tau", ("acme", "b"): "kappa zeta"}
        assert dict(store.search_text("zeta tau", ACME, 9).matches) == pytest.approx(bm25("zeta tau", texts), abs=2e-6)

    def test_a_word_counts_at_most_255_times_in_one_text(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund " * 256), item("b", "refund " * 255 + "parcel")]))
        scores = dict(store.search_text("refund", ACME, 10).matches)
        assert scores["acme", "a"] == scores["acme", "b"]

    def test_a_word_said_twice_in_the_question_counts_once(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "parcel"), item("c", "water")]))
        assert store.search_text("refund parcel refund refunds", ACME, 10) == store.search_text("refund parcel", ACME, 10)

    def test_ties_go_by_id_and_then_by_space(self, store: TextIndex) -> None:
        store.apply(batch([item("b", "refund", space="zoo"), item("c", "refund"), item("b", "refund"), item("a", "refund", space="zoo")]))
        best = [key for key, _ in store.search_text("refund", Filter(("zoo", "acme")), 10).matches]
        assert best == [("zoo", "a"), ("acme", "b"), ("zoo", "b"), ("acme", "c")]

    @pytest.mark.parametrize("limit", range(6))
    def test_the_limit_cuts_ties_in_their_order(self, store: TextIndex, limit: int) -> None:
        store.apply(batch([item("z", "refund refund"), *(item(name, "refund") for name in "dbca")]))
        assert matches(store.search_text("refund", ACME, limit)) == ["z", "a", "b", "c", "d"][:limit]

    def test_another_form_of_the_word_finds_it(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "a refund"), item("b", "Connections")]))
        assert matches(store.search_text("REFUNDS", ACME, 10)) == ["a"]
        assert matches(store.search_text("connected", ACME, 10)) == ["b"]

    @pytest.mark.parametrize("field", ["title", "summary", "tags", "properties"])
    def test_title_summary_tags_and_property_values_are_found(self, store: TextIndex, field: str) -> None:
        value: Any = {"tags": ("zebra",), "properties": {"animal": "zebra"}}.get(field, "zebra")
        store.apply(batch([item("a", "text", **{field: value}), item("b", "text", properties={"zebra": "name"})]))
        assert matches(store.search_text("zebra", ACME, 10)) == ["a"]

    @pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
    def test_text_of_any_script_is_found(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", f"see {text}"), item("b", "see nothing"), item("c", "🧵")]))
        assert matches(store.search_text(text, ACME, 10)) == matches(store.search_text(text.upper(), ACME, 10)) == ["a"]

    @pytest.mark.parametrize("text", ["退款", "政策", "返金", "การ"])
    def test_scripts_without_blanks_are_found_by_their_parts(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", "退款政策说明"), item("b", "返金ポリシー"), item("c", "นโยบายการคืนเงิน")]))
        assert matches(store.search_text(text, ACME, 10)) == [{"退": "a", "政": "a", "返": "b", "ก": "c"}[text[0]]]

    @pytest.mark.parametrize("text", NASTY, ids=lambda text: ascii(text)[:20])
    def test_no_text_is_syntax(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", "refund"), item("b", "parcel", type="faq"), item("c")]))
        alone, among = store.search_text(text, ACME, 10), store.search_text(f"{text} parcel", ACME, 10)
        assert matches(alone) == (["a"] if "refund" in text else [])
        assert "b" in matches(among) and "c" not in matches(among)

    @pytest.mark.parametrize("text", ["", " \n", "the of and", "?!", "🧵"])
    def test_a_text_without_words_finds_nothing(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", "the 🧵"), item("b")]))
        assert store.search_text(text, ACME, 10, also=[("acme", "a")]) == Found()

    def test_an_empty_store_finds_nothing(self, store: TextIndex) -> None:
        assert store.search_text("refund", ACME, 10) == Found()

    def test_no_space_finds_nothing(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund")]))
        assert store.search_text("refund", NOBODY, 10, also=[("acme", "a")]) == Found()

    def test_replaced_text_is_no_longer_found(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund")]))
        store.apply(batch([item("a", "parcel")]))
        assert matches(store.search_text("refund", ACME, 10)) == ["b"]
        assert matches(store.search_text("parcel", ACME, 10)) == ["a"]

    def test_deleted_text_is_no_longer_found(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund")]))
        store.apply(batch(deleted=[("acme", "a")]))
        assert matches(store.search_text("refund", ACME, 10)) == ["b"]

    def test_text_that_comes_back_is_found_again(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund")]))
        before = store.search_text("refund", ACME, 10)
        store.apply(batch(deleted=[("acme", "a")]))
        store.apply(batch([item("a", "refund")]))
        assert store.search_text("refund", ACME, 10) == before

    def test_a_batch_that_fails_leaves_no_words_behind(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund")]))
        before = store.search_text("refund", ACME, 10)
        with pytest.raises((TypeError, WeftError)):
            store.apply(batch([item("a", "parcel"), item("b", "refund"), item("c", properties={"bad": {1, 2}})]))
        assert store.search_text("refund", ACME, 10) == before

    def test_items_asked_about_by_name_get_the_score_they_would_rank_with(self, store: TextIndex) -> None:
        store.apply(batch(item(f"{number}", "refund " * number + "parcel " * 9) for number in range(1, 10)))
        everyone = dict(store.search_text("refund", ACME, 100).matches)
        found = store.search_text("refund", ACME, 2, also=[("acme", "1"), ("acme", "9"), ("acme", "x"), ("nowhere", "1")])
        assert (matches(found), found.others) == (["9", "8"], {key: everyone[key] for key in (("acme", "1"), ("acme", "9"))})

    def test_items_asked_about_by_name_must_share_a_word_and_pass_the_filter(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "parcel"), item("b", "refund", type="faq"), item("c", "refund"), item("d", "refund", space="zoo")]))
        asked = [("acme", "a"), ("acme", "b"), ("acme", "c"), ("zoo", "d")]
        assert list(store.search_text("refund", replace(ACME, types=("faq",)), 10, also=asked).others) == [("acme", "b")]

    def test_a_score_too_small_to_show_is_still_a_match(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "zeta " + "rho " * 20_000), *(item(f"{number}", "zeta") for number in range(300))]))
        question = "zeta " + " ".join(f"w{number}" for number in range(500))
        found = store.search_text(question, ACME, 1000, also=[("acme", "a")])
        assert dict(found.matches)["acme", "a"] == found.others["acme", "a"] < 1e-5

    def test_it_counts_the_items_it_considered(self, store: TextIndex) -> None:
        store.apply(batch([*(item(f"{number}", "refund", type="faq" if number < 5 else "") for number in range(20)), item("x", "parcel")]))
        assert store.search_text("refund", ACME, 3).considered == 20
        assert store.search_text("refund", replace(ACME, types=("faq",)), 3).considered == 5

    @_examples
    @given(_items, _filters, st.integers(1, 30))
    def test_text_search_shows_what_the_filter_allows(self, store: TextIndex, items: list[Item], only: Filter, limit: int) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        expected = allowed(items, only)
        found = store.search_text("shared", only, limit, also=[one.key for one in items])
        assert {key for key, _ in found.matches} <= expected == set(found.others)
        assert (len(found.matches), found.considered) == (min(limit, len(expected)), len(expected))
        assert list(found.matches) == sorted(found.others.items(), key=lambda pair: (-pair[1], pair[0][1], pair[0][0]))[:limit]

    @_examples
    @given(_items, _items)
    def test_a_space_that_is_not_named_changes_nothing(self, store: TextIndex, items: list[Item], others: list[Item]) -> None:
        items, only = settle(items, Filter(("one", "two")))
        elsewhere, _ = settle(others)
        store.apply(batch(items))
        before = store.search_text("refund shared anna", only, 10, also=[one.key for one in items])
        store.apply(batch(elsewhere))
        assert store.search_text("refund shared anna", only, 10, also=[one.key for one in [*items, *elsewhere]]) == before

    @_examples
    @given(_items.filter(bool))
    def test_two_named_spaces_share_their_statistics(self, store: TextIndex, items: list[Item]) -> None:
        items, only = settle(items, Filter(("one", "two")))
        store.apply(batch(replace(one, tags=()) for one in items))
        texts = {one.key: analysed(f"{one.title} {one.title} {one.text}") for one in items}
        question = analysed("refund shared anna")
        assert dict(store.search_text("refund shared anna", only, 100).matches) == pytest.approx(bm25(question, texts), abs=2e-6)

    def test_naming_a_space_twice_changes_nothing(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund parcel"), item("c", "water", space="zoo")]))
        assert store.search_text("refund", Filter(("acme", "zoo", "acme", "x")), 10) == store.search_text("refund", BOTH, 10)

    @pytest.mark.parametrize("seed", range(3))
    def test_the_order_of_writing_changes_no_answer(self, store: TextIndex, seed: int) -> None:
        stored = [item(f"{number}", text) for number, text in enumerate(babble(50, seed))]
        store.apply(batch(stored))
        before = store.search_text("zeta tau", ACME, 7, also=[("acme", "5")])
        store.apply(batch(deleted=[one.key for one in stored]))
        for one in random.Random(seed).sample(stored, len(stored)):
            store.apply(batch([one]))
        assert store.search_text("zeta tau", ACME, 7, also=[("acme", "5")]) == before

    def test_rebuilt_words_answer_as_before(self, store: TextIndex) -> None:
        stored = [item(f"{number}", "refund " * number + "parcel", type="faq") for number in range(20)]
        store.apply(batch([*stored, item("z", "refund", space="zoo")]))
        before = store.search_text("refund", replace(BOTH, types=("faq",)), 10)
        store.rebuild_words(one for one in [item("z", "refund", space="zoo"), *stored[::-1]])
        assert store.search_text("refund", replace(BOTH, types=("faq",)), 10) == before

    def test_rebuilding_forgets_the_words_of_items_left_out(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund"), item("c", "refund", space="zoo")]))
        store.rebuild_words([item("a", "refund")])
        assert matches(store.search_text("refund", BOTH, 10)) == ["a"]

    def test_rebuilding_ignores_items_that_were_never_stored(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund")]))
        before = store.search_text("refund", BOTH, 10)
        store.rebuild_words([item("a", "refund"), item("x", "refund"), item("x", "refund", space="zoo")])
        assert store.search_text("refund", BOTH, 10) == before

    def test_writing_goes_on_after_a_rebuild(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund")]))
        store.rebuild_words([item("a", "refund"), item("b", "refund")])
        store.apply(batch([item("a", "parcel"), item("c", "refund")], deleted=[("acme", "b")]))
        assert matches(store.search_text("refund", ACME, 10)) == ["c"]


def analysed(text: str) -> str:
    return " ".join(words(text))


class VectorIndexContract:
    """Override `store`; everything else is inherited. Scores may be off by 0.002: a store may keep 16-bit numbers."""

    @pytest.fixture
    def store(self) -> VectorIndex:
        raise NotImplementedError("override the fixture `store`")

    def test_the_nearest_come_first_and_opposites_count_as_nothing(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 1), unit(1, 0), unit(-1, 0), unit(-1, 0.1)])
        found = store.search_vector(unit(1, 0), ACME, 10)
        assert matches(found) == ["00001", "00000", "00002", "00003"]
        assert [score for _, score in found.matches] == pytest.approx([1, 0.5**0.5, 0, 0], abs=2e-3)

    @pytest.mark.parametrize("limit", range(1, 5))
    def test_opposites_are_equally_far_however_much_they_differ(self, store: VectorIndex, limit: int) -> None:
        embed(store, [unit(-1, 0), unit(-1, 2), unit(1, 1), unit(-1, 5)])
        assert matches(store.search_vector(unit(1, 0), ACME, limit)) == ["00002", "00000", "00001", "00003"][:limit]

    def test_similarities_are_between_nothing_and_one(self, store: VectorIndex) -> None:
        some = directions(50, 24)
        embed(store, some)
        scores = [score for vector in some for _, score in store.search_vector(vector, ACME, 50).matches]
        assert min(scores) == 0 and max(scores) <= 1

    def test_equally_near_items_go_by_id_and_then_by_space(self, store: VectorIndex) -> None:
        keys = [("zoo", "b"), ("acme", "c"), ("acme", "b"), ("zoo", "a")]
        store.apply(batch(item(id, space=space) for space, id in keys))
        store.put_vectors(dict.fromkeys(keys, unit(1, 2)), "e1")
        assert [key for key, _ in store.search_vector(unit(1, 1), BOTH, 3).matches] == [("zoo", "a"), ("acme", "b"), ("zoo", "b")]

    @pytest.mark.parametrize("limit", [0, 1, 3, 10])
    def test_it_gives_no_more_than_asked_and_counts_what_it_considered(self, store: VectorIndex, limit: int) -> None:
        embed(store, [unit(1, number) for number in range(5)])
        found = store.search_vector(unit(1, 0), ACME, limit)
        assert (matches(found), found.considered) == (["00000", "00001", "00002", "00003", "00004"][:limit], 5)

    def test_an_empty_store_has_no_vectors(self, store: VectorIndex) -> None:
        assert store.search_vector(unit(1, 0), ACME, 10) == Found()
        assert (store.fingerprint(), store.missing_vectors(["acme"], 10), store.count_missing(["acme"])) == ("", [], 0)

    def test_no_space_finds_no_vector(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        assert store.search_vector(unit(1, 0), NOBODY, 10) == Found()

    def test_an_item_without_a_vector_is_not_found(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        store.apply(batch([item("new")]))
        found = store.search_vector(unit(1, 0), ACME, 10)
        assert (matches(found), found.considered) == (["00000"], 1)

    def test_the_filter_is_inside_the_search(self, store: VectorIndex) -> None:
        some = directions(2000, 64)
        order = np.argsort([-(some[0] @ vector) for vector in some]).tolist()
        store.apply(batch(item(f"{place:05}", type="rare" if place in order[-10:] else "common") for place in range(2000)))
        store.put_vectors({("acme", f"{place:05}"): vector for place, vector in enumerate(some)}, "e1")
        found = store.search_vector(some[0], replace(ACME, types=("rare",)), 10)
        assert sorted(matches(found)) == sorted(f"{place:05}" for place in order[-10:])

    @_examples
    @given(_items, _filters, st.integers(1, 30))
    def test_vector_search_shows_what_the_filter_allows(self, store: VectorIndex, items: list[Item], only: Filter, limit: int) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        store.put_vectors({one.key: vector for one, vector in zip(items, directions(len(items), 8), strict=True)}, "e1")
        found = store.search_vector(unit(*[1] * 8), only, limit)
        expected = allowed(items, only)
        assert {key for key, _ in found.matches} <= expected
        assert (len(found.matches), found.considered) == (min(limit, len(expected)), len(expected))

    def test_the_ten_nearest_of_three_thousand_are_the_ten_nearest(self, store: VectorIndex) -> None:
        chance = np.random.default_rng(3)
        centres = chance.normal(size=(40, 64))
        some = [unit(*(centres[number % 40] + chance.normal(size=64) * 0.6)) for number in range(3000)]
        embed(store, some)
        for question in (unit(*(centre + chance.normal(size=64) * 0.6)) for centre in centres):
            exact = np.sort(np.array(some) @ question)[::-1][:10]
            assert [score for _, score in store.search_vector(question, ACME, 10).matches] == pytest.approx(exact, abs=2e-3)

    def test_the_score_of_a_named_item_is_that_of_the_search(self, store: VectorIndex) -> None:
        some = directions(40, 24)
        embed(store, some)
        searched = dict(store.search_vector(some[3], ACME, 40).matches)
        assert store.score_vectors(some[3], list(searched)) == searched

    def test_only_items_with_a_vector_have_a_score(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        store.apply(batch([item("new"), item("z", space="zoo")]))
        asked = [("acme", "new"), ("acme", "00000"), ("acme", "x"), ("nowhere", "00000"), ("zoo", "z")]
        assert store.score_vectors(unit(1, 0), asked) == pytest.approx({("acme", "00000"): 1.0}, abs=2e-3)
        assert store.score_vectors(unit(1, 0), []) == {}

    def test_a_new_vector_replaces_the_old(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0), unit(1, 1)])
        assert matches(store.search_vector(unit(1, 0), ACME, 10)) == ["00000", "00001"]
        store.put_vectors({("acme", "00000"): unit(0, 1)}, "e1")
        assert matches(store.search_vector(unit(1, 0), ACME, 10)) == ["00001", "00000"]

    def test_new_items_have_no_vector_yet(self, store: VectorIndex) -> None:
        store.apply(batch([item("z", space="zoo"), item("b"), item("a")]))
        assert store.missing_vectors(["zoo", "acme", "x"], 10) == [("acme", "a"), ("acme", "b"), ("zoo", "z")]
        assert (ids(store.missing_vectors(["zoo", "acme"], 2)), ids(store.missing_vectors(["zoo"], 2))) == (["a", "b"], ["z"])
        assert (store.count_missing(["zoo", "acme", "zoo"]), store.count_missing([])) == (3, 0)

    def test_an_embedded_item_is_no_longer_missing(self, store: VectorIndex) -> None:
        store.apply(batch([item("a"), item("b")]))
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        assert (store.missing_vectors(["acme"], 10), store.count_missing(["acme"])) == ([("acme", "b")], 1)

    def test_an_item_that_says_something_else_loses_its_vector(self, store: VectorIndex) -> None:
        store.apply(batch([item("a", "old"), item("b", "old")]))
        store.put_vectors({("acme", "a"): unit(1, 0), ("acme", "b"): unit(0, 1)}, "e1")
        store.apply(batch([item("a", "new")]))
        assert (matches(store.search_vector(unit(1, 0), ACME, 10)), store.missing_vectors(["acme"], 10)) == (["b"], [("acme", "a")])
        assert list(store.score_vectors(unit(1, 0), [("acme", "a"), ("acme", "b")])) == [("acme", "b")]

    def test_an_item_that_says_the_same_keeps_its_vector(self, store: VectorIndex) -> None:
        store.apply(batch([item("a", "same")]))
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        store.apply(batch([item("a", "same", tags=("vip",), confidence=0.5)]))
        assert (matches(store.search_vector(unit(1, 0), ACME, 10)), store.count_missing(["acme"])) == (["a"], 0)

    def test_a_deleted_item_loses_its_vector(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0), unit(0, 1)])
        store.apply(batch(deleted=[("acme", "00000")]))
        assert matches(store.search_vector(unit(1, 0), ACME, 10)) == ["00001"]
        store.apply(batch([item("00000")]))
        assert store.missing_vectors(["acme"], 10) == [("acme", "00000")]

    def test_a_batch_that_fails_takes_no_vectors_away(self, store: VectorIndex) -> None:
        store.apply(batch([item("a", "old")]))
        store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")
        with pytest.raises((TypeError, WeftError)):
            store.apply(batch([item("a", "new"), item("b", properties={"bad": {1, 2}})]))
        assert (matches(store.search_vector(unit(1, 0), ACME, 10)), store.count_missing(["acme"])) == (["a"], 0)

    def test_keys_without_an_item_are_ignored(self, store: VectorIndex) -> None:
        store.apply(batch([item("a")]))
        store.put_vectors({("acme", "x"): unit(1, 0), ("nowhere", "a"): unit(1, 0)}, "e1")
        assert (store.search_vector(unit(1, 0), Filter(("acme", "nowhere")), 10), store.fingerprint()) == (Found(), "")
        assert store.count_missing(["acme", "nowhere"]) == 1

    def test_no_vectors_are_no_write(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        store.put_vectors({}, "e2")
        assert store.fingerprint() == "e1"

    def test_vectors_of_another_embedder_are_a_conflict(self, store: VectorIndex) -> None:
        embed(store, [unit(1, 0)])
        with pytest.raises(Conflict) as caught:
            store.put_vectors({("acme", "00000"): unit(0, 1)}, "e2")
        assert (caught.value.code, store.fingerprint()) == ("reindex_required", "e1")
        assert store.score_vectors(unit(1, 0), [("acme", "00000")]) == pytest.approx({("acme", "00000"): 1.0}, abs=2e-3)

    @pytest.mark.parametrize("dimensions", [1, 3, 65])
    def test_vectors_of_another_size_are_a_conflict(self, store: VectorIndex, dimensions: int) -> None:
        embed(store, [unit(1, 0), unit(1, 1)])
        with pytest.raises(Conflict) as caught:
            store.put_vectors({("acme", "00000"): unit(1, 0), ("acme", "00001"): unit(*[1] * dimensions)}, "e1")
        assert caught.value.code == "reindex_required"
        assert store.score_vectors(unit(1, 0), [("acme", "00001")])["acme", "00001"] == pytest.approx(0.5**0.5, abs=2e-3)

    def test_vectors_of_two_sizes_are_a_conflict_from_the_start(self, store: VectorIndex) -> None:
        store.apply(batch([item("a"), item("b")]))
        with pytest.raises(Conflict):
            store.put_vectors({("acme", "a"): unit(1, 0), ("acme", "b"): unit(1, 0, 0)}, "e1")
        assert (store.fingerprint(), store.count_missing(["acme"])) == ("", 2)

    @pytest.mark.parametrize("dimensions", [2, 3, 100])
    def test_after_forgetting_another_embedder_is_welcome(self, store: VectorIndex, dimensions: int) -> None:
        embed(store, [unit(1, 0), unit(1, 1)])
        store.forget_vectors()
        assert (store.fingerprint(), store.count_missing(["acme"]), store.search_vector(unit(1, 0), ACME, 10)) == ("", 2, Found())
        embed(store, directions(1200, dimensions), "e2")
        nearest = store.search_vector(directions(1200, dimensions)[700], ACME, 1)
        assert (store.fingerprint(), nearest.considered) == ("e2", 1200) and nearest.matches[0][1] > 0.998

    @pytest.mark.parametrize("dimensions", [2, 100])
    def test_when_every_vector_is_gone_another_embedder_is_welcome(self, store: VectorIndex, dimensions: int) -> None:
        embed(store, directions(1200, 2))
        store.apply(batch(deleted=[("acme", f"{place:05}") for place in range(1200)]))
        assert store.fingerprint() == ""
        embed(store, directions(700, dimensions), "e2")
        nearest = store.search_vector(directions(700, dimensions)[400], ACME, 1)
        assert (store.fingerprint(), nearest.considered) == ("e2", 700) and nearest.matches[0][1] > 0.998

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
    """Items 00000, 00001, … with these vectors."""
    store.apply(batch(item(f"{place:05}") for place in range(len(vectors))))
    store.put_vectors({("acme", f"{place:05}"): vector for place, vector in enumerate(vectors)}, fingerprint)


class GraphStoreContract:
    """Override `store`; everything else is inherited."""

    @pytest.fixture
    def store(self) -> GraphStore:
        raise NotImplementedError("override the fixture `store`")

    def test_an_edge_comes_back_with_every_field(self, store: GraphStore) -> None:
        full = Edge("ä", "b", "knows üb", 0.1 + 0.2, "acme", "why", {"since": {"year": 2020}}, "zoo")
        link(store, full)
        assert store.edges_of([("acme", "ä")], ["acme", "zoo"]) == store.edges(["acme"], 10) == [full]

    def test_edges_are_found_from_both_ends(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("c", "a"), edge("b", "c"))
        assert store.edges_of([("acme", "a")], ["acme"]) == [edge("a", "b"), edge("c", "a")]

    def test_the_heaviest_come_first_and_ties_go_by_source_target_and_type(self, store: GraphStore) -> None:
        ordered = [edge("z", "a", 3), edge("a", "b"), edge("a", "c", type="x"), edge("a", "c", type="y"), edge("b", "a"), edge("a", "d", 0)]
        link(store, *ordered[::-1])
        assert store.edges_of([("acme", "a")], ["acme"]) == ordered

    def test_edges_of_many_keys_come_once_each(self, store: GraphStore) -> None:
        link(store, edge("a", "b", 3), edge("b", "c", 2), edge("x", "y"))
        asked = [("acme", "a"), ("acme", "b"), ("acme", "c"), ("acme", "a"), ("acme", "unknown"), ("nowhere", "a")]
        assert store.edges_of(asked, ["acme"]) == [edge("a", "b", 3), edge("b", "c", 2)]

    def test_no_keys_or_no_spaces_give_no_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        assert store.edges_of([], ["acme"]) == store.edges_of([("acme", "a")], []) == store.edges([], 10) == []

    def test_an_edge_replaces_the_one_of_its_key(self, store: GraphStore) -> None:
        link(store, edge("a", "b", 1, item_id="why"), edge("a", "b", 5, type="other"))
        store.apply(batch(edges=[edge("a", "b", 2, target_space="acme")]))
        assert store.edges_of([("acme", "a")], ["acme"]) == [edge("a", "b", 5, type="other"), edge("a", "b", 2, target_space="acme")]

    def test_a_self_loop_comes_once(self, store: GraphStore) -> None:
        link(store, edge("a", "a"))
        assert store.edges_of([("acme", "a")], ["acme"]) == store.edges(["acme"], 10) == [edge("a", "a")]

    def test_a_deleted_edge_is_gone_and_its_sisters_stay(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("a", "b", type="other"), edge("b", "a"))
        store.apply(batch(deleted_edges=[edge("a", "b").key]))
        assert store.edges_of([("acme", "b")], ["acme"]) == [edge("a", "b", type="other"), edge("b", "a")]

    def test_deleting_edges_that_are_not_there_is_harmless(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        store.apply(batch(deleted=[("acme", "x")], deleted_edges=[edge("b", "a").key, edge("a", "b", space="nowhere").key]))
        assert store.edges(["acme"], 10) == [edge("a", "b")]

    def test_a_deleted_item_takes_its_edges_along(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("b", "a"), edge("a", "a"), edge("b", "c"), edge("z", "a", space="zoo", target_space="acme"))
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.edges(["acme", "zoo"], 10) == [edge("b", "c")]
        assert store.edges_of([("zoo", "z"), ("acme", "a"), ("acme", "b")], ["acme", "zoo"]) == [edge("b", "c")]

    def test_an_updated_item_keeps_its_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("b", "a"))
        store.apply(batch([item("a", "new")]))
        assert store.edges_of([("acme", "a")], ["acme"]) == [edge("a", "b"), edge("b", "a")]

    def test_a_batch_that_fails_leaves_the_edges_alone(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        with pytest.raises((TypeError, WeftError)):
            store.apply(batch(edges=[edge("b", "a"), edge("a", "a", properties={"bad": {1, 2}})], deleted_edges=[edge("a", "b").key]))
        assert store.edges(["acme"], 10) == [edge("a", "b")]

    def test_only_the_types_asked_for_are_shown(self, store: GraphStore) -> None:
        link(store, edge("a", "b", type="x"), edge("a", "b", type="y"), edge("c", "a", type="z"))
        assert store.edges_of([("acme", "a")], ["acme"], ["z", "x", "unknown"]) == [edge("a", "b", type="x"), edge("c", "a", type="z")]

    def test_an_edge_into_a_space_that_is_not_named_is_invisible(self, store: GraphStore) -> None:
        link(store, edge("a", "b", target_space="zoo"))
        asked = [("acme", "a"), ("zoo", "b")]
        assert store.edges_of(asked, ["acme"]) == store.edges_of(asked, ["zoo"]) == []
        for key in asked:
            assert store.edges_of([key], ["zoo", "acme"]) == [edge("a", "b", target_space="zoo")]

    def test_the_same_id_in_another_space_has_other_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("a", "b", space="zoo"))
        assert store.edges_of([("zoo", "a")], ["acme", "zoo"]) == [edge("a", "b", space="zoo")]

    def test_a_hub_shows_its_heaviest_edges_in_each_direction(self, store: GraphStore) -> None:
        out = [edge("hub", f"{number:03}", number % 50) for number in range(500)]
        link(store, *out, *(edge(one.target, "hub", one.weight) for one in out))
        found = store.edges_of([("acme", "hub")], ["acme"], limit=15)
        expected = sorted(out, key=lambda one: (-one.weight, one.target))[:15]
        assert [one for one in found if one.source == "hub"] == expected
        assert [one.source for one in found if one.target == "hub"] == [one.target for one in expected]

    def test_the_limit_holds_for_each_key_and_counts_only_what_may_be_seen(self, store: GraphStore) -> None:
        hidden = [edge("a", name, 9, target_space="zoo") for name in "xyz"]
        link(store, *hidden, edge("a", "p", 8, type="other"), edge("a", "p", 2), edge("a", "q", 1), edge("b", "q", 0.5))
        found = store.edges_of([("acme", "a"), ("acme", "b")], ["acme"], ["related"], limit=1)
        assert found == [edge("a", "p", 2), edge("b", "q", 0.5)]
        assert store.edges_of([("acme", "a")], ["acme"], limit=0) == []

    def test_edges_lighter_than_asked_are_left_out(self, store: GraphStore) -> None:
        link(store, edge("a", "b", 0.5), edge("a", "c", 0.4999), edge("d", "a", 0.7), edge("e", "a", 0.1))
        assert store.edges_of([("acme", "a")], ["acme"], min_weight=0.5) == [edge("d", "a", 0.7), edge("a", "b", 0.5)]

    def test_edges_asked_for_by_key_come_in_the_order_asked(self, store: GraphStore) -> None:
        one, two, three = edge("a", "b", 0.5), edge("a", "b", type="x", properties={"x": 1}), edge("a", "b", target_space="zoo")
        link(store, one, two, three)
        unknown = [edge("b", "a").key, edge("a", "b", type="y").key, edge("a", "b", space="nowhere").key]
        assert store.get_edges([three.key, *unknown, one.key, two.key, one.key]) == [three, one, two, one]
        assert store.get_edges([]) == []

    @pytest.mark.parametrize("spaces", [("m", "k", "l"), ("l", "m", "k")], ids=str)
    def test_ties_between_spaces_do_not_depend_on_the_order_of_writing(self, store: GraphStore, spaces: tuple[str, ...]) -> None:
        for space in spaces:
            link(store, edge("a", "b", target_space=space), edge("b", "a", space=space, target_space="acme"))
        cut = store.edges_of([("acme", "a")], ["acme", *spaces], limit=2)
        assert [one.target_space for one in cut if one.source == "a"] == ["k", "l"]
        assert [one.space for one in cut if one.source == "b"] == ["k", "l"]

    @pytest.mark.parametrize("page", [1, 2, 3, 100])
    def test_edges_are_walked_exactly_once_in_the_order_of_keys(self, store: GraphStore, page: int) -> None:
        ends = [(source, target) for source in "cab" for target in "bac"]
        own = [edge(source, target, type=type) for source, target in ends for type in ("y", "x")]
        cross = [edge("b", "a", target_space="zoo"), edge("b", "a", target_space="aaa"), edge("a", "a", space="zoo")]
        link(store, *own, *cross, edge("a", "b", space="other"))
        found: list[Edge] = []
        while part := store.edges(["zoo", "acme"], page, found[-1] if found else None):
            found += part
        assert found == sorted([*own, *cross], key=lambda one: one.key)

    def test_edges_go_on_behind_one_that_is_not_there(self, store: GraphStore) -> None:
        link(store, edge("a", "a"), edge("a", "c"), edge("b", "a"))
        assert store.edges(["acme"], 10, edge("a", "b")) == [edge("a", "c"), edge("b", "a")]
        assert store.edges(["acme"], 0) == []


def link(store: GraphStore, *edges: Edge) -> None:
    """The edges and the items at their ends."""
    ends = sorted({end for one in edges for end in (one.source_key, one.target_key)})
    store.apply(batch([item(id, space=space) for space, id in ends], edges))


class StoreContract(ItemStoreContract, TextIndexContract, VectorIndexContract, GraphStoreContract):
    """For a store that plays all four roles: override `store`."""
