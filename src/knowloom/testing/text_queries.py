"""The contract of text indexes for questions: their phrasing, repetitions, names and accents."""

from __future__ import annotations

import pytest

from knowloom.ports import TextIndex
from knowloom.testing.knowledge import ACME, BOTH, babble, batch, bm25, item, long_item, matches


class TextQueryContract:
    """The promises of `ports.TextIndex` for the words of a query.

    `text.query_terms` weighs them: those of the phrasing count little or nothing, repeated ones
    more. Accents are ignored where letters remain the same without them.
    """

    @pytest.fixture
    def store(self) -> TextIndex:
        raise NotImplementedError("override the fixture `store`")

    @pytest.mark.parametrize("query", ["zeta zeta zeta tau", "zeta tau psi zeta tau zeta sigma"])
    def test_repetitions_of_a_query_term_saturate(self, store: TextIndex, query: str) -> None:
        texts = {("acme", f"{number}"): text for number, text in enumerate(babble(60, seed=8))}
        store.apply(batch(item(id, text) for (_, id), text in texts.items()))
        result = store.search_text(query, ACME, 100)
        assert dict(result.matches) == pytest.approx(bm25(query, texts), abs=2e-6)

    @pytest.mark.parametrize(
        "question",
        [
            "Could you please tell me what you know about the turbine?",
            "i would like to know when and where and why we should do it with a turbine",
            "Können Sie mir bitte etwas über die Turbine und wie",
            "¿Qué es lo más de la turbine y por qué?",
            "Quelle est la turbine qui est dans le, et pourquoi?",
            "Что это за turbine и где она была?",
        ],
    )
    def test_the_subject_counts_more_than_the_phrasing(
        self, store: TextIndex, question: str
    ) -> None:
        fillers = [item(f"{number}", f"parcel {number} in a bag") for number in range(20)]
        phrasing = question.replace("turbine", "").replace("Turbine", "")
        store.apply(batch([item("a", phrasing), item("b", "A turbine in the hall"), *fillers]))
        assert matches(store.search_text(question, ACME, 1)) == ["b"]

    def test_the_phrasing_lowers_the_score_of_its_subject(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "A turbine"), item("b", "What now?"), item("c", "parcel")]))
        keys = [("acme", "a")]
        short, long = (store.search_text(query, ACME, 9) for query in ("turbine", "what turbine"))
        assert dict(short.matches)[keys[0]] == pytest.approx(
            2 * dict(long.matches)[keys[0]], abs=2e-6
        )
        assert long.others == {} and store.search_text(
            "what turbine", ACME, 0, also=keys
        ).others == {keys[0]: dict(long.matches)[keys[0]]}

    def test_frequent_words_of_a_query_match_nothing(self, store: TextIndex) -> None:
        store.apply(batch([item("a", "The refund"), item("b", "It is in the bag and not on it")]))
        result = store.search_text("Is the refund in it?", ACME, 10)
        assert (matches(result), result.considered) == (["a"], 1)
        assert store.search_text("refund", ACME, 10) == result

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("to be or not to be", "To be, or not to be: that is the question"),
            ("The Who", "Who toured in 1969"),
            ("it", "It by Stephen King"),
            ("Who's Who", "Who's Who of 1990"),
            ("WHAT IS IT", "What is it"),
            ("wer ist das", "Wer ist das"),
        ],
    )
    def test_a_query_of_stop_words_alone_matches_them(
        self, store: TextIndex, query: str, text: str
    ) -> None:
        store.apply(batch([item("a", text), item("b", "Parcels on a shelf")]))
        assert matches(store.search_text(query, ACME, 10))[:1] == ["a"]

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("budget of IT", "The budget; it grew"),
            ("IT budget", "The budget; it grew"),
            ("the budget of The Who", "The budget; who else?"),
            ("the budget of Will Smith", "The budget will grow"),
            ("a budget in World War I", "World budget of what I saw"),
            ("Dr. No and his budget", "The budget? No."),
            ("Vitamin A budget", "A budget"),
        ],
    )
    def test_a_capitalised_stop_word_inside_a_sentence_counts_as_a_name(
        self, store: TextIndex, query: str, text: str
    ) -> None:
        store.apply(batch([item("a", "Budgets grew. Budgets fell"), item("b", text)]))
        fillers = [item(f"{number}", f"parcel {number}") for number in range(8)]
        store.apply(batch(fillers))
        by_name = dict(store.search_text(query, ACME, 10).matches)
        otherwise = dict(store.search_text(query.lower(), ACME, 10).matches)
        gap, lower_gap = (
            scores["acme", "b"] - scores["acme", "a"] for scores in (by_name, otherwise)
        )
        assert gap > lower_gap

    @pytest.mark.parametrize(
        ("word", "other"),
        [
            ("café", "cafe"),
            ("CAFÉ", "cafe\u0301"),
            ("Łódź", "lodz"),
            ("Straße", "STRASSE"),
            ("Ελλάδα", "ελλαδα"),
            ("ещё", "еще"),
            ("за\u0301мок", "замок"),
            ("مُحَمَّد", "محمد"),
            ("שָׁלוֹם", "שלום"),
            ("İzmir", "izmir"),
        ],
    )
    def test_words_match_regardless_of_accents(
        self, store: TextIndex, word: str, other: str
    ) -> None:
        store.apply(batch([item("a", word), item("b", other, space="zoo")]))
        for query in (word, other):
            assert matches(store.search_text(query, BOTH, 10)) == ["a", "b"]

    @pytest.mark.parametrize(
        ("word", "other"),
        [
            ("край", "краи"),
            ("がく", "かく"),
            ("कि", "की"),
            ("हिन्दी", "हन्द"),
            ("ไม่", "ไม้"),
            ("їжак", "іжак"),
        ],
    )
    def test_marks_that_make_another_letter_count(
        self, store: TextIndex, word: str, other: str
    ) -> None:
        store.apply(batch([item("a", word), item("b", other)]))
        assert matches(store.search_text(word, ACME, 1)) == ["a"]
        assert matches(store.search_text(other, ACME, 1)) == ["b"]

    def test_the_words_of_a_question_may_be_in_several_passages(self, store: TextIndex) -> None:
        store.apply(
            batch(
                [
                    long_item("a", "zeta rho", "omega rho", "omega rho"),
                    long_item("b", "zeta rho", "tau rho", "psi rho"),
                    *(long_item(f"{number}", "rho", "omega", "kappa") for number in range(8)),
                ]
            )
        )
        scores = dict(store.search_text("zeta tau psi", ACME, 2).matches)
        assert scores["acme", "b"] > scores["acme", "a"]
        passages = store.score_text_passages("zeta tau psi", ACME, [("acme", "a"), ("acme", "b")])
        assert {key: max(values) for key, values in passages.items()} == scores
        assert passages["acme", "a"][1:] == (0, 0) and min(passages["acme", "b"]) > 0
