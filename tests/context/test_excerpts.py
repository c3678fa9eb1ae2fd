"""Contexts of long items: excerpts, pointers, repetitions and links between passages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import knowloom
from knowloom import Context, Edge, Item, Kind
from knowloom.context.excerpts import merge_ranges, select_parts
from knowloom.context.packing import MAX_POINTERS, SEE_ALSO
from knowloom.model import Form, Hit, Passage, ScoredPassage

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILLER = (
    "The harbour office keeps a ledger of moorings and tides. Its clerks write in blue ink. "
    "On windy days the flags are lowered and nobody sails. "
)


def document(*answers: str, paragraphs: int = 12) -> str:
    """Return a long text of different paragraphs with the answers spread over it."""
    parts = [f"Ledger page {number}. {FILLER}{FILLER}" for number in range(paragraphs)]
    for place, answer in enumerate(answers):
        parts.insert(3 + 4 * place, answer)
    return "\n\n".join(parts)


def open_with(*items: Item, edges: tuple[Edge, ...] = (), **options: int) -> knowloom.Engine:
    kb = knowloom.open("memory:", embedder=None, **options)
    kb.add(items, edges)
    return kb


def forms(context: Context) -> dict[str, str]:
    blocks = (block for fragment in context.fragments for block in fragment.chosen)
    return {block.hit.item.id: block.form.value for block in blocks}


def test_an_item_longer_than_the_budget_is_shown_by_the_part_that_answers():
    answer = "Refunds of a mooring fee are paid within nine days by the treasurer."
    kb = open_with(Item("guide", "s", title="Harbour guide", text=document(answer)))
    for budget in (80, 150, 400):
        context = kb.context(
            "when are refunds of a mooring fee paid", spaces=["s"], max_tokens=budget
        )
        assert answer in context.text
        assert context.tokens <= budget
        assert forms(context) == {"guide": "excerpt"}


def test_an_excerpt_reports_the_ranges_it_shows():
    answer = "Refunds of a mooring fee are paid within nine days by the treasurer."
    text = document(answer)
    kb = open_with(Item("guide", "s", title="Harbour guide", text=text))
    context = kb.context("refunds of a mooring fee", spaces=["s"], max_tokens=150)
    (block,) = context.fragments[0].chosen
    shown = [text[part.start : part.end] for part in block.passages]
    assert any(answer in part for part in shown)
    assert all(part.strip() in context.text for part in shown)
    assert block.passages == tuple(sorted(block.passages, key=lambda part: part.start))


def test_a_search_hit_names_the_passage_that_matched():
    answer = "The lighthouse lamp burns whale oil."
    text = document(answer)
    kb = open_with(Item("guide", "s", text=text), Item("note", "s", text="a lamp"))
    hits = {hit.item.id: hit for hit in kb.search("lighthouse whale oil lamp", spaces=["s"])}
    passage = hits["guide"].passage
    assert answer in text[passage.start : passage.end]
    assert passage.end - passage.start < len(text) / 4
    assert (hits["note"].passage.start, hits["note"].passage.end) == (0, len("a lamp"))


def test_the_best_hit_is_text_even_where_many_short_items_fit():
    answer = "The lighthouse lamp burns whale oil, which the keeper orders in spring."
    short = [
        Item(f"i{number}", "s", title=f"Lamp {number}", text=f"Lamp number {number}.")
        for number in range(40)
    ]
    kb = open_with(Item("guide", "s", title="Guide", text=document(answer)), *short)
    for budget in (60, 100, 200):
        context = kb.context(
            "which oil does the lighthouse lamp burn", spaces=["s"], max_tokens=budget
        )
        assert forms(context)["guide"] == "excerpt"
        assert answer in context.text


def test_pointers_are_few_and_last():
    items = [
        Item(
            f"i{n}",
            "s",
            title=f"Mooring rule {n}",
            text=" ".join(f"rule{n}x{k}" for k in range(20)),
        )
        for n in range(40)
    ]
    kb = open_with(*items)
    counts = []
    for budget in range(200, 600, 20):
        context = kb.context("mooring rules", spaces=["s"], max_tokens=budget)
        pointers = [b for f in context.fragments for b in f.chosen if b.form is Form.POINTER]
        counts.append(len(pointers))
        if pointers:
            assert context.fragments[-1].name == SEE_ALSO
            assert list(context.fragments[-1].chosen) == pointers
            assert context.text.rstrip().endswith(pointers[-1].text.rstrip())
    assert 0 < max(counts) <= MAX_POINTERS


@pytest.mark.parametrize("name", ["markdown", "plain", "yaml", "json"])
def test_near_duplicates_are_shown_once(name):
    text = f"Moorings are let by the month. {FILLER}"
    twins = [
        Item("a", "s", title="Moorings", text=text),
        Item("b", "s", title="Moorings (copy)", text=f"{text} Checked."),
    ]
    other = Item("c", "s", title="Tides", text="Moorings depend on the tides of the month.")
    context = open_with(*twins, other).context(
        "moorings by the month", spaces=["s"], max_tokens=600, format=name
    )
    shown = [hit.item.id for hit in context.hits]
    assert len({"a", "b"} & set(shown)) == 1 and "c" in shown
    (entry,) = [entry for entry in context.left_out if entry.hit.item.id in ("a", "b")]
    assert entry.reason.startswith("repeats 'Moorings")


def test_items_with_the_same_text_and_other_properties_are_not_duplicates():
    text = f"Moorings are let by the month. {FILLER}"
    items = [Item(id, "s", title="Berth", text=text, properties={"berth": id}) for id in "ab"]
    context = open_with(*items).context("moorings by the month", spaces=["s"], max_tokens=600)
    assert {hit.item.id for hit in context.hits} == {"a", "b"}


@pytest.mark.parametrize(
    ("first", "second", "query"),
    [
        ("The fee is nine crowns.", "The fee is not nine crowns.", "moorings by the month"),
        ("The fee is 9 crowns.", "The fee is 12 crowns.", "moorings by the month"),
        ("The fee is low in spring.", "The fee is low in winter.", "moorings in winter"),
    ],
)
def test_texts_that_differ_in_a_number_a_negation_or_a_word_of_the_query_are_both_shown(
    first, second, query
):
    text = f"Moorings are let by the month. {FILLER}"
    items = [Item("a", "s", text=f"{first} {text}"), Item("b", "s", text=f"{second} {text}")]
    context = open_with(*items).context(query, spaces=["s"], max_tokens=600)
    assert {hit.item.id for hit in context.hits} == {"a", "b"}


def test_texts_under_titles_that_the_query_tells_apart_are_both_shown():
    text = f"Moorings are let by the month. {FILLER}"
    items = [Item(name, "s", title=f"{name} harbour", text=text) for name in ("North", "South")]
    kb = open_with(*items)
    context = kb.context("moorings in the south harbour", spaces=["s"], max_tokens=600)
    assert {hit.item.id for hit in context.hits} == {"North", "South"}
    context = kb.context("moorings by the month", spaces=["s"], max_tokens=600)
    assert len({hit.item.id for hit in context.hits}) == 1


def test_passages_that_all_say_the_same_are_shown_once():
    sentence = "The mooring fee is nine crowns. " + FILLER
    kb = open_with(Item("guide", "s", title="Guide", text="\n\n".join([sentence] * 200)))
    context = kb.context("mooring fee", spaces=["s"], max_tokens=400)
    assert context.text.count("The mooring fee is nine crowns") <= 2


def test_a_neighbour_shows_the_passage_that_its_link_points_to():
    harbour = f"# Amberly Quay\n\nBuilt in 1871 by Ida Thorne. {FILLER}{FILLER}{FILLER}"
    other = "\n\n".join(f"# Chapter {n}\n\nPage {n}. {FILLER}{FILLER}{FILLER}" for n in range(9))
    gazetteer = Item("gazetteer", "s", title="Gazetteer", text=f"{other}\n\n{harbour}\n\n{other}")
    ship = Item("ship", "s", title="The Swift", text="The ferry Swift berths at Amberly Quay.")
    kb = open_with(gazetteer, ship)
    context = kb.context("where does the ferry Swift berth", spaces=["s"], max_tokens=300)
    assert forms(context).get("gazetteer") == "excerpt"
    assert "Built in 1871 by Ida Thorne" in context.text


def test_another_passage_size_gives_another_digest():
    kb = open_with(Item("guide", "s", title="Guide", text=document("The fee is nine crowns.")))
    first, again = (kb.context("fee", spaces=["s"], now=NOON) for _ in range(2))
    kb.reindex(passage_size=400)
    other = kb.context("fee", spaces=["s"], now=NOON)
    assert first.digest == again.digest != other.digest


def test_a_budget_below_one_part_shows_no_cut_text():
    kb = open_with(Item("guide", "s", title="Guide", text=document("The fee is nine crowns.")))
    for budget in range(60):
        context = kb.context("which fee", spaces=["s"], max_tokens=budget)
        assert context.tokens <= budget
        for fragment in context.fragments:
            for block in fragment.chosen:
                assert all(part.end > part.start for part in block.passages)


def test_adjacent_ranges_are_joined():
    text = "One two.  Three four. Five six."
    first, second, third = Passage(0, 0, 8), Passage(0, 10, 21), Passage(0, 22, 31)
    assert merge_ranges(text, [second, first]) == (Passage(0, 0, 21),)
    assert merge_ranges(text, [third, first]) == (first, third)


def test_a_long_profile_is_shown_by_the_passage_that_matches():
    answer = "Maya moors her sloop at the northern pier."
    text = "\n\n".join([*(f"Diary page {n}. {FILLER}{FILLER}" for n in range(40)), answer])
    profile = Item("user:maya", "s", kind=Kind.PROFILE, title="Maya", text=text)
    kb = open_with(profile, Item("note", "s", text="The northern pier is closed."))
    context = kb.context(
        "where does Maya moor her sloop",
        spaces=["s"],
        max_tokens=300,
        recipe="profile",
        entity="user:maya",
    )
    assert forms(context)["user:maya"] == "excerpt"
    assert answer in context.text


def test_what_stands_beside_the_words_of_the_question_outweighs_a_weaker_passage():
    beside = "Set the limit to zero, and everything is read. " * 4
    texts = ("Why is the page cut off? " * 8, beside, "A page may be cut. " * 11)
    text = "\n\n".join(part.strip() for part in texts)
    end, start = text.index("A page may") - 2, text.index("A page may")
    best = ScoredPassage(Passage(0, 0, end), 0.5)
    weaker = ScoredPassage(Passage(1, start, len(text)), 0.4)
    hit = Hit(Item("guide", "s", text=text), 0.5, passages=(best, weaker))
    (parts,) = select_parts([hit], [6.0], "why is the page cut off", 1_000).values()
    shown = [text[part.range.start : part.range.end].strip()[:10] for part in parts]
    assert shown.index("Set the li") < shown.index("A page may")
