"""What a user of the engine relies on, on the memory store and on a SQLite file alike."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import (
    Conflict,
    Context,
    Edge,
    Engine,
    Invalid,
    Item,
    Kind,
    NotFound,
    Recipe,
    Unavailable,
    Weights,
    validation,
)
from knowloom.config import Settings, load
from knowloom.model import Problem
from knowloom.ports import Stores
from knowloom.recipes import DEFAULT_CANDIDATES, MIN_CANDIDATES
from knowloom.registry import open_stores
from knowloom.stores.memory.store import MemoryStore

EXAMPLES = int(os.environ.get("KNOWLOOM_EXAMPLES", "60"))
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
THEN = NOW - timedelta(days=30)
LATER = NOW + timedelta(days=1)
Open = Callable[..., Engine]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else str(tmp_path / "knowledge.db")


@pytest.fixture
def kb(url: str) -> Iterator[Engine]:
    with knowloom.open(url, embedder=None) as engine:
        yield engine


@pytest.fixture
def support(kb: Engine) -> Engine:
    """Ten questions about refunds, numbered by how often they say so, and two about something else."""
    refunds = [
        node(
            f"refund-{n}",
            "refund " * (n + 1) + "policy of the shop " * 3,
            title=f"Refund {n}",
            type="faq",
        )
        for n in range(10)
    ]
    kb.add(
        [
            *refunds,
            node("parking", "where to leave the car", type="guide"),
            node("lunch", "what the kitchen cooks"),
        ]
    )
    return kb


def node(id: str, text: str = "some text", space: str = "s", **fields: Any) -> Item:
    return Item(id, space, text=text, created_at=fields.pop("created_at", THEN), **fields)


def link(source: str, target: str, weight: float = 1.0, **fields: Any) -> Edge:
    return Edge(source, target, weight=weight, space=fields.pop("space", "s"), **fields)


def ids(found: Sequence[Any]) -> list[str]:
    return [getattr(one, "item", one).id for one in found]


def ask(kb: Engine, text: str = "refund", **options: Any) -> Context:
    return kb.context(text, **{"spaces": ["s"], "now": NOW} | options)


class Axes:
    """An embedder that knows as many words as it has dimensions: texts that share one of them are alike."""

    name = "axes"

    def __init__(
        self, words: Sequence[str] = ("refund", "money", "car", "food"), fingerprint: str = "axes-1"
    ) -> None:
        self.words, self.fingerprint, self.dimensions = words, fingerprint, len(words) + 1
        self.down = False

    def embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        if self.down:
            raise Unavailable("axes: connection refused")
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> np.ndarray:
        vector = np.array([*(float(word in text) for word in self.words), 0.1], np.float32)
        return vector / np.linalg.norm(vector)


class BrokenGraph(MemoryStore):
    def edges_of(self, *_: Any, **__: Any) -> list[Edge]:
        raise Unavailable("graph: connection refused")


# writing and reading


def test_what_is_added_is_found_at_once(kb):
    report = kb.add(node("a", "how to process a refund"))
    assert (report.added, report.updated, report.unchanged) == (1, 0, 0)
    assert ids(kb.search("refund", spaces=["s"])) == ["a"]


def test_items_come_back_as_they_were_given(kb):
    given = node(
        "a",
        title="T",
        type="faq",
        summary="s",
        properties={"n": 1, "deep": {"x": [True, None]}},
        tags=("x", "y"),
        confidence=0.5,
        valid_to=LATER,
    )
    kb.add(given)
    assert kb.get("a", space="s") == [given]


def test_items_come_back_in_the_order_asked(kb):
    kb.add([node("a"), node("b"), node("c")])
    assert ids(kb.get(["c", "missing", "a"], space="s")) == ["c", "a"]


def test_the_same_id_in_two_spaces_is_two_items(kb):
    kb.add([node("a", "one", space="s"), node("a", "two", space="t")])
    assert [kb.get("a", space=space)[0].text for space in ("s", "t")] == ["one", "two"]


def test_adding_the_same_again_changes_nothing(kb):
    kb.add(node("a"))
    before = kb.maintenance.stats().spaces
    assert kb.add(node("a")).unchanged == 1
    assert kb.maintenance.stats().spaces == before


def test_a_changed_item_keeps_when_it_was_created_and_says_when_it_was_changed(url):
    times = iter([THEN, NOW])
    engine = Engine(open_stores(url, {}), clock=lambda: next(times))
    engine.add(Item("a", "s", text="old"))
    assert engine.add(Item("a", "s", text="new")).updated == 1
    stored = engine.get("a", space="s")[0]
    assert (stored.text, stored.created_at, stored.updated_at) == ("new", THEN, NOW)
    engine.close()


def test_a_changed_text_is_found_by_its_new_words_only(kb):
    kb.add(node("a", "zebra"))
    kb.add(node("a", "giraffe"))
    assert ids(kb.search("zebra", spaces=["s"])) == []
    assert ids(kb.search("giraffe", spaces=["s"])) == ["a"]


def test_a_property_that_changes_from_one_to_true_is_a_change(kb):
    kb.add(node("a", properties={"open": 1}))
    assert kb.add(node("a", properties={"open": True})).updated == 1
    assert kb.get("a", space="s")[0].properties["open"] is True


def test_an_edge_whose_property_changes_from_one_to_true_is_a_change(kb):
    kb.add(node("a"), [link("a", "a", properties={"open": 1})])
    assert [
        kb.add([], [link("a", "a", properties={"open": value})]).edges for value in (1, True)
    ] == [0, 1]


def test_deleted_items_are_gone_with_their_words_and_edges(kb):
    kb.add([node("a", "zebra"), node("b")], [link("a", "b")])
    assert kb.delete("a", space="s") == 1
    assert kb.get("a", space="s") == kb.search("zebra", spaces=["s"]) == list(kb.edges()) == []


def test_deleting_what_is_not_there_is_harmless(kb):
    kb.add(node("a"))
    assert kb.delete(["missing", "missing"], space="s") == 0


def test_deleted_edges_are_gone(kb):
    kb.add([node("a"), node("b")], [link("a", "b"), link("b", "a")])
    assert kb.delete_edges([link("a", "b"), link("a", "b", type="other")]) == 1
    assert list(kb.edges()) == [link("b", "a")]


def test_a_write_is_done_whole_or_not_at_all(kb):
    kb.add(node("here"))
    with pytest.raises(Invalid, match="no item 'nowhere' in space 's'"):
        kb.add([node("a")], [link("a", "nowhere")])
    assert ids(kb.items()) == ["here"]


def test_all_items_are_listed_in_order_however_many_there_are(kb):
    kb.add([node(f"{number:05}", space=space) for number in range(1500) for space in ("t", "s")])
    listed = [item.key for item in kb.items()]
    assert listed == sorted(listed) and len(listed) == 3000
    assert len(list(kb.items(["s"]))) == 1500


def test_the_engine_counts_what_it_holds(kb):
    kb.add([node("a"), node("b", space="t")], [link("a", "a")])
    assert [(info.name, info.items, info.edges) for info in kb.maintenance.stats().spaces] == [
        ("s", 1, 1),
        ("t", 1, 0),
    ]
    assert kb.maintenance.stats().without_vector == 2


def test_stored_data_proves_to_be_sound(support):
    support.delete("refund-3", space="s")
    assert support.verify() == []


def test_a_line_that_is_too_long_costs_only_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("knowloom.loading.readers.MAX_LINE", 100)
    rows = [
        json.dumps({"id": name, "text": text})
        for name, text in (("a", "refund"), ("b", "x" * 350), ("c", "refund"))
    ]
    (tmp_path / "knowledge.jsonl").write_text("\n".join(rows))
    kb = knowloom.open("memory:", embedder=None)
    report = kb.load(tmp_path / "knowledge.jsonl", space="one")
    assert [item.id for item in kb.items()] == ["a", "c"]
    assert [one.where.rpartition(":")[2] for one in report.skipped] == ["2"]


def test_reindexing_without_an_embedder_keeps_ready_vectors():
    kb = knowloom.open("memory:", embedder=None)
    kb.add(knowloom.Item("a", "one", title="refund"), vectors=[[1.0, 0.0]])
    kb.reindex()
    assert [
        hit.item.id for hit in kb.search("", spaces=["one"], mode="vector", vector=[1.0, 0.0])
    ] == ["a"]


def test_closing_an_engine_closes_its_embedder():
    embedder = Closable()
    knowloom.open("memory:", embedder=embedder).close()
    assert embedder.closed


class Closable:
    """An embedder that holds something, as a remote one does."""

    name, fingerprint, dimensions, closed = "closable", "closable:1", 2, False

    def embed(self, texts):
        return [np.array([1.0, 0.0], np.float32) for _ in texts]

    def close(self):
        self.closed = True


def test_reindexing_changes_no_answer(support):
    before = ask(support).text
    assert support.reindex() == 0
    assert ask(support).text == before


def test_a_with_block_closes_and_closing_twice_is_harmless(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(node("a"))
    kb.close()
    with pytest.raises(Unavailable, match="closed"):
        kb.get("a", space="s")


def test_a_file_keeps_what_was_added(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(node("a", "zebra"))
    with knowloom.open(f"sqlite:///{tmp_path}/k.db", embedder=None) as kb:
        assert ids(kb.search("zebra", spaces=["s"])) == ["a"]


# searching


def test_the_best_match_comes_first_and_scores_are_between_0_and_1(support):
    hits = support.search("refund policy", spaces=["s"], limit=50)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.score <= 1 and hit.match_source == "bm25" for hit in hits)


def test_ties_go_by_id(kb):
    kb.add([node(id, "the same zebra") for id in ("c", "a", "b")])
    assert ids(kb.search("zebra", spaces=["s"])) == ["a", "b", "c"]


def test_the_limit_is_kept_and_the_least_score_too(support):
    hits = support.search("refund", spaces=["s"], limit=4)
    assert len(hits) == 4
    assert ids(support.search("refund", spaces=["s"], min_score=hits[1].score)) == ids(hits[:2])


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
    items = [some_refund(chance, number) for number in range(400)]
    kb.add(items)
    wanted = [item for item in items if allows(item)]
    assert 5 < len(wanted) < 400
    found = kb.search("refund", spaces=["s"], limit=400, **only)
    assert sorted(ids(found)) == sorted(ids(wanted))
    assert len(kb.search("refund", spaces=["s"], limit=5, **only)) == 5


def some_refund(chance: random.Random, number: int) -> Item:
    return node(
        f"i{number}",
        "refund " * chance.choice([1, 1, 30]),
        type=chance.choice(["common"] * 8 + ["rare", ""]),
        kind=chance.choice([Kind.NODE] * 8 + [Kind.MEMORY]),
        tags=tuple(chance.sample(["x", "y", "z", "v", "w", "u"], chance.choice([0, 1, 1]))),
        subject=chance.choice([None] * 8 + ["maya"]),
        confidence=chance.choice([None, 0.1, 0.9]),
        created_at=THEN + timedelta(days=chance.choice([-9, -9, 0])),
    )


def test_what_was_created_later_is_not_seen_as_of_an_earlier_time(kb):
    kb.add([node("old", "refund"), node("new", "refund", created_at=NOW)])
    assert ids(kb.search("refund", spaces=["s"], as_of=THEN)) == ["old"]
    assert "new" not in ask(kb, as_of=THEN).text
    assert ids(kb.search("refund", spaces=["s"], as_of=NOW)) == ["new", "old"]


def test_an_item_is_seen_only_while_it_is_valid(kb):
    kb.add(node("a", "refund", valid_from=NOW, valid_to=LATER))
    seen = [
        bool(kb.search("refund", spaces=["s"], now=now))
        for now in (NOW - timedelta(seconds=1), NOW, LATER - timedelta(seconds=1), LATER)
    ]
    assert seen == [False, True, True, False]


def test_validity_is_judged_as_of_the_time_asked_about(kb):
    kb.add(node("a", "refund", valid_to=NOW))
    assert ids(kb.search("refund", spaces=["s"], now=LATER, as_of=THEN)) == ["a"]
    assert ids(ask(kb, now=LATER, as_of=THEN).hits) == ["a"]


def test_times_without_a_zone_are_utc(kb, far_away):
    kb.add(node("a", "refund", valid_to=NOW.replace(tzinfo=None)))
    assert kb.get("a", space="s")[0].valid_to == NOW
    assert kb.search("refund", spaces=["s"], now=NOW.replace(tzinfo=None)) == []
    assert ask(kb, now="2026-03-01T13:00:00+01:00").digest == ask(kb, now=NOW).digest


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock shows the time of Tokyo."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_request_without_a_space_reads_nothing(support):
    assert support.search("refund", spaces=[]) == []
    assert ask(support, spaces=[]).text == ""


def test_a_query_is_never_syntax(support):
    for text in [
        "",
        " ",
        '"',
        "refund OR",
        "refund*",
        "NEAR(",
        "' --",
        "(((",
        "🙂",
        "\0",
        "a" * 100_000,
    ]:
        support.search(text, spaces=["s"])


@pytest.mark.parametrize(
    "text", ["返金の手順", "إجراءات الاسترداد", "процедура возврата", "🙂🙃", "प्रक्रिया"]
)
def test_any_script_is_stored_and_shown(kb, text):
    kb.add(node("a", text, title=text))
    assert text in ask(kb, text).text or not kb.search(text, spaces=["s"])
    assert kb.get("a", space="s")[0].title == text


@pytest.mark.parametrize("text", ["返金の手順", "إجراءات الاسترداد", "процедура возврата"])
def test_words_of_any_script_are_found(kb, text):
    kb.add([node("a", text), node("b", "other")])
    assert ids(kb.search(text, spaces=["s"])) == ["a"]


def test_a_title_of_ten_thousand_characters_works(kb):
    kb.add(node("a", "refund", title="t" * 10_000))
    assert "t" * 10_000 in ask(kb, max_tokens=None).text


# meaning


@pytest.fixture
def meaning(url: str) -> Iterator[tuple[Engine, Axes]]:
    embedder = Axes()
    with knowloom.open(url, embedder=embedder) as engine:
        engine.add(
            [
                node("words", "refund of a parcel"),
                node("both", "refund the money"),
                node("sense", "money"),
                node("none", "food"),
            ]
        )
        yield engine, embedder


def test_each_mode_says_what_found_an_item(meaning):
    kb, _ = meaning
    found = {
        mode: {
            hit.item.id: hit.match_source
            for hit in kb.search("refund money", spaces=["s"], mode=mode, min_score=0.05)
        }
        for mode in ("bm25", "vector", "hybrid")
    }
    assert found["bm25"] == {"words": "bm25", "both": "bm25", "sense": "bm25"}
    assert set(found["vector"].values()) == {"vector"}
    assert found["hybrid"]["both"] == "hybrid"


def test_fused_scores_are_the_weighted_sum_of_both(meaning):
    kb, _ = meaning
    for hit in kb.search("refund", spaces=["s"]):
        assert hit.score == pytest.approx(
            0.6 * hit.signals.get("bm25", 0) + 0.4 * hit.signals.get("vector", 0), abs=2e-6
        )


def test_ties_of_words_and_meaning_go_by_id(kb):
    kb.add(node("b", "unrelated"), vectors=[[1, 0]])
    kb.add(node("a", "zebra"))
    assert ids(
        ask(kb, "zebra", recipe=[Recipe("r", limit=1, bm25_weight=0)], vector=[0, 1]).hits
    ) == ["a"]


def test_a_ready_vector_is_used_instead_of_the_text(meaning):
    kb, _ = meaning
    assert ids(kb.search("", spaces=["s"], mode="vector", vector=[0, 0, 0, 9, 0.9], limit=1)) == [
        "none"
    ]


def test_weights_of_words_and_meaning_may_be_chosen(meaning):
    kb, _ = meaning
    words, sense = (
        ask(kb, "refund", recipe="search", bm25_weight=share, vector_weight=1 - share).hits
        for share in (1, 0)
    )
    assert [hit.score for hit in words] == [hit.signals.get("bm25", 0) for hit in words]
    assert [hit.score for hit in sense] == [hit.signals.get("vector", 0) for hit in sense]


def test_when_the_embedder_is_down_words_answer_and_the_answer_says_so(meaning):
    kb, embedder = meaning
    healthy = ask(kb, "refund please")
    embedder.down = True
    context = ask(kb, "refund now")
    assert set(ids(context.hits)) == {"words", "both"}
    assert [(problem.part, problem.code) for problem in context.degraded] == [
        ("vectors", "unavailable")
    ]
    assert "connection refused" in context.degraded[0].reason
    assert healthy.degraded == ()


def test_when_the_embedder_is_down_a_search_by_meaning_alone_fails(meaning):
    kb, embedder = meaning
    embedder.down = True
    with pytest.raises(Unavailable, match="connection refused"):
        kb.search("anything", spaces=["s"], mode="vector")
    with pytest.raises(Unavailable, match="connection refused"):
        ask(kb, "anything", mode="vector")


def test_a_degraded_answer_has_another_digest(url):
    embedder = Axes()
    with knowloom.open(url, embedder=embedder) as kb:
        kb.add([node("a", "refund"), node("b", "money")])
        embedder.down = True
        weak = ask(kb, "refund please")
        embedder.down = False
        assert ask(kb, "refund please").digest != weak.digest


def test_a_search_by_meaning_without_vectors_fails_instead_of_searching_words(support):
    with pytest.raises(Conflict, match="none of the 12 items has one"):
        support.search("refund", spaces=["s"], mode="vector")


def test_what_is_not_embedded_yet_is_found_by_words_and_flagged(url):
    with knowloom.open(url, embedder=Axes()) as kb:
        kb.add(node("a", "refund"))
        kb.add(node("b", "refund"), embed=False)
        context = ask(kb)
        assert sorted(ids(context.hits)) == ["a", "b"]
        assert [problem.code for problem in context.degraded] == ["vectors_pending"]
        assert kb.maintenance.embed() == 1
        assert ask(kb).degraded == ()


def test_what_could_not_be_embedded_is_stored_and_reported(url):
    embedder = Axes()
    embedder.down = True
    with knowloom.open(url, embedder=embedder) as kb:
        report = kb.add(node("a", "refund"))
        assert report.added == 1 and "1 items are stored but not embedded" in report.problems[0]
        assert ids(kb.search("refund", spaces=["s"])) == ["a"]


def test_another_embedder_is_flagged_until_everything_is_embedded_anew(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=Axes()) as kb:
        kb.add([node("a", "refund"), node("b", "money")])
    with knowloom.open(str(tmp_path / "k.db"), embedder=Axes(("money",), "axes-2")) as kb:
        assert [problem.code for problem in ask(kb).degraded] == ["reindex_required"]
        with pytest.raises(Conflict, match="run reindex") as caught:
            kb.search("refund", spaces=["s"], mode="vector")
        assert caught.value.code == "reindex_required"
        assert kb.reindex() == 2
        assert ask(kb).degraded == ()
        assert kb.maintenance.stats().embedder == "axes-2"


def test_vectors_are_forgotten_only_when_others_can_be_made(url):
    embedder = Axes()
    with knowloom.open(url, embedder=embedder) as kb:
        kb.add([node("a", "refund"), node("b", "car")])
        embedder.down = True
        with pytest.raises(Unavailable, match="connection refused"):
            kb.reindex()
        assert kb.maintenance.stats().without_vector == 0
        embedder.down = False
        assert kb.reindex() == 2


def test_an_embedder_that_gives_other_dimensions_than_before_is_flagged(url):
    embedder = Axes()
    with knowloom.open(url, embedder=embedder) as kb:
        kb.add(node("a", "refund"))
        embedder.words = ("refund",)  # the server behind the name changed
        assert ids(kb.search("refund please", spaces=["s"])) == ["a"]
        assert [
            (problem.code, "5 dimensions" in problem.reason)
            for problem in ask(kb, "refund please").degraded
        ] == [("reindex_required", True)]
        with pytest.raises(Conflict, match="run reindex"):
            kb.search("refund again", spaces=["s"], mode="vector")


def test_a_vector_of_other_dimensions_is_refused_by_their_number(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=Axes()) as kb:
        kb.add(node("a", "refund"))
    with (
        knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb,
        pytest.raises(Invalid, match="a vector must have 5 dimensions, got 3"),
    ):
        kb.search("refund", spaces=["s"], vector=[1, 2, 3])


def test_given_vectors_of_another_size_are_refused_with_a_way_out(kb):
    kb.add(node("a"), vectors=[[1, 2]])
    with pytest.raises(Conflict, match="pass vectors of 2 dimensions, or use a new file"):
        kb.add(node("b"), vectors=[[1, 2, 3]])


BAD_EMBEDDINGS: dict[str, Callable[[Sequence[str]], Any]] = {
    "an error of its own": lambda texts: 1 / 0,
    "none": lambda texts: None,
    "too few": lambda texts: [],
    "not a number": lambda texts: [[float("nan")] * 5 for _ in texts],
    "nothing but zeros": lambda texts: [[0.0] * 5 for _ in texts],
    "a number": lambda texts: [5.0 for _ in texts],
    "texts": lambda texts: list(texts),
}


@pytest.mark.parametrize("bad", BAD_EMBEDDINGS.values(), ids=BAD_EMBEDDINGS)
def test_an_embedder_that_fails_in_any_way_costs_the_vectors_and_nothing_else(
    url, bad, monkeypatch
):
    embedder = Axes()
    with knowloom.open(url, embedder=embedder) as kb:
        kb.add(node("a", "refund"))
        monkeypatch.setattr(embedder, "embed", bad)
        report = kb.add(node("b", "refund of money"))
        assert (
            report.added == 1
            and "1 items are stored but not embedded: embedder 'axes'" in report.problems[0]
        )
        assert ids(kb.search("refund please", spaces=["s"])) == ["a", "b"]
        assert {problem.code for problem in ask(kb, "refund please").degraded} == {
            "embedding_failed"
        }
        with pytest.raises(knowloom.EmbeddingError, match="embedder 'axes'"):
            kb.search("refund please", spaces=["s"], mode="vector")


def test_stored_vectors_without_an_embedder_are_flagged(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=Axes()) as kb:
        kb.add(node("a", "refund"))
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        assert [problem.code for problem in ask(kb).degraded] == ["embedder_required"]
        assert ids(ask(kb).hits) == ["a"]


def test_ready_vectors_are_kept_with_their_items(kb):
    kb.add([node("a"), node("b")], vectors=[[1, 0, 0], [0, 2, 0]])
    assert [
        (hit.item.id, hit.score)
        for hit in kb.search("", spaces=["s"], mode="vector", vector=[0, 5, 0], limit=1)
    ] == [("b", 1.0)]


def test_the_bundled_embedder_finds_what_shares_no_word(tmp_path):
    with knowloom.open(str(tmp_path / "k.db")) as kb:
        kb.add(
            [
                node("a", "How to get your money back for a purchase"),
                node("b", "Opening hours of the canteen"),
            ]
        )
        hit = kb.search("reimbursement", spaces=["s"])[0]
        assert (hit.item.id, hit.match_source) == ("a", "vector")
        assert kb.maintenance.stats().without_vector == 0


# the graph


def graph(kb: Engine, edges: Sequence[Edge], more: Sequence[Item] = ()) -> None:
    ends = sorted(
        {end for edge in edges for end in (edge.source, edge.target)} - {item.id for item in more}
    )
    kb.add([*(node(id, "zebra" if id == "start" else "unrelated") for id in ends), *more], edges)


def reached(kb: Engine, **options: Any) -> dict[str, float]:
    recipe = [
        Recipe("found", limit=1, required=True),
        Recipe("linked", "neighbours", **{"limit": 100, "depth": 3} | options),
    ]
    context = kb.context("zebra", spaces=["s"], recipe=recipe, now=NOW, max_tokens=None)
    return {hit.item.id: hit.score for hit in context.fragments[1].hits}


def test_a_link_counts_less_with_every_hop_and_by_its_weight(kb):
    graph(
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
    assert reached(kb) == pytest.approx(
        {"one": 0.5, "o": 0.4, "two": 0.333333, "w": 0.266667, "three": 0.25, "h": 0.2}, abs=1e-6
    )


def test_a_recipe_may_count_the_first_link_full(kb):
    graph(kb, [link("start", "one"), link("one", "two", 0.5)])
    assert reached(kb, near=0) == pytest.approx({"one": 1.0, "two": 0.25})


def test_links_are_followed_in_both_directions(kb):
    graph(kb, [link("one", "start"), link("two", "one")])
    assert list(reached(kb)) == ["one", "two"]


def test_cycles_and_self_loops_end(kb):
    graph(
        kb,
        [
            link("start", "start"),
            link("start", "a"),
            link("a", "b"),
            link("b", "start"),
            link("a", "a"),
        ],
    )
    assert sorted(reached(kb, depth=10)) == ["a", "b"]


@pytest.mark.parametrize("depth", [0, 1, 4, 10])
def test_as_many_links_are_followed_as_asked(kb, depth):
    names = ["start", *(f"n{number:02}" for number in range(1, 13))]
    graph(kb, [link(here, there) for here, there in pairwise(names)])
    assert sorted(reached(kb, depth=depth)) == names[1 : depth + 1]


def test_of_two_links_to_an_item_the_heavier_counts(kb):
    graph(kb, [link("start", "a", 0.2), link("start", "a", 0.6, type="strong")])
    assert reached(kb) == {"a": 0.3}


def test_a_strong_link_behind_a_weak_one_is_found_however_few_items_are_wanted(kb):
    graph(kb, [link("start", "weak", 0.2), link("weak", "strong")])
    assert reached(kb, depth=2, limit=1) == pytest.approx({"strong": 0.333333})


def test_only_the_links_of_the_best_items_are_followed(kb):
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
    assert ids(ask(kb, "zebra", recipe=recipe).fragments[1].hits) == ["a"]


def test_only_links_of_the_types_asked_for_are_followed(kb):
    graph(kb, [link("start", "a", type="parent"), link("start", "b", type="similar")])
    assert list(reached(kb, edge_types=("parent",))) == ["a"]


def test_a_hub_of_five_thousand_links_gives_its_heaviest(kb):
    edges = [link("start", f"n{number:04}", (number + 1) / 5000) for number in range(5000)]
    random.Random(1).shuffle(edges)
    graph(kb, edges)
    assert list(reached(kb, hub_cap=30)) == [f"n{number:04}" for number in range(4999, 4969, -1)]
    assert list(reached(kb, limit=5)) == [f"n{number:04}" for number in range(4999, 4994, -1)]


def test_links_across_spaces_are_followed_only_when_both_are_asked_for(kb):
    kb.add([node("start", "zebra"), node("there", "unrelated", space="t")])
    kb.add([], [Edge("start", "there", space="s", target_space="t")])
    one, both = (kb.context("zebra", spaces=spaces, now=NOW) for spaces in (["s"], ["s", "t"]))
    assert ids(one.hits) == ["start"]
    assert ids(both.hits) == ["start", "there"]


def test_nothing_hidden_is_reached_or_passed_through(kb):
    hidden = node("hidden", "unrelated", valid_to=THEN)
    graph(kb, [link("start", "hidden"), link("hidden", "behind"), link("start", "open")], [hidden])
    assert list(reached(kb)) == ["open"]


def test_the_links_of_the_entity_asked_for_are_followed(kb):
    kb.add(
        [node("user:maya", "the user", kind=Kind.ENTITY), node("note", "unrelated")],
        [link("user:maya", "note")],
    )
    assert ids(ask(kb, "zebra", entity="user:maya").hits) == ["note"]


def test_a_path_says_how_an_item_was_reached(kb):
    graph(kb, [link("start", "one"), link("two", "one", 0.5)])
    hit = ask(kb, "zebra").fragments[1].hits[1]
    assert [id for _, id in hit.path] == ["start", "one", "two"]
    assert (hit.distance, hit.match_source, hit.edge) == (2, "graph", link("two", "one", 0.5))


def test_depth_may_be_asked_for_in_a_request(kb):
    graph(kb, [link("start", "one"), link("one", "two"), link("two", "three")])
    assert [len(ask(kb, "zebra", depth=depth).fragments[1].hits) for depth in (0, 1, 3)] == [
        0,
        1,
        3,
    ]


def test_when_the_graph_is_down_its_part_is_empty_and_flagged():
    store, broken = MemoryStore(), BrokenGraph()
    with Engine(Stores(store, store, store, broken)) as kb:
        kb.add([node("start", "zebra"), node("one")], [link("start", "one")])
        context = ask(kb, "zebra")
        assert ids(context.hits) == ["start"]
        assert context.degraded == (
            Problem("context", "graph: connection refused"),
            Problem("entities", "graph: connection refused"),
        )
        assert context.fragments[1].problem == "graph: connection refused"
        with pytest.raises(Unavailable):
            reached(kb, required=True)


def test_a_part_that_failed_changes_the_digest():
    store, broken = MemoryStore(), BrokenGraph()
    with (
        Engine(Stores(store, store, store, store)) as kb,
        Engine(Stores(store, store, store, broken)) as weak,
    ):
        kb.add([node("start", "zebra"), node("one")], [link("start", "one")])
        assert ask(kb, "zebra").text != ask(weak, "zebra").text
        assert ask(kb, "zebra").digest != ask(weak, "zebra").digest


# contexts


def test_a_context_is_counted_and_says_what_it_is_made_of(support):
    context = ask(support, max_tokens=200)
    assert context.stats.candidates == len(context.hits) + len(context.left_out)
    assert (context.stats.searched, context.stats.token_counter) == (10, "cl100k_base")
    assert [fragment.name for fragment in context.fragments] == [
        "entry_points",
        "context",
        "entities",
    ]


def test_as_many_candidates_are_looked_at_as_the_budget_could_hold(kb):
    kb.add(
        [
            node(f"i{number:03}", "refund" + " harbor" * 40)
            for number in range(DEFAULT_CANDIDATES + 50)
        ]
    )
    asked = {
        0: MIN_CANDIDATES,
        100: MIN_CANDIDATES,
        1500: 32,
        6000: 126,
        60_000: DEFAULT_CANDIDATES + 50,
        None: DEFAULT_CANDIDATES,
    }  # 288 characters each, 6 a token
    assert {
        budget: ask(kb, recipe="search", max_tokens=budget).stats.candidates for budget in asked
    } == asked


def test_sections_hold_the_same_text_by_prompt_section(kb):
    kb.add([node("a", "refund one", section="instructions"), node("b", "refund two")])
    sections = ask(kb, format="plain").sections()
    assert list(sections) == ["instructions", "context"] or list(sections) == [
        "context",
        "instructions",
    ]
    assert "refund one" in sections["instructions"] and "refund two" in sections["context"]


def test_options_of_a_request_reach_the_recipes_that_search(support):
    context = ask(support, "refund car", types=["guide"], limit=3)
    assert ids(context.hits) == ["parking"]


def test_a_recipe_may_hold_lists(support):
    recipe = Recipe("x", types=["guide"], kinds=["node"], tags=[], exclude_types=["faq"])
    assert ids(ask(support, "refund car", recipe=[recipe]).hits) == ["parking"]


def test_nothing_is_shown_twice(kb):
    kb.add(
        [node("global", "refund for all", kind=Kind.PROFILE), node("b", "refund")],
        [link("global", "b")],
    )
    recipe = [
        Recipe("search"),
        Recipe("again"),
        Recipe("linked", "neighbours", depth=1),
        Recipe("profile", "profile"),
    ]
    assert sorted(ids(ask(kb, recipe=recipe).hits)) == ["b", "global"]


def test_a_profile_comes_first_and_what_holds_for_its_subject_with_it(kb):
    kb.add(
        [
            node("user:maya", "prefers email", kind=Kind.PROFILE),
            node("global", "be polite", kind=Kind.PROFILE),
            node("faq", "refund", type="Policy"),
            node("rule", "keep receipts", kind=Kind.RULE, subject="Policy"),
            node("claim", "takes five days", kind=Kind.CLAIM, subject="faq", confidence=0.9),
            node("other", "not about it", kind=Kind.CLAIM, subject="something"),
        ]
    )
    parts = {
        part.name: ids(part.hits)
        for part in ask(kb, recipe="profile", entity="user:maya").fragments
    }
    assert parts == {
        "profile": ["global", "user:maya"],
        "entry_points": ["faq"],
        "context": [],
        "rules": ["claim", "rule"],
    }


def test_weights_change_the_order_and_keep_scores_between_0_and_1(kb):
    kb.add([node("old", "refund refund", created_at=THEN), node("new", "refund", created_at=NOW)])
    plain, fresh = (
        ask(kb, recipe=[Recipe("r", weights=weights)]).hits
        for weights in (Weights(), Weights(match=0.1, recency=5))
    )
    assert (ids(plain), ids(fresh)) == (["old", "new"], ["new", "old"])
    assert all(0 <= hit.score <= 1 for hit in fresh)


def test_a_memory_is_worth_its_match_its_age_and_its_confidence(kb):
    kb.add(
        node("a", "refund", kind=Kind.MEMORY, confidence=0.8, created_at=NOW - timedelta(days=1))
    )
    hit = ask(kb, recipe="memories").hits[0]
    assert hit.score == pytest.approx(0.5 * hit.signals["match"] + 0.3 * 0.5 + 0.2 * 0.8, abs=1e-6)


def test_the_least_score_is_one_of_the_final_score(kb):
    kb.add(
        node("a", "refund and " + "word " * 50, kind=Kind.MEMORY, confidence=1.0, created_at=NOW)
    )
    hit = ask(kb, recipe="memories").hits[0]
    assert hit.signals["match"] < hit.score
    assert ids(ask(kb, recipe="memories", min_score=hit.score).hits) == ["a"]


# isolation and determinism

TEXTS = st.lists(
    st.sampled_from(["refund", "order", "zebra", "the", "policy", "返金", "🙂"]),
    min_size=1,
    max_size=6,
).map(" ".join)
KNOWLEDGE = st.lists(
    st.tuples(st.integers(0, 9), TEXTS, st.sampled_from(["node", "memory", "entity"])),
    max_size=8,
    unique_by=lambda row: row[0],
)
LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6, unique=True)


def fill(
    kb: Engine, space: str, rows: Sequence[tuple[int, str, str]], links: Sequence[tuple[int, int]]
) -> None:
    items = [node(f"i{number}", text, space=space, kind=Kind(kind)) for number, text, kind in rows]
    edges = [
        Edge(items[a].id, items[b].id, space=space) for a, b in links if max(a, b) < len(items)
    ]
    kb.add(items, edges)


def shown(context: Context) -> tuple[Any, ...]:
    return (
        context.text,
        context.digest,
        [(hit.item.key, hit.score) for hit in context.hits],
        context.degraded,
        context.left_out,
        context.stats.searched,
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    KNOWLEDGE.filter(bool),
    LINKS,
    KNOWLEDGE,
    LINKS,
    TEXTS,
    st.integers(0, 200),
    st.sampled_from([None, Axes()]),
)
def test_what_is_in_another_space_changes_no_byte(
    mine, links, theirs, their_links, text, budget, embedder
):
    with knowloom.open("memory:", embedder=embedder) as kb:
        fill(kb, "s", mine, links)
        before = shown(ask(kb, text, max_tokens=budget))
        fill(kb, "other", theirs, their_links)
        assert shown(ask(kb, text, max_tokens=budget)) == before


def test_vectors_in_another_space_change_no_score(url):
    with knowloom.open(url, embedder=Axes()) as kb:
        kb.add([node("a", "refund"), node("b", "refund order")], embed=False)
        before = shown(ask(kb))
        kb.add(node("c", "refund", space="other"))
        assert shown(ask(kb)) == before


def test_ready_vectors_in_another_space_change_no_score(support):
    before = shown(ask(support))
    support.add(node("c", "refund", space="other"), vectors=[[1, 2]])
    assert shown(ask(support)) == before


def test_explaining_tells_nothing_of_what_another_space_says(support):
    support.add(node("secret", "the launch code", space="other", title="Launch"))
    told = repr(support.explain("refund", spaces=["s"], ids=["secret"], now=NOW))
    assert "launch code" not in told and "Launch" not in told


def test_explaining_knows_nothing_of_the_pages_on_which_knowloom_remembers_its_sources(
    kb, tmp_path
):
    (tmp_path / "s.jsonl").write_text('{"id": "a", "text": "refund"}')
    kb.load(tmp_path)
    page = next(
        item.id
        for item in kb._stores.items.find(
            knowloom.model.Filter((knowloom.validation.PROVENANCE_SPACE,)), 10
        )
    )
    (told,) = [
        one
        for one in kb.explain("refund", spaces=["s"], ids=[page], now=NOW).left_out
        if one.hit.item.id == page
    ]
    assert (told.reason, told.remedy) == ("no such item is stored", "")


SCRIPT = """
    import sys, knowloom
    kb = knowloom.open("memory:", embedder=None)
    kb.load(sys.argv[1])
    for format in ("json", "markdown", "plain", "yaml"):
        found = kb.explain("refund order policy", spaces=["a", "b"], format=format, max_tokens=300, entity="i3", now="2026-03-01", ids=["i1", "x"])
        print(found.digest, found.text, [(one.hit.item.key, one.reason, one.remedy) for one in found.left_out])
"""


def test_the_same_question_has_the_same_answer_in_every_process(tmp_path):
    chance = random.Random(5)
    for space in ("a", "b"):
        rows = [
            {
                "id": f"i{n}",
                "text": " ".join(chance.choices(["refund", "order", "policy", "the"], k=20)),
                "tags": ["x", "y"],
                "created_at": "2026-01-01",
            }
            for n in range(40)
        ]
        rows += [{"source": f"i{n}", "target": f"i{(n * 7) % 40}"} for n in range(40)]
        (tmp_path / f"{space}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answers = {run(SCRIPT, str(tmp_path), seed=seed) for seed in ("0", "1", "77")}
    assert len(answers) == 1 and "refund" in answers.pop()


def run(script: str, *arguments: str, seed: str) -> str:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": str(Path(knowloom.__file__).parents[1]),
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, "-c", dedent(script), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, check=True, text=True, encoding="utf-8"
    ).stdout


def test_the_digest_names_knowledge_request_recipe_format_and_time(support):
    usual = ask(support)
    others = [
        ask(support, "refund please"),
        ask(support, max_tokens=1999),
        ask(support, format="plain"),
        ask(support, model="gpt-4o"),
        ask(support, now=LATER),
        ask(support, as_of=NOW),
        ask(support, recipe="search"),
        ask(support, min_score=0.1),
        ask(support, entity="maya"),
    ]
    support.add(node("parking", "changed"))
    others.append(ask(support))
    support.add([], [link("parking", "lunch")])
    others.append(ask(support))
    assert len({usual.digest, *(context.digest for context in others)}) == len(others) + 1
    assert re.fullmatch(r"[0-9a-f]{64}", usual.digest)


def test_the_digest_names_a_vector_that_was_given(url):
    with knowloom.open(url, embedder=Axes()) as kb:
        kb.add([node("a", "refund"), node("b", "money")])
        one, other, longer = (
            [2.0, 1.0, 0.0, 0.0, 0.0],
            [2.0, 0.0, 1.0, 0.0, 0.0],
            [4.0, 2.0, 0.0, 0.0, 0.0],
        )
        assert ask(kb, vector=one).digest != ask(kb, vector=other).digest != ask(kb).digest
        assert (ask(kb, vector=one).digest, ask(kb, vector=one).text) == (
            ask(kb, vector=longer).digest,
            ask(kb, vector=longer).text,
        )


def test_the_digest_depends_on_what_is_known_not_on_how_it_came(tmp_path):
    items = [node(f"i{number}", f"refund {number}") for number in range(30)]
    edges = [link(f"i{number}", f"i{number // 2}") for number in range(1, 30)]
    with (
        knowloom.open(str(tmp_path / "one.db"), embedder=None) as one,
        knowloom.open(str(tmp_path / "two.db"), embedder=None) as two,
    ):
        one.add(items, edges)
        two.add([replace(items[0], text="another text first"), node("gone", "refund")])
        for item in reversed(items):
            two.add(item)
        two.add([], reversed(edges))
        two.delete("gone", space="s")
        assert ask(one).text == ask(two).text
        # `i0` was changed on the way, and remembers when: an explicit time says it was not.
        two.add(replace(items[0], updated_at=THEN))
        one.add(replace(items[0], updated_at=THEN))
        assert ask(one).digest == ask(two).digest


def test_the_memory_store_and_the_file_give_the_same_answer(tmp_path):
    chance = random.Random(2)
    items = [some_refund(chance, number) for number in range(60)]
    edges = [link(f"i{number}", f"i{number // 3}", 0.5) for number in range(1, 60)]
    with (
        knowloom.open("memory:", embedder=None) as one,
        knowloom.open(str(tmp_path / "k.db"), embedder=None) as two,
    ):
        one.add(items, edges)
        two.add(items, edges)
        assert shown(ask(one, max_tokens=300)) == shown(ask(two, max_tokens=300))


# what is refused

REFUSED_ITEMS: list[tuple[Any, str]] = [
    ("a text", "an item must be an Item, got str"),
    ({"id": "a"}, "an item must be an Item, got dict"),
    (node(""), "id must not be empty"),
    (node(5), "id must be text, got int"),
    (node("a", space=""), "space must not be empty"),
    (node("a\0"), "control characters"),
    (node("a" * 501), "id must have at most 500 characters, got 501"),
    (node("a", "   \n "), "is empty: it needs a title, a text, a summary or properties"),
    (node("a", "\t", title=" ", summary="\u00a0"), "is empty: it needs"),
    (node("a", ""), "is empty: it needs a title, a text, a summary or properties"),
    (node("a", None), "text must be text, got NoneType"),
    (node("a", "x" * 2_000_000), "text must have at most 1,000,000 characters, got 2,000,000"),
    (node("a", title="t" * 10_001), "title must have at most 10,000 characters, got 10,001"),
    (node("a", "nul \0"), r"must be storable text, got '\x00' at character 4"),
    (node("a", "lone \ud800"), r"must be storable text, got '\ud800' at character 5"),
    (node("a", embedding_text="\0"), "embedding_text must be storable text"),
    (
        node("a", kind="animal"),
        "unknown kind 'animal'; available: claim, entity, memory, node, profile, rule",
    ),
    (node("a", confidence=7), "confidence must be a number from 0 to 1, got 7"),
    (node("a", confidence=float("nan")), "confidence must be a number from 0 to 1, got nan"),
    (node("a", confidence=True), "confidence must be a number from 0 to 1, got True"),
    (node("a", tags="tag"), "tags must be a list of texts, got 'tag'"),
    (node("a", tags=("",)), "a tag must not be empty"),
    (node("a", tags=tuple(map(str, range(201)))), "tags must be at most 200, got 201"),
    (node("a", properties=[1]), "properties must be an object, got list"),
    (node("a", properties={"n": float("nan")}), "properties must be plain JSON"),
    (node("a", properties={"n": {1}}), "properties must be plain JSON"),
    (node("a", properties={"n": ["a\0"]}), r"'a\x00' cannot be stored as text"),
    (node("a", properties={"n\0": 1}), r"'n\x00' cannot be stored as text"),
    (node("a", properties={5: 1}), "the name 5 is not text"),
    (node("a", properties={"n": "\ud800"}), "properties must be storable text"),
    (
        node("a", valid_from=LATER, valid_to=NOW),
        "valid_from 2026-03-02 12:00:00+00:00 must be before valid_to 2026-03-01",
    ),
    (
        node("a", created_at="yesterday"),
        "created_at must be a time such as 2026-01-31T12:00:00Z, got 'yesterday'",
    ),
    (node("a", valid_to=5), "valid_to must be a time such as 2026-01-31T12:00:00Z, got 5"),
]


@pytest.mark.parametrize(("item", "message"), REFUSED_ITEMS)
def test_an_item_that_cannot_be_kept_is_refused_with_the_reason(kb, item, message):
    with pytest.raises(Invalid) as caught:
        kb.add([node("good"), item])
    assert message in str(caught.value)
    assert list(kb.items()) == []


REFUSED_EDGES: list[tuple[Any, str]] = [
    (link("a", "a", -1), "weight must be a number from 0 to 1, got -1"),
    (link("a", "a", None), "weight must be a number from 0 to 1, got None"),
    (link("a", "a", origin="knowloom"), "automatic edges cannot be added"),
    (link("a", "a", 2), "weight must be a number from 0 to 1, got 2"),
    (link("a", "a", float("nan")), "weight must be a number from 0 to 1, got nan"),
    (link("a", "a", "1"), "weight must be a number from 0 to 1, got '1'"),
    (link("", "a"), "source must not be empty"),
    (link("a", "a", type=""), "type must not be empty"),
    (link("a", "a", space=""), "space must not be empty"),
    (link("a", "nowhere"), "no item 'nowhere' in space 's'"),
    (link("a", "a", target_space="t"), "no item 'a' in space 't'"),
    (link("a", "a", item_id="why"), "no item 'why' in space 's'"),
    (link("a", "a", properties={"x": {1}}), "properties must be plain JSON"),
    (("a", "b"), "an edge must be an Edge, got tuple"),
]


@pytest.mark.parametrize(("edge", "message"), REFUSED_EDGES)
def test_an_edge_that_cannot_be_kept_is_refused_with_the_reason(kb, edge, message):
    with pytest.raises(Invalid) as caught:
        kb.add([node("a")], [edge])
    assert message in str(caught.value)
    assert list(kb.items()) == list(kb.edges()) == []


def test_the_same_id_or_edge_twice_in_one_write_is_refused(kb):
    with pytest.raises(Invalid, match=r"duplicate ids in one write: \[\('s', 'a'\)\]"):
        kb.add([node("a"), node("a", "other")])
    with pytest.raises(Invalid, match="duplicate edges in one write"):
        kb.add([node("a")], [link("a", "a"), link("a", "a", 0.5)])
    assert list(kb.items()) == []


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1, 0]], "vectors must have one entry per item, got 1 for 2"),
        ([[1, 0], [float("nan"), 1]], "finite numbers"),
        ([[1, 0], [float("inf"), 1]], "finite numbers"),
        ([[1, 0], [1e300, 1]], "finite numbers"),
        ([[1, 0], [0, 0]], "not all of them 0"),
        ([[1, 0], [1, 0, 0]], "a vector must have 2 dimensions, got 3"),
        ([[1, 0], []], "a list of numbers"),
        ([[1, 0], [[1, 0]]], "a list of numbers"),
        ([[1, 0], ["a", "b"]], "a list of numbers"),
        ([1, 2], "a list of numbers"),
        (5, "vectors must be a list, got int"),
        ("ab", "vectors must be a list, got str"),
        ({"a": [1, 0], "b": [0, 1]}, "vectors must be a list, got dict"),
    ],
)
def test_vectors_that_cannot_be_kept_are_refused_and_nothing_is_stored(kb, vectors, message):
    with pytest.raises(Invalid, match=message):
        kb.add([node("a"), node("b")], vectors=vectors)
    assert list(kb.items()) == []


def test_vectors_of_another_size_than_the_stored_ones_are_refused_and_nothing_is_stored(kb):
    kb.add(node("a"), vectors=[[1, 0]])
    with pytest.raises(Conflict, match=r"given:2.*given:3"):
        kb.add(node("b"), vectors=[[1, 0, 0]])
    assert ids(kb.items()) == ["a"]


REFUSED_REQUESTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"spaces": ["nowhere"]}, NotFound, "unknown space 'nowhere'; available: s"),
    ({"spaces": "s"}, Invalid, "spaces must be a list of names, got 's'"),
    ({"spaces": None}, Invalid, "spaces must be a list of names, got None"),
    ({"spaces": {"s"}}, Invalid, "spaces must be a list of names"),
    ({"spaces": [5]}, Invalid, "spaces must be text, got int"),
    ({"text": 5}, Invalid, "query must be text of at most 100,000 characters"),
    ({"text": "x" * 100_001}, Invalid, "query must be text of at most 100,000 characters"),
    ({"text": "\ud800"}, Invalid, "lone surrogates"),
    ({"types": "faq"}, Invalid, "types must be a list of names, got 'faq'"),
    ({"tags": "x"}, Invalid, "tags must be a list of names, got 'x'"),
    ({"exclude_types": "faq"}, Invalid, "exclude_types must be a list of names, got 'faq'"),
    ({"types": ["\ud800"]}, Invalid, "lone surrogates"),
    (
        {"kinds": ["animal"]},
        Invalid,
        "unknown kind 'animal'; available: claim, entity, memory, node, profile, rule",
    ),
    ({"kinds": "node"}, Invalid, "kinds must be a list of names, got 'node'"),
    ({"mode": "magic"}, Invalid, "unknown mode 'magic'; available: bm25, hybrid, vector, walk"),
    ({"limit": 0}, Invalid, "limit must be an integer from 1 to 10,000, got 0"),
    ({"limit": -1}, Invalid, "limit must be an integer from 1 to 10,000, got -1"),
    ({"limit": 10_001}, Invalid, "limit must be an integer from 1 to 10,000, got 10001"),
    ({"limit": True}, Invalid, "limit must be an integer from 1 to 10,000, got True"),
    ({"limit": 2.5}, Invalid, "limit must be an integer from 1 to 10,000, got 2.5"),
    ({"min_score": 1.5}, Invalid, "min_score must be a number from 0 to 1, got 1.5"),
    ({"min_score": float("nan")}, Invalid, "min_score must be a number from 0 to 1, got nan"),
    ({"now": "soon"}, Invalid, "now must be a time such as 2026-01-31T12:00:00Z, got 'soon'"),
    ({"now": 0}, Invalid, "now must be a time such as 2026-01-31T12:00:00Z, got 0"),
    ({"now": ""}, Invalid, "now must be a time such as 2026-01-31T12:00:00Z, got ''"),
    ({"as_of": 12}, Invalid, "as_of must be a time such as 2026-01-31T12:00:00Z, got 12"),
    ({"vector": [float("nan")]}, Invalid, "finite numbers"),
    ({"vector": [0.0, 0.0]}, Invalid, "not all of them 0"),
    ({"vector": "abc"}, Invalid, "a list of numbers"),
]
REFUSED_CONTEXTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    *REFUSED_REQUESTS,
    (
        {"max_tokens": -1},
        Invalid,
        "max_tokens must be an integer from 0 to 100,000,000, got -1",
    ),
    (
        {"max_tokens": 10**9},
        Invalid,
        "max_tokens must be an integer from 0 to 100,000,000, got 1000000000",
    ),
    (
        {"max_tokens": "many"},
        Invalid,
        "max_tokens must be an integer from 0 to 100,000,000, got 'many'",
    ),
    ({"format": "xml"}, Invalid, "unknown format 'xml'; available: json, markdown, plain, yaml"),
    ({"format": ["json"]}, Invalid, "format must be text, got list"),
    ({"model": ""}, Invalid, "model must be an OpenAI model"),
    ({"model": None}, Invalid, "for a bound, got 'None'"),
    ({"model": "nowhere.json"}, Invalid, "no tokenizer file 'nowhere.json'"),
    (
        {"recipe": "soup"},
        Invalid,
        "unknown recipe 'soup'; available: knowledge, memories, profile, search",
    ),
    (
        {"recipe": []},
        Invalid,
        "recipe must be one of knowledge, memories, profile, search or a list of Recipe values, got []",
    ),
    ({"recipe": Recipe("x")}, Invalid, "or a list of Recipe values, got Recipe"),
    ({"recipe": ["search"]}, Invalid, "or a list of Recipe values, got ['search']"),
    ({"recipe": [Recipe("x"), Recipe("x")]}, Invalid, "duplicate recipe name 'x'"),
    (
        {"recipe": [Recipe("x", forms=("huge",))]},
        Invalid,
        "unknown form 'huge'; available: pointer, summary, whole",
    ),
    (
        {"recipe": [Recipe("x", forms="whole")]},
        Invalid,
        "forms must be a list of names, got 'whole'",
    ),
    ({"recipe": [Recipe(5)]}, Invalid, "a recipe's name must be text, got int"),
    ({"recipe": [Recipe("x", types="faq")]}, Invalid, "types must be a list of names, got 'faq'"),
    ({"recipe": [Recipe("x", kinds=("animal",))]}, Invalid, "unknown kind 'animal'"),
    (
        {"recipe": [Recipe("x", source="web")]},
        Invalid,
        "unknown source 'web'; available: links, neighbours, profile, search, subjects, walk",
    ),
    (
        {"recipe": [Recipe("x", share=-0.5)]},
        Invalid,
        "share must be a number from 0 to 1, got -0.5",
    ),
    (
        {"recipe": [Recipe("x", max_share=2)]},
        Invalid,
        "max_share must be a number from 0 to 1, got 2",
    ),
    (
        {"recipe": [Recipe("x", sharpness=-1)]},
        Invalid,
        "sharpness must be a number >= 0, got -1",
    ),
    (
        {"recipe": [Recipe("x", near=-1)]},
        Invalid,
        "near must be an integer from 0 to 100, got -1",
    ),
    (
        {"recipe": [Recipe("x", depth=11)]},
        Invalid,
        "depth must be an integer from 0 to 10, got 11",
    ),
    (
        {"recipe": [Recipe("x", hub_cap=0)]},
        Invalid,
        "hub_cap must be an integer from 1 to 10,000, got 0",
    ),
    ({"recipe": [Recipe("x", weights=Weights(match=0))]}, Invalid, "weights must not all be 0"),
    (
        {"recipe": [Recipe("x", weights=Weights(name=-1))]},
        Invalid,
        "the weight of name must be a number >= 0, got -1",
    ),
    ({"depth": 11}, Invalid, "depth must be an integer from 0 to 10, got 11"),
    ({"depth": -1}, Invalid, "depth must be an integer from 0 to 10, got -1"),
    ({"bm25_weight": -1}, Invalid, "bm25_weight must be a number >= 0, got -1"),
    (
        {"bm25_weight": 0, "vector_weight": 0},
        Invalid,
        "bm25_weight and vector_weight must not both be 0",
    ),
    ({"entity": 5}, Invalid, "entity must be text, got int"),
    ({"entity": "\ud800"}, Invalid, "lone surrogates"),
    (
        {"max_token": 100},
        Invalid,
        "unknown option 'max_token'; available: agent, as_of, bm25_weight",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED_REQUESTS)
def test_a_search_that_makes_no_sense_is_refused(support, options, error, message):
    with pytest.raises(error) as caught:
        support.search(**{"text": "refund", "spaces": ["s"]} | options)
    assert message in str(caught.value)


@pytest.mark.parametrize(("options", "error", "message"), REFUSED_CONTEXTS)
def test_a_context_that_makes_no_sense_is_refused(support, options, error, message):
    for method in (support.context, support.explain):
        with pytest.raises(error) as caught:
            method(**{"text": "refund", "spaces": ["s"]} | options)
        assert message in str(caught.value)


def test_a_query_vector_of_another_size_than_the_stored_ones_is_refused(url):
    with knowloom.open(url, embedder=Axes()) as kb:
        kb.add(node("a", "refund"))
        with pytest.raises(Invalid, match="a vector must have 5 dimensions, got 2"):
            kb.search("refund", spaces=["s"], vector=[1, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [("get", "ids must be text, got int"), ("delete", "ids must be text, got int")],
)
def test_ids_that_are_not_text_are_refused(support, call, message):
    with pytest.raises(Invalid, match=message):
        getattr(support, call)([5], space="s")


def test_an_unknown_space_is_not_found_and_has_a_code(kb):
    for call in (
        lambda: kb.get("a", space="x"),
        lambda: kb.delete("a", space="x"),
        lambda: list(kb.items(["x"])),
        lambda: list(kb.edges(["x"])),
    ):
        with pytest.raises(NotFound, match="unknown space 'x'; available: none yet") as caught:
            call()
        assert (caught.value.code, caught.value.status) == ("unknown_space", 404)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *(
            (given, "a store must be a path or a URL")
            for given in (
                "",
                "  ",
                "sqlite:",
                "sqlite:///",
                "sqlite:/// ",
                None,
                5,
                b"k.db",
                ["k.db"],
            )
        ),
        ("oracle://x", "unknown store 'oracle'; available: file, memory, networkx, sqlite"),
        ("a\0b.db", "is not a valid file name"),
        ("a\ud800.db", "is not a valid file name"),
    ],
)
def test_an_unknown_store_is_refused(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=message):
        knowloom.open(given, embedder=None)
    assert list(tmp_path.iterdir()) == []


def test_a_store_may_be_named_by_a_path(tmp_path):
    knowloom.open(tmp_path / "k.db", embedder=None).close()
    assert (tmp_path / "k.db").stat().st_size


@pytest.mark.parametrize("given", ["ab", b"ab", {"id": "a"}, None, 5])
def test_what_is_no_list_of_items_or_edges_is_refused(kb, given):
    with pytest.raises(Invalid, match=f"items must be a list, got {type(given).__name__}"):
        kb.add(given)
    with pytest.raises(Invalid, match=f"edges must be a list, got {type(given).__name__}"):
        kb.add([], given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("abc", "edges must be a list, got str"),
        (5, "edges must be a list, got int"),
        (["abc"], "an Edge, got str"),
    ],
)
def test_what_is_no_list_of_edges_is_not_deleted(kb, given, message):
    with pytest.raises(Invalid, match=message):
        kb.delete_edges(given)


class Half:
    """Embeds, and cannot say what its vectors are of."""

    name = "half"
    dimensions = 2

    def embed(self, texts: Sequence[str]) -> list[Any]:
        return [np.array([1, 0], np.float32) for _ in texts]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": 5}, "agents must be Agent values or a file, got int"),
        ({"agents": [5]}, "agents must be Agent values or a file, got int"),
        (
            {"embedder": 5},
            "embedder must be a name such as minilm or openai:MODEL, an Embedder or None, got 5",
        ),
        ({"embedder": Half()}, "without 'fingerprint'"),
        (
            {"embedder": "minilm", "embedder_settings": 5},
            "embedder settings must be a dict, got 5",
        ),
        (
            {"embedder": "minilm", "embedder_settings": {"timeout_s": 5}},
            "unknown setting of minilm 'timeout_s'; available: none",
        ),
        (
            {"names": 5},
            "names must be 'builtin', a pipeline such as spacy:en_core_web_sm or a NameFinder, got 5",
        ),
        ({"cache": 5}, "cache must be a path or a Caching, got 5"),
        ({"cache": None}, "cache must be a path or a Caching, got None"),
    ],
)
def test_what_knowledge_cannot_be_opened_with_is_refused_at_once(options, message):
    with pytest.raises(Invalid, match=message):
        knowloom.open("memory:", **{"embedder": None} | options)


def test_the_dimensions_of_an_embedder_are_not_asked_for_when_it_is_given():
    class Remote(Half):
        fingerprint = "remote"

        @property
        def dimensions(self) -> int:
            raise AssertionError("nobody needs them yet")

    knowloom.open("memory:", embedder=Remote()).close()


def test_a_path_that_is_too_long_is_named_with_the_reason():
    with pytest.raises(Unavailable, match=r"cannot open 'aaa.*name too long"):
        knowloom.open("a" * 500, embedder=None)


def test_an_unknown_embedder_or_role_is_refused():
    with pytest.raises(Invalid, match="unknown embedder 'magic'; available: minilm, openai"):
        knowloom.open("memory:", embedder="magic")
    with pytest.raises(
        Invalid, match="unknown role 'ears'; available: graph, items, metadata, vectors, words"
    ):
        knowloom.open("memory:", embedder=None, ears="memory:")


def test_embedding_without_an_embedder_is_refused(support):
    with pytest.raises(Invalid, match="no embedder: pass one"):
        support.maintenance.embed()


# loading

ROWS = [{"id": "a", "text": "zebra"}, {"id": "b", "text": "giraffe", "tags": ["x"]}]
LINK = {"source": "a", "target": "b", "weight": 0.5}


def lines(*rows: Any) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", lines(*ROWS, LINK)),
        ("x.ndjson", lines(LINK, *ROWS)),
        ("x.jsonl", "\ufeff" + lines(*ROWS, LINK)),
        ("x.jsonl", lines("", *ROWS, "   ", LINK, "", "")),
        ("x.jsonl", lines(*ROWS, LINK).replace("\n", "\r\n")),
        ("x.json", json.dumps({"items": ROWS, "edges": [LINK]})),
        ("x.json", "\ufeff" + json.dumps({"edges": [LINK], "items": ROWS})),
    ],
)
def test_a_file_is_loaded_whatever_its_form(kb, tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    report = kb.load(tmp_path / name, space="s")
    assert (report.added, report.edges, report.skipped) == (2, 1, ())
    assert ids(kb.search("zebra", spaces=["s"])) == ["a"]
    assert list(kb.edges()) == [link("a", "b", 0.5)]


def test_a_dict_and_a_list_in_a_file_are_loaded(kb, tmp_path):
    (tmp_path / "list.json").write_text(json.dumps(ROWS))
    assert kb.load({"items": ROWS, "edges": [LINK]}, space="s").added == 2
    assert kb.load(str(tmp_path / "list.json"), space="t").added == 2


def test_a_folder_is_loaded_file_by_file_each_into_its_space(kb, tmp_path):
    (tmp_path / "one.jsonl").write_text(lines(*ROWS))
    (tmp_path / "two.json").write_text(json.dumps(ROWS))
    (tmp_path / "notes.pdf").write_text("not knowledge")
    assert kb.load(tmp_path).added == 4
    assert [info.name for info in kb.maintenance.stats().spaces] == ["one", "two"]


def test_a_row_may_name_its_own_space(kb):
    kb.load(
        {"items": [{"id": "a", "text": "x", "space": "mine"}, {"id": "b", "text": "x"}]}, space="s"
    )
    assert [item.key for item in kb.items()] == [("mine", "a"), ("s", "b")]


def test_integer_ids_become_text_and_empty_values_defaults(kb):
    kb.load(
        {"items": [{"id": 7, "text": "x", "title": None}], "edges": [{"source": 7, "target": 7}]},
        space="s",
    )
    assert ids(kb.get("7", space="s")) == ["7"]


def test_loading_again_changes_nothing(kb):
    kb.load({"items": ROWS, "edges": [LINK]}, space="s")
    digest = kb.maintenance.stats().spaces[0].digest
    report = kb.load({"items": ROWS, "edges": [LINK]}, space="s")
    assert (report.added, report.updated, report.unchanged, report.edges) == (0, 0, 2, 0)
    assert kb.maintenance.stats().spaces[0].digest == digest


def test_loading_again_changes_only_what_changed(kb):
    kb.load({"items": ROWS}, space="s")
    before = {item.id: item for item in kb.items()}
    report = kb.load({"items": [ROWS[0], {**ROWS[1], "text": "elephant"}]}, space="s")
    after = {item.id: item for item in kb.items()}
    assert (report.updated, report.unchanged) == (1, 1)
    assert after["a"] == before["a"]
    assert after["b"].created_at == before["b"].created_at < after["b"].updated_at


BROKEN_LINES = [
    ('{"id": "x", "text": ', "not JSON"),
    ("[1, 2]", "not an object"),
    ('{"text": "no id"}', "an item must have an id"),
    ('{"id": "x"}', "is empty"),
    (
        '{"id": "x", "text": "t", "colour": "red"}',
        "unknown field 'colour'; available: confidence, created_at",
    ),
    ('{"id": "x", "text": "t", "confidence": NaN}', "NaN is not a number"),
    ('{"id": "x", "text": "t", "created_at": "31.12.2025"}', "created_at must be a time"),
    ('{"id": "x", "text": "t", "kind": "animal"}', "unknown kind 'animal'"),
    ('{"id": "x", "text": 5}', "text must be text, got int"),
    ('{"id": "a", "text": "again"}', "duplicate id 'a' in space 's'"),
    ('{"source": "a", "target": "nowhere"}', "no item 'nowhere' in space 's'"),
    ('{"source": "a", "target": "b", "weight": 7}', "weight must be a number from 0 to 1, got 7"),
    ("[" * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("line", "why"), BROKEN_LINES)
def test_a_broken_line_is_reported_with_its_place_and_the_rest_is_stored(kb, tmp_path, line, why):
    path = tmp_path / "x.jsonl"
    path.write_text(lines(ROWS[0], line, ROWS[1], LINK))
    report = kb.load(path, space="s")
    assert (report.added, report.edges) == (2, 1)
    assert [(one.where, why in one.why) for one in report.skipped] == [(f"{path}:2", True)]


def test_a_line_that_is_not_utf_8_is_reported_and_the_rest_is_stored(kb, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(
        lines(ROWS[0]).encode() + b'\n{"id": "caf\xe9", "text": "x"}\n' + lines(ROWS[1]).encode()
    )
    report = kb.load(path, space="s")
    assert report.added == 2
    assert [(one.where, "not UTF-8" in one.why) for one in report.skipped] == [(f"{path}:2", True)]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.json", b'{"items": [', "not JSON"),
        ("x.json", b"", "not JSON"),
        ("x.jsonl", b"", "empty: it has no rows"),
        ("x.json", b"5", "must be a list of items or an object"),
        ("x.json", b'{"things": []}', "must be a list of items or an object"),
        ("x.json", b'{"items": 5}', "not a list"),
        ("x.json", b'{"items": null}', "not a list"),
        ("x.json", b'{"items": [5]}', "not an object"),
        ("x.json", '{"items": []}'.encode("utf-16-le"), "binary"),
        ("x.json", '{"items": ["é"]}'.encode("latin-1"), "not UTF-8: byte 12 is 0xe9"),
        ("x.jsonl", '{"id": "a", "text": "é"}'.encode("utf-16-le"), "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported(kb, tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    report = kb.load(tmp_path / name, space="s")
    assert report.added == 0
    assert [why in one.why for one in report.skipped] == [True]


def test_a_file_of_empty_lines_holds_nothing(kb, tmp_path):
    (tmp_path / "x.jsonl").write_text("\n")
    assert kb.load(tmp_path / "x.jsonl", space="s") == knowloom.Report()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nowhere.jsonl", NotFound, "no file or folder 'nowhere.jsonl'"),
        ("x" * 5000, NotFound, "no file or folder"),
        ("a\0b", NotFound, "no file or folder"),
        (["a"], Invalid, "source must be a path or a dict with `items` and `edges`, got list"),
        (None, Invalid, "got NoneType"),
    ],
)
def test_a_source_that_is_not_there_is_refused(kb, source, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kb.load(source, space="s")


def test_a_folder_without_knowledge_is_refused(kb, tmp_path):
    with pytest.raises(
        Invalid, match=r"no .json, .jsonl, .ndjson, .md, .markdown, .txt, .rst file in"
    ):
        kb.load(tmp_path)


def test_rows_without_any_space_are_reported(kb):
    report = kb.load({"items": ROWS})
    assert [one.why for one in report.skipped] == [
        "space is missing: set one for the whole load, or one in each row"
    ] * 2


def test_more_rows_than_one_write_takes_are_loaded_and_told_of(kb, tmp_path):
    rows = [{"id": f"i{number:04}", "text": "x"} for number in range(2500)]
    links = [{"source": f"i{number:04}", "target": f"i{number + 1:04}"} for number in range(2499)]
    told: list[tuple[str, int, int]] = []
    report = kb.load(
        {"items": rows, "edges": links}, space="s", progress=lambda *step: told.append(step)
    )
    assert (report.added, report.edges) == (2500, 2499)
    assert ("edges", 2499, 2499) in told and ("items", 2500, 2500) in told


# explaining


def test_explaining_gives_the_same_answer(support):
    for budget in (0, 40, 150, 2000):
        plain, explained = (
            call("refund", spaces=["s"], max_tokens=budget, now=NOW)
            for call in (support.context, support.explain)
        )
        assert (plain.text, plain.digest, plain.hits) == (
            explained.text,
            explained.digest,
            explained.hits,
        )


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(20, 3000),
    st.sampled_from(["search", "knowledge", "memories"]),
)
def test_every_budget_that_is_said_to_show_an_item_shows_it(seed, budget, recipe):
    chance = random.Random(seed)
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([some_memory(chance, number) for number in range(120)])
        asked = {"spaces": ["s"], "recipe": recipe, "now": NOW}
        said: dict[int, set[tuple[str, str]]] = defaultdict(set)
        for one in kb.explain("refund", max_tokens=budget, **asked).left_out:
            if found := re.match(r"max_tokens=(\d+) shows it \((\w+)\)", one.remedy):
                said[int(found[1])].add((one.hit.item.id, found[2]))
        for larger, shown in said.items():
            parts = kb.context("refund", max_tokens=larger, **asked).fragments
            assert shown <= {
                (chosen.hit.item.id, chosen.form.value) for part in parts for chosen in part.chosen
            }


def some_memory(chance: random.Random, number: int) -> Item:
    text = "refund " * chance.randint(1, 5) + "word " * chance.randint(1, 400)
    return node(
        f"i{number}",
        text,
        kind=Kind.MEMORY,
        confidence=chance.random(),
        created_at=NOW - timedelta(days=chance.random() * 5),
    )


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 12),
    st.floats(0, 1),
    st.sampled_from(["search", "memories"]),
)
def test_every_limit_and_least_score_that_is_said_to_help_does(seed, limit, min_score, recipe):
    chance = random.Random(seed)
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([some_memory(chance, number) for number in range(40)])
        asked = {
            "spaces": ["s"],
            "recipe": recipe,
            "now": NOW,
            "max_tokens": None,
            "limit": limit,
            "min_score": min_score,
        }
        explained = kb.explain("refund", **asked)
        assert len(explained.left_out) >= min(2 * limit, 40 - limit)
        for one in explained.left_out:
            remedy = {
                name: float(value) for name, value in re.findall(r"(\w+)=([\d.e-]+)", one.remedy)
            }
            again = asked | remedy | {"limit": int(remedy.get("limit", limit))}
            assert one.hit.item.id in ids(kb.context("refund", **again).hits)


def test_every_id_asked_about_gets_a_reason(support):
    support.add(
        [
            node("old", "refund", valid_to=THEN),
            node("elsewhere", "refund", space="t"),
            node("thing", "refund", kind=Kind.ENTITY),
        ]
    )
    asked = ["old", "thing", "lunch", "elsewhere", "nowhere"]
    told = {
        one.hit.item.id: one.reason
        for one in support.explain("refund", spaces=["s"], ids=asked, now=NOW).left_out
        if one.hit.item.id in asked
    }
    assert "was no longer valid" in told["old"]
    kind = "kind '{}' was not asked for".format
    assert (
        told["thing"]
        == f"entry_points: {kind('entity')}; context: {kind('entity')}; entities: no link leads to it from what was found"
    )
    others = "other items match the words and the meaning better"
    assert (
        told["lunch"]
        == f"entry_points: {others}; context: no link leads to it from what was found; entities: {kind('node')}"
    )
    assert told["elsewhere"] == "it is in space 't', which was not asked for"
    assert told["nowhere"] == "no such item is stored"


def test_one_id_may_be_asked_about_as_text(support):
    explained = support.explain("refund", spaces=["s"], ids="lunch", now=NOW)
    assert explained.left_out[-1].hit.item.id == "lunch"


# settings


def test_settings_have_defaults(tmp_path):
    assert load({}, tmp_path) == Settings()


def test_the_environment_wins_over_the_file(tmp_path):
    (tmp_path / "knowloom.toml").write_text('store = "file.db"\nmax_tokens = 500\ntimeout_s = 5\n')
    found = load({"KNOWLOOM_STORE": "environment.db", "OTHER": "x"}, tmp_path)
    assert (found.store, found.max_tokens, found.timeout_s) == ("environment.db", 500, 5.0)


def test_another_file_may_be_named(tmp_path):
    (tmp_path / "other.toml").write_text('format = "yaml"\n')
    assert load({"KNOWLOOM_CONFIG": str(tmp_path / "other.toml")}, tmp_path).format == "yaml"
    with pytest.raises(Invalid, match="must be a file, got"):
        load({"KNOWLOOM_CONFIG": str(tmp_path / "none.toml")}, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "stroe = 'x'",
            f"unknown setting 'stroe'; available: {', '.join(sorted(one.name for one in fields(Settings)))}",
        ),
        ("max_tokens = 'many'", "max_tokens must be int, got 'many'"),
        ("max_tokens = 2.5", "max_tokens must be int, got 2.5"),
        ("max_tokens = true", "max_tokens must be int, got True"),
        ("timeout_s = 'soon'", "timeout_s must be float, got 'soon'"),
        ("store = 5", "store must be str, got 5"),
        ("store = [", "not TOML"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(tmp_path, content, message):
    (tmp_path / "knowloom.toml").write_text(content)
    with pytest.raises(Invalid) as caught:
        load({}, tmp_path)
    assert message in str(caught.value) and "knowloom.toml" in str(caught.value)


def test_a_bad_value_in_the_environment_is_refused():
    with pytest.raises(Invalid, match="environment: max_tokens must be int, got 'many'"):
        load({"KNOWLOOM_MAX_TOKENS": "many"})


def test_a_key_is_not_shown(tmp_path):
    found = load({"OPENAI_API_KEY": "sk-secret"}, tmp_path)
    assert found.openai_api_key == "sk-secret" and "sk-secret" not in repr(found)
    assert (
        load({"OPENAI_API_KEY": "one", "KNOWLOOM_OPENAI_API_KEY": "two"}, tmp_path).openai_api_key
        == "two"
    )


def test_a_vector_of_the_largest_numbers_is_as_good_as_any():
    assert validation.validate_vector([3e38] * 4).tolist() == [0.5] * 4


def test_the_forms_of_a_recipe_may_be_a_list(kb: Engine) -> None:
    kb.add(Item("a", "acme", text="A refund takes five days."))
    some, same = (
        kb.context("refund", spaces=["acme"], now=NOW, recipe=[Recipe("x", forms=forms)])
        for forms in (["whole"], ("whole",))
    )
    assert some.text and (some.text, some.digest) == (same.text, same.digest)


def test_an_entity_that_is_called_by_its_name_is_there_with_its_neighbours_though_no_link_leads_to_it(
    kb,
):
    acme, office = (
        node("acme", "Our biggest customer.", kind=Kind.ENTITY, title="Acme Corp"),
        node("office", kind=Kind.ENTITY, title="Office"),
    )
    others = [
        node(f"c{n}", "A corp that buys.", kind=Kind.ENTITY, title=f"Corp {n}") for n in range(30)
    ]
    kb.add(
        [acme, office, *others, node("based", "where things are based")],
        [link("acme", "office", type="HAS")],
    )
    context = ask(kb, "Where is acme corp based?")
    found = {one.hit.item.id: one.hit for one in context.fragments[-1].chosen}
    assert list(found) == ["acme", "office"] and found["acme"].found_by == ("name",)
    assert found["acme"].relevance == pytest.approx(found["acme"].signals["bm25"])
    assert found["office"].relevance < found["acme"].relevance


def test_of_several_entities_of_one_name_each_tells_less(kb):
    kb.add(
        [
            node(id, f"The {id} one.", kind=Kind.ENTITY, title="Acme Corp")
            for id in ("old", "new", "third", "fourth")
        ]
    )
    assert [one.hit.score for one in ask(kb, "Where is Acme Corp?").fragments[-1].chosen] == [
        0.25
    ] * 4


def test_an_entity_of_which_nothing_is_known_is_told(support):
    assert ask(support, entity="lunch").degraded == ()
    (problem,) = ask(support, entity="nobody").degraded
    assert (problem.part, problem.code, "'nobody'" in problem.reason) == (
        "entity",
        "unknown_entity",
        True,
    )


@pytest.mark.parametrize("source", ["walk", "neighbours", "subjects"])
def test_an_excluded_type_comes_by_no_way(kb, source):
    kb.add(
        [
            node("a", "refund"),
            node("b", "hidden", type="secret", subject="a"),
            node("c", "shown", subject="a"),
        ],
        [link("a", "b"), link("a", "c")],
    )
    recipe = [Recipe("found"), Recipe("more", source, depth=2)]
    asked = {"recipe": recipe, "kinds": ()}
    assert sorted(ids(ask(kb, **asked).hits)) == ["a", "b", "c"]
    assert sorted(ids(ask(kb, **asked, exclude_types=["secret"]).hits)) == ["a", "c"]


def test_the_least_of_scores_start_a_walk_however_sharp_it_is(url):
    with knowloom.open(url, embedder=None, retrieval={"walk_sharpness": 100}) as kb:
        kb.add([node("a", "zebra crossing"), node("b", "something else")], [link("a", "b")])
        asked = "zebra " + " ".join(f"unknown{number}" for number in range(490))
        assert ids(kb.search(asked, spaces=["s"], mode="walk")) == ["a", "b"]
        assert ids(ask(kb, asked).hits) == ["a", "b"]
