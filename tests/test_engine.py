"""Writing, reading and deleting items and edges, in memory and in a file."""

from __future__ import annotations

import pytest
from engine_samples import LATER, NOW, THEN, ids, link, node

from knowloom import (
    Engine,
    Invalid,
    Item,
)
from knowloom.registry import open_stores


def test_an_added_item_is_searchable_at_once(kb):
    report = kb.add(node("a", "how to process a refund"))
    assert (report.added, report.updated, report.unchanged) == (1, 0, 0)
    assert ids(kb.search("refund", spaces=["s"])) == ["a"]


def test_stored_items_equal_the_added_ones(kb):
    item = node(
        "a",
        title="T",
        type="faq",
        summary="s",
        properties={"n": 1, "deep": {"x": [True, None]}},
        tags=("x", "y"),
        confidence=0.5,
        valid_to=LATER,
    )
    kb.add(item)
    assert kb.get("a", space="s") == [item]


def test_items_are_returned_in_the_requested_order(kb):
    kb.add([node("a"), node("b"), node("c")])
    assert ids(kb.get(["c", "missing", "a"], space="s")) == ["c", "a"]


def test_the_same_id_in_two_spaces_is_two_items(kb):
    kb.add([node("a", "one", space="s"), node("a", "two", space="t")])
    assert [kb.get("a", space=space)[0].text for space in ("s", "t")] == ["one", "two"]


def test_adding_the_same_item_again_changes_nothing(kb):
    kb.add(node("a"))
    before = kb.maintenance.stats().spaces
    assert kb.add(node("a")).unchanged == 1
    assert kb.maintenance.stats().spaces == before


def test_an_update_keeps_created_at_and_sets_updated_at(store_url):
    times = iter([THEN, NOW])
    engine = Engine(open_stores(store_url, {}), clock=lambda: next(times))
    engine.add(Item("a", "s", text="old"))
    assert engine.add(Item("a", "s", text="new")).updated == 1
    stored = engine.get("a", space="s")[0]
    assert (stored.text, stored.created_at, stored.updated_at) == ("new", THEN, NOW)
    engine.close()


def test_a_changed_text_is_found_only_by_its_new_words(kb):
    kb.add(node("a", "zebra"))
    kb.add(node("a", "giraffe"))
    assert ids(kb.search("zebra", spaces=["s"])) == []
    assert ids(kb.search("giraffe", spaces=["s"])) == ["a"]


def test_a_property_that_changes_from_one_to_true_is_a_change(kb):
    kb.add(node("a", properties={"open": 1}))
    assert kb.add(node("a", properties={"open": True})).updated == 1
    assert kb.get("a", space="s")[0].properties["open"] is True


def test_an_edge_whose_property_changes_from_one_to_true_is_a_change(kb):
    kb.add(node("a"), [link("a", "a", properties={"open": 1})])
    assert [
        kb.add([], [link("a", "a", properties={"open": value})]).edges for value in (1, True)
    ] == [0, 1]


def test_deleting_an_item_deletes_its_terms_and_edges(kb):
    kb.add([node("a", "zebra"), node("b")], [link("a", "b")])
    assert kb.delete("a", space="s") == 1
    assert kb.get("a", space="s") == kb.search("zebra", spaces=["s"]) == list(kb.edges()) == []


def test_deleting_a_missing_item_is_harmless(kb):
    kb.add(node("a"))
    assert kb.delete(["missing", "missing"], space="s") == 0


def test_deleted_edges_are_gone(kb):
    kb.add([node("a"), node("b")], [link("a", "b"), link("b", "a")])
    assert kb.delete_edges([link("a", "b"), link("a", "b", type="other")]) == 1
    assert list(kb.edges()) == [link("b", "a")]


def test_a_write_is_atomic(kb):
    kb.add(node("here"))
    with pytest.raises(Invalid, match="no item 'nowhere' in space 's'"):
        kb.add([node("a")], [link("a", "nowhere")])
    assert ids(kb.items()) == ["here"]


def test_thousands_of_items_are_listed_in_key_order(kb):
    kb.add([node(f"{number:05}", space=space) for number in range(1500) for space in ("t", "s")])
    listed = [item.key for item in kb.items()]
    assert listed == sorted(listed) and len(listed) == 3000
    assert len(list(kb.items(["s"]))) == 1500


@pytest.mark.parametrize("limit", [0, -1, 10_001, "3"])
def test_a_page_limit_out_of_range_is_refused(kb, limit):
    for page in (kb.items, kb.edges):
        with pytest.raises(Invalid, match="limit must be an integer from 1 to 10,000"):
            page(limit=limit)
