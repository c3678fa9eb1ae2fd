"""Tests that values survive the way to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import knowloom
from knowloom.axioms.checker import Checked
from knowloom.axioms.model import Violation
from knowloom.history import Rollback, Step
from knowloom.model import (
    Chosen,
    Edge,
    Form,
    Fragment,
    Hit,
    Hits,
    Item,
    Kind,
    Passage,
    ScoredPassage,
)
from knowloom.report import Report, Skipped
from knowloom.wire.axioms import check_from_json, check_to_json
from knowloom.wire.contexts import (
    context_from_json,
    context_to_json,
    describe_match,
    format_score,
    fragment_from_json,
    fragment_to_json,
    hits_from_json,
    hits_to_json,
)
from knowloom.wire.knowledge import (
    edge_from_json,
    edge_to_json,
    item_from_json,
    item_to_json,
    report_from_json,
    report_to_json,
    rollback_from_json,
    rollback_to_json,
    statistics_from_json,
    statistics_to_json,
)
from knowloom.wire.memory import memory_from_json, memory_to_json

NOW = datetime(2026, 6, 1, tzinfo=UTC)
VIOLATION = Violation(
    "error", "entity", "s", "a", "A", "required", "size is missing", ("size",), "x", "X", ("b",)
)
EDGE = Edge("a", "b", "mentions", 0.5, space="s", properties={"why": None})


@pytest.fixture(scope="module")
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(
            [Item("a", "s", text="alpha harbor"), Item("b", "s", text="beta", summary="b")], [EDGE]
        )
        yield kb


def through_json(row: Any) -> Any:
    return json.loads(json.dumps(row))


@pytest.mark.parametrize(
    ("value", "encode", "decode"),
    [
        (Item("a", "s", Kind.ENTITY, "Ship", "Ship", tags=("x",)), item_to_json, item_from_json),
        (Item("7", "s", text="seven", numbered=True), item_to_json, item_from_json),
        (EDGE, edge_to_json, edge_from_json),
        (
            Report(1, 2, 3, 4, (Skipped("line 1", "a", "not JSON"),), ("problem",), 5),
            report_to_json,
            report_from_json,
        ),
        (
            Rollback(
                NOW, True, (Step("add", "s", "a", None), Step("link", "s", "a", EDGE)), (), ()
            ),
            rollback_to_json,
            rollback_from_json,
        ),
        (
            Checked((VIOLATION,), 1, 2, 3, 4, unusable=(("s", "y", "unknown operator"),)),
            check_to_json,
            check_from_json,
        ),
    ],
    ids=["entity", "numbered item", "edge", "report", "rollback", "check"],
)
def test_values_survive_json(
    value: object, encode: Callable[[Any], Any], decode: Callable[[Any], Any]
) -> None:
    assert decode(through_json(encode(value))) == value


def test_hits_and_contexts_survive_json(kb: knowloom.Engine) -> None:
    hits = kb.search("alpha", spaces=["s"], now=NOW)
    assert hits and hits_from_json(through_json(hits_to_json(hits))) == hits
    context = kb.context("alpha", spaces=["s"], now=NOW, max_tokens=500)
    decoded = context_from_json(through_json(context_to_json(context)))
    assert (decoded.text, decoded.digest) == (context.text, context.digest)
    assert (decoded.query, decoded.fragments) == (context.query, context.fragments)


PASSAGES = (
    ScoredPassage(Passage(2, 1700, 2400, ("Guide", "Refunds"), inner=1), 0.5),
    ScoredPassage(Passage(0, 0, 800), 0.25, linked=True),
)


def test_the_passages_of_a_hit_survive_json() -> None:
    hit = Hit(Item("a", "s", text="harbor " * 500), 0.5, passages=PASSAGES)
    row = through_json(hits_to_json(Hits([hit], 0.5)))
    best = {"number": 2, "start": 1700, "end": 2400, "headings": ["Guide", "Refunds"], "inner": 1}
    assert row["hits"][0]["passage"] == best
    assert hits_from_json(row) == [hit]


def test_the_passage_of_a_short_item_is_its_whole_text() -> None:
    hit = Hit(Item("a", "s", text="alpha"), 0.5)
    (row,) = hits_to_json(Hits([hit]))["hits"]
    assert row["passage"] == {"number": 0, "start": 0, "end": 5, "headings": []}
    assert "passages" not in row


def test_the_ranges_of_an_excerpt_survive_json() -> None:
    item = Item("a", "s", text="harbor " * 500)
    shown = (Passage(0, 7, 100), Passage(2, 1800, 1900, ("Guide",)))
    chosen = Chosen(Hit(item, 0.5, passages=PASSAGES), Form.EXCERPT, 40, "a: ...", shown)
    fragment = Fragment("knowledge", (chosen,), 40, "a: ...")
    row = through_json(fragment_to_json(fragment))
    assert fragment_from_json(row, {item.key: item}) == fragment


def test_statistics_and_memories_survive_json(kb: knowloom.Engine) -> None:
    statistics = kb.maintenance.stats()
    assert statistics_from_json(through_json(statistics_to_json(statistics))) == statistics
    memory = knowloom.Memory(kb, "home").remember("Ada drinks tea", created_at=NOW)
    assert memory_from_json(through_json(memory_to_json(memory))) == memory


@pytest.mark.parametrize(("score", "text"), [(0.414, ".41"), (1.0, "1.0"), (0.999, "1.0")])
def test_scores_have_three_characters(score: float, text: str) -> None:
    assert format_score(score) == text


def test_a_match_is_described_by_its_indexes_and_signals() -> None:
    signals = {"bm25": 0.41, "vector": 0.63}
    hit = Hit(Item("a", "s"), 0.5, signals, ("bm25", "vector"))
    assert describe_match(hit) == "found by words and vectors (bm25 .41, vector .63)"
