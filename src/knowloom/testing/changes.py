"""The contract of item stores about the change log by item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from knowloom.model import Change
from knowloom.ports import ItemStore
from knowloom.testing.knowledge import ACME, batch, edge, item, spoil


class HistoryContract:
    """The promises of `changes_of`, and of values that callers change: override `store`.

    Each line identifies the edge it is about, an item's log includes the edges that touch it, and
    nothing that a caller does to a returned value is stored or logged.
    """

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    def test_the_log_identifies_the_edge_of_each_link(self, store: ItemStore) -> None:
        new, other = edge("a", "b", type="x"), edge("a", "b", target_space="zoo")
        store.apply(batch([item("a"), item("b"), item("b", space="zoo")], [new, other]))
        store.apply(batch(edges=[edge("a", "b", 2, type="x")], deleted_edges=[other.key]))
        changes = store.changes("acme")
        assert [(change.action, change.link) for change in changes if change.link] == [
            ("link", new.key),
            ("link", other.key),
            ("unlink", other.key),
            ("link", new.key),
        ]
        assert {change.link for change in changes if change.action == "add"} == {None}

    def test_the_log_of_an_item_includes_the_edges_that_touch_it(self, store: ItemStore) -> None:
        store.apply(
            batch(
                [item("a"), item("b"), item("c")],
                [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("a", "a")],
            )
        )
        store.apply(batch([item("b", "new")], deleted=[("acme", "a")]))
        assert [(change.id, change.action) for change in store.changes_of([("acme", "a")])] == [
            ("a", "add"),
            ("a", "link"),
            ("c", "link"),
            ("a", "link"),
            ("a", "unlink"),
            ("a", "unlink"),
            ("c", "unlink"),
            ("a", "delete"),
        ]

    def test_an_edge_from_another_space_is_in_the_log_of_its_target(self, store: ItemStore) -> None:
        store.apply(
            batch(
                [item("a"), item("z", space="zoo"), item("a", space="zoo")],
                [edge("z", "a", space="zoo", target_space="acme")],
            )
        )
        changes = store.changes_of([("acme", "a")])
        assert [(change.space, change.id, change.action) for change in changes] == [
            ("acme", "a", "add"),
            ("zoo", "z", "link"),
        ]

    def test_the_logs_of_several_items_are_merged(self, store: ItemStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c")], [edge("a", "b")]))
        changes = store.changes_of(
            [("acme", "b"), ("acme", "a"), ("acme", "b"), ("acme", "x"), ("nowhere", "a")]
        )
        assert _unnumbered(changes) == _unnumbered(
            change for change in store.changes("acme") if change.id in ("a", "b")
        )
        assert store.changes_of([]) == []

    def test_changes_to_returned_values_are_neither_stored_nor_logged(
        self, store: ItemStore
    ) -> None:
        properties = {"plan": "gold", "limits": {"seats": [1, 2]}}
        keys = [("acme", "a"), ("acme", "b")]
        store.apply(batch([item("a", properties=properties), item("b")]))
        before = store.spaces()
        for value in [*store.get(keys), *store.find(ACME, 10)]:
            spoil(value)
        assert (
            [item.properties for item in store.get(keys)]
            == [item.properties for item in store.find(ACME, 10)]
            == [properties, {}]
        )
        assert store.spaces() == before
        store.apply(batch(deleted=keys))
        for log in (store.changes("acme"), store.changes_of(keys)):
            for change in log:
                if change.before is not None:
                    spoil(change.before)
        for log in (store.changes("acme"), store.changes_of(keys)):
            states = [change.before for change in log if change.before is not None]
            assert [state.properties for state in states] == [properties, {}]
        assert store.spaces()[0].digest == "0" * 32


def _unnumbered(changes: Iterable[Change]) -> list[Change]:
    return [replace(change, number=0) for change in changes]
