"""The contract of item stores about listing and filtering items."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowloom.model import Filter, Item, ItemCondition, Kind
from knowloom.ports import ItemStore
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NOBODY,
    NOW,
    ONE,
    allowed,
    batch,
    few_examples,
    ids,
    item,
    settle,
    some_conditions,
    some_filters,
    some_items,
)


class FilterContract:
    """`find` and `visible` return exactly the items that `Filter.allows`, in the promised order.

    `find` pages by (space, id); `visible` keeps the order of its input. It is part of
    `ItemStoreContract`.
    """

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    def test_find_pages_through_all_items_exactly_once_by_key(self, store: ItemStore) -> None:
        stored = [
            item(f"{number}", space=space) for number in range(30) for space in ("zoo", "acme")
        ] + [item("ä"), item("é"), item("🧵")]
        store.apply(batch(stored))
        assert scan(store, BOTH, 7) == sorted(stored, key=lambda item: item.key)

    def test_find_pages_through_filtered_items_exactly_once(self, store: ItemStore) -> None:
        stored = [item(f"{number}", type="faq" if number % 3 else "note") for number in range(40)]
        store.apply(batch(stored))
        expected = sorted(
            (item for item in stored if item.type == "faq"), key=lambda item: item.key
        )
        assert scan(store, replace(ACME, types=("faq",)), 4) == expected

    def test_find_continues_after_a_key_that_does_not_exist(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("c"), item("a", space="zoo")]))
        assert [item.key for item in store.find(BOTH, 10, ("acme", "b"))] == [
            ("acme", "c"),
            ("zoo", "a"),
        ]
        assert [item.key for item in store.find(BOTH, 10, ("middle", "x"))] == [("zoo", "a")]

    def test_find_returns_no_more_than_the_limit(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("a", space="zoo")]))
        assert (len(store.find(BOTH, 2)), store.find(BOTH, 0)) == (2, [])

    def test_a_filter_without_spaces_allows_nothing(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert (store.find(NOBODY, 10), store.visible([("acme", "a")], NOBODY)) == ([], [])

    def test_visible_keys_come_in_the_order_of_the_input(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b", type="faq"), item("c"), item("d", space="zoo")]))
        keys = [("zoo", "d"), ("acme", "c"), ("acme", "x"), ("acme", "b"), ("acme", "a")]
        assert store.visible(keys, replace(ACME, exclude_types=("faq",))) == [
            ("acme", "c"),
            ("acme", "a"),
        ]

    @few_examples
    @given(some_items, some_filters, st.integers(1, 30))
    def test_find_and_visible_return_what_the_filter_allows(
        self, store: ItemStore, items: list[Item], only: Filter, limit: int
    ) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        expected = allowed(items, only)
        assert [item.key for item in store.find(only, limit)] == sorted(expected)[:limit]
        assert store.visible([item.key for item in items], only) == [
            item.key for item in items if item.key in expected
        ]
        assert store.count(only) == len(expected)

    @pytest.mark.parametrize(
        "at",
        [NOW, NOW - timedelta(microseconds=1), NOW + timedelta(microseconds=1)],
        ids=["at", "before", "after"],
    )
    def test_filters_are_exact_to_the_microsecond(self, store: ItemStore, at: datetime) -> None:
        stored = [
            item("from", valid_from=NOW),
            item("to", valid_to=NOW),
            item("created", created_at=NOW),
        ]
        store.apply(batch(stored))
        for only in (
            replace(ACME, valid_at=at),
            replace(ACME, created_from=at),
            replace(ACME, created_to=at),
        ):
            assert {item.key for item in store.find(only, 10)} == allowed(stored, only)

    @pytest.mark.parametrize("min_confidence", [0.7, 0.70000001, 0.3, 0.1 + 0.2, 1.0])
    def test_filters_are_exact_to_the_last_digit(
        self, store: ItemStore, min_confidence: float
    ) -> None:
        stored = [
            item(f"{number}", confidence=number)
            for number in (None, 0, 0.1 + 0.2, 0.3, 0.7, 0.70000001, 1.0)
        ]
        store.apply(batch(stored))
        only = replace(ACME, min_confidence=min_confidence)
        assert {item.key for item in store.find(only, 10)} == allowed(stored, only)

    @few_examples
    @given(some_items, some_conditions)
    def test_conditions_hold_exactly_for_the_values_of_the_items(
        self, store: ItemStore, items: list[Item], where: tuple[ItemCondition, ...]
    ) -> None:
        items, only = settle(items, replace(ONE, where=where))
        store.apply(batch(items))
        for page in (items, items[::2]):
            changed = [replace(item, properties={"price": 1}) for item in page]
            assert {item.key for item in store.find(only, 100)} == allowed(items, only)
            assert store.count(only) == len(allowed(items, only))
            store.apply(batch(changed))
            items = list({item.key: item for item in (*items, *changed)}.values())

    @pytest.mark.parametrize(
        "field", ["types", "tags", "subjects", "kinds", "min_confidence", "where"]
    )
    def test_a_filter_follows_an_update(self, store: ItemStore, field: str) -> None:
        value: Any = {
            "types": ("faq",),
            "tags": ("vip",),
            "subjects": ("anna",),
            "kinds": (Kind.CLAIM,),
            "min_confidence": 0.5,
            "where": (ItemCondition("price", "$gte", (10,)),),
        }[field]
        only = replace(ACME, **{field: value})
        store.apply(
            batch(
                [
                    item(
                        "a",
                        type="faq",
                        tags=("vip",),
                        subject="anna",
                        kind=Kind.CLAIM,
                        confidence=0.9,
                        properties={"price": 10},
                    )
                ]
            )
        )
        assert ids(store.visible([("acme", "a")], only)) == ["a"]
        store.apply(batch([item("a", type="note"), item("b")]))
        assert (store.visible([("acme", "a"), ("acme", "b")], only), store.find(only, 10)) == (
            [],
            [],
        )


def scan(store: ItemStore, only: Filter, page_size: int) -> list[Item]:
    """Return everything that `find` returns, page by page."""
    items: list[Item] = []
    while page := store.find(only, page_size, items[-1].key if items else None):
        items += page
    return items
