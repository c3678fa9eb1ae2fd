"""Weights of query terms: phrasing, names, repetitions and languages."""

from __future__ import annotations

import pytest

from knowloom.text.query_terms import K3, STOP_WORD_WEIGHT, weigh_terms
from knowloom.text.stop_words import FREQUENT_WORDS, STOP_WORDS, detect_language
from knowloom.text.words import extract_all_terms


def content_terms(query: str) -> set[str]:
    return {term for term, weight in weigh_terms(query).items() if weight >= 1}


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("what is the capital of France?", {"capit", "franc"}),
        ("Could you please tell me who wrote Emma", {"wrote", "emma"}),
        ("I don't know, and I can't find: what's a refund?", {"find", "refund"}),
        ("WHAT IS THE CAPITAL?", {"capit"}),
        ("Refunds. The policy. What does it say?", {"refund", "polici", "say"}),
        ("", set()),
        ("?!", set()),
        ("ـ", set()),
    ],
)
def test_words_of_the_phrasing_are_no_content(query: str, terms: set[str]) -> None:
    assert content_terms(query) == terms


@pytest.mark.parametrize(
    ("query", "term"),
    [
        ("albums by The Who", "who"),
        ("IT security", "it"),
        ("Is IT secure?", "it"),
        ("films of Will Smith", "will"),
        ("the editor of Who's Who", "who"),
        ("causes of World War I", "i"),
        ("Who played in Dr. No", "no"),
        ("lack of Vitamin A", "a"),
        ("the head of the WHO", "who"),
    ],
)
def test_capitalised_words_inside_a_sentence_are_names(query: str, term: str) -> None:
    assert term in content_terms(query)
    assert term not in content_terms(query.lower())


@pytest.mark.parametrize("query", ["What should I pay?", "Can I pay?", "Pay: should Bob and I?"])
def test_the_pronoun_is_no_name(query: str) -> None:
    assert weigh_terms(query)["i"] == STOP_WORD_WEIGHT


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("to be or not to be", {"to", "be", "or", "not"}),
        ("The Who", {"who"}),
        ("the who", {"who"}),
        ("IT", {"it"}),
        ("it", {"it"}),
        ("what is it", {"what"}),
        ("Who's Who", {"who"}),
    ],
)
def test_stop_words_count_in_full_where_there_is_nothing_else(query: str, terms: set[str]) -> None:
    assert content_terms(query) == terms


def test_frequent_words_are_left_out_and_others_count_a_tenth() -> None:
    assert weigh_terms("who is in the turbine") == {"turbin": 1.0, "who": STOP_WORD_WEIGHT}


def test_repetitions_saturate() -> None:
    weights = [weigh_terms("refund " * count)["refund"] for count in (1, 2, 3, 1000)]
    assert weights == sorted(weights) and weights[0] == 1 and weights[-1] < K3 + 1
    assert weights[1] - weights[0] > weights[2] - weights[1]
    assert weigh_terms("refund refunds refunding") == weigh_terms("refund refund refund")


def test_the_same_query_has_the_same_order_of_terms() -> None:
    query = "what is zeta, and where is alpha?"
    assert list(weigh_terms(query)) == ["zeta", "alpha", "what", "where"]


def test_a_query_longer_than_any_cached_one_is_weighed() -> None:
    assert weigh_terms("what is refund " * 500)["refund"] > 2.9


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("what is the capital of france", "english"),
        ("die hard films", "english"),
        ("la la land", "english"),
        ("wer hat die mauer gebaut und warum", "german"),
        ("quel est le but du jeu", "french"),
        ("cual es la capital de espana", "spanish"),
        ("qual e la capitale della francia", "italian"),
        ("onde fica a capital do brasil e por que", "portuguese"),
        ("wat is het hoofdstad van een land", "dutch"),
        ("vad är huvudstaden och var ligger den", "swedish"),
        ("что это за город и где он", "russian"),
        ("", "english"),
        ("日本語 の テキスト", "english"),
    ],
)
def test_the_language_has_most_of_its_stop_words_in_the_query(query: str, language: str) -> None:
    folded = query.replace("ä", "a").replace("å", "a")
    assert detect_language(folded.split()) == language


def test_english_stop_words_are_content_in_other_languages() -> None:
    assert content_terms("Quel est le but du jeu?") == {"but", "jeu"}
    assert content_terms("Wer hat den Krieg gewonnen, und was war der Grund?") == {
        "krieg",
        "gewonnen",
        "grund",
    }


def test_every_stop_word_is_a_single_word_without_accents() -> None:
    for stop_words in STOP_WORDS.values():
        for word in stop_words:
            assert extract_all_terms(word) and len(extract_all_terms(word)) == 1
    assert STOP_WORDS["english"] > FREQUENT_WORDS


def test_the_parts_of_a_name_in_camel_case_are_content_unless_they_are_stop_words() -> None:
    assert content_terms("how does toJsonTree work") == {"tojsontre", "json", "tree", "work"}
