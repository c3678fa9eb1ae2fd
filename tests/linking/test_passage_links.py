"""Links between the passages of one item, found when the item is searched."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from knowloom.model import Item
from knowloom.text import passage_links
from knowloom.text.item_names import collect_headings, collect_names
from knowloom.text.mentions import find_names
from knowloom.text.passage_links import inner_links
from knowloom.text.passages import locate_headings, split_passages

FILLER = "the rest of this part is about nothing that has a name. " * 12


def item(title: str, text: str, *aliases: str) -> Item:
    return Item("a", "s", title=title, text=text, properties={"aliases": list(aliases)})


def page(*sections: str) -> str:
    """Return a text with a passage for each section, "Heading: words" or "words"."""
    parts = []
    for section in sections:
        heading, _, words = section.rpartition(": ")
        parts.append(f"## {heading}\n\n{words} {FILLER}" if heading else f"{words} {FILLER}")
    return "\n\n".join(parts)


def test_a_passage_is_linked_to_the_passages_whose_heading_it_mentions():
    text = page(
        "Intro: see Late Refunds",
        "Late refunds: ask the Payments Desk",
        "Payments desk: not Late Refunds but Late Refunds' rules",
        "x",
    )
    assert inner_links(item("Guide", text)) == (
        (0, 1, "late refunds"),
        (1, 2, "payments desk"),
        (2, 1, "late refunds"),
    )


def test_short_items_titles_and_generic_headings_have_no_links_inside():
    assert inner_links(item("Guide", "# Late refunds\n\nLate Refunds.\n\n# B\n\nx")) == ()
    text = page("Late refunds: Usage", "Usage: Late Refunds", "Late Refunds")
    assert inner_links(item("Late Refunds", text)) == ()
    assert inner_links(item("x", text, "Late refunds")) == ()
    assert len(inner_links(item("Guide", text))) == 2


def test_a_heading_that_very_many_passages_mention_links_none(monkeypatch):
    text = page("Late refunds: x", *["Late Refunds"] * 4)
    monkeypatch.setattr(passage_links, "MAX_MENTIONING", 3)
    assert inner_links(item("Guide", f"{text} y")) == ()
    monkeypatch.setattr(passage_links, "MAX_MENTIONING", 4)
    assert len(inner_links(item("Guide", f"{text} z"))) == 4


def test_the_rest_of_a_huge_text_is_not_searched_for_links_inside(monkeypatch):
    text = page("Late refunds: x", "Late Refunds", "Late Refunds")
    monkeypatch.setattr(passage_links, "MAX_CHARACTERS", text.rindex("Late Refunds"))
    assert inner_links(item("Guide", text)) == ((1, 0, "late refunds"),)


def test_links_inside_an_item_depend_on_the_passage_size():
    text = page("Late refunds: x", "see Late Refunds")
    [(source, target, _)] = inner_links(item("Guide", text), 200)
    passages = split_passages(text, 200)
    assert "Late Refunds" in text[passages[source].start : passages[source].end]
    assert target == 0 and source > 1


WORDS = "New York the The Ada Ada's ada of City City's | . , 東 京 x_y Straße İst ა 1 Of ’s Hall"
_words = st.lists(st.sampled_from([*WORDS.split(), "\n\n"]), min_size=1, max_size=14).map(" ".join)


@given(_words, st.lists(_words, max_size=5))
@settings(max_examples=300, deadline=None)
def test_passages_are_searched_for_names_like_texts(text, titles):
    names = {name for title in titles for name in collect_names(Item("x", "s", title=title))}
    lengths = passage_links._longest_by_first_word(names)
    matches = tuple(dict.fromkeys(passage_links._match_names(text, names, lengths)))
    assert matches == find_names(text, names)


def test_links_inside_an_item_are_found_in_linear_time():
    rng = random.Random(1)
    names = [f"Person {chr(65 + n % 26)}{n}" for n in range(600)]
    text = "\n\n".join(f"# {name}\n\n{rng.choice(names)} {FILLER}" for name in names)
    looked_up: list[str] = []

    class Names(dict[str, tuple[int, ...]]):
        def __contains__(self, name: object) -> bool:
            looked_up.append(str(name))
            return super().__contains__(name)

    passages = split_passages(text)
    targets = Names(collect_headings(locate_headings(text, passages)))
    texts = [text[passage.start : passage.end] for passage in passages]
    assert len(list(passage_links._link(texts, targets, set()))) > 500
    assert len(looked_up) < 10 * len(names)
