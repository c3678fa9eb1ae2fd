"""The contract of item stores about spaces: names, counters and digests."""

from __future__ import annotations

import pytest

from knowloom.ports import Batch, ItemStore
from knowloom.testing.knowledge import NOW, batch, edge, item


class SpaceContract:
    """A space is created by its first write and listed by name, with counters and a digest.

    The digest depends on the stored items and edges alone, not on the order or history of writes:
    equal digests mean equal knowledge. It is part of `ItemStoreContract`.
    """

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    def test_an_unused_store_has_no_spaces(self, store: ItemStore) -> None:
        assert store.spaces() == []

    def test_spaces_come_by_name_with_their_counts_all_or_the_named_ones(
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

    def test_an_emptied_space_still_exists(self, store: ItemStore) -> None:
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
    def test_the_digest_changes_with_any_difference(self, store: ItemStore, other: Batch) -> None:
        store.apply(batch([item("a", "one"), item("b")], [edge("a", "b")]))
        before = store.spaces()[0].digest
        store.apply(other)
        assert store.spaces()[0].digest != before

    def test_a_whole_number_is_the_same_weight_as_its_float(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("a", "b", 2)]))
        whole = store.spaces()
        store.apply(batch(edges=[edge("a", "b", 2.0)]))
        assert (store.spaces(), store.verify()) == (whole, [])

    def test_the_digest_of_a_space_ignores_other_spaces(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        before = store.spaces()[0]
        store.apply(batch([item("a", "other", space="zoo")]))
        assert store.spaces()[0] == before
