"""Formatting and selecting items without a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Hit, Invalid, Item, format_items, get_counter, select_within_budget
from text_strategies import any_text

BAD_ITEMS: Any = [5]
NO: Any = "no"
FORMATS = ("markdown", "plain", "yaml", "json")


def item(id: str, size: int = 1, **fields: Any) -> Item:
    return Item(id, "s", title=f"Title {id}", text=f"{id} word. " * size, **fields)


@pytest.mark.parametrize("format", FORMATS)
@given(texts=st.lists(any_text, max_size=6), budget=st.integers(0, 120))
@settings(max_examples=30)
def test_the_budget_is_never_exceeded(format: str, texts: list[str], budget: int) -> None:
    items = [Item(f"i{n}", "s", text=f"x{text}".replace("\0", "")) for n, text in enumerate(texts)]
    selection = select_within_budget(items, budget, format=format)
    assert selection.tokens == get_counter("gpt-4").count(selection.text) <= budget
    shown = {entry.id for entry in selection.items}
    assert shown | {left.hit.item.id for left in selection.left_out} == {i.id for i in items}


def test_the_best_set_is_chosen_and_not_the_first_that_fits() -> None:
    texts = ("Ask the lead first.", "Parcels leave on Monday.", "Cards are valid for years.")
    small = [Item(f"small-{n}", "s", text=text) for n, text in enumerate(texts)]
    hits = [Hit(item("large", 14), 0.45), *(Hit(entry, 0.5) for entry in small)]
    selection = select_within_budget(hits, 50, shorten=False)
    assert [entry.id for entry in selection.items] == ["small-0", "small-1", "small-2"]
    (omission,) = selection.left_out
    assert omission.hit.item.id == "large" and "tokens" in omission.reason


def test_a_hit_of_a_search_can_be_selected_and_formatted(kb: knowloom.Engine) -> None:
    kb.add([item(f"i{n}") for n in range(5)])
    hits = kb.search("word", spaces=["s"])
    assert len(select_within_budget(hits, 1000, query="word").chosen) == 5
    assert format_items(hits) == format_items([hit.item for hit in hits])


def test_an_item_that_does_not_fit_is_shortened_on_request_only() -> None:
    long = Item("a", "s", title="A", summary="In short.", text="many words follow here. " * 200)
    (chosen,) = select_within_budget([long], 40).chosen
    assert chosen.form.value in ("summary", "excerpt")
    assert select_within_budget([long], 40, shorten=False).chosen == ()


@pytest.mark.parametrize("format", FORMATS)
def test_formats_are_those_of_a_context(format: str, kb: knowloom.Engine) -> None:
    entry = item("a", properties={"price": 3})
    kb.add(entry)
    context = kb.context("word", spaces=["s"], recipe="search", format=format, max_tokens=None)
    assert format_items([entry], format, section="entry_points") == context.text


def test_yaml_parses_back_to_the_items() -> None:
    rows = yaml.safe_load(format_items([item("a"), item("b")], "yaml", section="mine"))
    assert [row["id"] for row in rows["mine"]] == ["a", "b"]
    assert format_items([]) == ""


def test_equal_texts_are_all_formatted_but_selected_once() -> None:
    twins = [Item(id, "s", title="Same", text="the same words again and again") for id in "ab"]
    assert format_items(twins, "plain").count("again and again") == 2
    assert len(select_within_budget(twins, 500).chosen) == 1


def test_an_unknown_model_is_estimated_and_strict_bounds_it() -> None:
    estimated = select_within_budget([item("a")], 50, model="claude-sonnet-4")
    assert [problem.code for problem in estimated.degraded] == ["estimated_tokens"]
    strict = select_within_budget([item("a")], 50, model="claude-sonnet-4", strict=True)
    assert strict.tokens == len(strict.text.encode()) and strict.degraded == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: select_within_budget("abc", 10), "items must be a list"),  # type: ignore[arg-type]
        (lambda: select_within_budget(BAD_ITEMS, 10), "items must be Item or Hit"),
        (lambda: select_within_budget([item("a"), item("a")], 10), "twice"),
        (lambda: select_within_budget([item("a")], -1), "max_tokens"),
        (lambda: select_within_budget([Hit(item("a"), float("nan"))], 10), "score"),
        (lambda: select_within_budget([Hit(item("a"), 2.0)], 10), "score"),
        (lambda: select_within_budget([item("a")], 10, shorten=NO), "shorten"),
        (lambda: format_items([item("a")], "html"), "available: json, markdown"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        call()
