"""Walks through long items: edges between passages, and passages that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import knowloom
from knowloom import Edge, Item
from knowloom.engine import Engine
from knowloom.registry import open_stores
from knowloom.retrieval.nodes import Node
from knowloom.retrieval.query_coverage import QueryCoverage, cover_query
from knowloom.retrieval.walk_passages import MAX_PAIRS, passage_pairs

QUESTION = "Who repaired the Larkfield organ?"
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Clock:
    now = START

    def __call__(self) -> datetime:
        return self.now


def long_text(subject: str, parts: int) -> str:
    return "\n\n".join(
        f"Part {number} of the {subject}. " + f"The {subject} has pipes, stops and bellows. " * 18
        for number in range(parts)
    )


def chronicle(parts: int = 8) -> Item:
    text = "\n\n".join(
        f"In year {number} the builder came back. " + "Wood was carried, dried and cut. " * 22
        for number in range(parts)
    )
    return Item("chronicle", "s", title="A builder's diary", text=text)


ORGAN = Item("organ", "s", title="Larkfield organ", text=long_text("Larkfield organ", 6))


@pytest.fixture(params=["memory:", "file"])
def kb(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[knowloom.Engine]:
    url = "memory:" if request.param == "memory:" else f"{tmp_path}/k.db"
    with knowloom.open(url, embedder=None) as engine:
        yield engine


@pytest.mark.parametrize(
    "passages",
    [
        "2",
        "[[0, 1]]",
        7,
        True,
        None,
        {},
        {"0": [1, 2]},
        [],
        [1, 2],
        ["ab", "cd"],
        [[1]],
        [[1, 2, 3]],
        [[-1, -2]],
        [["0", "1"]],
        [[0.5, 1.0]],
        [[True, False]],
        [[{}, []]],
        [[[0], [1]]],
        [[10**30, 10**30]],
        [[0, 4_000_000]],
        [[None, None]],
        [None, {}, "x", [0, 1]],
        [[number, number] for number in range(40_000)],
    ],
)
def test_any_property_called_passages_is_harmless(kb, passages):
    edge = Edge("organ", "chronicle", "repaired_by", 1.0, "s", properties={"passages": passages})
    kb.add([ORGAN, chronicle()], [edge])
    hits = kb.search(QUESTION, spaces=["s"], mode="walk")
    assert [hit.item.id for hit in hits] == ["organ", "chronicle"]
    assert hits[1].edge is not None and hits[1].edge.type == "repaired_by"
    numbers = [entry.passage.number for hit in hits for entry in hit.passages]
    assert all(0 <= number < 8 for number in numbers)
    context = kb.context(QUESTION, spaces=["s"], max_tokens=600)
    assert not context.degraded


def test_an_edge_leads_to_the_passage_that_it_names(kb):
    edge = Edge("organ", "chronicle", "repaired_by", 1.0, "s", properties={"passages": [[None, 5]]})
    kb.add([ORGAN, chronicle()], [edge])
    (_, hit) = kb.search(QUESTION, spaces=["s"], mode="walk")
    assert [entry.passage.number for entry in hit.passages if entry.linked] == [5]


def test_only_pairs_of_passages_are_read():
    def pairs(passages: object) -> object:
        return passage_pairs(Edge("a", "b", properties={"passages": passages}))

    assert pairs([[0, 3], [None, 2], (1, None)]) == [(0, 3), (None, 2), (1, None)]
    assert pairs([[0, 3], "xy", [1, -1], [True, 1]]) == [(0, 3)]
    assert pairs("xy") == pairs([]) == pairs([[1]]) == ((None, None),)
    assert len(pairs([[n, n] for n in range(1000)])) == MAX_PAIRS


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (5, 8), (8, 5), (2, 8), (8, 2)])
def test_a_walk_back_then_shows_the_passages_of_that_time(tmp_path, before, after):
    clock = Clock()
    edge = Edge(
        "organ",
        "chronicle",
        "repaired_by",
        1.0,
        "s",
        properties={"passages": [[0, before - 1], [1, after - 1], [None, 7]]},
    )
    with Engine(open_stores(f"{tmp_path}/k.db", {}), None, clock) as kb:
        kb.add([ORGAN, chronicle(before)], [edge])
        clock.now = START + 5 * DAY
        kb.add([chronicle(after)])
        clock.now = START + 9 * DAY
        for moment, parts in ((1, before), (8, after)):
            hits = kb.search(QUESTION, spaces=["s"], mode="walk", as_of=START + moment * DAY)
            text = chronicle(parts).text
            assert {hit.item.id for hit in hits} == {"organ", "chronicle"}
            (diary,) = [hit for hit in hits if hit.item.id == "chronicle"]
            assert diary.item.text == text
            for entry in diary.passages:
                assert entry.passage.number < parts and entry.passage.end <= len(text)
            context = kb.context(QUESTION, spaces=["s"], max_tokens=900, as_of=START + moment * DAY)
            assert {problem.code for problem in context.degraded} <= {"low_confidence"}
            assert f"In year {after - 1} " not in context.text or after <= parts


def test_a_text_covers_the_query_alike_as_a_node_and_as_a_part():
    query, texts = "spouse of the film director", ["his wife", "a film director", "a town"]
    coverage = QueryCoverage(query)
    nodes = [Node(("s", str(n)), Item(str(n), "s", text=text)) for n, text in enumerate(texts)]
    coverage.add(nodes)
    parts = cover_query(query, texts)
    exact = coverage.overlap(nodes[1].key, [nodes[1].key])
    assert parts[1] == pytest.approx(exact[0])
    assert parts[0] > 0 and parts[1] > parts[0] > parts[2] == 0
    assert cover_query("", texts) == [0.0, 0.0, 0.0]
    assert cover_query(query, []) == []
