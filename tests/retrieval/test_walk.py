"""The walk: from search hits along edges to items that search cannot find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import knowloom
from knowloom import Edge, Hit, Item
from knowloom.errors import Unavailable
from knowloom.linking.name_weights import MENTIONS
from knowloom.model import LINES, SINCE, Filter, Kind
from knowloom.recipes import KNOWLEDGE, Recipe
from knowloom.retrieval.walk import walk
from knowloom.retrieval.walk_constants import FULLY_LINKED, REPETITION_PENALTY
from knowloom.retrieval.walk_graph import name_edge_density
from knowloom.retrieval.walk_scores import penalise_repetition
from knowloom.testing.knowledge import unit

QUESTION = "When did the mother of Lothair II die?"
FAMILY = [
    Item(
        "lothair",
        "s",
        title="Lothair II",
        text="Lothair II was king of Lotharingia. "
        "His parents were Lothair I and Ermengarde of Tours.",
    ),
    Item(
        "ermengarde",
        "s",
        title="Ermengarde of Tours",
        text="Ermengarde of Tours (* 804) passed away on 20 March 851, an empress.",
    ),
    Item("tours", "s", title="Tours", text="Tours is a city on the Loire with a cathedral."),
    *(
        Item(
            f"mother-{n}",
            "s",
            title=f"Mother tale {n}",
            text=f"A mother did die in tale number {n} of the book.",
        )
        for n in range(12)
    ),
]


@pytest.fixture(params=["memory:", "file"])
def kb(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[knowloom.Engine]:
    with knowloom.open(
        "memory:" if request.param == "memory:" else f"{tmp_path}/k.db", embedder=None
    ) as engine:
        engine.add(FAMILY)
        yield engine


def ids(hits: object) -> list[str]:
    return [hit.item.id for hit in hits]  # type: ignore[attr-defined]


def test_the_second_piece_is_found_by_its_link_and_not_by_search(kb):
    assert "ermengarde" not in ids(kb.search(QUESTION, spaces=["s"], limit=5))
    assert ids(kb.search(QUESTION, spaces=["s"], limit=5, mode="walk"))[:2] == [
        "lothair",
        "ermengarde",
    ]


def test_a_hit_has_its_path_and_edge(kb):
    hit = next(
        hit for hit in kb.search(QUESTION, spaces=["s"], mode="walk") if hit.item.id == "ermengarde"
    )
    assert hit.path == (("s", "lothair"), ("s", "ermengarde"))
    assert hit.edge is not None
    assert (hit.edge.type, hit.found_by) == (MENTIONS, ("graph",))


def test_a_small_context_has_both_pieces(kb):
    context = kb.context(QUESTION, spaces=["s"], max_tokens=120)
    assert {"lothair", "ermengarde"} <= set(ids(context.hits))
    assert context.tokens <= 120


def test_hits_and_walked_items_share_one_scale(kb):
    context = kb.context(QUESTION, spaces=["s"])
    worth = {hit.item.id: hit.relevance for hit in context.hits}
    scores = {hit.item.id: hit.score for hit in kb.search(QUESTION, spaces=["s"], limit=10)}
    assert worth["lothair"] == scores["lothair"] == max(worth.values())
    assert worth["lothair"] > worth["ermengarde"] > worth["mother-3"]


@pytest.mark.parametrize("url", ["memory:", "file"])
def test_linked_items_get_more_the_nearer_they_are_and_one_without_a_vector_is_not_lost(
    url, tmp_path
):
    with knowloom.open(
        "memory:" if url == "memory:" else f"{tmp_path}/k.db", embedder=None, links=[]
    ) as kb:
        ends = ["near", "far", "bare"]
        kb.add(
            [Item(id, "s", text="refund") for id in ("start", *ends)],
            [Edge("start", id, space="s") for id in ends],
        )
        kb._stores.vectors.put_vectors(
            {("s", "start"): unit(1, 0), ("s", "near"): unit(1, 0.2), ("s", "far"): unit(0.3, 1)},
            "e1",
        )
        (start,) = kb._stores.items.get([("s", "start")])
        result = walk(
            "refund",
            unit(1, 0),
            [Hit(start, 1.0)],
            {},
            Filter(("s",)),
            Recipe("linked", source="walk", depth=1),
            stores=kb._stores,
        )
        worth = {hit.item.id: hit.signals["walk"] for hit in result.hits}
        assert worth["near"] > worth["far"] > worth["bare"] > 0


def test_without_links_search_stays_as_it_is():
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add(FAMILY)
        plain, walked = (
            kb.search(QUESTION, spaces=["s"], mode=mode) for mode in ("hybrid", "walk")
        )
        assert [(hit.item.id, hit.score) for hit in walked] == [
            (hit.item.id, hit.score) for hit in plain
        ]


def test_limit_filters_and_min_score_apply(kb):
    assert len(kb.search(QUESTION, spaces=["s"], limit=2, mode="walk")) == 2
    hits = kb.search(QUESTION, spaces=["s"], limit=20, mode="walk")
    threshold = hits[1].score
    assert kb.search(QUESTION, spaces=["s"], limit=20, mode="walk", min_score=threshold) == [
        hit for hit in hits if hit.score >= threshold
    ]
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert kb.search(QUESTION, spaces=["s"], mode="walk", types=["faq"]) == []


def test_other_spaces_change_nothing(kb):
    before = kb.search(QUESTION, spaces=["s"], mode="walk")
    others = [Item(item.id, "t", title=item.title, text=item.text) for item in FAMILY]
    kb.add(others)
    assert kb.search(QUESTION, spaces=["s"], mode="walk") == before


def test_an_edge_into_another_space_is_not_followed(kb):
    kb.add(
        Item("secret", "t", title="Secret", text="mother of kings"),
        [Edge("lothair", "secret", space="s", target_space="t")],
    )
    assert "secret" not in ids(kb.search(QUESTION, spaces=["s"], limit=50, mode="walk"))
    assert "secret" in ids(kb.search(QUESTION, spaces=["s", "t"], limit=50, mode="walk"))


def test_the_same_request_gives_the_same_bytes(kb):
    now = kb.context(QUESTION, spaces=["s"]).query.now
    assert (
        kb.context(QUESTION, spaces=["s"], now=now).text
        == kb.context(QUESTION, spaces=["s"], now=now).text
    )


def test_a_hub_is_harmless(kb):
    many = [Item(f"city-{n:04}", "s", title=f"City {n}", text="A place.") for n in range(2000)]
    kb.add(many, [Edge("lothair", item.id, "rules", 0.01, "s") for item in many])
    assert ids(kb.search(QUESTION, spaces=["s"], mode="walk"))[:2] == ["lothair", "ermengarde"]


def test_a_walk_may_pass_through_items_it_must_not_return():
    items = [
        Item("a", "s", title="Alpha plan", text="The zebra plan."),
        Item("hub", "s", Kind.ENTITY, title="Omega", text="x"),
        Item("b", "s", title="Beta", text="Says what to do."),
    ]
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(items, [Edge("a", "hub", space="s"), Edge("hub", "b", space="s")])
        linked = [hit for hit in kb.context("zebra plan", spaces=["s"]).hits if hit.item.id == "b"]
        assert linked[0].path == (("s", "a"), ("s", "hub"), ("s", "b"))
        assert linked[0].distance == 2


def test_depth_0_follows_no_links_and_depth_1_only_those_of_hits(kb):
    assert "ermengarde" not in ids(kb.context(QUESTION, spaces=["s"], depth=0, limit=5).hits)
    chain = [
        Item(f"c{n}", "s", title=f"Chain piece {n}", text="xylophone" if n == 0 else "link")
        for n in range(4)
    ]
    kb.add(chain, [Edge(f"c{n}", f"c{n + 1}", "next", space="s") for n in range(3)])
    recipe = [Recipe("found", limit=1), Recipe("linked", "walk", limit=50, depth=1)]
    assert ids(kb.context("xylophone", spaces=["s"], recipe=recipe).hits) == ["c0", "c1"]
    assert ids(
        kb.context(
            "xylophone",
            spaces=["s"],
            recipe=[recipe[0], Recipe("linked", "walk", limit=50, depth=3)],
        ).hits
    ) == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_context_reports_depth_and_items_reached(depth):
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add(
            [
                Item("start", "s", text="zebra"),
                *(Item(f"n{n}", "s", text=f"x{n}") for n in range(4)),
            ]
        )
        kb.add([], [Edge("start" if n == 0 else f"n{n - 1}", f"n{n}", space="s") for n in range(4)])
        stats = kb.context("zebra", spaces=["s"], depth=depth).stats
        assert (stats.max_depth, stats.expanded) == (depth, depth)


def test_explain_returns_the_signals_of_the_walk(kb):
    context = kb.explain(QUESTION, spaces=["s"])
    signals = {hit.item.id: hit.signals for hit in context.hits}
    assert {"graph", "walk"} <= set(signals["ermengarde"])
    assert {"bm25", "walk"} <= set(signals["lothair"])


def test_an_unavailable_graph_gives_a_degraded_context(kb, monkeypatch):
    def down(*_: object, **__: object) -> list[Edge]:
        raise Unavailable("the graph is down")

    monkeypatch.setattr(kb._stores.graph, "edges_of", down, raising=True)
    context = kb.context(QUESTION, spaces=["s"])
    assert [problem.part for problem in context.degraded] == ["context", "entities"]
    assert "lothair" in ids(context.hits)


def test_the_default_context_walks():
    assert [recipe.source for recipe in KNOWLEDGE] == ["search", "walk", "neighbours"]


def test_a_link_that_was_made_later_is_not_followed_back_then():
    then = {"created_at": datetime(2026, 1, 1, tzinfo=UTC)}
    items = [
        Item("lothair", "s", title="Lothair", text="king of Lotharingia", **then),
        Item("abbey", "s", text="a house of monks", **then),
    ]
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add(
            items,
            [Edge("lothair", "abbey", space="s", properties={SINCE: "2026-03-01T00:00:00+00:00"})],
        )
        seen = {
            month: ids(
                kb.search(
                    "Lothair", spaces=["s"], mode="walk", as_of=datetime(2026, month, 1, tzinfo=UTC)
                )
            )
            for month in (2, 4)
        }
    assert seen == {2: ["lothair"], 4: ["lothair", "abbey"]}


def test_where_texts_only_share_names_the_order_of_search_stays():
    turns = [
        Item(
            f"turn-{n}",
            "s",
            text=f"Yesterday {('Anna', 'Ben')[n % 2]} went to Cafe Luna for {word}.",
        )
        for n, word in enumerate(["tea", "cake", "soup"])
    ]
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(turns)
        assert {edge.type for edge in kb.edges(["s"], automatic=True)} == {"shares"}
        expected = [
            (hit.item.id, hit.score) for hit in kb.search("Who went for cake?", spaces=["s"])
        ]
        assert [
            (hit.item.id, hit.score)
            for hit in kb.search("Who went for cake?", spaces=["s"], mode="walk")
        ] == expected
        assert [hit.relevance for hit in kb.context("Who went for cake?", spaces=["s"]).hits] == [
            score for _, score in expected
        ]


def test_density_is_that_of_most_seeds_or_of_the_best_ones():
    assert name_edge_density([]) == 0
    assert name_edge_density([(0.9, 0.0), (0.1, 0.0)]) == 0
    assert name_edge_density([(1.0, 0.2), (0.0, 0.2)]) == pytest.approx(0.2 / FULLY_LINKED)
    assert name_edge_density([(0.9, 3.0), *[(0.01, 0.0)] * 10]) == 1  # one that matters is enough
    assert name_edge_density([(0.9, 0.0), *[(0.01, 3.0)] * 10]) == 1  # so are many that matter less


def test_an_item_that_repeats_the_best_one_scores_less():
    keys, worth = [("s", "c"), ("s", "b"), ("s", "a")], [0.6, 0.6, 0.8]
    common = {"a": 0.5, "b": 0.5, "c": 0.0}
    scores = penalise_repetition(keys, worth, lambda _, keys: [common[key[1]] for key in keys], 1.0)
    assert scores == [0.6, pytest.approx(0.6 * (1 - REPETITION_PENALTY * 0.5**2 * 0.5)), 0.8]
    assert scores[1] < scores[0]
    assert (
        penalise_repetition(keys, worth, lambda _, keys: [common[key[1]] for key in keys], 0.0)
        == worth
    )  # nothing is linked
    assert (
        penalise_repetition(keys, worth, lambda _, keys: [1.0 for _ in keys], 1.0) == worth
    )  # the best has the whole question: others may tell it again


def test_of_equals_the_first_by_id_is_the_best_that_others_repeat():
    keys = [("t", "b"), ("t", "a"), ("s", "a"), ("s", "z")]
    scores = penalise_repetition(
        keys, [0.5, 0.5, 0.5, 0.4], lambda _, keys: [0.5 for _ in keys], 1.0
    )
    assert [score == 0.5 for score in scores] == [False, False, True, False]


def test_a_visible_item_is_found_behind_many_hidden_ones():
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add([Item("start", "s", title="Lothair", text="Lothair was king.")])
        kb.add(
            [
                Item(f"node-{number}", "s", title=f"Tale {number}", text="A tale.")
                for number in range(10)
            ]
        )
        kb.add(
            [
                Item(
                    f"person-{number}",
                    "s",
                    kind=Kind.ENTITY,
                    title=f"Person {number}",
                    text="Somebody.",
                )
                for number in range(2)
            ]
        )
        kb.add([], [Edge("start", f"node-{number}", weight=0.9, space="s") for number in range(10)])
        kb.add(
            [], [Edge("start", f"person-{number}", weight=0.1, space="s") for number in range(2)]
        )
        people = [KNOWLEDGE[0], Recipe("people", "walk", kinds=(Kind.ENTITY,), limit=2, depth=1)]
        shown = kb.context("Who was Lothair?", spaces=["s"], recipe=people).fragments[1]
    assert sorted(block.hit.item.id for block in shown.chosen) == ["person-0", "person-1"]


def test_links_of_loaded_documents_count_less(kb: knowloom.Engine) -> None:
    (before,) = [hit for hit in kb.search(QUESTION, mode="walk") if hit.item.id == "ermengarde"]
    kb.add([replace(item, properties={LINES: "1-2"}) for item in FAMILY])
    after = [hit for hit in kb.search(QUESTION, mode="walk") if hit.item.id == "ermengarde"]
    assert not after or after[0].signals["walk"] < before.signals["walk"]
