"""The contract of item stores about reading blocks and closing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowloom.errors import Unavailable
from knowloom.ports import ItemStore
from knowloom.testing.knowledge import ACME, batch, item

A = ("acme", "a")
CALLS: dict[str, Callable[[ItemStore], object]] = {
    "apply": lambda store: store.apply(batch([item("b")])),
    "reading": lambda store: store.reading().__enter__(),
    "spaces": lambda store: store.spaces(),
    "get": lambda store: store.get([A]),
    "visible": lambda store: store.visible([A], ACME),
    "find": lambda store: store.find(ACME, 10),
    "changes": lambda store: store.changes("acme"),
    "changes_of": lambda store: store.changes_of([A]),
    "verify": lambda store: store.verify(),
}


class LifetimeContract:
    """Reading blocks nest and survive errors; a closed store raises Unavailable with code "closed".

    It is part of `ItemStoreContract`.
    """

    @pytest.fixture
    def store(self) -> ItemStore:
        raise NotImplementedError("override the fixture `store`")

    def test_reads_inside_nested_reading_blocks_return_the_usual_results(
        self, store: ItemStore
    ) -> None:
        store.apply(batch([item("a")]))
        with store.reading(), store.reading():
            assert store.get([("acme", "a")]) == store.find(ACME, 10) == [item("a")]

    def test_an_error_inside_a_reading_block_is_harmless(self, store: ItemStore) -> None:
        with pytest.raises(KeyError), store.reading():
            raise KeyError("a")
        store.apply(batch([item("a")]))
        assert store.find(ACME, 10) == [item("a")]

    def test_closing_twice_is_harmless(self, store: ItemStore) -> None:
        store.apply(batch([item("a")]))
        store.close()
        store.close()

    @pytest.mark.parametrize("call", CALLS)
    def test_each_call_to_a_closed_store_is_refused(self, store: ItemStore, call: str) -> None:
        store.apply(batch([item("a")]))
        store.close()
        with pytest.raises(Unavailable) as caught:
            CALLS[call](store)
        assert caught.value.code == "closed"
