"""What every item store promises."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowloom.errors import KnowloomError
from knowloom.model import Batch, Filter, Item, Kind
from knowloom.ports import ItemStore
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NOBODY,
    NOW,
    allowed,
    batch,
    edge,
    few_examples,
    ids,
    item,
    settle,
    some_filters,
    some_items,
)
from knowloom.testing.lifetime import LifetimeContract


class ItemStoreContract(LifetimeContract):
    """Override `store`; everything else is inherited."""

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    # items

    def test_an_item_comes_back_with_every_field(self, store: ItemStore) -> None:
        odd = {
            "nested": {"list": [1, 2.5, None, True, {"deep": "ü"}]},
            "big": 2**60,
            "tiny": 1e-300,
            "": "",
        }
        said = Item(
            "ä/1 \0'\"",
            "acme ☂",
            Kind.CLAIM,
            "fäq",
            "Títle",
            "text\r\n\ttabs\0 and 🧵",
            "סיכום",
            odd,
            ("vip", "ß", "vip"),
        )
        about = replace(
            said,
            section="rules",
            subject="anna",
            confidence=0.1 + 0.2,
            source="a/b.md#L1",
            embedding_text="embed this",
        )
        dated = replace(
            about, created_at=NOW.replace(microsecond=123456), updated_at=NOW.replace(microsecond=1)
        )
        full = replace(
            dated,
            valid_from=datetime(1, 1, 1, tzinfo=UTC),
            valid_to=datetime.max.replace(tzinfo=UTC),
        )
        store.apply(batch([full]))
        assert store.get([full.key]) == [full]

    def test_an_item_with_nothing_but_a_name_comes_back_as_it_was(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([("acme", "a")]) == [item("a")]

    def test_a_time_of_another_zone_is_the_same_time(self, store: ItemStore) -> None:
        there = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
        store.apply(batch([item("a", created_at=there, valid_to=there)]))
        assert store.get([("acme", "a")]) == [item("a", valid_to=NOW)]

    def test_items_come_in_the_order_asked(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c", space="zoo")]))
        assert ids(
            found.key
            for found in store.get([("zoo", "c"), ("acme", "b"), ("acme", "a"), ("acme", "b")])
        ) == ["c", "b", "a", "b"]

    def test_unknown_keys_are_left_out(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([("acme", "x"), ("nowhere", "a"), ("acme", "a"), ("acme", "A")]) == [
            item("a")
        ]

    def test_no_keys_give_no_items(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([]) == []

    def test_an_item_replaces_the_one_of_its_name(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old", tags=("vip",))]))
        store.apply(batch([item("a", "new")]))
        assert store.get([("acme", "a")]) == store.find(ACME, 10) == [item("a", "new")]

    def test_the_last_of_two_in_one_batch_wins(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "first", type="faq"), item("a", "second")]))
        assert store.find(ACME, 10) == [item("a", "second")]
        assert store.find(replace(ACME, types=("faq",)), 10) == []

    def test_the_same_id_in_two_spaces_is_two_items(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "here"), item("a", "there", space="zoo")]))
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.find(BOTH, 10) == [item("a", "there", space="zoo")]

    def test_what_the_caller_changes_afterwards_is_not_stored(self, store: ItemStore) -> None:
        properties = {"plan": "gold"}
        store.apply(batch([item("a", properties=properties)]))
        properties["plan"] = "none"
        assert store.get([("acme", "a")])[0].properties == {"plan": "gold"}

    # batches

    def test_an_empty_batch_does_nothing(self, store: ItemStore) -> None:
        store.apply(batch())
        assert store.spaces() == []

    def test_a_batch_that_fails_in_the_middle_leaves_nothing_behind(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old")]))
        before = store.spaces()
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(
                batch(
                    [
                        item("a", "new"),
                        item("b", properties={"bad": {1, 2}}),
                        item("c", space="zoo"),
                    ],
                    deleted=[("acme", "a")],
                )
            )
        assert (store.spaces(), store.find(BOTH, 10), len(store.changes("acme"))) == (
            before,
            [item("a", "old")],
            1,
        )

    def test_a_batch_whose_edge_fails_leaves_nothing_behind(self, store: ItemStore) -> None:
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(
                batch(
                    [item("a"), item("b")],
                    [edge("a", "b"), edge("b", "a", properties={"bad": {1, 2}})],
                )
            )
        assert (store.spaces(), store.find(ACME, 10), store.changes("acme")) == ([], [], [])

    def test_a_failed_batch_does_not_stop_the_next(self, store: ItemStore) -> None:
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(batch([item("a"), item("b", properties={"bad": {1, 2}})]))
        store.apply(batch([item("a", "good")]))
        assert (store.find(ACME, 10), store.verify()) == ([item("a", "good")], [])

    def test_deletes_come_before_puts(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old")]))
        store.apply(batch([item("a", "new")], deleted=[("acme", "a")]))
        assert store.find(ACME, 10) == [item("a", "new")]

    def test_a_deleted_item_is_gone(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")]))
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.get([("acme", "a")]) == []
        assert store.visible([("acme", "a"), ("acme", "b")], ACME) == [("acme", "b")]
        assert store.find(ACME, 10) == [item("b")]

    def test_deleting_what_is_not_there_is_harmless(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        before = store.spaces()
        edges = [edge("a", "x").key, edge("a", "b", space="nowhere").key]
        store.apply(batch(deleted=[("acme", "x"), ("nowhere", "a")], deleted_edges=edges))
        assert (store.spaces(), len(store.changes("acme")), store.verify()) == (before, 1, [])

    # spaces

    def test_an_unused_store_has_no_spaces(self, store: ItemStore) -> None:
        assert store.spaces() == []

    def test_spaces_come_by_name_with_their_counts_all_or_those_asked_for(
        self, store: ItemStore
    ) -> None:
        store.apply(
            batch(
                [item("z", space="zoo"), item("a"), item("b")],
                [edge("a", "b"), edge("a", "z", target_space="zoo")],
            )
        )
        assert [(space.name, space.items, space.edges) for space in store.spaces()] == [
            ("acme", 2, 2),
            ("zoo", 1, 0),
        ]
        for names in ([], ["zoo"], ["zoo", "acme", "zoo", "O'Brien \"; --"], ["nowhere"]):
            assert store.spaces(names) == [space for space in store.spaces() if space.name in names]

    def test_an_emptied_space_is_still_known(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b")]))
        store.apply(batch(deleted=[("acme", "a"), ("acme", "b")]))
        assert [
            (space.name, space.items, space.edges, int(space.digest, 16))
            for space in store.spaces()
        ] == [("acme", 0, 0, 0)]

    def test_counts_follow_updates_and_deletes(self, store: ItemStore) -> None:
        store.apply(
            batch(
                [item("a"), item("b"), item("c")], [edge("a", "b"), edge("b", "c"), edge("c", "c")]
            )
        )
        store.apply(batch([item("a", "new")], [edge("a", "b", 2)], deleted=[("acme", "c")]))
        assert [(space.items, space.edges) for space in store.spaces()] == [(2, 1)]

    def test_the_digest_does_not_depend_on_the_order_of_writing(self, store: ItemStore) -> None:
        for space, names in (("acme", "abcd"), ("zoo", "dbca")):
            for name in names:
                store.apply(batch([item(name, f"text {name}", space=space)]))
        with_own_names = {space.name: space.digest for space in store.spaces()}
        store.apply(batch(deleted=[("acme", name) for name in "abcd"]))
        store.apply(batch([item(name, f"text {name}") for name in "cadb"]))
        assert {space.name: space.digest for space in store.spaces()} == with_own_names

    def test_the_digest_does_not_depend_on_how_the_knowledge_got_there(
        self, store: ItemStore
    ) -> None:
        store.apply(
            batch([item("a", "one", properties={"x": 1, "y": 2}), item("b")], [edge("a", "b", 0.5)])
        )
        straight = store.spaces()
        store.apply(
            batch(
                [item("a", "two"), item("c")], [edge("a", "b", 0.7), edge("c", "a"), edge("b", "c")]
            )
        )
        store.apply(
            batch(
                [item("a", "one", properties={"y": 2, "x": 1})],
                [edge("a", "b", 0.5)],
                deleted=[("acme", "c")],
            )
        )
        assert store.spaces() == straight

    @pytest.mark.parametrize(
        "other",
        [
            batch([item("a", "two")]),
            batch([item("a", "one", properties={"x": 1})]),
            batch([item("a", "one", updated_at=NOW)]),
            batch([item("b", "one")]),
            batch(deleted=[("acme", "a")]),
            batch(edges=[edge("a", "b", 2)]),
            batch(edges=[edge("a", "b", item_id="a")]),
            batch(edges=[edge("b", "a")]),
            batch(deleted_edges=[edge("a", "b").key]),
        ],
        ids=[
            "text",
            "properties",
            "time",
            "other item",
            "deleted",
            "weight",
            "explained",
            "new edge",
            "no edge",
        ],
    )
    def test_the_digest_tells_when_anything_differs(self, store: ItemStore, other: Batch) -> None:
        store.apply(batch([item("a", "one"), item("b")], [edge("a", "b")]))
        before = store.spaces()[0].digest
        store.apply(other)
        assert store.spaces()[0].digest != before

    def test_a_whole_number_is_the_same_weight_as_its_float(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b", 2)]))
        whole = store.spaces()
        store.apply(batch(edges=[edge("a", "b", 2.0)]))
        assert (store.spaces(), store.verify()) == (whole, [])

    def test_the_digest_of_a_space_is_its_own(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        before = store.spaces()[0]
        store.apply(batch([item("a", "other", space="zoo")]))
        assert store.spaces()[0] == before

    # finding and filtering

    def test_find_walks_everything_exactly_once_in_the_order_of_keys(
        self, store: ItemStore
    ) -> None:
        stored = [
            item(f"{number}", space=space) for number in range(30) for space in ("zoo", "acme")
        ] + [item("ä"), item("é"), item("🧵")]
        store.apply(batch(stored))
        assert walk(store, BOTH, 7) == sorted(stored, key=lambda one: one.key)

    def test_find_walks_a_filtered_set_exactly_once(self, store: ItemStore) -> None:
        stored = [item(f"{number}", type="faq" if number % 3 else "note") for number in range(40)]
        store.apply(batch(stored))
        expected = sorted((one for one in stored if one.type == "faq"), key=lambda one: one.key)
        assert walk(store, replace(ACME, types=("faq",)), 4) == expected

    def test_find_goes_on_behind_a_key_that_is_not_there(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("c"), item("a", space="zoo")]))
        assert [one.key for one in store.find(BOTH, 10, ("acme", "b"))] == [
            ("acme", "c"),
            ("zoo", "a"),
        ]
        assert [one.key for one in store.find(BOTH, 10, ("middle", "x"))] == [("zoo", "a")]

    def test_find_gives_no_more_than_asked(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("a", space="zoo")]))
        assert (len(store.find(BOTH, 2)), store.find(BOTH, 0)) == (2, [])

    def test_no_space_sees_nothing(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert (store.find(NOBODY, 10), store.visible([("acme", "a")], NOBODY)) == ([], [])

    def test_visible_keys_come_in_the_order_asked(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b", type="faq"), item("c"), item("d", space="zoo")]))
        asked = [("zoo", "d"), ("acme", "c"), ("acme", "x"), ("acme", "b"), ("acme", "a")]
        assert store.visible(asked, replace(ACME, exclude_types=("faq",))) == [
            ("acme", "c"),
            ("acme", "a"),
        ]

    @few_examples
    @given(some_items, some_filters, st.integers(1, 30))
    def test_find_and_visible_show_what_the_filter_allows(
        self, store: ItemStore, items: list[Item], only: Filter, limit: int
    ) -> None:
        items, only = settle(items, only)
        store.apply(batch(items))
        expected = allowed(items, only)
        assert [one.key for one in store.find(only, limit)] == sorted(expected)[:limit]
        assert store.visible([one.key for one in items], only) == [
            one.key for one in items if one.key in expected
        ]

    @pytest.mark.parametrize(
        "at",
        [NOW, NOW - timedelta(microseconds=1), NOW + timedelta(microseconds=1)],
        ids=["at", "before", "after"],
    )
    def test_filters_are_exact_to_the_microsecond(self, store: ItemStore, at: datetime) -> None:
        stored = [
            item("from", valid_from=NOW),
            item("to", valid_to=NOW),
            item("made", created_at=NOW),
        ]
        store.apply(batch(stored))
        for only in (
            replace(ACME, valid_at=at),
            replace(ACME, created_from=at),
            replace(ACME, created_to=at),
        ):
            assert {one.key for one in store.find(only, 10)} == allowed(stored, only)

    @pytest.mark.parametrize("least", [0.7, 0.70000001, 0.3, 0.1 + 0.2, 1.0])
    def test_filters_are_exact_to_the_last_digit(self, store: ItemStore, least: float) -> None:
        stored = [
            item(f"{number}", confidence=number)
            for number in (None, 0, 0.1 + 0.2, 0.3, 0.7, 0.70000001, 1.0)
        ]
        store.apply(batch(stored))
        only = replace(ACME, min_confidence=least)
        assert {one.key for one in store.find(only, 10)} == allowed(stored, only)

    @pytest.mark.parametrize("field", ["types", "tags", "subjects", "kinds", "min_confidence"])
    def test_a_filter_follows_an_update(self, store: ItemStore, field: str) -> None:
        value: Any = {
            "types": ("faq",),
            "tags": ("vip",),
            "subjects": ("anna",),
            "kinds": (Kind.CLAIM,),
            "min_confidence": 0.5,
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

    # change log

    def test_the_change_log_tells_what_happened_and_what_was_there_before(
        self, store: ItemStore
    ) -> None:
        later = NOW + timedelta(microseconds=1)
        store.apply(batch([item("a", "old"), item("b")], [edge("a", "b")]))
        store.apply(batch([item("a", "new")], [edge("a", "b", 2)], at=later))
        store.apply(batch(deleted=[("acme", "b")], at=later))
        assert [(one.at, one.id, one.action, one.before) for one in store.changes("acme")] == [
            (NOW, "a", "add", None),
            (NOW, "b", "add", None),
            (NOW, "a", "link", None),
            (later, "a", "update", item("a", "old")),
            (later, "a", "link", edge("a", "b")),
            (later, "a", "unlink", edge("a", "b", 2)),
            (later, "b", "delete", item("b")),
        ]

    def test_an_unlinked_edge_is_logged(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b", 0.25, properties={"why": "ü"})]))
        store.apply(batch(deleted_edges=[edge("a", "b").key]))
        last = store.changes("acme")[-1]
        assert (last.action, last.before) == (
            "unlink",
            edge("a", "b", 0.25, properties={"why": "ü"}),
        )

    def test_a_deleted_items_edges_are_logged_in_the_order_of_their_keys(
        self, store: ItemStore
    ) -> None:
        links = [
            edge("c", "a", 9),
            edge("a", "b", 1),
            edge("a", "a", 5, type="x"),
            edge("b", "a", 3),
        ]
        store.apply(batch([item("a"), item("b"), item("c")], links))
        store.apply(batch(deleted=[("acme", "a")]))
        assert [one.before for one in store.changes("acme")[7:-1]] == sorted(
            links, key=lambda one: one.key
        )

    def test_the_change_log_is_numbered_upwards_and_read_in_pages(self, store: ItemStore) -> None:
        for number in range(10):
            store.apply(batch([item(f"{number}"), item(f"{number}", space="zoo")]))
        numbers = [one.number for one in store.changes("acme")]
        assert numbers == sorted(set(numbers)) and numbers[0] > 0
        assert ids(
            ("acme", one.id) for one in store.changes("acme", after=numbers[3], limit=4)
        ) == ["4", "5", "6", "7"]

    def test_each_space_has_its_own_change_log(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("z", space="zoo")]))
        assert [(one.space, one.id) for one in store.changes("zoo")] == [("zoo", "z")]
        assert store.changes("nowhere") == []

    def test_all_is_well_after_many_writes(self, store: ItemStore) -> None:
        for number in range(30):
            store.apply(
                batch(
                    [item(f"{number % 7}", f"text {number}"), item("b")],
                    [edge("b", f"{number % 7}", number)],
                )
            )
            store.apply(batch(deleted=[("acme", f"{number % 5}")]))
        assert store.verify() == []


def walk(store: ItemStore, only: Filter, page: int) -> list[Item]:
    """Everything that `find` gives, page by page."""
    found: list[Item] = []
    while part := store.find(only, page, found[-1].key if found else None):
        found += part
    return found
