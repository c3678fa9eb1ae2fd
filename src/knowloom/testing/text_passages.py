"""The contract of text indexes for items of several passages."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowloom.model import Filter, Item, Key, Kind
from knowloom.ports import TextIndex
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NOW,
    ItemFields,
    allowed,
    assert_close,
    batch,
    bm25,
    few_examples,
    item,
    long_item,
    matches,
    section,
    settle,
    some_filters,
    some_items,
)
from knowloom.text.passages import PASSAGE_SIZE, STRETCH, split_passages
from knowloom.text.words import count_passage_terms

LONG, SHORT = ("acme", "long"), ("acme", "short")


class TextPassageContract:
    """The promises of `ports.TextIndex` for items of several passages.

    Statistics are over passages. A passage of several has three tenths of its score from its item,
    and an item scores like its best passage. Limits, filters and counts are of items.
    """

    @pytest.fixture
    def store(self) -> TextIndex:
        raise NotImplementedError("override the fixture `store`")

    @pytest.mark.parametrize("seed", range(3))
    def test_an_item_scores_like_its_best_passage(self, store: TextIndex, seed: int) -> None:
        stored = babbling_items(seed)
        store.apply(batch(stored))
        expected = passage_scores(stored, "zeta tau")
        best = {key: max(scores) for key, scores in expected.items() if max(scores)}
        result = store.search_text("zeta tau", ACME, 100, also=[item.key for item in stored])
        assert dict(result.matches) == pytest.approx(best, abs=1e-6)
        assert result.others == dict(result.matches) and result.considered == len(best)
        keys = [item.key for item in stored]
        assert store.search_text("zeta tau", ACME, 0, also=keys).others == result.others

    @pytest.mark.parametrize("seed", range(3))
    def test_each_passage_has_a_score(self, store: TextIndex, seed: int) -> None:
        stored = babbling_items(seed)
        store.apply(batch(stored))
        keys = [item.key for item in stored][::-1]
        actual = store.score_text_passages("zeta tau", ACME, [*keys, ("acme", "missing")])
        expected = passage_scores(stored, "zeta tau")
        several = [key for key in keys if len(expected[key]) > 1]
        assert list(actual) == several and 0 < len(several) < len(keys)
        assert_close(actual, {key: expected[key] for key in several}, 1e-6)

    def test_passages_without_a_term_of_the_text_score_0(self, store: TextIndex) -> None:
        store.apply(batch([long_item("long", "zeta", "rho", "tau"), item("short", "rho")]))
        first, second, third = store.score_text_passages("rho", ACME, [LONG, SHORT])[LONG]
        assert first == third == 0 < second
        for text in ("unknown", "", "the"):
            scores = store.score_text_passages(text, ACME, [LONG, SHORT])
            assert scores == {LONG: (0, 0, 0)}

    def test_items_that_the_filter_excludes_have_no_passages(self, store: TextIndex) -> None:
        faq = long_item("faq", "zeta", "rho", type="faq")
        store.apply(batch([faq, long_item("long", "zeta", "rho"), replace(faq, space="zoo")]))
        keys = [("acme", "faq"), LONG, ("zoo", "faq"), ("nowhere", "faq")]
        for only, expected in (
            (replace(ACME, types=("faq",)), keys[:1]),
            (replace(BOTH, types=("faq",)), [keys[0], keys[2]]),
            (Filter(("zoo",)), keys[2:3]),
            (Filter(()), []),
        ):
            assert list(store.score_text_passages("rho", only, keys)) == expected

    def test_a_limit_counts_items(self, store: TextIndex) -> None:
        many = long_item("many", *["zeta"] * 40)
        few = [item(f"{number}", "zeta" + " rho" * number) for number in range(1, 9)]
        store.apply(batch([many, *few]))
        for limit in (1, 3, 8, 9, 20):
            result = store.search_text("zeta", ACME, limit)
            assert (len(result.matches), result.considered) == (min(limit, 9), 9)
            assert len(set(result.matches)) == len(result.matches)

    def test_ties_of_long_items_are_ordered_by_id_and_space(self, store: TextIndex) -> None:
        for id in "cabd":
            for space in ("zoo", "acme"):
                store.apply(batch([long_item(id, "rho", "zeta", "rho", space=space)]))
        result = store.search_text("zeta", BOTH, 5)
        expected = [*[("acme", "a"), ("zoo", "a")], *[("acme", "b"), ("zoo", "b")], ("acme", "c")]
        assert [key for key, _ in result.matches] == expected and result.considered == 8

    def test_updates_replace_all_passages(self, store: TextIndex) -> None:
        store.apply(batch([item("other", "zeta rho tau omega")]))
        states: list[Sequence[str]] = [
            *(["zeta", "zeta"], ["rho", "zeta", "rho"], ["rho"] * 9, ["tau", "rho"], ["zeta"] * 2),
            *(["rho", "tau"], ["tau"], ["zeta", "omega"] * 3),
        ]
        for words in states:
            value = long_item("long", *words) if len(words) > 1 else item("long", words[0])
            store.apply(batch([value]))
            for word in ("zeta", "rho", "tau", "omega"):
                result = store.search_text(word, ACME, 10, also=[LONG])
                assert (LONG in dict(result.matches)) == (LONG in result.others) == (word in words)
            scores = store.score_text_passages(words[0], ACME, [LONG])
            flags = [score > 0 for score in scores.get(LONG, ())]
            expected = [word == words[0] for word in words] if len(words) > 1 else []
            assert flags == expected
        store.apply(batch(deleted=[LONG]))
        assert matches(store.search_text("zeta omega", ACME, 10)) == ["other"]
        assert store.score_text_passages("zeta", ACME, [LONG]) == {}

    def test_one_batch_may_write_a_long_item_twice(self, store: TextIndex) -> None:
        long, longer = long_item("long", "zeta", "rho"), long_item("long", "tau", "zeta", "tau")
        store.apply(batch([long, longer, item("short", "rho"), item("long", "rho"), longer]))
        assert matches(store.search_text("rho", ACME, 10)) == ["short"]
        assert len(store.score_text_passages("tau", ACME, [LONG])[LONG]) == 3
        store.apply(batch([long], deleted=[LONG]))
        assert len(store.score_text_passages("rho", ACME, [LONG])[LONG]) == 2

    @pytest.mark.parametrize("seed", range(2))
    def test_the_history_of_passages_changes_no_score(self, store: TextIndex, seed: int) -> None:
        stored = babbling_items(seed)
        store.apply(batch(stored))
        keys, chance = [item.key for item in stored], random.Random(seed)
        before = store.search_text("zeta tau", ACME, 7, also=keys[:9])
        for value in chance.sample(stored, len(stored)):
            longer = replace(value, text=value.text + section("psi") * chance.randint(1, 4))
            store.apply(batch([longer], deleted=[chance.choice(keys)]))
        store.apply(batch(stored))
        assert store.search_text("zeta tau", ACME, 7, also=keys[:9]) == before

    def test_filters_apply_to_all_passages_of_an_item(self, store: TextIndex) -> None:
        fields: dict[str, ItemFields] = {
            "kind": {"kind": Kind.RULE},
            "type": {"type": "faq"},
            "tag": {"tags": ("vip", "eu")},
            "subject": {"subject": "anna"},
            "confidence": {"confidence": 0.9},
            "old": {"created_at": NOW - timedelta(days=9)},
            "expired": {"valid_to": NOW},
        }
        words = ("rho", "rho", "zeta")
        store.apply(batch(long_item(id, *words, **values) for id, values in fields.items()))
        store.apply(batch([long_item("plain", *words)]))
        everything, filters = (
            [*fields, "plain"],
            {
                "kind": replace(ACME, kinds=(Kind.RULE,)),
                "type": replace(ACME, types=("faq",)),
                "tag": replace(ACME, tags=("eu", "vip")),
                "subject": replace(ACME, subjects=("anna",)),
                "confidence": replace(ACME, min_confidence=0.5),
                "old": replace(ACME, created_to=NOW - timedelta(days=1)),
            },
        )
        for id, only in filters.items():
            assert matches(store.search_text("zeta", only, 10)) == [id]
            assert [item.id for item in store.find(only, 10)] == [id]
        for id, only in (
            ("type", replace(ACME, exclude_types=("faq",))),
            ("old", replace(ACME, created_from=NOW - timedelta(days=1))),
            ("expired", replace(ACME, valid_at=NOW)),
        ):
            rest = sorted({*everything} - {id})
            assert sorted(matches(store.search_text("zeta", only, 10))) == rest
            assert [item.id for item in store.find(only, 10)] == rest
            assert [item.id for item in store.find(only, 2, ("acme", rest[2]))] == rest[3:5]

    @few_examples
    @given(items=some_items, only=some_filters, chance=st.randoms(use_true_random=False))
    def test_random_filters_allow_the_same_long_items(
        self, store: TextIndex, items: list[Item], only: Filter, chance: random.Random
    ) -> None:
        longer = [
            replace(item, text=item.text + section("shared") * chance.randint(0, 3))
            for item in items
        ]
        moved, only = settle(longer, only)
        store.apply(batch(moved))
        expected = allowed(moved, only)
        result = store.search_text("shared", only, 100, also=[item.key for item in moved])
        assert {key for key, _ in result.matches} == expected == {*result.others}
        assert result.considered == len(expected) == len(result.matches)
        several = {item.key for item in moved if item.key in expected and is_long(item)}
        assert {*store.score_text_passages("shared", only, sorted(expected))} == several
        assert {item.key for item in store.find(only, 100)} == expected

    def test_a_text_of_one_passage_is_not_cut(self, store: TextIndex) -> None:
        assert store.passage_size() == PASSAGE_SIZE
        longest = ("zeta " * PASSAGE_SIZE)[: int(STRETCH * PASSAGE_SIZE)]
        store.apply(batch([item("long", longest + "zeta"), item("short", longest)]))
        assert list(store.score_text_passages("zeta", ACME, [SHORT, LONG])) == [LONG]

    def test_metadata_belongs_to_the_first_passage_and_the_title_to_all(
        self, store: TextIndex
    ) -> None:
        fields: ItemFields = {
            "title": "psi",
            "summary": "omega",
            "tags": ("kappa",),
            "properties": {"price": "chi"},
        }
        store.apply(batch([long_item("long", "zeta", "rho", "tau", **fields)]))
        for word in ("omega", "kappa", "chi"):
            first, *rest = store.score_text_passages(word, ACME, [LONG])[LONG]
            assert first > 0 and rest == [0, 0]
        assert min(store.score_text_passages("psi", ACME, [LONG])[LONG]) > 0

    @pytest.mark.parametrize("size", [300, 2000])
    def test_items_can_be_cut_to_another_size(self, store: TextIndex, size: int) -> None:
        stored = [
            *babbling_items(5),
            item("prose", " ".join(["zeta rho tau omega."] * 400)),
            item("prose", "kappa " * 400, space="zoo"),
        ]
        store.apply(batch(stored))
        keys, words = [item.key for item in stored], "zeta tau kappa"
        before = store.search_text(words, BOTH, 50), store.score_text_passages(words, BOTH, keys)
        store.resegment(size)
        assert store.passage_size() == size
        scores = store.score_text_passages(words, BOTH, keys)
        counts = {item.key: len(split_passages(item.text, size)) for item in stored}
        assert {key: len(values) for key, values in scores.items()} == {
            key: count for key, count in counts.items() if count > 1
        }
        assert store.search_text(words, BOTH, 50) != before[0]
        store.resegment(PASSAGE_SIZE)
        after = store.search_text(words, BOTH, 50), store.score_text_passages(words, BOTH, keys)
        assert after == before

    def test_later_writes_are_cut_to_the_new_size(self, store: TextIndex) -> None:
        text = " ".join(["zeta rho tau omega."] * 400)
        store.resegment(300)
        store.apply(batch([item("long", text), item("more", "zeta")]))
        (scores,) = store.score_text_passages("zeta", ACME, [LONG]).values()
        assert len(scores) == len(split_passages(text, 300))
        store.apply(batch([item("long", text[:300])], deleted=[("acme", "more")]))
        assert store.score_text_passages("zeta", ACME, [LONG]) == {}
        assert matches(store.search_text("zeta", ACME, 10)) == ["long"]

    def test_a_rebuilt_index_has_the_same_passages(self, store: TextIndex) -> None:
        stored = babbling_items(2)
        store.apply(batch(stored))
        store.resegment(400)
        keys = [item.key for item in stored]
        before = store.search_text("zeta", ACME, 5), store.score_text_passages("rho", ACME, keys)
        store.rebuild_words(stored[::-1])
        after = store.search_text("zeta", ACME, 5), store.score_text_passages("rho", ACME, keys)
        assert after == before
        store.rebuild_words(stored[:1])
        assert len(store.search_text("zeta rho tau psi omega kappa", ACME, 100).matches) == 1

    def test_a_text_of_thousands_of_passages_is_searched(self, store: TextIndex) -> None:
        words = ["rho"] * 1500
        words[1234] = "zeta"
        store.apply(batch([long_item("long", *words), *(item(id, "rho tau") for id in "abc")]))
        (scores,) = store.score_text_passages("zeta", ACME, [LONG]).values()
        assert [number for number, score in enumerate(scores) if score] == [1234]
        assert sorted(matches(store.search_text("rho", ACME, 4))) == ["a", "b", "c", "long"]


def babbling_items(seed: int) -> list[Item]:
    """Return random items, about half of them with several passages."""
    chance = random.Random(seed)
    words = ["kappa", "zeta", "rho", "tau", "omega", "psi"]
    items = []
    for number in range(30):
        sections = [
            " ".join(chance.choices(words, k=chance.randint(130, 160)))
            for _ in range(chance.choice([1, 1, 2, 3, 5]))
        ]
        text = "".join(f"\n\n# {words[n]} head\n\n{text}" for n, text in enumerate(sections))
        items.append(item(f"{number:02}", text, title=chance.choice(["", "zeta"])))
    return items


def passage_scores(items: Sequence[Item], query: str) -> dict[Key, list[float]]:
    """Compute the score of each passage by the formula, from the terms of `text.words`."""
    documents: dict[Key, str] = {}
    wholes: dict[Key, str] = {}
    for value in items:
        passages = count_passage_terms(value, PASSAGE_SIZE)
        for number, counts in enumerate(passages):
            documents[value.id, f"{number}"] = " ".join(counts.elements())
        wholes[value.key] = " ".join(sum(passages, Counter()).elements())
    scores, item_scores = bm25(query, documents), bm25(query, wholes, documents.values())
    result: dict[Key, list[float]] = {}
    for value in items:
        values = [scores.get(key, 0.0) for key in documents if key[0] == value.id]
        if len(values) > 1:
            values = [score and 0.7 * score + 0.3 * item_scores[value.key] for score in values]
        result[value.key] = values
    return result


def is_long(item: Item) -> bool:
    return len(split_passages(item.text, PASSAGE_SIZE)) > 1
