"""Search by words: ranking, filters, validity and scripts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from engine_samples import LATER, NOW, THEN, ids, node, random_refund, request_context

from knowloom import (
    Item,
    Kind,
)


def test_the_best_match_comes_first_and_scores_are_between_0_and_1(refund_kb):
    hits = refund_kb.search("refund policy", spaces=["s"], limit=50)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.score <= 1 and hit.match_source == "bm25" for hit in hits)


def test_ties_go_by_id(kb):
    kb.add([node(id, "the same zebra") for id in ("c", "a", "b")])
    assert ids(kb.search("zebra", spaces=["s"])) == ["a", "b", "c"]


def test_a_search_respects_limit_and_min_score(refund_kb):
    hits = refund_kb.search("refund", spaces=["s"], limit=4)
    assert len(hits) == 4
    assert ids(refund_kb.search("refund", spaces=["s"], min_score=hits[1].score)) == ids(hits[:2])


FILTERS: list[tuple[dict[str, Any], Callable[[Item], bool]]] = [
    ({"types": ["rare"]}, lambda item: item.type == "rare"),
    ({"types": [""]}, lambda item: item.type == ""),
    ({"exclude_types": ["common"]}, lambda item: item.type != "common"),
    ({"kinds": ["memory"]}, lambda item: item.kind is Kind.MEMORY),
    ({"tags": ["x", "y"]}, lambda item: bool({"x", "y"} & set(item.tags))),
    ({"subject": "maya"}, lambda item: item.subject == "maya"),
    ({"min_confidence": 0.5}, lambda item: (item.confidence or 0) >= 0.5),
    ({"created_from": THEN}, lambda item: item.created_at >= THEN),
    ({"created_to": THEN - timedelta(days=1)}, lambda item: item.created_at < THEN),
]


@pytest.mark.parametrize(("only", "allows"), FILTERS)
def test_filters_run_inside_the_search(kb, only, allows):
    chance = random.Random(1)
    items = [random_refund(chance, number) for number in range(400)]
    kb.add(items)
    expected = [item for item in items if allows(item)]
    assert 5 < len(expected) < 400
    hits = kb.search("refund", spaces=["s"], limit=400, **only)
    assert sorted(ids(hits)) == sorted(ids(expected))
    assert len(kb.search("refund", spaces=["s"], limit=5, **only)) == 5


def test_items_created_after_as_of_are_hidden(kb):
    kb.add([node("old", "refund"), node("new", "refund", created_at=NOW)])
    assert ids(kb.search("refund", spaces=["s"], as_of=THEN)) == ["old"]
    assert "new" not in request_context(kb, as_of=THEN).text
    assert ids(kb.search("refund", spaces=["s"], as_of=NOW)) == ["new", "old"]


def test_an_item_is_visible_only_while_it_is_valid(kb):
    kb.add(node("a", "refund", valid_from=NOW, valid_to=LATER))
    seen = [
        bool(kb.search("refund", spaces=["s"], now=now))
        for now in (NOW - timedelta(seconds=1), NOW, LATER - timedelta(seconds=1), LATER)
    ]
    assert seen == [False, True, True, False]


def test_validity_is_checked_at_as_of(kb):
    kb.add(node("a", "refund", valid_to=NOW))
    assert ids(kb.search("refund", spaces=["s"], now=LATER, as_of=THEN)) == ["a"]
    assert ids(request_context(kb, now=LATER, as_of=THEN).hits) == ["a"]


def test_times_without_a_zone_are_utc(kb, tokyo_clock):
    kb.add(node("a", "refund", valid_to=NOW.replace(tzinfo=None)))
    assert kb.get("a", space="s")[0].valid_to == NOW
    assert kb.search("refund", spaces=["s"], now=NOW.replace(tzinfo=None)) == []
    assert (
        request_context(kb, now="2026-03-01T13:00:00+01:00").digest
        == request_context(kb, now=NOW).digest
    )


@pytest.fixture
def tokyo_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock shows the time of Tokyo."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_request_without_spaces_returns_nothing(refund_kb):
    assert refund_kb.search("refund", spaces=[]) == []
    assert request_context(refund_kb, spaces=[]).text == ""


def test_a_query_is_never_parsed_as_search_syntax(refund_kb):
    for text in [
        '"a',
        "refund OR",
        "refund*",
        "NEAR(",
        "' -- 1",
        "(((b",
        "🙂",
        "\0c",
        "a" * 100_000,
    ]:
        refund_kb.search(text, spaces=["s"])


@pytest.mark.parametrize(
    "text", ["返金の手順", "إجراءات الاسترداد", "процедура возврата", "🙂🙃", "प्रक्रिया"]
)
def test_text_in_any_script_is_stored_and_rendered(kb, text):
    kb.add(node("a", text, title=text))
    assert text in request_context(kb, text).text or not kb.search(text, spaces=["s"])
    assert kb.get("a", space="s")[0].title == text


@pytest.mark.parametrize("text", ["返金の手順", "إجراءات الاسترداد", "процедура возврата"])
def test_words_of_any_script_are_found(kb, text):
    kb.add([node("a", text), node("b", "other")])
    assert ids(kb.search(text, spaces=["s"])) == ["a"]


def test_a_title_of_ten_thousand_characters_works(kb):
    kb.add(node("a", "refund", title="t" * 10_000))
    assert "t" * 10_000 in request_context(kb, max_tokens=None).text
