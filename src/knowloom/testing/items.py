"""The contract of item stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from knowloom.errors import KnowloomError
from knowloom.model import Item, Kind
from knowloom.ports import ItemStore
from knowloom.testing.filters import FilterContract
from knowloom.testing.knowledge import ACME, BOTH, NOW, batch, edge, ids, item
from knowloom.testing.lifetime import LifetimeContract
from knowloom.testing.spaces import SpaceContract


class ItemStoreContract(LifetimeContract, SpaceContract, FilterContract):
    """The promises of `ports.ItemStore`: override the fixture `store` with an empty store.

    Items come back with every field, batches are applied as a whole or not at all, and the change
    log records each action with the state before it. The inherited contracts cover the lifetime of
    a store, spaces with their digests, and filters.
    """

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
        texts = Item(
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
            texts,
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

    def test_an_item_with_nothing_but_an_id_comes_back_unchanged(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([("acme", "a")]) == [item("a")]

    def test_a_time_of_another_zone_is_the_same_time(self, store: ItemStore) -> None:
        there = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
        store.apply(batch([item("a", created_at=there, valid_to=there)]))
        assert store.get([("acme", "a")]) == [item("a", valid_to=NOW)]

    def test_items_come_in_the_order_of_the_keys(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c", space="zoo")]))
        assert ids(
            item.key
            for item in store.get([("zoo", "c"), ("acme", "b"), ("acme", "a"), ("acme", "b")])
        ) == ["c", "b", "a", "b"]

    def test_unknown_keys_are_left_out(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([("acme", "x"), ("nowhere", "a"), ("acme", "a"), ("acme", "A")]) == [
            item("a")
        ]

    def test_no_keys_give_no_items(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        assert store.get([]) == []

    def test_an_item_replaces_the_stored_item_with_its_key(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "old", tags=("vip",))]))
        store.apply(batch([item("a", "new")]))
        assert store.get([("acme", "a")]) == store.find(ACME, 10) == [item("a", "new")]

    def test_the_last_of_two_items_with_one_key_in_a_batch_wins(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "first", type="faq"), item("a", "second")]))
        assert store.find(ACME, 10) == [item("a", "second")]
        assert store.find(replace(ACME, types=("faq",)), 10) == []

    def test_the_same_id_in_two_spaces_is_two_items(self, store: ItemStore) -> None:
        store.apply(batch([item("a", "here"), item("a", "there", space="zoo")]))
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.find(BOTH, 10) == [item("a", "there", space="zoo")]

    def test_later_changes_to_a_callers_properties_are_not_stored(self, store: ItemStore) -> None:
        properties = {"plan": "gold"}
        store.apply(batch([item("a", properties=properties)]))
        properties["plan"] = "none"
        assert store.get([("acme", "a")])[0].properties == {"plan": "gold"}

    # batches

    def test_an_empty_batch_does_nothing(self, store: ItemStore) -> None:
        store.apply(batch())
        assert store.spaces() == []

    def test_a_batch_that_fails_in_the_middle_changes_nothing(self, store: ItemStore) -> None:
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

    def test_a_batch_whose_edge_fails_changes_nothing(self, store: ItemStore) -> None:
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

    def test_deleting_missing_items_and_edges_is_harmless(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        before = store.spaces()
        edges = [edge("a", "x").key, edge("a", "b", space="nowhere").key]
        store.apply(batch(deleted=[("acme", "x"), ("nowhere", "a")], deleted_edges=edges))
        assert (store.spaces(), len(store.changes("acme")), store.verify()) == (before, 1, [])

    # change log

    def test_the_change_log_records_each_action_and_the_state_before(
        self, store: ItemStore
    ) -> None:
        later = NOW + timedelta(microseconds=1)
        store.apply(batch([item("a", "old"), item("b")], [edge("a", "b")]))
        store.apply(batch([item("a", "new")], [edge("a", "b", 2)], at=later))
        store.apply(batch(deleted=[("acme", "b")], at=later))
        assert [
            (change.at, change.id, change.action, change.before) for change in store.changes("acme")
        ] == [
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

    def test_edges_of_a_deleted_item_are_logged_by_key(self, store: ItemStore) -> None:
        edges = [
            edge("c", "a", 9),
            edge("a", "b", 1),
            edge("a", "a", 5, type="x"),
            edge("b", "a", 3),
        ]
        store.apply(batch([item("a"), item("b"), item("c")], edges))
        store.apply(batch(deleted=[("acme", "a")]))
        assert [change.before for change in store.changes("acme")[7:-1]] == sorted(
            edges, key=lambda edge: edge.key
        )

    def test_the_change_log_is_numbered_upwards_and_read_in_pages(self, store: ItemStore) -> None:
        for number in range(10):
            store.apply(batch([item(f"{number}"), item(f"{number}", space="zoo")]))
        numbers = [change.number for change in store.changes("acme")]
        assert numbers == sorted(set(numbers)) and numbers[0] > 0
        assert ids(
            ("acme", change.id) for change in store.changes("acme", after=numbers[3], limit=4)
        ) == ["4", "5", "6", "7"]

    def test_each_space_has_its_own_change_log(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("z", space="zoo")]))
        assert [(change.space, change.id) for change in store.changes("zoo")] == [("zoo", "z")]
        assert store.changes("nowhere") == []

    def test_verify_reports_nothing_after_many_writes(self, store: ItemStore) -> None:
        for number in range(30):
            store.apply(
                batch(
                    [item(f"{number % 7}", f"text {number}"), item("b")],
                    [edge("b", f"{number % 7}", number)],
                )
            )
            store.apply(batch(deleted=[("acme", f"{number % 5}")]))
        assert store.verify() == []
