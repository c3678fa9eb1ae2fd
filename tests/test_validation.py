"""Items, edges, vectors and ids that the engine refuses."""

from __future__ import annotations

from typing import Any

import pytest
from engine_samples import LATER, NOW, ids, link, node

from knowloom import (
    Conflict,
    Invalid,
    NotFound,
    validation,
)
from knowloom.validation import merge_names

REFUSED_ITEMS: list[tuple[Any, str]] = [
    ("a text", "an item must be an Item, got str"),
    ({"id": "a"}, "an item must be an Item, got dict"),
    (node(""), "id must not be empty"),
    (node(5), "id must be text, got int"),
    (node("a\0"), "control characters"),
    (node("a" * 501), "id must have at most 500 characters, got 501"),
    (node("a", "   \n "), "is empty: it needs a title, a text, a summary or properties"),
    (node("a", "\t", title=" ", summary="\u00a0"), "is empty: it needs"),
    (node("a", ""), "is empty: it needs a title, a text, a summary or properties"),
    (node("a", None), "text must be text, got NoneType"),
    (node("a", "x" * 2_000_000), "text must have at most 1,000,000 characters, got 2,000,000"),
    (node("a", title="t" * 10_001), "title must have at most 10,000 characters, got 10,001"),
    (node("a", "nul \0"), r"must be storable text, got '\x00' at character 4"),
    (node("a", "lone \ud800"), r"must be storable text, got '\ud800' at character 5"),
    (node("a", embedding_text="\0"), "embedding_text must be storable text"),
    (
        node("a", kind="animal"),
        "unknown kind 'animal'; available: claim, entity, memory, node, profile, rule",
    ),
    (node("a", confidence=7), "confidence must be a number from 0 to 1, got 7"),
    (node("a", confidence=float("nan")), "confidence must be a number from 0 to 1, got nan"),
    (node("a", confidence=True), "confidence must be a number from 0 to 1, got True"),
    (node("a", tags="tag"), "tags must be a list of texts, got 'tag'"),
    (node("a", tags=("",)), "a tag must not be empty"),
    (node("a", tags=tuple(map(str, range(201)))), "tags must be at most 200, got 201"),
    (node("a", properties=[1]), "properties must be an object, got list"),
    (node("a", properties={"n": float("nan")}), "properties must be plain JSON"),
    (node("a", properties={"n": {1}}), "properties must be plain JSON"),
    (node("a", properties={"n": ["a\0"]}), r"'a\x00' cannot be stored as text"),
    (node("a", properties={"n\0": 1}), r"'n\x00' cannot be stored as text"),
    (node("a", properties={5: 1}), "the name 5 is not text"),
    (node("a", properties={"n": "\ud800"}), "properties must be storable text"),
    (
        node("a", valid_from=LATER, valid_to=NOW),
        "valid_from 2026-03-02 12:00:00+00:00 must be before valid_to 2026-03-01",
    ),
    (
        node("a", created_at="yesterday"),
        "created_at must be a time such as 2026-01-31T12:00:00Z, got 'yesterday'",
    ),
    (node("a", valid_to=5), "valid_to must be a time such as 2026-01-31T12:00:00Z, got 5"),
]


@pytest.mark.parametrize(("item", "message"), REFUSED_ITEMS)
def test_an_invalid_item_is_refused_with_the_reason(kb, item, message):
    with pytest.raises(Invalid) as caught:
        kb.add([node("good"), item])
    assert message in str(caught.value)
    assert list(kb.items()) == []


REFUSED_EDGES: list[tuple[Any, str]] = [
    (link("a", "a", -1), "weight must be a number from 0 to 1, got -1"),
    (link("a", "a", None), "weight must be a number from 0 to 1, got None"),
    (link("a", "a", origin="knowloom"), "automatic edges cannot be added"),
    (link("a", "a", 2), "weight must be a number from 0 to 1, got 2"),
    (link("a", "a", float("nan")), "weight must be a number from 0 to 1, got nan"),
    (link("a", "a", "1"), "weight must be a number from 0 to 1, got '1'"),
    (link("", "a"), "source must not be empty"),
    (link("a", "a", type=""), "type must not be empty"),
    (link("a", "nowhere"), "no item 'nowhere' in space 's'"),
    (link("a", "a", target_space="t"), "no item 'a' in space 't'"),
    (link("a", "a", item_id="why"), "no item 'why' in space 's'"),
    (link("a", "a", properties={"x": {1}}), "properties must be plain JSON"),
    (("a", "b"), "an edge must be an Edge, got tuple"),
]


@pytest.mark.parametrize(("edge", "message"), REFUSED_EDGES)
def test_an_invalid_edge_is_refused_with_the_reason(kb, edge, message):
    with pytest.raises(Invalid) as caught:
        kb.add([node("a")], [edge])
    assert message in str(caught.value)
    assert list(kb.items()) == list(kb.edges()) == []


def test_a_duplicate_id_or_edge_in_one_write_is_refused(kb):
    with pytest.raises(Invalid, match=r"duplicate ids in one write: \[\('s', 'a'\)\]"):
        kb.add([node("a"), node("a", "other")])
    with pytest.raises(Invalid, match="duplicate edges in one write"):
        kb.add([node("a")], [link("a", "a"), link("a", "a", 0.5)])
    assert list(kb.items()) == []


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1, 0]], "vectors must have one entry per item, got 1 for 2"),
        ([[1, 0], [float("nan"), 1]], "finite numbers"),
        ([[1, 0], [float("inf"), 1]], "finite numbers"),
        ([[1, 0], [1e300, 1]], "finite numbers"),
        ([[1, 0], [0, 0]], "not all of them 0"),
        ([[1, 0], [1, 0, 0]], "a vector must have 2 dimensions, got 3"),
        ([[1, 0], []], "a list of numbers"),
        ([[1, 0], [[1, 0]]], "a list of numbers"),
        ([[1, 0], ["a", "b"]], "a list of numbers"),
        ([1, 2], "a list of numbers"),
        (5, "vectors must be a list, got int"),
        ("ab", "vectors must be a list, got str"),
        ({"a": [1, 0], "b": [0, 1]}, "vectors must be a list, got dict"),
    ],
)
def test_invalid_vectors_are_refused_and_nothing_is_stored(kb, vectors, message):
    with pytest.raises(Invalid, match=message):
        kb.add([node("a"), node("b")], vectors=vectors)
    assert list(kb.items()) == []


def test_a_write_with_vectors_of_wrong_dimensions_stores_nothing(kb):
    kb.add(node("a"), vectors=[[1, 0]])
    with pytest.raises(Conflict, match=r"given:2.*given:3"):
        kb.add(node("b"), vectors=[[1, 0, 0]])
    assert ids(kb.items()) == ["a"]


@pytest.mark.parametrize(
    ("call", "message"),
    [("get", "ids must be text, got int"), ("delete", "ids must be text, got int")],
)
def test_ids_that_are_not_text_are_refused(refund_kb, call, message):
    with pytest.raises(Invalid, match=message):
        getattr(refund_kb, call)([5], space="s")


def test_two_names_of_a_value_are_merged_unless_they_differ():
    names = {"limit": "top_k"}
    for values in (
        {"top_k": 5},
        {"limit": 5},
        {"top_k": 5, "limit": 5},
        {"top_k": 5, "limit": None},
    ):
        assert merge_names(values, names) == {"top_k": 5}
    assert merge_names({"top_k": None, "limit": 5, "x": 1}, names) == {"top_k": 5, "x": 1}
    assert merge_names({"x": 1}, names) == {"x": 1}
    with pytest.raises(Invalid, match=r"top_k and limit are the same: .* got top_k=5 and limit=6"):
        merge_names({"top_k": 5, "limit": 6}, names)


def test_an_unknown_space_is_not_found_and_has_a_code(kb):
    for call in (
        lambda: kb.get("a", space="x"),
        lambda: kb.delete("a", space="x"),
        lambda: list(kb.items(["x"])),
        lambda: list(kb.edges(["x"])),
    ):
        with pytest.raises(NotFound, match="unknown space 'x'; available: none yet") as caught:
            call()
        assert (caught.value.code, caught.value.status) == ("unknown_space", 404)


@pytest.mark.parametrize("value", ["ab", b"ab", {"id": "a"}, None, 5])
def test_items_and_edges_must_be_lists(kb, value):
    with pytest.raises(Invalid, match=f"items must be a list, got {type(value).__name__}"):
        kb.add(value)
    with pytest.raises(Invalid, match=f"edges must be a list, got {type(value).__name__}"):
        kb.add([], value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "edges must be a list, got str"),
        (5, "edges must be a list, got int"),
        (["abc"], "an Edge, got str"),
    ],
)
def test_edges_to_delete_must_be_a_list_of_edges(kb, value, message):
    with pytest.raises(Invalid, match=message):
        kb.delete_edges(value)


def test_a_vector_of_very_large_numbers_is_normalised():
    assert validation.validate_vector([3e38] * 4).tolist() == [0.5] * 4
