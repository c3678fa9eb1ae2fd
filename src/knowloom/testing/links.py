"""The contract of link stores, which keep the state of automatic edges."""

from __future__ import annotations

import pytest

from knowloom.linking.ports import LinkStore
from knowloom.model import AUTOMATIC, Edge
from knowloom.ports import LinkUpdate
from knowloom.testing.knowledge import batch, edge, item, long_item, unit


class LinkStoreContract:
    """The promises of `LinkStore`: override the fixture `store` with an empty store.

    Each write marks the items whose automatic edges it may change, with their state before. An
    update is written only if the space is still at the version it was computed from. Automatic
    edges are counted apart, are not logged, and never replace explicit ones.
    """

    @pytest.fixture
    def store(self) -> LinkStore:
        raise NotImplementedError("override the fixture `store`")

    def test_written_items_are_dirty_with_their_state_before(self, store: LinkStore) -> None:
        old, new = item("a", "old"), item("a", "new")
        store.apply(batch([old, item("b", space="zoo")]))
        assert store.dirty_ids("acme") == ["a"] and store.dirty_items(
            "acme", ["a", "b"]
        ).before == {"a": None}
        mark_clean(store, "acme")
        store.apply(batch([new]))
        store.apply(batch([item("a", "newer")]))
        assert store.dirty_items("acme", ["a"]).before == {"a": old}
        assert store.dirty_ids("nowhere") == [] and store.dirty_items("nowhere", ["a"]).before == {}

    def test_a_deleted_item_and_the_targets_of_its_automatic_edges_are_dirty(
        self, store: LinkStore
    ) -> None:
        store.apply(batch([item(id) for id in "abcd"], [edge("a", "d")]))
        put_links(store, automatic("a", "b"), automatic("b", "c"))
        mark_clean(store, "acme")
        store.apply(batch(deleted=[("acme", "b")]))
        assert store.dirty_items("acme", ["a", "b", "c", "d"]).before == {
            "b": item("b"),
            "c": item("c"),
        }
        assert store.edges(["acme"], 10) == [edge("a", "d")]

    def test_a_marked_item_is_dirty_with_its_current_state(self, store: LinkStore) -> None:
        store.apply(batch([item("a", "old")]))
        mark_clean(store, "acme")
        store.apply(batch(marked=[("acme", "a"), ("acme", "unknown"), ("nowhere", "a")]))
        assert store.dirty_items("acme", ["a", "unknown"]).before == {"a": item("a", "old")}
        store.apply(batch([item("a", "new")]))
        assert store.dirty_items("acme", ["a"]).before == {"a": item("a", "old")}

    def test_an_update_is_written_at_its_version_and_counted_apart(self, store: LinkStore) -> None:
        store.apply(batch([item("a"), item("b")], [edge("b", "a")]))
        before, (plain,) = store.dirty_items("acme", []).version, store.spaces()
        store.apply(batch([item("c")]))
        assert not store.put_links(LinkUpdate("acme", before, (automatic("a", "b"),), done=("a",)))
        assert not store.put_links(LinkUpdate("nowhere", before, done=("a",)))
        put_links(store, automatic("a", "b"))
        (info,) = store.spaces()
        assert (info.edges, info.links, plain.links) == (
            1,
            1,
            0,
        ) and info.links_digest != plain.links_digest
        assert [change.action for change in store.changes("acme")] == ["add", "add", "link", "add"]
        put_links(store, dropped=[automatic("a", "b")])
        assert store.spaces()[0].links_digest == plain.links_digest and store.edges(
            ["acme"], 10
        ) == [edge("b", "a")]

    def test_an_explicit_edge_replaces_an_automatic_one_and_never_the_reverse(
        self, store: LinkStore
    ) -> None:
        explicit = edge("a", "b", 0.5, type="similar")
        store.apply(batch([item("a"), item("b")]))
        put_links(store, automatic("a", "b"))
        assert (
            store.edges(["acme"], 10, automatic=True) == [automatic("a", "b")]
            and store.edges(["acme"], 10, automatic=False) == []
        )
        store.apply(batch(edges=[explicit]))
        put_links(store, automatic("a", "b"))
        put_links(store, dropped=[automatic("a", "b")])
        assert store.edges(["acme"], 10) == store.edges(["acme"], 10, automatic=False) == [explicit]
        assert store.changes("acme")[-1].before is None and store.verify() == []

    def test_forgetting_deletes_automatic_edges_and_marks_all_items(self, store: LinkStore) -> None:
        store.apply(batch([item("a"), item("b"), item("c", space="zoo")], [edge("b", "a")]))
        put_links(store, automatic("a", "b"), common=["x"])
        mark_clean(store, "acme")
        assert store.link_rules() == ""
        store.forget_links("similar/1")
        assert store.link_rules() == "similar/1" and store.common_labels("acme", ["x"]) == set()
        assert store.dirty_items("acme", ["a", "b"]).before == {"a": None, "b": None}
        assert store.edges(["acme"], 10) == [edge("b", "a")] and store.verify() == []

    def test_labels_are_common_in_their_space_until_they_are_rare(self, store: LinkStore) -> None:
        store.apply(batch([item("a"), item("z", space="zoo")]))
        put_links(store, common=["x", "y"])
        assert (
            store.common_labels("acme", ["x", "y", "z"]) == {"x", "y"}
            and store.common_labels("zoo", ["x"]) == set()
        )
        put_links(store, rare=["x"])
        assert (
            store.common_labels("acme", ["x", "y"]) == {"y"}
            and store.common_labels("nowhere", ["y"]) == set()
        )

    def test_labels_are_replaced_as_a_whole_and_list_their_items_in_order(
        self, store: LinkStore
    ) -> None:
        store.apply(batch([item("a"), item("b"), item("c"), item("a", space="zoo")]))
        put_labels(store, b=("x", "y"), a=("y", "x"), c=("x",))
        assert store.labels_of("acme", ["b", "a", "unknown"]) == {"b": ("x", "y"), "a": ("y", "x")}
        assert store.label_holders("acme", ["x", "y", "z"], 9) == {
            "x": ["a", "b", "c"],
            "y": ["a", "b"],
        }
        assert store.label_holders("acme", ["x"], 2) == {"x": ["a", "b"]} and store.label_holders(
            "acme", ["y"], 1
        ) == {"y": ["a"]}
        put_labels(store, b=("z",), c=())
        assert store.labels_of("acme", ["b", "c"]) == {"b": ("z",)}
        assert (
            store.label_holders("acme", ["x", "z"], 9) == {"x": ["a"], "z": ["b"]}
            and store.verify() == []
        )
        assert (
            store.label_holders("zoo", ["x"], 9) == store.label_holders("nowhere", ["x"], 1) == {}
        )
        assert store.labels_of("zoo", ["a"]) == store.labels_of("nowhere", ["a"]) == {}

    def test_labels_stay_until_they_are_replaced_or_forgotten(self, store: LinkStore) -> None:
        store.apply(batch([item("a"), item("b")]))
        put_labels(store, a=("x",), b=("x",))
        store.apply(batch([item("a", "new")], deleted=[("acme", "b")]))
        assert store.label_holders("acme", ["x"], 9) == {"x": ["a", "b"]} and store.verify() == []
        store.forget_links("similar/1")
        assert (
            store.label_holders("acme", ["x"], 9) == {}
            and store.labels_of("acme", ["a", "b"]) == {}
        )

    def test_new_labels_and_stale_items_make_a_new_version_of_the_space(
        self, store: LinkStore
    ) -> None:
        store.apply(batch([item("a")]))
        before = store.dirty_items("acme", []).version
        assert store.put_links(LinkUpdate("acme", before, labels={"a": ("x",)}))
        assert not store.put_links(LinkUpdate("acme", before, labels={"a": ("y",)}, stale=("a",)))
        assert store.labels_of("acme", ["a"]) == {"a": ("x",)} and store.stale_ids("acme") == []
        assert store.put_links(
            LinkUpdate("acme", store.dirty_items("acme", []).version, stale=("b", "a"))
        )
        assert store.stale_ids("acme") == ["a", "b"] and store.stale_ids("nowhere") == []
        assert store.put_links(
            LinkUpdate("acme", store.dirty_items("acme", []).version, renewed=("a",))
        )
        assert store.stale_ids("acme") == ["b"]

    def test_holders_of_a_tag_come_in_order_unless_there_are_none_or_too_many(
        self, store: LinkStore
    ) -> None:
        store.apply(
            batch(
                [
                    item("b", tags=("x", "y")),
                    item("a", tags=("x",)),
                    item("c", tags=("y", "x")),
                    item("d", tags=("x",), space="zoo"),
                ]
            )
        )
        store.apply(batch([item("a", tags=("y",))], deleted=[("acme", "c")]))
        store.apply(batch([item("c", tags=("y",))]))
        assert store.tag_holders("acme", ["x", "y", "unknown"], 3) == {
            "x": ["b"],
            "y": ["a", "b", "c"],
        }
        assert store.tag_holders("acme", ["x", "y"], 2) == {"x": ["b"]}
        assert store.tag_holders("acme", [], 2) == store.tag_holders("nowhere", ["x"], 2) == {}

    def test_new_vectors_mark_their_items(self, store: LinkStore) -> None:
        store.apply(batch([item(id) for id in ("bare", "a", "b")] + [item("a", space="zoo")]))
        mark_clean(store, "acme")
        keys = ("acme", "a"), ("acme", "b"), ("zoo", "a"), ("acme", "unknown")
        vectors = dict.fromkeys(keys, unit(1, 0, 0, 0))
        store.put_vectors(vectors, "four")  # type: ignore[attr-defined]
        assert store.dirty_ids("acme") == ["a", "b"]

    def test_a_tag_is_counted_by_item(self, store: LinkStore) -> None:
        store.apply(batch([long_item("a", *"xyz", tags=("vip",)), item("b", tags=("vip",))]))
        assert store.tag_holders("acme", ["vip"], 2) == {"vip": ["a", "b"]}
        assert store.tag_holders("acme", ["vip"], 1) == {}

    def test_items_that_are_cut_anew_are_dirty(self, store: LinkStore) -> None:
        prose = item("prose", "zeta rho tau omega. " * 100)
        store.apply(batch([prose, item("short"), long_item("long", *"xy")]))
        mark_clean(store, "acme")
        store.resegment(600)  # type: ignore[attr-defined]
        assert store.dirty_items("acme", store.dirty_ids("acme")).before == {"prose": prose}


def automatic(source: str, target: str, weight: float = 0.9) -> Edge:
    return Edge(source, target, "similar", weight, "acme", origin=AUTOMATIC)


def put_links(
    store: LinkStore,
    *edges: Edge,
    dropped: list[Edge] | None = None,
    common: list[str] | None = None,
    rare: list[str] | None = None,
) -> None:
    """Write an update of "acme" at its current version."""
    keys = tuple(edge.key for edge in dropped or [])
    assert store.put_links(
        LinkUpdate(
            "acme",
            store.dirty_items("acme", []).version,
            edges,
            keys,
            tuple(common or []),
            tuple(rare or []),
        )
    )


def put_labels(store: LinkStore, **labels: tuple[str, ...]) -> None:
    """Set the labels of items of "acme"."""
    assert store.put_links(LinkUpdate("acme", store.dirty_items("acme", []).version, labels=labels))


def mark_clean(store: LinkStore, space: str) -> None:
    """Complete an update that leaves no item of the space dirty."""
    assert store.put_links(
        LinkUpdate(space, store.dirty_items(space, []).version, done=tuple(store.dirty_ids(space)))
    )
