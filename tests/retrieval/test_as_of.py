"""Queries as of an earlier time: later changes show in no search and no context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowloom import Edge, Engine, Item, Kind
from knowloom.ports import Stores
from knowloom.registry import open_stores

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    stores: Stores = open_stores(
        "memory:" if request.param == "memory" else str(tmp_path / "knowledge.db"), {}
    )
    with Engine(stores, None, clock) as engine:
        yield engine


def write(kb: Engine, clock: Clock, day: int, *items: Item, edges: tuple[Edge, ...] = ()) -> None:
    clock.now = START + day * DAY
    kb.add(items, edges)


def texts(kb: Engine, day: float, **options: Any) -> list[str]:
    return [
        hit.item.text
        for hit in kb.search(
            "tea", spaces=["s"], now=START + 99 * DAY, as_of=START + day * DAY, **options
        )
    ]


def test_an_updated_item_is_returned_as_it_was(kb: Engine, clock: Clock) -> None:
    for day, text in enumerate(["tea is green", "tea is black", "tea is red"]):
        write(kb, clock, day, Item("a", "s", text=text))
    assert [texts(kb, day) for day in (-1, 0, 0.5, 1, 1.5, 2, 9)] == [
        [],
        ["tea is green"],
        ["tea is green"],
        ["tea is black"],
        ["tea is black"],
        ["tea is red"],
        ["tea is red"],
    ]
    then = {"spaces": ["s"], "now": START + 9 * DAY, "as_of": START + DAY / 2}
    assert "green" in kb.context("tea", **then).text and "red" not in kb.explain("tea", **then).text


def test_a_linked_item_is_returned_as_it_was(kb: Engine, clock: Clock) -> None:
    write(
        kb,
        clock,
        0,
        Item("a", "s", text="tea"),
        Item("b", "s", text="the cup is white"),
        edges=(Edge("a", "b", space="s"),),
    )
    write(kb, clock, 5, Item("b", "s", text="the cup is broken"))
    assert "white" in kb.context("tea", spaces=["s"], as_of=START + DAY).text
    assert "broken" in kb.context("tea", spaces=["s"], as_of=START + 6 * DAY).text


def test_profiles_and_rules_are_returned_as_they_were(kb: Engine, clock: Clock) -> None:
    first = (
        Item("ada", "s", Kind.PROFILE, text="likes tea"),
        Item("rule", "s", Kind.RULE, text="one cup", subject="ada"),
    )
    write(kb, clock, 0, *first)
    write(kb, clock, 5, *(replace(item, text="changed") for item in first))
    text = kb.context("tea", spaces=["s"], recipe="profile", entity="ada", as_of=START + DAY).text
    assert "likes tea" in text and "one cup" in text and "changed" not in text


def test_the_end_of_a_validity_that_was_set_later_does_not_show(kb: Engine, clock: Clock) -> None:
    write(kb, clock, 0, Item("a", "s", text="tea is free"))
    write(kb, clock, 5, Item("a", "s", text="tea is free", valid_to=START + 6 * DAY))
    (hit,) = kb.search("tea", spaces=["s"], now=START + 9 * DAY, as_of=START + DAY)
    assert hit.item.valid_to is None
    assert kb.search("tea", spaces=["s"], now=START + 9 * DAY) == []


def test_a_backdated_item_counts_from_its_date(kb: Engine, clock: Clock) -> None:
    write(kb, clock, 5, Item("a", "s", text="tea was green", created_at=START))
    assert texts(kb, 1) == ["tea was green"]


def linked(kb: Engine, day: float, **options: Any) -> list[str]:
    context = kb.context(
        "tea", spaces=["s"], now=START + 99 * DAY, as_of=START + day * DAY, **options
    )
    walked = kb.search(
        "tea", spaces=["s"], now=START + 99 * DAY, as_of=START + day * DAY, mode="walk"
    )
    reached = [hit.item.id for hit in context.hits if hit.links]
    assert options or reached == [hit.item.id for hit in walked if hit.links]
    return sorted(reached)


TEA, CUP, POT = (
    Item("tea", "s", text="tea"),
    Item("cup", "s", title="White Cup", text="it is white"),
    Item("pot", "s", title="Blue Pot", text="it is blue"),
)


def test_later_explicit_edges_are_not_followed(kb: Engine, clock: Clock) -> None:
    write(kb, clock, 0, TEA, CUP, POT, edges=(Edge("tea", "cup", weight=0.5, space="s"),))
    write(
        kb, clock, 5, edges=(Edge("tea", "pot", space="s"), Edge("tea", "cup", weight=0, space="s"))
    )
    assert [linked(kb, day) for day in (1, 6)] == [["cup"], ["pot"]]


def test_explicit_edges_deleted_since_are_followed(kb: Engine, clock: Clock) -> None:
    edge = Edge("tea", "cup", space="s")
    write(kb, clock, 0, TEA, CUP, edges=(edge,))
    clock.now = START + 5 * DAY
    kb.delete_edges([edge])
    assert [linked(kb, day) for day in (1, 6)] == [["cup"], []]


def test_names_that_a_text_held_then_are_followed_and_no_others(kb: Engine, clock: Clock) -> None:
    write(kb, clock, 0, replace(TEA, text="tea in the White Cup"), CUP, POT)
    write(kb, clock, 5, replace(TEA, text="tea in the White Cup from the Blue Pot"))
    assert [linked(kb, day) for day in (1, 6)] == [["cup"], ["cup", "pot"]]
    write(kb, clock, 7, replace(TEA, text="tea from the Blue Pot"))
    assert [linked(kb, day) for day in (1, 6, 8)] == [
        [],
        ["pot"],
        ["pot"],
    ]  # links that knowloom took away since are not known


def test_names_that_an_item_got_later_lead_nowhere(kb: Engine, clock: Clock) -> None:
    write(
        kb,
        clock,
        0,
        replace(TEA, text="tea in the White Cup"),
        replace(CUP, title="Some other thing"),
    )
    write(kb, clock, 5, CUP)
    assert [linked(kb, day) for day in (1, 6)] == [[], ["cup"]]


def test_edges_of_a_backdated_item_are_followed(kb: Engine, clock: Clock) -> None:
    old = [
        replace(item, created_at=START)
        for item in (replace(TEA, text="tea in the White Cup"), CUP, POT)
    ]
    write(kb, clock, 5, *old, edges=(Edge("tea", "pot", space="s"),))
    assert linked(kb, 1) == ["cup", "pot"]


def test_an_entity_that_came_later_leads_nowhere(kb: Engine, clock: Clock) -> None:
    write(kb, clock, 0, TEA, CUP)
    write(kb, clock, 5, Item("zed", "s", Kind.ENTITY, title="Zed", text="has the White Cup"))
    assert [linked(kb, day, entity="zed") for day in (1, 6)] == [[], ["cup"]]
    assert [
        problem.code
        for problem in kb.context("tea", spaces=["s"], entity="zed", as_of=START + DAY).degraded
    ] == ["unknown_entity"]


@settings(max_examples=40, deadline=None)
@given(
    writes=st.lists(
        st.tuples(
            st.integers(0, 9), st.sampled_from("abc"), st.sampled_from(["green", "black", "red"])
        ),
        min_size=1,
        max_size=12,
    ),
    moment=st.integers(0, 10),
)
def test_nothing_written_later_shows(writes: list[tuple[int, str, str]], moment: int) -> None:
    """The hits at a time equal those of an engine that has received no later writes."""

    def items_at(upto: int) -> list[Item]:
        clock = Clock()
        with Engine(open_stores("memory:", {}), None, clock) as kb:
            write(kb, clock, 0, Item("x", "s", text="tea"))
            for day, id, colour in sorted(writes):
                if day <= upto:
                    write(kb, clock, day, Item(id, "s", text=f"tea is {colour}"))
            return sorted(
                (
                    hit.item
                    for hit in kb.search(
                        "tea", spaces=["s"], now=START + 99 * DAY, as_of=START + moment * DAY
                    )
                ),
                key=lambda item: item.id,
            )

    assert items_at(99) == items_at(moment)
