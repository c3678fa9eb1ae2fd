"""Items that are reached along edges from the hits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from engine_samples import NOW, THEN, ids, link, node, request_context

import knowloom
from knowloom import (
    Edge,
    Engine,
    Item,
    Kind,
    Recipe,
    Unavailable,
)
from knowloom.model import Problem
from knowloom.ports import Stores
from knowloom.stores.memory.store import MemoryStore


class BrokenGraph(MemoryStore):
    def edges_of(self, *_: Any, **__: Any) -> list[Edge]:
        raise Unavailable("graph: connection refused")


def add_graph(kb: Engine, edges: Sequence[Edge], more: Sequence[Item] = ()) -> None:
    ends = sorted(
        {end for edge in edges for end in (edge.source, edge.target)} - {item.id for item in more}
    )
    kb.add([*(node(id, "zebra" if id == "start" else "unrelated") for id in ends), *more], edges)


def neighbour_scores(kb: Engine, **options: Any) -> dict[str, float]:
    recipe = [
        Recipe("found", limit=1, required=True),
        Recipe("linked", "neighbours", **{"limit": 100, "depth": 3} | options),
    ]
    context = kb.context("zebra", spaces=["s"], recipe=recipe, now=NOW, max_tokens=None)
    return {hit.item.id: hit.score for hit in context.fragments[1].hits}


def test_scores_fall_with_distance_and_edge_weight(kb):
    add_graph(
        kb,
        [
            link("start", "one"),
            link("one", "two"),
            link("two", "three"),
            link("start", "o", 0.8),
            link("o", "w", 0.8),
            link("w", "h", 0.8),
        ],
    )
    assert neighbour_scores(kb) == pytest.approx(
        {"one": 0.5, "o": 0.4, "two": 0.333333, "w": 0.266667, "three": 0.25, "h": 0.2}, abs=1e-6
    )


def test_a_recipe_can_score_the_first_hop_undamped(kb):
    add_graph(kb, [link("start", "one"), link("one", "two", 0.5)])
    assert neighbour_scores(kb, near=0) == pytest.approx({"one": 1.0, "two": 0.25})


def test_edges_are_followed_in_both_directions(kb):
    add_graph(kb, [link("one", "start"), link("two", "one")])
    assert list(neighbour_scores(kb)) == ["one", "two"]


def test_traversal_ends_in_cycles_and_self_loops(kb):
    add_graph(
        kb,
        [
            link("start", "start"),
            link("start", "a"),
            link("a", "b"),
            link("b", "start"),
            link("a", "a"),
        ],
    )
    assert sorted(neighbour_scores(kb, depth=10)) == ["a", "b"]


@pytest.mark.parametrize("depth", [0, 1, 4, 10])
def test_traversal_stops_at_the_requested_depth(kb, depth):
    names = ["start", *(f"n{number:02}" for number in range(1, 13))]
    add_graph(kb, [link(here, there) for here, there in pairwise(names)])
    assert sorted(neighbour_scores(kb, depth=depth)) == names[1 : depth + 1]


def test_the_heaviest_of_parallel_edges_counts(kb):
    add_graph(kb, [link("start", "a", 0.2), link("start", "a", 0.6, type="strong")])
    assert neighbour_scores(kb) == {"a": 0.3}


def test_a_strong_edge_behind_a_weak_one_is_found_at_any_limit(kb):
    add_graph(kb, [link("start", "weak", 0.2), link("weak", "strong")])
    assert neighbour_scores(kb, depth=2, limit=1) == pytest.approx({"strong": 0.333333})


def test_only_edges_of_the_best_hits_are_followed(kb):
    kb.add(
        [
            node("best", "zebra zebra"),
            node("worse", "zebra and much more text"),
            node("a"),
            node("b"),
        ],
        [link("best", "a"), link("worse", "b")],
    )
    recipe = [Recipe("found"), Recipe("linked", "neighbours", depth=1, starts=1)]
    assert ids(request_context(kb, "zebra", recipe=recipe).fragments[1].hits) == ["a"]


def test_only_edges_of_the_requested_types_are_followed(kb):
    add_graph(kb, [link("start", "a", type="parent"), link("start", "b", type="similar")])
    assert list(neighbour_scores(kb, edge_types=("parent",))) == ["a"]


def test_a_hub_of_five_thousand_edges_contributes_its_heaviest(kb):
    edges = [link("start", f"n{number:04}", (number + 1) / 5000) for number in range(5000)]
    random.Random(1).shuffle(edges)
    add_graph(kb, edges)
    assert list(neighbour_scores(kb, hub_cap=30)) == [
        f"n{number:04}" for number in range(4999, 4969, -1)
    ]
    assert list(neighbour_scores(kb, limit=5)) == [
        f"n{number:04}" for number in range(4999, 4994, -1)
    ]


def test_edges_across_spaces_are_followed_only_if_both_are_requested(kb):
    kb.add([node("start", "zebra"), node("there", "unrelated", space="t")])
    kb.add([], [Edge("start", "there", space="s", target_space="t")])
    single, both = (kb.context("zebra", spaces=spaces, now=NOW) for spaces in (["s"], ["s", "t"]))
    assert ids(single.hits) == ["start"]
    assert ids(both.hits) == ["start", "there"]


def test_hidden_items_are_neither_reached_nor_traversed(kb):
    hidden = node("hidden", "unrelated", valid_to=THEN)
    add_graph(
        kb, [link("start", "hidden"), link("hidden", "behind"), link("start", "open")], [hidden]
    )
    assert list(neighbour_scores(kb)) == ["open"]


def test_edges_of_the_requested_entity_are_followed(kb):
    kb.add(
        [node("user:maya", "the user", kind=Kind.ENTITY), node("note", "unrelated")],
        [link("user:maya", "note")],
    )
    assert ids(request_context(kb, "zebra", entity="user:maya").hits) == ["note"]


def test_a_hit_reports_the_path_to_it(kb):
    add_graph(kb, [link("start", "one"), link("two", "one", 0.5)])
    hit = request_context(kb, "zebra").fragments[1].hits[1]
    assert [id for _, id in hit.path] == ["start", "one", "two"]
    assert (hit.distance, hit.match_source, hit.edge) == (2, "graph", link("two", "one", 0.5))


def test_a_request_can_set_the_depth(kb):
    add_graph(kb, [link("start", "one"), link("one", "two"), link("two", "three")])
    assert [
        len(request_context(kb, "zebra", depth=depth).fragments[1].hits) for depth in (0, 1, 3)
    ] == [
        0,
        1,
        3,
    ]


def test_without_the_graph_store_its_fragment_is_empty_and_flagged():
    store, broken = MemoryStore(), BrokenGraph()
    with Engine(Stores(store, store, store, broken)) as kb:
        kb.add([node("start", "zebra"), node("one")], [link("start", "one")])
        context = request_context(kb, "zebra")
        assert ids(context.hits) == ["start"]
        assert context.degraded == (
            Problem("context", "graph: connection refused"),
            Problem("entities", "graph: connection refused"),
        )
        assert context.fragments[1].problem == "graph: connection refused"
        with pytest.raises(Unavailable):
            neighbour_scores(kb, required=True)


def test_a_failed_fragment_changes_the_digest():
    store, broken = MemoryStore(), BrokenGraph()
    with (
        Engine(Stores(store, store, store, store)) as kb,
        Engine(Stores(store, store, store, broken)) as degraded_kb,
    ):
        kb.add([node("start", "zebra"), node("one")], [link("start", "one")])
        assert request_context(kb, "zebra").text != request_context(degraded_kb, "zebra").text
        assert request_context(kb, "zebra").digest != request_context(degraded_kb, "zebra").digest


def test_tiny_scores_seed_a_walk_at_any_sharpness(store_url):
    with knowloom.open(store_url, embedder=None, retrieval={"walk_sharpness": 100}) as kb:
        kb.add([node("a", "zebra crossing"), node("b", "something else")], [link("a", "b")])
        query = "zebra " + " ".join(f"unknown{number}" for number in range(490))
        assert ids(kb.search(query, spaces=["s"], mode="walk")) == ["a", "b"]
        assert ids(request_context(kb, query).hits) == ["a", "b"]
