"""Edges to and from items with several passages, and links inside such items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import knowloom
from knowloom.engine import Engine
from knowloom.linking import places, space_linker
from knowloom.linking.name_edges import build_name_edges
from knowloom.linking.name_keys import KeyedText
from knowloom.linking.name_weights import MAX_HEADING_HOLDERS
from knowloom.model import Item
from knowloom.text.item_names import (
    MAX_HEADING_PASSAGES,
    RECURRING_HEADINGS,
    collect_headings,
    collect_names,
)
from knowloom.text.mentions import MAX_READ
from knowloom.text.passages import locate_headings, split_passages

FILLER = "the rest of this part is about nothing that has a name. " * 12

Rows = dict[tuple[str, str, str], tuple[str, Any]]


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with knowloom.open(
        "memory:" if request.param == "memory" else str(tmp_path / "knowloom.db"), embedder=None
    ) as opened:
        yield opened


def item(id: str, title: str = "", text: str = "", **more: Any) -> Item:
    return Item(id, "s", title=title, text=text or f"text of {id}", **more)


def page(*sections: str) -> str:
    """Return a text with a passage for each section, "Heading: words" or "words"."""
    parts = []
    for section in sections:
        heading, _, words = section.rpartition(": ")
        parts.append(f"## {heading}\n\n{words} {FILLER}" if heading else f"{words} {FILLER}")
    text = "\n\n".join(parts)
    assert len(split_passages(text)) == len(sections)
    return text


def rows(kb: Engine) -> Rows:
    """Return the name and the passages of each edge by name, which are those of the reference."""
    stored = {
        (edge.source, edge.target, edge.type): (
            edge.properties["name"],
            edge.properties.get("passages"),
        )
        for edge in kb.edges(["s"], automatic=True)
    }
    assert stored == {
        (edge.source, edge.target, edge.type): (
            edge.properties["name"],
            edge.properties.get("passages"),
        )
        for edge in build_name_edges(kb.items(["s"]))
    }
    return stored


# Edges between items


def test_a_heading_is_a_name_of_an_item_with_several_passages(kb):
    kb.add(
        [
            item("a", "", "Ask about Late Refunds."),
            item("b", "Money", page("First: x", "Late refunds: y")),
        ]
    )
    assert rows(kb) == {("a", "b", "mentions"): ("late refunds", [[0, 1]])}


def test_an_edge_says_which_passages_name_the_target(kb):
    kb.add(
        [
            item("a", "Alpha page", page("x", "Ask the Payments Desk,", "y", "the Payments Desk")),
            item("b", "Payments Desk", "short"),
        ]
    )
    assert rows(kb) == {("a", "b", "mentions"): ("payments desk", [[1, None], [3, None]])}


def test_an_edge_between_long_items_has_all_pairs_of_its_names(kb):
    kb.add(
        [
            item(
                "a", "", page("Ask the Payments Desk", "of Late Refunds", "and the Payments Desk")
            ),
            item("b", "Payments Desk", page("x", "Late refunds: y", "z")),
        ]
    )
    assert rows(kb) == {("a", "b", "mentions"): ("late refunds", [[0, None], [1, 1], [2, None]])}


def test_edges_between_short_items_have_only_a_name(kb):
    kb.add(
        [
            item("a", "Alpha page", "Ask the Payments Desk in [x](b.md), Rovers Hall."),
            item("b", "Payments Desk", "# Late refunds\n\nRovers Hall", source="b.md"),
            item("c", "Other page", "Late Refunds"),
        ]
    )
    assert {passages for _, passages in rows(kb).values()} == {None}
    assert set(rows(kb)) == {
        ("a", "b", "mentions"),
        ("a", "b", "refers_to"),
        ("a", "b", "shares"),
        ("c", "b", "mentions"),
    }
    assert {tuple(edge.properties) for edge in kb.edges(["s"], automatic=True)} == {("name",)}


def test_a_name_that_is_both_title_and_heading_stands_for_the_item(kb):
    kb.add(
        [
            item("a", "", "Ask about Late Refunds."),
            item("b", "Late refunds", page("x", "Late refunds: y")),
        ]
    )
    assert rows(kb) == {("a", "b", "mentions"): ("late refunds", [[0, None]])}


def test_a_heading_is_no_mention_of_itself_but_a_question_may_mention_others(kb):
    kb.add(
        [
            item("a", "", page("Late refunds: x", "y")),
            item("b", "", page("z", "Late refunds: x")),
            item("c", "", page("x", "Who needs Kubernetes?: y")),
            item("k", "Kubernetes", "z"),
        ]
    )
    assert rows(kb) == {("c", "k", "mentions"): ("kubernetes", [[1, None]])}


def test_a_name_that_two_texts_share_is_located_in_both(kb):
    kb.add(
        [
            item("a", "", page("x", "in Rovers Hall", "y")),
            item("b", "", page("at Rovers Hall", "y")),
            item("c", "", "seen at Rovers Hall"),
        ]
    )
    assert rows(kb) == {
        ("a", "b", "shares"): ("rovers hall", [[1, 0]]),
        ("a", "c", "shares"): ("rovers hall", [[1, None]]),
        ("b", "c", "shares"): ("rovers hall", [[0, None]]),
    }


def test_a_link_to_a_fragment_leads_to_the_passage_of_the_heading(kb):
    kb.add(
        [
            item(
                "a",
                "",
                page("x", "[late](guide.md#late-refunds)", "[all](guide.md)"),
                source="d/a.md",
            ),
            item("b", "", page("x", "y", "Late refunds: z"), source="d/guide.md"),
            item("c", "", "[late](d/guide.md#late-refunds)", source="c.md"),
        ]
    )
    assert rows(kb) == {
        ("a", "b", "refers_to"): ("d/guide#late-refunds", [[1, 2], [2, None]]),
        ("c", "b", "refers_to"): ("d/guide#late-refunds", [[0, 2]]),
    }


def test_a_foreign_key_with_the_address_of_a_link_leaves_the_passage_of_the_link(kb):
    text = page("One: nothing here", "Two: see [x](a.md)")
    keys = {"foreign_keys": ["a.md"]}
    kb.add([item("a", source="a.md"), item("b", text=text, properties=keys)])
    assert rows(kb)["b", "a", "refers_to"] == ("a.md", [[1, None]])


def test_an_edge_has_at_most_sixteen_pairs(kb):
    sections = [f"the Payments Desk {number}" for number in range(20)]
    kb.add([item("a", "", page(*sections)), item("b", "Payments Desk")])
    assert rows(kb)["a", "b", "mentions"][1] == [[number, None] for number in range(16)]


def test_only_the_start_of_a_very_long_text_is_searched(kb):
    text = page(*["x"] * (MAX_READ // len(FILLER) - 2), "First Desk", "y", "z", "Last Desk", "w")
    assert text.index("First Desk") < MAX_READ < text.index("Last Desk")
    kb.add([item("a", "", text), item("f", "First Desk"), item("l", "Last Desk")])
    assert set(rows(kb)) == {("a", "f", "mentions")}


# Which headings are names


def test_headings_of_a_documentation_folder_link_nothing(kb):
    parts = "Installation Usage Examples Configuration Parameters Contributing License".split()
    parts += ["Getting started", "Known issues", "3. Usage examples", "Next steps", "API reference"]
    parts += ["How does the installation work on other systems?", "Release notes", "2024-05-01"]
    sections = [f"{part}: Usage, Installation and Getting Started. {part}." for part in parts]
    kb.add([item(f"p{number}", "", page(*sections)) for number in range(3)])
    assert not [key for key in rows(kb) if key[2] == "mentions"]


def test_a_heading_of_many_items_links_none_and_leaves_a_title_alone(kb):
    pages = [item(f"p{number}", "", page("x", "Refund rules: y")) for number in range(9)]
    kb.add([item("a", "", "The Refund Rules."), *pages[:MAX_HEADING_HOLDERS]])
    assert len(rows(kb)) == MAX_HEADING_HOLDERS
    kb.add([*pages, item("t", "Refund rules", "z")])
    assert rows(kb) == {("a", "t", "mentions"): ("refund rules", None)}
    assert [edge.weight for edge in kb.edges(["s"], automatic=True)] == [1.0]
    kb.delete([page.id for page in pages[1:]], space="s")
    assert rows(kb) == {
        ("a", "t", "mentions"): ("refund rules", None),
        ("a", "p0", "mentions"): ("refund rules", [[0, 1]]),
    }


def test_a_heading_that_recurs_in_one_item_is_no_name():
    headings = [(number, "Late refunds") for number in range(MAX_HEADING_PASSAGES)]
    assert collect_headings(headings) == {"late refunds": (0, 1, 2, 3, 4)}
    assert collect_headings([*headings, (9, "Late refunds")]) == {}
    assert collect_headings([(1, "Late refunds")] * 9) == {"late refunds": (1,)}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("The Rolling Stones (band)", 4),
        ("3.1 Refund rules", ["3 1 refund rules", "refund rules"]),
        ("1. FC Köln", ["1 fc köln", "fc köln"]),
        ("[Refund rules](http://x.org/y)", ["refund rules"]),
        ("`find_all`", ["find_all"]),
        ("Refund rules {#rules}", ["refund rules"]),
        ("Data model", ["data model"]),
        ("Data", []),
        ("Installation guide", []),
        ("4.2 Configuration", []),
        ("Early life", []),
        ("Is this a question?", []),
        ("word " * 11, []),
        ("w" * 300, []),
        ("AI", []),
    ],
)
def test_headings_follow_the_rules_of_titles(heading, names):
    result = list(collect_headings([(0, heading)]))
    assert (len(result) if isinstance(names, int) else result) == names


def test_recurring_headings_are_normalised():
    assert "life and career" in RECURRING_HEADINGS
    assert all(name == " ".join(name.lower().split()) for name in RECURRING_HEADINGS)


def test_an_item_with_headings_alone_is_not_named_by_its_first_term():
    text = page("Delft is a city.", "Late refunds: y")
    headings = collect_headings(locate_headings(text, split_passages(text)))
    assert headings == {"late refunds": (1,)}
    assert collect_names(item("a", "", text), headings) == ()
    assert collect_names(item("a", "", text), {}) == ("delft",)


# Changes


def test_edges_follow_a_heading_that_comes_moves_changes_and_goes(kb):
    kb.add([item("a", "", "Ask about Late Refunds."), item("b", "", page("x", "y"))])
    assert rows(kb) == {}
    for text, passages in (
        (page("x", "Late refunds: y"), [[0, 1]]),
        (page("x", "z", "Late refunds: y"), [[0, 2]]),
        (page("Late refunds: x", "z", "Late refunds: y"), [[0, 0], [0, 2]]),
        (page("Late payments: x", "z", "Late refunds: y"), [[0, 2]]),
        ("# Late refunds\n\nshort", None),
    ):
        kb.add(item("b", "", text))
        assert rows(kb) == {("a", "b", "mentions"): ("late refunds", passages)}
    kb.add(item("b", "", page("Late payments: x", "z")))
    assert rows(kb) == {}


def test_edges_follow_the_length_of_a_target(kb):
    kb.add(
        [
            item("a", "", "The Payments Desk, see [x](b.md)."),
            item("b", "Payments Desk", "short", source="b.md"),
        ]
    )
    assert {passages for _, passages in rows(kb).values()} == {None}
    kb.add(item("b", "Payments Desk", page("x", "y"), source="b.md"))
    assert [passages for _, passages in rows(kb).values()] == [[[0, None]], [[0, None]]]
    kb.add(item("b", "Payments Desk", "short", source="b.md"))
    assert {passages for _, passages in rows(kb).values()} == {None}


def test_edges_follow_a_shared_name_and_a_fragment_that_move(kb):
    kb.add(item("a", "", page("x", "Rovers Hall, [y](b.md#late-refunds)")))
    for sections, shared, linked in (
        (("Late refunds: at Rovers Hall", "y"), 0, 0),
        (("x", "Late refunds: at Rovers Hall"), 1, 1),
        (("Late refunds: x", "at Rovers Hall"), 1, 0),
        (("Late refunds: at Rovers Hall", "z"), 0, 0),
    ):
        kb.add(item("b", "", page(*sections), source="b.md"))
        assert rows(kb) == {
            ("a", "b", "shares"): ("rovers hall", [[1, shared]]),
            ("a", "b", "refers_to"): ("b#late-refunds", [[1, linked]]),
        }


def test_names_at_both_ends_of_a_passage_belong_to_it(kb):
    text = f"x {FILLER}\n\nNew York {FILLER} on Rovers Hall\n\nPayments Desk {FILLER} x"
    assert len(split_passages(text)) == 3
    titles = {"ny": "New York", "rh": "Rovers Hall", "pd": "Payments Desk"}
    kb.add([item("a", "", text), *(item(id, title) for id, title in titles.items())])
    passages = {target: passages for (_, target, _), (_, passages) in rows(kb).items()}
    assert passages == {"ny": [[1, None]], "rh": [[1, None]], "pd": [[2, None]]}


def test_a_heading_that_moves_rereads_no_text_that_mentions_it(kb, monkeypatch):
    kb.add([item("a", "", "Ask about Late Refunds."), item("b", "", page("x", "Late refunds: y"))])
    read: list[str] = []
    monkeypatch.setattr(
        space_linker,
        "KeyedText",
        lambda text, passages: read.append(text) or KeyedText(text, passages),
    )
    text = page("x", "z", "Late refunds: y")
    kb.add(item("b", "", text))
    assert read == [text]
    assert rows(kb)["a", "b", "mentions"] == ("late refunds", [[0, 2]])


def test_a_longer_heading_hides_a_title_inside_it(kb):
    kb.add([item("a", "", "Moved to New York City."), item("ny", "New York", "x")])
    assert rows(kb) == {("a", "ny", "mentions"): ("new york", None)}
    kb.add(item("b", "", page("x", "New York City: y")))
    assert rows(kb) == {("a", "b", "mentions"): ("new york city", [[0, 1]])}
    kb.delete("b", space="s")
    assert rows(kb) == {("a", "ny", "mentions"): ("new york", None)}


def test_another_passage_size_relinks(kb):
    text = page("x", "Late refunds: y")
    kb.add([item("a", "", "Ask about Late Refunds."), item("b", "", text)])
    store: Any = kb._stores.words
    store.resegment(200)
    kb.maintenance.link()
    edges = list(kb.edges(["s"], automatic=True))
    passages = split_passages(text, 200)
    [heading] = [number for number, _ in locate_headings(text, passages)]
    assert heading > 1 and [dict(edge.properties) for edge in edges] == [
        {"name": "late refunds", "passages": [[0, heading]]}
    ]


def test_places_of_names_survive_any_text(kb):
    text = page("x", 'Late "refunds" \\ \x1f: y', "東京タワー: 東京", "Straße ﬁve: z")
    kb.add([item("a", "", "Late Refunds. 東京タワー, Straße five"), item("b", 'q"\x1f', text)])
    assert {key[2] for key in rows(kb)} == {"mentions"}
    assert rows(kb)["a", "b", "mentions"][1] == [[0, 1], [0, 2], [0, 3]]
    assert kb.verify() == []


HEADINGS = ("", "Late refunds", "Payments desk", "New York", "Usage")
MENTIONS = (
    "Late Refunds",
    "the Payments Desk",
    "New York",
    "Rovers Hall",
    "[x](i0.md#new-york)",
    "x",
)
_section = st.tuples(st.sampled_from(HEADINGS), st.sampled_from(MENTIONS))
_sections = st.lists(_section, min_size=1, max_size=4)
_items = st.dictionaries(st.sampled_from(["i0", "i1", "i2", "i3"]), _sections, max_size=3)
_steps = st.lists(st.tuples(_items, st.sampled_from(["", "", "i1", "i2"])), min_size=1, max_size=6)


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=_steps)
def test_edges_after_any_changes_are_those_of_all_items_at_once(store, tmp_path_factory, steps):
    path = store if store == "memory:" else str(tmp_path_factory.mktemp("k") / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        for items, deleted in steps:
            new = [
                item(id, "", page(*map(": ".join, sections)), source=f"{id}.md")
                for id, sections in items.items()
            ]
            kb.add([*new, item("short", "New York", "Late Refunds in Rovers Hall")])
            rows(kb)
            if deleted in [stored.id for stored in kb.items(["s"])]:
                kb.delete(deleted, space="s")
                rows(kb)
        edges = list(kb.edges(["s"], automatic=True))
        kb.maintenance.relink()
        assert list(kb.edges(["s"], automatic=True)) == edges and kb.verify() == []


def test_places_are_encoded_and_compared():
    label = places.encode_places(places.NAME_PLACES, {"a": (), "b c": (1, 2)})
    assert places.decode_places([label[2:]]) == {"a": [], "b c": [1, 2]}
    assert places.decode_places([]) == {}
    other = places.encode_places(places.NAME_PLACES, {"a": (), "b c": (1, 3), "d": ()})
    assert places.find_moved(places.NAME_PLACES, ["c:a", label], [other]) == {"b c", "d"}
    assert places.find_moved(places.NAME_PLACES, ["c:a"], [label]) == {"a", "b c"}
    assert places.find_moved(places.NAME_PLACES, [label], [label]) == set()
