"""Names of items, names in texts, and the automatic edges they create."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowloom import validation
from knowloom.linking.name_edges import build_name_edges
from knowloom.linking.name_labels import extract_addresses, extract_references
from knowloom.linking.name_weights import (
    FOREIGN_KEY,
    MAX_HOLDERS,
    MAX_LINKS_PER_NAME,
    MAX_MENTIONS,
    MENTIONS,
    REFERS_TO,
    SHARES,
)
from knowloom.model import Edge, Item
from knowloom.text import mentions as text_names
from knowloom.text.item_names import collect_names, find_defined_term
from knowloom.text.mentions import candidate_names, capitalised_spans, find_names, iter_mentions


def item(id: str, title: str = "", text: str = "", space: str = "all", **more: object) -> Item:
    return Item(id, space, title=title, text=text, **more)  # type: ignore[arg-type]


def edges_of(items: list[Item]) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.type, edge.target) for edge in build_name_edges(items)}


def test_a_title_is_a_name_with_and_without_its_qualifier():
    assert collect_names(item("m", "Mercury (planet)")) == ("mercury planet", "mercury")


def test_a_title_is_a_name_without_the_place_or_rank_behind_a_comma():
    assert collect_names(item("r", "Rochester, New York")) == ("rochester new york", "rochester")
    assert collect_names(item("p", "Philip, Duke of Parma (born 1720)")) == (
        "philip duke of parma born 1720",
        "philip duke of parma",
        "philip",
    )
    assert collect_names(item("c", "Crosby, Stills & Nash")) == ("crosby stills nash",)
    assert collect_names(item("c", "Earth, Wind and Fire")) == ("earth wind and fire",)
    assert collect_names(item("h", "Hello, world")) == ("hello world",)
    assert collect_names(item("t", "The, Band")) == ("the band",)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Nathan H. Juran", "nathan juran"),
        ("George H. W. Bush", "george bush"),
        ("John A. Smith (politician)", "john smith"),
        ("Émile É. Zola", "émile zola"),
        ("John F. Kennedy Airport", "john kennedy airport"),
    ],
)
def test_a_title_is_a_name_without_middle_initials(title, name):
    names = collect_names(item("p", title))
    assert text_names.normalise_name(title) == names[0]
    assert name in names


@pytest.mark.parametrize(
    "title",
    ["J. R. R. Tolkien", "Malcolm X", "Plan B Entertainment", "Washington D. C.", "U.S. Route 52"],
)
def test_other_single_letters_belong_to_a_name(title):
    assert collect_names(item("p", title)) == (text_names.normalise_name(title),)


def test_a_title_is_a_name_without_its_article_if_two_words_are_left():
    assert collect_names(item("r", "The Rolling Stones (band)")) == (
        "the rolling stones band",
        "the rolling stones",
        "rolling stones band",
        "rolling stones",
    )
    assert collect_names(item("w", "The Wall")) == ("the wall",)
    assert ("a", MENTIONS, "r") in edges_of(
        [item("a", "Mick", "He sang with the Rolling Stones."), item("r", "The Rolling Stones")]
    )


def test_aliases_are_names():
    assert collect_names(
        item("k", "Kubernetes", properties={"aliases": ["K8s", "kube cluster"]})
    ) == (
        "kubernetes",
        "k8s",
        "kube cluster",
    )
    assert collect_names(item("k", "Kubernetes", properties={"aliases": "K8s, the cube"})) == (
        "kubernetes",
        "k8s",
        "the cube",
    )


def test_only_texts_are_aliases():
    assert collect_names(
        item("k", "Kubernetes", properties={"aliases": [None, 2024, {"a": 1}, "K8s"]})
    ) == ("kubernetes", "k8s")


def test_two_letters_are_not_a_name_but_two_signs_or_syllables_are():
    for title in ("AI", "EU", "Go"):
        assert collect_names(item("a", title)) == (), title
    assert edges_of([item("a", "", "그는 서울 에 산다"), item("s", "서울")]) == {
        ("a", MENTIONS, "s")
    }
    assert edges_of([item("a", "", "他在北京工作"), item("b", "北京")]) == {("a", MENTIONS, "b")}
    assert collect_names(item("h", "서")) == ()


def test_symbols_files_and_tables_are_names_in_their_short_form_too():
    assert collect_names(item("s", properties={"symbol": "knowloom.engine.Engine.find_all"})) == (
        "knowloom engine engine find_all",
        "engine find_all",
        "find_all",
    )
    assert collect_names(item("f", properties={"path": "src/knowloom/engine.py"})) == (
        "src knowloom engine py",
        "engine py",
    )
    assert "order_items" in collect_names(item("t", properties={"table": "shop.order_items"}))


def test_headings_and_the_last_part_of_a_trail_are_names():
    assert collect_names(item("g", "Guide > Refund window", "# Late refunds\nText.\n")) == (
        "guide refund window",
        "refund window",
        "late refunds",
    )


def test_common_words_letters_numbers_and_questions_are_not_names():
    for title in (
        "The",
        "Overview",
        "X",
        "2024",
        "12 34",
        "It",
        "How do I delete my account?",
        "What is the best way to sort",
        "",
    ):
        assert collect_names(item("a", title)) == (), title


def test_an_item_without_a_useful_title_is_named_by_its_definition():
    assert collect_names(item("a", "", "The Treaty of Delft (1607) was a treaty.")) == (
        "treaty of delft",
    )
    assert collect_names(item("a", "Notes", "**Churn rate**: customers lost.")) == ("churn rate",)
    assert collect_names(item("a", "", "It is raining.")) == ()
    assert find_defined_term("Nothing here defines anything") == ""


def test_a_very_long_title_is_not_a_name():
    assert collect_names(item("a", "word " * 2000)) == ()


def test_the_longest_known_name_counts_and_nothing_inside_it():
    assert find_names("In New York City and New York.", {"new york", "new york city", "york"}) == (
        "new york city",
        "new york",
    )


def test_possessives_and_curly_apostrophes_are_understood():
    assert find_names("Ada Lovelace’s notes, McDonald's menu", {"ada lovelace", "mcdonald's"}) == (
        "ada lovelace",
        "mcdonald's",
    )


def test_a_small_letter_does_not_begin_a_name_unless_it_is_a_symbol():
    assert find_names("they will march in may", {"march", "will", "may"}) == ()
    assert find_names(
        "call find_all, then useState and engine2.start", {"find_all", "usestate", "engine2 start"}
    ) == ("find_all", "usestate", "engine2 start")


def test_no_name_reaches_over_a_blank_line():
    assert find_names("He left New\n\nYork was cold", {"new york"}) == ()
    assert find_names("He left New\nYork", {"new york"}) == ("new york",)


def test_scripts_without_capitals_or_spaces_work():
    assert collect_names(item("t", "東京")) == ("東 京",)
    assert find_names("日本の首都は東京です", set(collect_names(item("t", "東京")))) == ("東 京",)
    assert find_names("سافر إلى القاهرة أمس", set(collect_names(item("c", "القاهرة")))) == (
        "القاهرة",
    )
    assert capitalised_spans("日本の首都は東京です") == ()


def test_mentions_say_where_a_name_begins():
    assert list(iter_mentions("See Paris.", {"paris"})) == [("paris", 4)]


def test_spans_are_capitalised_runs_and_symbols():
    assert capitalised_spans("In March the Bank of England met `rate_table` and Ada's friend.") == (
        "bank of england",
        "ada",
        "rate_table",
    )


def test_no_span_reaches_across_the_end_of_a_sentence():
    assert capitalised_spans(
        "It flows in Zimbabwe. Lake Kariba is near the Zambezi. It is a lake."
    ) == (
        "zimbabwe",
        "lake kariba",
        "zambezi",
    )
    assert capitalised_spans("We saw St. Louis with John F. Kennedy.") == (
        "st louis",
        "john f kennedy",
    )


def test_a_word_that_has_its_capital_from_the_beginning_of_a_sentence_is_not_a_span():
    assert capitalised_spans('Mutations are rare. "Proteins fold. (Cells die.') == ()
    assert capitalised_spans("Zimbabwe is large. The Zambezi flows through Zimbabwe.") == (
        "zimbabwe",
        "zambezi",
    )
    assert capitalised_spans(
        "TGF binds. McDonald eats. Lake Kariba is deep. Indeed. O'Brien came."
    ) == (
        "tgf",
        "mcdonald",
        "lake kariba",
        "o'brien",
    )


def test_a_word_that_begins_thousands_of_sentences_is_looked_at_once(monkeypatch):
    looks: list[str] = []
    honest = text_names._only_begins_sentences
    monkeypatch.setattr(
        text_names,
        "_only_begins_sentences",
        lambda text, word, at: looks.append(word) or honest(text, word, at),
    )
    assert capitalised_spans("Zebras run. " * 5000) == ()
    assert looks == ["Zebras"]


def test_a_long_text_is_not_searched_for_a_word_inside_a_sentence():
    begins: list[int] = []

    class Watched(str):
        def find(self, word: str, begin: int = 0, end: int | None = None) -> int:
            begins.append(begin)
            return super().find(word, begin, end)

    text = Watched("It is long. Then a Zebra came.")
    at = text.index("Zebra")
    assert not text_names._only_begins_sentences(text, "Zebra", at)
    assert begins == [at]


@given(st.text(max_size=300))
def test_candidates_of_any_text_include_every_mention(text):
    candidates = set(candidate_names(text))
    names = set(list(candidates)[::2])
    assert set(find_names(text, names)) <= names
    assert capitalised_spans(text) == capitalised_spans(text)
    title = collect_names(item("a", text[:200]))
    assert all(name and name == name.lower() for name in title)


@given(
    st.lists(
        st.sampled_from(["New York", "Ada", "Bank of England", "and", "find_all", "the", "Ada's"]),
        max_size=12,
    )
)
def test_candidates_suffice_to_find_all_names(words):
    text = " ".join(words)
    names = {"new york", "ada", "bank of england", "find_all", "york and ada"}
    assert find_names(text, names & set(candidate_names(text))) == find_names(text, names)


def test_an_item_that_names_another_is_linked_to_it():
    edges = build_name_edges(
        [
            item("a", "Lothair II", "His mother was Ermengarde of Tours."),
            item("b", "Ermengarde of Tours", "She died in 851."),
        ]
    )
    assert [
        (edge.source, edge.type, edge.target, edge.weight, edge.properties) for edge in edges
    ] == [("a", MENTIONS, "b", 1.0, {"name": "ermengarde of tours"})]


def test_links_stay_inside_a_space():
    assert (
        build_name_edges(
            [item("a", "A one", "Names B Two."), item("b", "B Two", "x", space="other")]
        )
        == []
    )


def test_a_rare_shared_name_is_a_weaker_link_and_a_common_one_is_none():
    few = [
        item(f"i{number}", f"Title number {number}", "Played for the Rovers of Delft.")
        for number in range(3)
    ]
    many = [
        item(f"i{number}", f"Title number {number}", "Played for the Rovers of Delft.")
        for number in range(30)
    ]
    assert edges_of(few) == {("i0", SHARES, "i1"), ("i0", SHARES, "i2"), ("i1", SHARES, "i2")}
    assert all(edge.weight < 0.5 for edge in build_name_edges(few))
    assert edges_of(many) == set()


def test_a_name_of_many_items_or_in_many_texts_links_nothing():
    namesakes = [item(f"j{number}", "John Smith", "x") for number in range(MAX_HOLDERS + 1)]
    assert edges_of([item("a", "Alpha", "John Smith came."), *namesakes]) == set()
    crowd = [
        item(f"a{number}", f"Alpha {number}", "Back in France.")
        for number in range(MAX_MENTIONS + 1)
    ]
    assert edges_of([item("f", "France", "x"), *crowd]) == set()


def test_parts_of_a_document_that_have_its_title_are_all_linked_and_weigh_as_much_as_one():
    parts = [item(f"j{number}", "Field Manual", "x") for number in range(MAX_HOLDERS)]
    edges = build_name_edges([item("a", "Alpha", "See the Field Manual."), *parts])
    assert {(edge.source, edge.target) for edge in edges} == {("a", part.id) for part in parts}
    assert sum(edge.weight for edge in edges) == pytest.approx(1.0)


def test_a_name_of_several_items_in_many_texts_creates_few_edges():
    def count_edges(texts: int) -> int:
        parts = [item(f"j{number}", "Field Manual", "x") for number in range(MAX_HOLDERS)]
        return len(
            build_name_edges(
                [
                    *parts,
                    *(
                        item(f"a{number}", f"Alpha {number}", "See the Field Manual.")
                        for number in range(texts)
                    ),
                ]
            )
        )

    assert count_edges(MAX_LINKS_PER_NAME // MAX_HOLDERS) == MAX_LINKS_PER_NAME
    assert count_edges(MAX_LINKS_PER_NAME // MAX_HOLDERS + 1) == 0


def test_a_name_in_more_texts_links_less():
    def weight(texts: int) -> float:
        return build_name_edges(
            [
                item("f", "France", "x"),
                *(item(f"a{n}", f"Alpha {n}", "In France.") for n in range(texts)),
            ]
        )[0].weight

    assert weight(1) == 1.0 > weight(3) > weight(20) > 0


def test_markdown_and_wiki_links_are_links():
    docs = [
        item(
            "a",
            "Alpha page",
            "See [the guide](../guide.md#top) and [[Beta page|beta]].",
            source="docs/deep/a.md",
        ),
        item("g", "", "guide", source="docs/guide.md"),
        item("b", "Beta page", "x"),
    ]
    assert edges_of(docs) == {("a", REFERS_TO, "g"), ("a", REFERS_TO, "b"), ("a", MENTIONS, "b")}
    assert extract_references(item("u", text="[x](https://example.org/p#q)")) == (
        (REFERS_TO, "https://example.org/p#q"),
    )
    assert "docs/guide.md" in extract_addresses(docs[1])


def test_foreign_keys_are_links():
    tables = [
        item(
            "c",
            "concert",
            "x",
            properties={
                "table": "concert",
                "foreign_keys": ["singer_id -> singer.id", {"references": "stadium"}],
            },
        ),
        item("s", "singer", "x", properties={"table": "singer"}),
        item("t", "stadium", "x", properties={"table": "stadium"}),
    ]
    assert edges_of(tables) == {("c", FOREIGN_KEY, "s"), ("c", FOREIGN_KEY, "t")}


def test_odd_properties_link_nothing_and_break_nothing():
    assert (
        build_name_edges(
            [
                item("a", "Alpha one", "x", properties={"foreign_keys": 3, "aliases": 7}),
                item("b", "", "y", properties={"foreign_keys": [None, {}, 5]}),
            ]
        )
        == []
    )


def test_links_do_not_depend_on_the_order_of_items_and_may_be_stored():
    items = [
        item("a", "Lothair II", "Married Teutberga at Rovers Hall."),
        item("b", "Teutberga", "Wife of Lothair II."),
        item("c", "Cee", "At Rovers Hall."),
    ]
    edges = build_name_edges(items)
    assert build_name_edges(items[::-1]) == edges
    assert [validation.validate_edge(edge) for edge in edges] == edges
    assert all(isinstance(edge, Edge) for edge in edges)
