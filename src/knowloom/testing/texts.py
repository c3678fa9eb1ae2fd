"""The contract of text indexes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowloom.errors import KnowloomError
from knowloom.model import Filter, Item
from knowloom.ports import IndexResult, TextIndex
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NASTY,
    NOBODY,
    SCRIPTS,
    allowed,
    babble,
    batch,
    bm25,
    few_examples,
    item,
    matches,
    settle,
    some_filters,
    some_items,
)
from knowloom.testing.text_passages import TextPassageContract
from knowloom.testing.text_queries import TextQueryContract
from knowloom.text.words import extract_all_terms


class TextIndexContract(TextPassageContract, TextQueryContract):
    """The promises of `ports.TextIndex`: override the fixture `store` with an empty store.

    Scores are BM25 over the statistics of the filter's spaces, divided by the maximum of any text.
    Ties are ordered by (id, space). Any text is a valid query. The order of writes is irrelevant.
    """

    @pytest.fixture
    def store(self) -> TextIndex:
        raise NotImplementedError("override the fixture `store`")

    def test_items_that_share_a_term_are_found_best_first(self, store: TextIndex) -> None:
        texts = {"a": "refund", "b": "refund policy", "c": "parcel and a lot of other words"}
        store.apply(batch(item(id, text) for id, text in texts.items()))
        assert matches(store.search_text("refund policy", ACME, 10)) == ["b", "a"]

    def test_scores_are_between_0_and_1(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [
                    item("a", "refund " * 1000, title="refund " * 1000),
                    item("b", "refund"),
                    item("c", "x " * 1000),
                ]
            )
        )
        scores = [score for _, score in store.search_text("refund", ACME, 10).matches]
        assert len(scores) == 2 and 1 > scores[0] > scores[1] > 0

    def test_scores_match_the_bm25_formula(self, store: TextIndex) -> None:
        texts = {("acme", f"{number}"): text for number, text in enumerate(babble(60, seed=7))}
        store.apply(batch(item(id, text) for (_, id), text in texts.items()))
        result = store.search_text("zeta tau psi sigma", ACME, 100)
        assert dict(result.matches) == pytest.approx(bm25("zeta tau psi sigma", texts), abs=2e-6)

    def test_words_of_the_title_count_twice(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "kappa tau", title="zeta rho"), item("b", "kappa zeta")]))
        texts = {("acme", "a"): "zeta rho zeta rho kappa tau", ("acme", "b"): "kappa zeta"}
        assert dict(store.search_text("zeta tau", ACME, 9).matches) == pytest.approx(
            bm25("zeta tau", texts), abs=2e-6
        )

    def test_a_word_counts_at_most_255_times_in_one_text(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "x " * 400), item("b", "x " * 399 + "y")]))
        scores = dict(store.search_text("x", ACME, 10).matches)
        assert scores["acme", "a"] == scores["acme", "b"]

    def test_ties_go_by_id_and_then_by_space(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [
                    item("b", "refund", space="zoo"),
                    item("c", "refund"),
                    item("b", "refund"),
                    item("a", "refund", space="zoo"),
                ]
            )
        )
        best = [key for key, _ in store.search_text("refund", Filter(("zoo", "acme")), 10).matches]
        assert best == [("zoo", "a"), ("acme", "b"), ("zoo", "b"), ("acme", "c")]

    @pytest.mark.parametrize("limit", range(6))
    def test_the_limit_cuts_ties_in_order(self, store: TextIndex, limit: int) -> None:
        store.apply(batch([item("z", "refund refund"), *(item(name, "refund") for name in "dbca")]))
        assert (
            matches(store.search_text("refund", ACME, limit)) == ["z", "a", "b", "c", "d"][:limit]
        )

    def test_another_form_of_the_word_finds_it(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "a refund"), item("b", "Connections")]))
        assert matches(store.search_text("REFUNDS", ACME, 10)) == ["a"]
        assert matches(store.search_text("connected", ACME, 10)) == ["b"]

    @pytest.mark.parametrize("field", ["title", "summary", "tags", "properties"])
    def test_title_summary_tags_and_property_values_are_found(
        self, store: TextIndex, field: str
    ) -> None:
        value: Any = {"tags": ("zebra",), "properties": {"animal": "zebra"}}.get(field, "zebra")
        store.apply(
            batch(
                [
                    item("a", "text", **{field: value}),
                    item("b", "text", properties={"zebra": "name"}),
                ]
            )
        )
        assert matches(store.search_text("zebra", ACME, 10)) == ["a"]

    @pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
    def test_text_of_any_script_is_found(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", f"see {text}"), item("b", "see nothing"), item("c", "🧵")]))
        assert (
            matches(store.search_text(text, ACME, 10))
            == matches(store.search_text(text.upper(), ACME, 10))
            == ["a"]
        )

    @pytest.mark.parametrize("text", ["退款", "政策", "返金", "การ"])
    def test_scripts_without_blanks_are_found_by_their_parts(
        self, store: TextIndex, text: str
    ) -> None:
        store.apply(
            batch(
                [item("a", "退款政策说明"), item("b", "返金ポリシー"), item("c", "นโยบายการคืนเงิน")]
            )
        )
        assert matches(store.search_text(text, ACME, 10)) == [
            {"退": "a", "政": "a", "返": "b", "ก": "c"}[text[0]]
        ]

    @pytest.mark.parametrize("text", NASTY, ids=lambda text: ascii(text)[:20])
    def test_no_text_is_query_syntax(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", "refund"), item("b", "parcel", type="faq"), item("c")]))
        alone, among = (
            store.search_text(text, ACME, 10),
            store.search_text(f"{text} parcel", ACME, 10),
        )
        assert matches(alone) == (["a"] if "refund" in text else [])
        assert "b" in matches(among) and "c" not in matches(among)

    @pytest.mark.parametrize("text", ["", " \n", "?!", "🧵"])
    def test_a_text_without_words_finds_nothing(self, store: TextIndex, text: str) -> None:
        store.apply(batch([item("a", "the 🧵"), item("b")]))
        assert store.search_text(text, ACME, 10, also=[("acme", "a")]) == IndexResult()

    def test_an_empty_store_finds_nothing(self, store: TextIndex) -> None:
        assert store.search_text("refund", ACME, 10) == IndexResult()

    def test_a_filter_without_spaces_finds_nothing(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund")]))
        assert store.search_text("refund", NOBODY, 10, also=[("acme", "a")]) == IndexResult()

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

    def test_a_batch_that_fails_indexes_nothing(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund")]))
        before = store.search_text("refund", ACME, 10)
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(
                batch(
                    [
                        item("a", "parcel"),
                        item("b", "refund"),
                        item("c", properties={"bad": {1, 2}}),
                    ]
                )
            )
        assert store.search_text("refund", ACME, 10) == before

    def test_with_a_limit_of_0_only_the_named_keys_are_scored(self, store: Any) -> None:
        items = [
            item(
                str(number),
                "refund " * (number % 4) + "parcel monday " * (number % 3),
                type=("faq", "note")[number % 2],
            )
            for number in range(40)
        ]
        store.apply(
            batch([*items, *(item(str(number), "refund", space="zoo") for number in range(3))])
        )
        store.apply(batch([item("7", "refund again")], deleted=[("acme", "9")]))
        keys = [
            ("zoo", "1"),
            *(("acme", str(number)) for number in (30, 2, 7, 9, 11, 99)),
            ("nowhere", "1"),
        ]
        for only in (ACME, BOTH, replace(BOTH, types=("faq",))):
            for text in ("refund", "parcel refund nothing", "", "unknown"):
                result = store.search_text(text, only, 0, also=keys)
                assert result.matches == ()
                assert result.others == store.search_text(text, only, 1000, also=keys).others
                assert list(result.others) == list(
                    store.search_text(text, only, 1000, also=keys).others
                )

    def test_named_keys_get_the_score_they_would_rank_with(self, store: TextIndex) -> None:
        store.apply(
            batch(item(f"{number}", "refund " * number + "parcel " * 9) for number in range(1, 10))
        )
        everyone = dict(store.search_text("refund", ACME, 100).matches)
        result = store.search_text(
            "refund", ACME, 2, also=[("acme", "1"), ("acme", "9"), ("acme", "x"), ("nowhere", "1")]
        )
        assert (matches(result), result.others) == (
            ["9", "8"],
            {key: everyone[key] for key in (("acme", "1"), ("acme", "9"))},
        )

    def test_named_keys_must_share_a_term_and_pass_the_filter(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [
                    item("a", "parcel"),
                    item("b", "refund", type="faq"),
                    item("c", "refund"),
                    item("d", "refund", space="zoo"),
                ]
            )
        )
        keys = [("acme", "a"), ("acme", "b"), ("acme", "c"), ("zoo", "d")]
        assert list(
            store.search_text("refund", replace(ACME, types=("faq",)), 10, also=keys).others
        ) == [("acme", "b")]

    def test_a_score_too_small_to_show_is_still_a_match(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [
                    item("a", "zeta", summary="rho " * 20_000),
                    *(item(f"{number}", "zeta") for number in range(300)),
                ]
            )
        )
        question = "zeta " + " ".join(f"w{number}" for number in range(500))
        result = store.search_text(question, ACME, 1000, also=[("acme", "a")])
        assert dict(result.matches)["acme", "a"] == result.others["acme", "a"] < 1e-5

    def test_matching_items_are_counted(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [
                    *(
                        item(f"{number}", "refund", type="faq" if number < 5 else "")
                        for number in range(20)
                    ),
                    item("x", "parcel"),
                ]
            )
        )
        assert store.search_text("refund", ACME, 3).considered == 20
        assert store.search_text("refund", replace(ACME, types=("faq",)), 3).considered == 5

    @few_examples
    @given(some_items, some_filters, st.integers(1, 30))
    def test_text_search_returns_what_the_filter_allows(
        self, store: TextIndex, items: list[Item], only: Filter, limit: int
    ) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        expected = allowed(items, only)
        result = store.search_text("shared", only, limit, also=[item.key for item in items])
        assert {key for key, _ in result.matches} <= expected == set(result.others)
        assert (len(result.matches), result.considered) == (
            min(limit, len(expected)),
            len(expected),
        )
        assert (
            list(result.matches)
            == sorted(result.others.items(), key=lambda pair: (-pair[1], pair[0][1], pair[0][0]))[
                :limit
            ]
        )

    @few_examples
    @given(some_items, some_items)
    def test_spaces_outside_the_filter_change_nothing(
        self, store: TextIndex, items: list[Item], others: list[Item]
    ) -> None:
        items, only = settle(items, Filter(("one", "two")))
        elsewhere, _ = settle(others)
        store.apply(batch(items))
        before = store.search_text(
            "refund shared anna", only, 10, also=[item.key for item in items]
        )
        store.apply(batch(elsewhere))
        assert (
            store.search_text(
                "refund shared anna", only, 10, also=[item.key for item in [*items, *elsewhere]]
            )
            == before
        )

    @few_examples
    @given(some_items.filter(bool))
    def test_two_named_spaces_share_their_statistics(
        self, store: TextIndex, items: list[Item]
    ) -> None:
        items, only = settle(items, Filter(("one", "two")))
        store.apply(batch(replace(item, tags=(), properties={}) for item in items))
        texts = {item.key: analyse(f"{item.title} {item.title} {item.text}") for item in items}
        question = analyse("refund shared anna")
        assert dict(store.search_text("refund shared anna", only, 100).matches) == pytest.approx(
            bm25(question, texts), abs=2e-6
        )

    def test_naming_a_space_twice_changes_nothing(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [item("a", "refund"), item("b", "refund parcel"), item("c", "water", space="zoo")]
            )
        )
        assert store.search_text(
            "refund", Filter(("acme", "zoo", "acme", "x")), 10
        ) == store.search_text("refund", BOTH, 10)

    @pytest.mark.parametrize("seed", range(3))
    def test_the_order_of_writing_changes_no_answer(self, store: TextIndex, seed: int) -> None:
        stored = [item(f"{number}", text) for number, text in enumerate(babble(50, seed))]
        store.apply(batch(stored))
        before = store.search_text("zeta tau", ACME, 7, also=[("acme", "5")])
        store.apply(batch(deleted=[item.key for item in stored]))
        for value in random.Random(seed).sample(stored, len(stored)):
            store.apply(batch([value]))
        assert store.search_text("zeta tau", ACME, 7, also=[("acme", "5")]) == before

    def test_a_rebuilt_index_returns_the_same_results(self, store: TextIndex) -> None:
        stored = [
            item(f"{number}", "refund " * number + "parcel", type="faq") for number in range(20)
        ]
        store.apply(batch([*stored, item("z", "refund", space="zoo")]))
        before = store.search_text("refund", replace(BOTH, types=("faq",)), 10)
        store.rebuild_words(iter([item("z", "refund", space="zoo"), *stored[::-1]]))
        assert store.search_text("refund", replace(BOTH, types=("faq",)), 10) == before

    def test_rebuilding_removes_the_terms_of_omitted_items(self, store: TextIndex) -> None:
        store.apply(
            batch([item("a", "refund"), item("b", "refund"), item("c", "refund", space="zoo")])
        )
        store.rebuild_words([item("a", "refund")])
        assert matches(store.search_text("refund", BOTH, 10)) == ["a"]

    def test_rebuilding_ignores_items_that_were_never_stored(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund")]))
        before = store.search_text("refund", BOTH, 10)
        store.rebuild_words(
            [item("a", "refund"), item("x", "refund"), item("x", "refund", space="zoo")]
        )
        assert store.search_text("refund", BOTH, 10) == before

    def test_writing_goes_on_after_a_rebuild(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "refund"), item("b", "refund")]))
        store.rebuild_words([item("a", "refund"), item("b", "refund")])
        store.apply(batch([item("a", "parcel"), item("c", "refund")], deleted=[("acme", "b")]))
        assert matches(store.search_text("refund", ACME, 10)) == ["c"]


def analyse(text: str) -> str:
    return " ".join(extract_all_terms(text))
