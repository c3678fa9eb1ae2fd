"""Scores of the walk: series, both sides of a question, and links that say little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

import knowloom
from knowloom import Edge, Item
from knowloom.recipes import Mode
from knowloom.retrieval.nodes import Node
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.walk_constants import (
    MAX_REWARDED,
    NAME_SHARES,
    NEW_TERM_REWARD,
    SERIES_PENALTY,
)
from knowloom.retrieval.walk_graph import link_evidence
from knowloom.retrieval.walk_scores import penalise_series, reward_new_terms

A, B, C, D = KEYS = [("s", id) for id in "abcd"]


def search(
    items: Sequence[Item], query: str, mode: Mode = "walk", edges: Sequence[Edge] = ()
) -> list[tuple[str, float]]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(items, edges)
        hits = kb.search(query, spaces=["s"], limit=10, mode=mode)
        return [(hit.item.id, hit.score) for hit in hits]


def ids(hits: Sequence[tuple[str, float]]) -> list[str]:
    return [id for id, _ in hits]


def cover(query: str, texts: Mapping[tuple[str, str], str]) -> QueryCoverage:
    coverage = QueryCoverage(query)
    coverage.add([Node(key, Item(key[1], "s", text=text)) for key, text in texts.items()])
    return coverage


def test_one_season_stands_for_the_others_unless_the_query_has_its_number():
    titles = ["2016–17 Rovers season", "2015-16 Rovers season", "Rovers", "Rovers"]
    items = {key: Item(key[1], "s", title=title) for key, title in zip(KEYS, titles, strict=True)}
    scores = {A: 0.9, B: 0.8, C: 0.7, D: 0.6}
    lowered = {**scores, B: pytest.approx(0.8 * (1 - SERIES_PENALTY))}
    assert penalise_series(scores, items, "Who coached Rovers?", 1.0) == lowered
    assert penalise_series(scores, items, "Who coached Rovers in 2015-16?", 1.0) == scores
    assert penalise_series(scores, items, "Who coached Rovers?", 0.0) == scores
    assert penalise_series(scores, {}, "Who coached Rovers?", 1.0) == scores


def test_parts_with_one_title_are_no_series():
    items = {key: Item(key[1], "s", title="Chapter 3") for key in KEYS}
    scores = {A: 0.9, B: 0.8, C: 0.7, D: 0.6}
    assert penalise_series(scores, items, "Who coached Rovers?", 1.0) == scores


def test_an_item_with_the_missing_half_of_the_query_follows_the_best():
    texts = {A: "jousting sport", B: "jousting sport", C: "anglican church", D: "nothing"}
    coverage = cover("jousting sport anglican church", texts)
    scores = {A: 0.9, B: 0.5, C: 0.49, D: 0.1}
    rewarded = reward_new_terms(scores, coverage, 1.0)
    assert sorted(scores, key=lambda key: -rewarded[key]) == [A, C, B, D]
    assert rewarded[A] == 0.9 and rewarded[B] == 0.5 and rewarded[D] == 0.1
    assert 0.49 < rewarded[C] <= 0.49 * (1 + NEW_TERM_REWARD)
    assert reward_new_terms(scores, coverage, 0.0) == scores
    assert reward_new_terms({A: 0.5}, coverage, 1.0) == {A: 0.5}


def test_no_reward_lifts_an_item_above_the_best_one():
    coverage = cover("jousting sport anglican church", {A: "jousting", B: "sport anglican church"})
    rewarded = reward_new_terms({A: 0.9, B: 0.899}, coverage, 1.0)
    assert rewarded == {A: 0.9, B: 0.9}


def test_items_behind_the_rewarded_ones_stay_behind_them():
    keys = [("s", f"{number:02}") for number in range(40)]
    scores = {key: 1 - number / 100 for number, key in enumerate(keys)}
    texts = {key: ("red", "green", "blue", "grey")[number % 4] for number, key in enumerate(keys)}
    rewarded = reward_new_terms(scores, cover("red green blue grey", texts), 1.0)
    values = sorted(rewarded.values(), reverse=True)
    assert max(rewarded[key] for key in keys[MAX_REWARDED:]) <= min(
        rewarded[key] for key in keys[:MAX_REWARDED]
    )
    assert values[0] == 1 and all(0 <= value <= 1 for value in values)


def person(id: str, name: str, text: str) -> Item:
    return Item(id, "s", title=name, text=f"{name} {text}")


FILMS = [
    Item(
        "film-a",
        "s",
        title="Silver Harbour",
        text="Silver Harbour is a film with the director Ada Marsh, starring Bo Lind, Cy Tarn, "
        "Di Holm and Ed Vane. The film Silver Harbour was first shown in May.",
    ),
    Item("film-b", "s", title="Red Sails", text="Red Sails is a film with the director Flo Kerr."),
    person("marsh", "Ada Marsh", "was born in 1901 in Malden."),
    person("kerr", "Flo Kerr", "was born in 1888 on a farm."),
    *(
        person(f"actor-{name}", name, "was born first of nine, in a film family.")
        for name in ("Bo Lind", "Cy Tarn", "Di Holm", "Ed Vane")
    ),
    *(
        Item(f"tale-{n}", "s", title=f"Tale {n}", text=f"Which film was born first? Number {n}.")
        for n in range(8)
    ),
]


def test_both_sides_of_a_question_keep_their_places():
    query = "Which film has the director born first, Silver Harbour or Red Sails?"
    hits = ids(search(FILMS, query))
    assert {"film-a", "film-b"} == set(hits[:2])
    assert "kerr" in hits[:7]
    assert "kerr" not in ids(search(FILMS, query, "hybrid"))[:7]


def test_links_say_little_where_most_edges_are_by_likeness():
    low, high = NAME_SHARES
    assert link_evidence(0.0) == link_evidence(low) == 0
    assert link_evidence(high) == link_evidence(1.0) == 1
    assert link_evidence((low + high) / 2) == pytest.approx(0.5)


METALS = "copper zinc silver tin nickel lead gold iron chrome cobalt radium barium".split()


def news(number: int) -> Item:
    """Return a report that shares a person with each of the others, who are mentioned nowhere else.

    The first one happens to have the headline of the second in its text.
    """
    pairs = [sorted((number, other)) for other in range(len(METALS)) if other != number]
    people = ", ".join(f"Mr Quill{chr(97 + low)}{chr(97 + high)}" for low, high in pairs)
    headline = "See Zinc rises as markets wait. " if number == 0 else ""
    text = f"{headline}On a monday {METALS[number]} rose, said {people}."
    title = f"{METALS[number].capitalize()} rises as markets wait"
    return Item(f"news-{number:02}", "s", title=title, text=text)


NEWS = [news(number) for number in range(len(METALS))]


def test_a_chance_mention_among_shared_names_leaves_the_order_of_search():
    query = "what did copper, tin, gold and cobalt do on a monday?"
    assert search(NEWS, query) == search(NEWS, query, "hybrid")


def test_explicit_edges_are_evidence_among_any_number_of_shared_names():
    query = "what did copper do on a monday?"
    target = Item("mine", "s", title="A pit", text="Deep down.")
    edge = Edge("news-00", "mine", "digs", 1.0, "s")
    assert "mine" in ids(search([*NEWS, target], query, edges=[edge]))[:3]
    assert "mine" not in ids(search([*NEWS, target], query, "hybrid", [edge]))
