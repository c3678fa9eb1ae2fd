"""What every graph store promises."""

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
    """Override `store`; everything else is inherited."""

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

    def test_what_a_caller_does_to_an_edge_he_was_given_is_not_stored(
        self, store: GraphStore
    ) -> None:
        known = [edge("a", "b", 2, properties={"since": {"years": [2020]}}), edge("a", "c")]
        link(store, *known)
        reads: list[Callable[[], list[Edge]]] = [
            lambda: store.edges_of([("acme", "a")], ["acme"]),
            lambda: store.edges(["acme"], 10),
            lambda: store.get_edges([one.key for one in known]),
        ]
        for read in reads:
            for one in read():
                spoil(one)
            assert [again() for again in reads] == [known] * len(reads)

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
        asked = [
            ("acme", "a"),
            ("acme", "b"),
            ("acme", "c"),
            ("acme", "a"),
            ("acme", "unknown"),
            ("nowhere", "a"),
        ]
        assert store.edges_of(asked, ["acme"]) == [edge("a", "b", 3), edge("b", "c", 2)]

    def test_all_edges_of_many_keys_are_found_however_many_there_are(
        self, store: GraphStore
    ) -> None:
        known = [edge(f"s{number}", f"t{far}") for number in range(60) for far in range(10)]
        link(store, *known)
        assert store.edges_of(
            [("acme", f"s{number}") for number in range(60)], ["acme"], limit=10
        ) == sorted(known, key=lambda one: one.key)

    def test_no_keys_or_no_spaces_give_no_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        assert (
            store.edges_of([], ["acme"])
            == store.edges_of([("acme", "a")], [])
            == store.edges([], 10)
            == []
        )

    def test_an_edge_replaces_the_one_of_its_key(self, store: GraphStore) -> None:
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

    def test_a_deleted_edge_is_gone_and_its_sisters_stay(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("a", "b", type="other"), edge("b", "a"))
        store.apply(batch(deleted_edges=[edge("a", "b").key]))
        assert store.edges_of([("acme", "b")], ["acme"]) == [
            edge("a", "b", type="other"),
            edge("b", "a"),
        ]

    def test_deleting_edges_that_are_not_there_is_harmless(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        store.apply(
            batch(
                deleted=[("acme", "x")],
                deleted_edges=[edge("b", "a").key, edge("a", "b", space="nowhere").key],
            )
        )
        assert store.edges(["acme"], 10) == [edge("a", "b")]

    def test_a_deleted_item_takes_its_edges_along(self, store: GraphStore) -> None:
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

    def test_a_batch_that_fails_leaves_the_edges_alone(self, store: GraphStore) -> None:
        link(store, edge("a", "b"))
        with pytest.raises((TypeError, KnowloomError)):
            store.apply(
                batch(
                    edges=[edge("b", "a"), edge("a", "a", properties={"bad": {1, 2}})],
                    deleted_edges=[edge("a", "b").key],
                )
            )
        assert store.edges(["acme"], 10) == [edge("a", "b")]

    def test_only_the_types_asked_for_are_shown(self, store: GraphStore) -> None:
        link(store, edge("a", "b", type="x"), edge("a", "b", type="y"), edge("c", "a", type="z"))
        assert store.edges_of([("acme", "a")], ["acme"], ["z", "x", "unknown"]) == [
            edge("a", "b", type="x"),
            edge("c", "a", type="z"),
        ]

    def test_an_edge_into_a_space_that_is_not_named_is_invisible(self, store: GraphStore) -> None:
        link(store, edge("a", "b", target_space="zoo"))
        asked = [("acme", "a"), ("zoo", "b")]
        assert store.edges_of(asked, ["acme"]) == store.edges_of(asked, ["zoo"]) == []
        for key in asked:
            assert store.edges_of([key], ["zoo", "acme"]) == [edge("a", "b", target_space="zoo")]

    def test_the_same_id_in_another_space_has_other_edges(self, store: GraphStore) -> None:
        link(store, edge("a", "b"), edge("a", "b", space="zoo"))
        assert store.edges_of([("zoo", "a")], ["acme", "zoo"]) == [edge("a", "b", space="zoo")]

    def test_a_hub_shows_its_heaviest_edges_in_each_direction(self, store: GraphStore) -> None:
        out = [edge("hub", f"{number:03}", number % 50) for number in range(500)]
        link(store, *out, *(edge(one.target, "hub", one.weight) for one in out))
        found = store.edges_of([("acme", "hub")], ["acme"], limit=15)
        expected = sorted(out, key=lambda one: (-one.weight, one.target))[:15]
        assert [one for one in found if one.source == "hub"] == expected
        assert [one.source for one in found if one.target == "hub"] == [
            one.target for one in expected
        ]

    def test_the_limit_holds_for_each_key_and_counts_only_what_may_be_seen(
        self, store: GraphStore
    ) -> None:
        hidden = [edge("a", name, 9, target_space="zoo") for name in "xyz"]
        link(
            store,
            *hidden,
            edge("a", "p", 8, type="other"),
            edge("a", "p", 2),
            edge("a", "q", 1),
            edge("b", "q", 0.5),
        )
        found = store.edges_of([("acme", "a"), ("acme", "b")], ["acme"], ["related"], limit=1)
        assert found == [edge("a", "p", 2), edge("b", "q", 0.5)]
        assert store.edges_of([("acme", "a")], ["acme"], limit=0) == []

    def test_edges_lighter_than_asked_are_left_out(self, store: GraphStore) -> None:
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

    def test_those_of_knowloom_or_of_people_alone_are_counted_alone(
        self, store: GraphStore
    ) -> None:
        own = [replace(edge("a", name, 0.9), origin=AUTOMATIC) for name in "xyz"]
        link(store, *own, edge("a", "p", 0.5), edge("q", "a", 0.4))
        assert store.edges_of([("acme", "a")], ["acme"], limit=1, automatic=False) == [
            edge("a", "p", 0.5),
            edge("q", "a", 0.4),
        ]
        assert store.edges_of([("acme", "a")], ["acme"], limit=2, automatic=True) == own[:2]
        assert len(store.edges_of([("acme", "a")], ["acme"], limit=2)) == 3

    def test_edges_asked_for_by_key_come_in_the_order_asked(self, store: GraphStore) -> None:
        one, two, three = (
            edge("a", "b", 0.5),
            edge("a", "b", type="x", properties={"x": 1}),
            edge("a", "b", target_space="zoo"),
        )
        link(store, one, two, three)
        unknown = [
            edge("b", "a").key,
            edge("a", "b", type="y").key,
            edge("a", "b", space="nowhere").key,
        ]
        assert store.get_edges([three.key, *unknown, one.key, two.key, one.key]) == [
            three,
            one,
            two,
            one,
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
        assert [one.target_space for one in cut if one.source == "a"] == ["k", "l"]
        assert [one.space for one in cut if one.source == "b"] == ["k", "l"]

    @pytest.mark.parametrize("page", [1, 2, 3, 100])
    def test_edges_are_walked_exactly_once_in_the_order_of_keys(
        self, store: GraphStore, page: int
    ) -> None:
        ends = [(source, target) for source in "cab" for target in "bac"]
        own = [edge(source, target, type=type) for source, target in ends for type in ("y", "x")]
        cross = [
            edge("b", "a", target_space="zoo"),
            edge("b", "a", target_space="aaa"),
            edge("a", "a", space="zoo"),
        ]
        link(store, *own, *cross, edge("a", "b", space="other"))
        found: list[Edge] = []
        while part := store.edges(["zoo", "acme"], page, found[-1] if found else None):
            found += part
        assert found == sorted([*own, *cross], key=lambda one: one.key)

    def test_edges_go_on_behind_one_that_is_not_there(self, store: GraphStore) -> None:
        link(store, edge("a", "a"), edge("a", "c"), edge("b", "a"))
        assert store.edges(["acme"], 10, edge("a", "b")) == [edge("a", "c"), edge("b", "a")]
        assert store.edges(["acme"], 0) == []


def link(store: GraphStore, *edges: Edge) -> None:
    """The edges and the items at their ends."""
    ends = sorted({end for one in edges for end in (one.source_key, one.target_key)})
    store.apply(batch([item(id, space=space) for space, id in ends], edges))
