"""What every item store promises about the past: the log by item, which edge each link was, and that nobody changes it afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from knowloom.model import Change
from knowloom.ports import ItemStore
from knowloom.testing.knowledge import ACME, batch, edge, item, spoil


class HistoryContract:
    """Override `store`; everything else is inherited."""

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    def test_the_log_names_the_edge_of_every_link(self, store: ItemStore) -> None:
        new, other = edge("a", "b", type="x"), edge("a", "b", target_space="zoo")
        store.apply(batch([item("a"), item("b"), item("b", space="zoo")], [new, other]))
        store.apply(batch(edges=[edge("a", "b", 2, type="x")], deleted_edges=[other.key]))
        assert [(one.action, one.link) for one in store.changes("acme") if one.link] == [
            ("link", new.key),
            ("link", other.key),
            ("unlink", other.key),
            ("link", new.key),
        ]
        assert {one.link for one in store.changes("acme") if one.action == "add"} == {None}

    def test_an_item_has_its_own_log_and_that_of_the_links_that_touch_it(
        self, store: ItemStore
    ) -> None:
        store.apply(
            batch(
                [item("a"), item("b"), item("c")],
                [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("a", "a")],
            )
        )
        store.apply(batch([item("b", "new")], deleted=[("acme", "a")]))
        assert [(one.id, one.action) for one in store.changes_of([("acme", "a")])] == [
            ("a", "add"),
            ("a", "link"),
            ("c", "link"),
            ("a", "link"),
            ("a", "unlink"),
            ("a", "unlink"),
            ("c", "unlink"),
            ("a", "delete"),
        ]

    def test_a_link_from_another_space_belongs_to_the_log_of_its_target(
        self, store: ItemStore
    ) -> None:
        store.apply(
            batch(
                [item("a"), item("z", space="zoo"), item("a", space="zoo")],
                [edge("z", "a", space="zoo", target_space="acme")],
            )
        )
        assert [(one.space, one.id, one.action) for one in store.changes_of([("acme", "a")])] == [
            ("acme", "a", "add"),
            ("zoo", "z", "link"),
        ]

    def test_the_logs_of_several_items_are_one_log(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c")], [edge("a", "b")]))
        found = store.changes_of(
            [("acme", "b"), ("acme", "a"), ("acme", "b"), ("acme", "x"), ("nowhere", "a")]
        )
        assert _unnumbered(found) == _unnumbered(
            one for one in store.changes("acme") if one.id in ("a", "b")
        )
        assert store.changes_of([]) == []

    def test_what_a_caller_does_to_what_he_was_given_is_neither_stored_nor_logged(
        self, store: ItemStore
    ) -> None:
        said, keys = {"plan": "gold", "limits": {"seats": [1, 2]}}, [("acme", "a"), ("acme", "b")]
        store.apply(batch([item("a", properties=said), item("b")]))
        known = store.spaces()
        for one in [*store.get(keys), *store.find(ACME, 10)]:
            spoil(one)
        assert (
            [one.properties for one in store.get(keys)]
            == [one.properties for one in store.find(ACME, 10)]
            == [said, {}]
        )
        assert store.spaces() == known
        store.apply(batch(deleted=keys))
        for log in (store.changes("acme"), store.changes_of(keys)):
            for change in log:
                if change.before is not None:
                    spoil(change.before)
        for log in (store.changes("acme"), store.changes_of(keys)):
            assert [one.before.properties for one in log if one.before is not None] == [said, {}]
        assert store.spaces()[0].digest == "0" * 32


def _unnumbered(changes: Iterable[Change]) -> list[Change]:
    return [replace(change, number=0) for change in changes]
