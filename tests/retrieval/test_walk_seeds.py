"""Query coverage, seeds and bridges of the walk."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import knowloom
from knowloom import Edge, Item
from knowloom.model import AUTOMATIC, Filter
from knowloom.recipes import Walk
from knowloom.retrieval import walk_seeds
from knowloom.retrieval.nodes import Node
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.walk_bridges import (
    names_beyond_query,
    prepare_text,
    score_full_names,
    score_shared_names,
)
from knowloom.retrieval.walk_constants import (
    COMMON_SPECIFICITY,
    MAX_QUERY_TERMS,
    MAX_SCANNED_SYNONYMS,
    MIN_COVERAGE,
    QUERY_NAME_BOOST,
)
from knowloom.retrieval.walk_seeds import (
    boost_by_names,
    discount_common_names,
    names_in_query,
    weigh_seeds,
)
from knowloom.text.normalisation import strip_accents
from knowloom.text.synonyms import TABLE, find_synonyms
from knowloom.text.words import extract_terms


def item(id: str, text: str = "", title: str = "") -> Item:
    return Item(id, "s", title=title, text=text)


def node(id: str, score: float, title: str = "") -> Node:
    return Node(("s", id), item(id, title=title), score)


def nodes(items: Iterable[Item]) -> list[Node]:
    return [Node(item.key, item) for item in items]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("spouse", "wife"),
        ("film", "movie"),
        ("birthplace", "hometown"),
        ("city", "town"),
        ("wrote", "written"),
    ],
)
def test_synonyms_are_found_by_stem(query, text):
    assert extract_terms(text)[0] in find_synonyms(extract_terms(query)[0])


@pytest.mark.parametrize(
    "stem", ["", " ", "xylqz", "spous husband", "spous: husband", "\n", "of", "zzzz"]
)
def test_words_outside_the_table_have_no_synonyms(stem):
    assert find_synonyms(stem) == ()


def test_every_line_of_the_table_is_a_stem_and_others_that_do_not_begin_alike():
    lines = TABLE.read_text(encoding="ascii").splitlines()
    assert lines == sorted(lines)
    rows = [line.split(" ") for line in lines]
    assert len({row[0] for row in rows}) == len(rows) > 8000
    assert all(row[0].endswith(":") for row in rows)
    for stem, *others in ([row[0].removesuffix(":"), *row[1:]] for row in rows):
        assert 1 <= len(set(others)) == len(others) <= 5
        assert all(
            len(other) > 2 and not other.startswith(stem) and not stem.startswith(other)
            for other in others
        )


def new(coverage, source, targets):
    """Return the share of the query that each target covers and the source lacks."""
    links = {target: (1.0, Edge(source[1], target[1], space=source[0])) for target in targets}
    return [
        pull - MIN_COVERAGE
        for pull in coverage.transition_weights(source, links, dict.fromkeys(targets, 1.0))
    ]


def test_a_synonym_counts_half_of_the_word_itself():
    coverage = QueryCoverage("Who is the spouse of Ann?")
    coverage.add(
        nodes(
            [
                item("none", "a hut"),
                item("near", "his wife"),
                item("same", "his spouse"),
                item("ann", "Ann sings"),
            ]
        )
    )
    near, same, other = new(coverage, ("s", "none"), [("s", "near"), ("s", "same"), ("s", "none")])
    assert 0 < near == pytest.approx(same / 2)
    assert other == 0
    assert new(coverage, ("s", "near"), [("s", "same")]) == [pytest.approx(same / 2)]


def test_names_in_a_question_have_no_synonyms():
    small, capital = QueryCoverage("the city of gold"), QueryCoverage("the City of gold")
    for coverage in (small, capital):
        coverage.add(nodes([item("none", "a hut"), item("near", "an old town")]))
    assert new(small, ("s", "none"), [("s", "near")])[0] > 0
    assert new(capital, ("s", "none"), [("s", "near")]) == [0]


def test_of_two_linked_items_the_one_that_answers_in_other_words_comes_first():
    items = [
        Item("a", "s", title="Anton Velde", text="Anton Velde met Berta Holm and Carla Munk."),
        Item("b", "s", title="Berta Holm", text="She sold him bread for years."),
        Item("c", "s", title="Carla Munk", text="She was his wife for years."),
    ]
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(items)
        hits = kb.search("Who was the spouse of Anton Velde?", spaces=["s"], mode="walk")
    assert [hit.item.id for hit in hits] == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("Tekeze River", "Tekezé River"),
        ("Tekezé River", "Tekeze River"),
        ("Толстой", "Толстой"),
        ("서울특별시", "서울특별시"),
        ("がく", "がく"),
    ],
)
def test_a_query_names_a_hit_regardless_of_accents(typed, title):
    assert list(
        names_in_query(f"Where is {typed} ?", [node("a", 0.5, title), node("b", 0.4, "Nile")])
    ) == [("s", "a")]


def test_only_accents_are_taken_off():
    assert strip_accents("Aschenbrödel Ōsaka Čapek plain") == "Aschenbrodel Osaka Capek plain"
    assert strip_accents("が 서울 हिन्दी й ї") == "が 서울 हिन्दी й ї"


def test_a_name_shared_by_many_hits_is_less_specific():
    names = names_in_query(
        "Who ruled Mercia?",
        [node("a", 0.5, "Mercia"), node("b", 0.5, "Mercia (kingdom)"), node("c", 0.5, "Offa")],
    )
    assert names[("s", "a")]["mercia"] == pytest.approx(2**-0.5)
    assert ("s", "c") not in names


def test_seed_weights_add_up_to_one_and_named_seeds_come_first():
    best = [node("a", 0.5), node("b", 0.4, "Mercia"), node("c", 0.0)]
    seeds = weigh_seeds(best, {("s", "b"): {"mercia": 1.0}}, Walk())
    assert list(seeds) == [("s", "b"), ("s", "a")]
    assert sum(seeds.values()) == pytest.approx(1)
    assert list(weigh_seeds(best, {}, Walk(starts=1))) == [("s", "a")]


def test_a_name_in_many_texts_makes_a_poor_seed():
    germany, tekeze = ("s", "germany"), ("s", "tekeze")
    names = {germany: {"germany": 1.0}, tekeze: {"tekeze river": 0.5}}
    links = {
        germany: {
            ("s", "x"): (
                0.03,
                Edge("x", "germany", "mentions", 0.1, "s", properties={"name": "germany"}),
            ),
            ("s", "y"): (
                0.9,
                Edge("germany", "y", "mentions", 0.9, "s", properties={"name": "germany"}),
            ),
            ("s", "z"): (
                0.8,
                Edge("z", "germany", "mentions", 0.8, "s", properties={"name": "federal republic"}),
            ),
        },
        tekeze: {
            ("s", "x"): (
                0.3,
                Edge(
                    "x", "tekeze", "mentions", 0.9, "s", properties={"name": "Tekezé River".lower()}
                ),
            )
        },
    }
    assert discount_common_names(names, links, {}) == {
        germany: {"germany": 0.1},
        tekeze: {"tekeze river": 0.5},
    }
    assert discount_common_names(names, {}, {}) == names


def test_a_name_in_many_texts_that_links_none_is_common():
    germany, other = ("s", "germany"), ("s", "x")
    names = {germany: {"germany": 1.0}}
    texts = {germany: " germany", **{("s", str(n)): f" {n} of germany" for n in range(2)}}
    automatic = {other: {germany: (0.5, Edge("x", "y", "mentions", 0.5, "s", origin=AUTOMATIC))}}
    explicit = {other: {germany: (0.5, Edge("x", "y", "mentions", 0.5, "s"))}}
    assert discount_common_names(names, automatic, texts) == {
        germany: {"germany": COMMON_SPECIFICITY}
    }
    assert discount_common_names(names, explicit, texts) == names  # nothing is linked by name
    del texts["s", "1"]
    assert discount_common_names(names, automatic, texts) == names  # a rare name


def test_one_rare_name_in_common_counts_as_much_as_many_usual_ones():
    texts = {
        ("s", "rare"): " kariba lake",
        ("s", "many"): " london and paris",
        ("s", "one"): " london",
        ("s", "other"): " paris x",
        ("s", "none"): " x",
    }
    scores = score_full_names(["kariba", "london", "paris"], texts)
    assert scores[("s", "rare")] > scores[("s", "one")]
    assert scores[("s", "many")] > scores[("s", "one")]
    assert ("s", "none") not in scores
    assert all(0 < score <= 1 for score in scores.values())
    assert score_full_names(["kariba"], {}) == score_full_names([], texts) == {}


def test_a_seed_with_names_of_the_query_is_boosted():
    best = [node("a", 0.5), node("b", 0.4)]
    boosted = boost_by_names(best, {("s", "b"): 0.5}, 0.8)
    assert [boosted_hit.score for boosted_hit in boosted] == [
        0.5,
        pytest.approx(0.4 + QUERY_NAME_BOOST * 0.4),
    ]
    assert boost_by_names(best, {("s", "b"): 1.0}, 0.0) == best


def test_the_walk_prefers_seeds_with_names_of_the_query(monkeypatch):
    river = Item(
        "river", "s", title="Bubye", text="A river that Ada Lovelace crossed. See Kariba Dam."
    )
    road = Item("road", "s", title="Lusaka", text="A road that a poet crossed. See Inga Dam.")
    ends = [
        Item("kariba", "s", title="Kariba Dam", text="A wall."),
        Item("inga", "s", title="Inga Dam", text="A wall."),
    ]
    worth = []
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([river, road, *ends])
        for holding in (QUERY_NAME_BOOST, 0.0):
            monkeypatch.setattr(walk_seeds, "QUERY_NAME_BOOST", holding)
            scores = {
                hit.item.id: hit.score
                for hit in kb.search(
                    "What road or river that a poet crossed, or Ada Lovelace?",
                    spaces=["s"],
                    mode="walk",
                )
            }
            worth.append(scores["kariba"] / scores["inga"])
    assert worth[0] > worth[1]


def test_names_are_searched_without_adjacent_punctuation():
    assert " st louis" in prepare_text(item("a", '("St. Louis", once)'))
    assert " saxon court" in prepare_text(item("a", "an Anglo-Saxon\ncourt"))


def test_only_names_missing_in_the_query_build_bridges():
    start = item("river", "The Bubye River flows through Zimbabwe.", "Bubye River")
    others = [
        item("falls", "Victoria Falls, in Zimbabwe."),
        item("bubye", "Bubye River again."),
        item("tea", "Tea."),
    ]
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add([start, *others])
        texts = {item.key: prepare_text(item) for item in [start, *others]}
        question = "Where is the Bubye River?"
        scores = score_shared_names(
            start.key,
            names_beyond_query(start.text, question),
            question,
            list(texts),
            texts,
            kb._stores.words,
            Filter(("s",)),
        )
    assert scores == {("s", "falls"): pytest.approx(2)}
    assert names_beyond_query(start.text, start.text) == []


def test_query_terms_match_far_into_a_text_and_synonyms_at_its_start_only() -> None:
    far = "x " * MAX_SCANNED_SYNONYMS
    coverage = QueryCoverage("Who is the spouse of Rey?")
    items = [
        Item(name, "s", text=text)
        for name, text in (
            ("none", far),
            ("word", f"{far} spouse"),
            ("near", f"spouse {far}"),
            ("like", f"{far} wife"),
        )
    ]
    coverage.add(nodes(items))
    assert "wife" in find_synonyms("spous")
    none, word, near, like = new(coverage, ("s", "none"), [item.key for item in items])
    assert none == like == 0 < word == near
    assert coverage.overlap(("s", "word"), [("s", "near"), ("s", "like")]) == [
        pytest.approx(word),
        0,
    ]


def test_a_visited_item_is_not_counted_again() -> None:
    items = [
        Item("a", "s", text="the spouse of Rey"),
        Item("b", "s", text="a spouse"),
        Item("c", "s", text="Rey"),
    ]
    once, twice = (
        QueryCoverage("Who is the spouse of Rey?"),
        QueryCoverage("Who is the spouse of Rey?"),
    )
    for coverage, looked in ((once, items), (twice, [*items, items[1], items[1]])):
        coverage.add(nodes(looked))
    assert new(once, ("s", "c"), [("s", "b")]) == new(twice, ("s", "c"), [("s", "b")]) != [0]


def test_only_the_first_terms_of_a_very_long_query_count() -> None:
    coverage = QueryCoverage(" ".join(f"q{number}z" for number in range(2 * MAX_QUERY_TERMS)))
    coverage.add(
        nodes(
            [
                Item("none", "s", text="nothing"),
                Item("last", "s", text=f"q{MAX_QUERY_TERMS - 1}z"),
                Item("beyond", "s", text=f"q{MAX_QUERY_TERMS}z"),
            ]
        )
    )
    last, beyond = new(coverage, ("s", "none"), [("s", "last"), ("s", "beyond")])
    assert beyond == 0 < last
