"""The contract of graph stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from knowloom.errors import KnowloomError
from knowloom.model import AUTOMATIC, Edge
from knowloom.ports import GraphStore
from knowloom.testing.knowledge import (
    batch,
    edge,
    item,
    spoil,
)


class GraphStoreContract:
    """The promises of `ports.GraphStore`: override the fixture `store` with an empty store.

    `edges_of` returns, for each key and direction, the heaviest edges whose ends are both in the
    given spaces; limits count only edges that are selected. `edges` pages by key. Deleting an item
    deletes its edges.
    """

    @pytest.fixture
    def store(self) -> GraphStore:
        raise NotImplementedError("override the fixture `store`")

    def test_an_edge_comes_back_with_every_field(self, store: GraphStore) -> None:
        full = Edge(
            "ä", "b", "knows üb", 0.1 + 0.2, "acme", "why", {"since": {"year": 2020}}, "zoo"
        )
        link(store, full)
        assert (
            store.edges_of([("acme", "ä")], ["acme", "zoo"]) == store.edges(["acme"], 10) == [full]
        )

    def test_changes_to_returned_edges_are_not_stored(self, store: GraphStore) -> None:
        edges = [edge("a", "b", 2, properties={"since": {"years": [2020]}}), edge("a", "c")]
        link(store, *edges)
        reads: list[Callable[[], list[Edge]]] = [
            lambda: store.edges_of([("acme", "a")], ["acme"]),
            lambda: store.edges(["acme"], 10),
            lambda: store.get_edges([edge.key for edge in edges]),
        ]
        for read in reads:
            for value in read():
                spoil(value)
            assert [again() for again in reads] == [edges] * len(reads)

    def test_edges_are_found_from_both_ends(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("c", "a"), edge("b", "c"))
        assert store.edges_of([("acme", "a")], ["acme"]) == [edge("a", "b"), edge("c", "a")]

    def test_the_heaviest_come_first_and_ties_go_by_source_target_and_type(
        self, store: GraphStore
    ) -> None:
        ordered = [
            edge("z", "a", 3),
            edge("a", "b"),
            edge("a", "c", type="x"),
            edge("a", "c", type="y"),
            edge("b", "a"),
            edge("a", "d", 0),
        ]
        link(store, *ordered[::-1])
        assert store.edges_of([("acme", "a")], ["acme"]) == ordered

    def test_edges_of_many_keys_come_once_each(self, store: GraphStore) -> None:
        link(store, edge("a", "b", 3), edge("b", "c", 2), edge("x", "y"))
        keys = [
            ("acme", "a"),
            ("acme", "b"),
            ("acme", "c"),
            ("acme", "a"),
            ("acme", "unknown"),
            ("nowhere", "a"),
        ]
        assert store.edges_of(keys, ["acme"]) == [edge("a", "b", 3), edge("b", "c", 2)]

    def test_all_edges_of_many_keys_are_returned(self, store: GraphStore) -> None:
        edges = [edge(f"s{number}", f"t{far}") for number in range(60) for far in range(10)]
        link(store, *edges)
        assert store.edges_of(
            [("acme", f"s{number}") for number in range(60)], ["acme"], limit=10
        ) == sorted(edges, key=lambda edge: edge.key)

    def test_no_keys_or_no_spaces_give_no_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        assert (
            store.edges_of([], ["acme"])
            == store.edges_of([("acme", "a")], [])
            == store.edges([], 10)
            == []
        )

    def test_an_edge_replaces_the_stored_edge_with_its_key(self, store: GraphStore) -> None:
        link(store, edge("a", "b", 1, item_id="why"), edge("a", "b", 5, type="other"))
        store.apply(batch(edges=[edge("a", "b", 2, target_space="acme")]))
        assert store.edges_of([("acme", "a")], ["acme"]) == [
            edge("a", "b", 5, type="other"),
            edge("a", "b", 2, target_space="acme"),
        ]

    def test_a_self_loop_comes_once(self, store: GraphStore) -> None:
        link(store, edge("a", "a"))
        assert (
            store.edges_of([("acme", "a")], ["acme"])
            == store.edges(["acme"], 10)
            == [edge("a", "a")]
        )

    def test_a_deleted_edge_leaves_parallel_edges_in_place(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("a", "b", type="other"), edge("b", "a"))
        store.apply(batch(deleted_edges=[edge("a", "b").key]))
        assert store.edges_of([("acme", "b")], ["acme"]) == [
            edge("a", "b", type="other"),
            edge("b", "a"),
        ]

    def test_deleting_missing_edges_is_harmless(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        store.apply(
            batch(
                deleted=[("acme", "x")],
                deleted_edges=[edge("b", "a").key, edge("a", "b", space="nowhere").key],
            )
        )
        assert store.edges(["acme"], 10) == [edge("a", "b")]

    def test_deleting_an_item_deletes_its_edges(self, store: GraphStore) -> None:
        link(
            store,
            edge("a", "b"),
            edge("b", "a"),
            edge("a", "a"),
            edge("b", "c"),
            edge("z", "a", space="zoo", target_space="acme"),
        )
        store.apply(batch(deleted=[("acme", "a")]))
        assert store.edges(["acme", "zoo"], 10) == [edge("b", "c")]
        assert store.edges_of([("zoo", "z"), ("acme", "a"), ("acme", "b")], ["acme", "zoo"]) == [
            edge("b", "c")
        ]

    def test_an_updated_item_keeps_its_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("b", "a"))
        store.apply(batch([item("a", "new")]))
        assert store.edges_of([("acme", "a")], ["acme"]) == [edge("a", "b"), edge("b", "a")]

    def test_a_batch_that_fails_changes_no_edge(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(
                batch(
                    edges=[edge("b", "a"), edge("a", "a", properties={"bad": {1, 2}})],
                    deleted_edges=[edge("a", "b").key],
                )
            )
        assert store.edges(["acme"], 10) == [edge("a", "b")]

    def test_only_edges_of_the_given_types_are_returned(self, store: GraphStore) -> None:
        link(store, edge("a", "b", type="x"), edge("a", "b", type="y"), edge("c", "a", type="z"))
        assert store.edges_of([("acme", "a")], ["acme"], ["z", "x", "unknown"]) == [
            edge("a", "b", type="x"),
            edge("c", "a", type="z"),
        ]

    def test_an_edge_into_a_space_that_is_not_named_is_invisible(self, store: GraphStore) -> None:
        link(store, edge("a", "b", target_space="zoo"))
        keys = [("acme", "a"), ("zoo", "b")]
        assert store.edges_of(keys, ["acme"]) == store.edges_of(keys, ["zoo"]) == []
        for key in keys:
            assert store.edges_of([key], ["zoo", "acme"]) == [edge("a", "b", target_space="zoo")]

    def test_the_same_id_in_another_space_has_other_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("a", "b", space="zoo"))
        assert store.edges_of([("zoo", "a")], ["acme", "zoo"]) == [edge("a", "b", space="zoo")]

    def test_a_hub_shows_its_heaviest_edges_in_each_direction(self, store: GraphStore) -> None:
        out = [edge("hub", f"{number:03}", number % 50) for number in range(500)]
        link(store, *out, *(edge(out_edge.target, "hub", out_edge.weight) for out_edge in out))
        hub_edges = store.edges_of([("acme", "hub")], ["acme"], limit=15)
        expected = sorted(out, key=lambda edge: (-edge.weight, edge.target))[:15]
        assert [edge for edge in hub_edges if edge.source == "hub"] == expected
        assert [edge.source for edge in hub_edges if edge.target == "hub"] == [
            edge.target for edge in expected
        ]

    def test_the_limit_is_per_key_and_counts_only_selected_edges(self, store: GraphStore) -> None:
        hidden = [edge("a", name, 9, target_space="zoo") for name in "xyz"]
        link(
            store,
            *hidden,
            edge("a", "p", 8, type="other"),
            edge("a", "p", 2),
            edge("a", "q", 1),
            edge("b", "q", 0.5),
        )
        keys = [("acme", "a"), ("acme", "b")]
        assert store.edges_of(keys, ["acme"], ["related"], limit=1) == [
            edge("a", "p", 2),
            edge("b", "q", 0.5),
        ]
        assert store.edges_of([("acme", "a")], ["acme"], limit=0) == []

    def test_edges_below_the_minimum_weight_are_left_out(self, store: GraphStore) -> None:
        link(
            store,
            edge("a", "b", 0.5),
            edge("a", "c", 0.4999),
            edge("d", "a", 0.7),
            edge("e", "a", 0.1),
        )
        assert store.edges_of([("acme", "a")], ["acme"], min_weight=0.5) == [
            edge("d", "a", 0.7),
            edge("a", "b", 0.5),
        ]

    def test_automatic_and_explicit_edges_are_limited_separately(self, store: GraphStore) -> None:
        automatic = [replace(edge("a", name, 0.9), origin=AUTOMATIC) for name in "xyz"]
        link(store, *automatic, edge("a", "p", 0.5), edge("q", "a", 0.4))
        assert store.edges_of([("acme", "a")], ["acme"], limit=1, automatic=False) == [
            edge("a", "p", 0.5),
            edge("q", "a", 0.4),
        ]
        assert store.edges_of([("acme", "a")], ["acme"], limit=2, automatic=True) == automatic[:2]
        assert len(store.edges_of([("acme", "a")], ["acme"], limit=2)) == 3

    def test_edges_by_key_come_in_the_order_of_the_keys(self, store: GraphStore) -> None:
        first, second, third = (
            edge("a", "b", 0.5),
            edge("a", "b", type="x", properties={"x": 1}),
            edge("a", "b", target_space="zoo"),
        )
        link(store, first, second, third)
        unknown = [
            edge("b", "a").key,
            edge("a", "b", type="y").key,
            edge("a", "b", space="nowhere").key,
        ]
        assert store.get_edges([third.key, *unknown, first.key, second.key, first.key]) == [
            third,
            first,
            second,
            first,
        ]
        assert store.get_edges([]) == []

    @pytest.mark.parametrize("spaces", [("m", "k", "l"), ("l", "m", "k")], ids=str)
    def test_ties_between_spaces_do_not_depend_on_the_order_of_writing(
        self, store: GraphStore, spaces: tuple[str, ...]
    ) -> None:
        for space in spaces:
            link(
                store,
                edge("a", "b", target_space=space),
                edge("b", "a", space=space, target_space="acme"),
            )
        cut = store.edges_of([("acme", "a")], ["acme", *spaces], limit=2)
        assert [edge.target_space for edge in cut if edge.source == "a"] == ["k", "l"]
        assert [edge.space for edge in cut if edge.source == "b"] == ["k", "l"]

    @pytest.mark.parametrize("page", [1, 2, 3, 100])
    def test_edges_pages_through_all_edges_exactly_once_by_key(
        self, store: GraphStore, page: int
    ) -> None:
        ends = [(source, target) for source in "cab" for target in "bac"]
        local = [edge(source, target, type=type) for source, target in ends for type in ("y", "x")]
        cross = [
            edge("b", "a", target_space="zoo"),
            edge("b", "a", target_space="aaa"),
            edge("a", "a", space="zoo"),
        ]
        link(store, *local, *cross, edge("a", "b", space="other"))
        edges: list[Edge] = []
        while part := store.edges(["zoo", "acme"], page, edges[-1] if edges else None):
            edges += part
        assert edges == sorted([*local, *cross], key=lambda edge: edge.key)

    def test_edges_continues_after_an_edge_that_does_not_exist(self, store: GraphStore) -> None:
        link(store, edge("a", "a"), edge("a", "c"), edge("b", "a"))
        assert store.edges(["acme"], 10, edge("a", "b")) == [edge("a", "c"), edge("b", "a")]
        assert store.edges(["acme"], 0) == []


def link(store: GraphStore, *edges: Edge) -> None:
    """Write the edges and the items at their ends."""
    ends = sorted({end for edge in edges for end in (edge.source_key, edge.target_key)})
    store.apply(batch([item(id, space=space) for space, id in ends], edges))
