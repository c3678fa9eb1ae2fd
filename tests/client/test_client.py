"""The client behaves like the engine: the same calls, values and errors, over a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_helpers import Kb, failure, node

import knowloom
from knowloom import (
    Client,
    Conflict,
    Context,
    Edge,
    Engine,
    Invalid,
    Item,
    Kind,
    NotFound,
    Recipe,
    Weights,
)
from knowloom.errors import EmbeddingError
from knowloom.model import Form, Problem
from knowloom.recipes import FIT_BUDGET, RECIPES
from knowloom.registry import open_stores
from live_server import BOTH, HARBOR, NOW, Broken, Letters, serving
from paths import ROOT


@contextmanager
def open_kb(how: str, url: str, embedder: Any = None) -> Iterator[Kb]:
    """Open an engine, or a client of a server around one."""
    with Engine(open_stores(url, {}), embedder, clock=lambda: NOW) as engine:
        if how == "engine":
            yield engine
        else:
            with serving(engine) as address, Client(address) as client:
                yield client


@pytest.fixture(params=["engine", "client"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else str(tmp_path / "knowledge.db")


@pytest.fixture
def kb(how: str, url: str) -> Iterator[Kb]:
    with open_kb(how, url, Letters()) as kb:
        yield kb


@pytest.fixture(scope="module")
def harbor() -> Iterator[tuple[Engine, Client]]:
    """The example company, queried directly and over HTTP."""
    with Engine(open_stores("memory:", {}), Letters(), clock=lambda: NOW) as engine:
        engine.load(HARBOR)
        with serving(engine) as address, Client(address) as client:
            yield engine, client


def timeless(context: Context) -> Context:
    return replace(context, stats=replace(context.stats, timings={}))


class TestWriting:
    def test_added_items_can_be_read_back(self, kb: Kb) -> None:
        times = {
            "valid_from": NOW - timedelta(days=1, microseconds=3),
            "valid_to": NOW + timedelta(days=9),
        }
        item = node(
            "a",
            kind=Kind.CLAIM,
            type="fact",
            tags=("x", "y"),
            properties={"n": [1, {"m": None}]},
            subject="b",
            confidence=0.5,
            **times,
        )
        report = kb.add(
            [item, node("b/../ü?#%")],
            [Edge("a", "b/../ü?#%", "about", 0.25, "s", properties={"k": 1})],
        )
        assert report == knowloom.Report(added=2, edges=1)
        assert kb.get(["b/../ü?#%", "nothing", "a"], space="s") == [
            node("b/../ü?#%", created_at=NOW),
            replace(item, created_at=NOW),
        ]
        assert list(kb.edges()) == [Edge("a", "b/../ü?#%", "about", 0.25, "s", properties={"k": 1})]

    def test_numbered_ids_and_odd_space_names_are_preserved(self, kb: Kb) -> None:
        kb.add(node("7", space="team/a .. ?", numbered=True))
        assert kb.get("7", space="team/a .. ?") == [
            node("7", space="team/a .. ?", numbered=True, created_at=NOW)
        ]

    def test_an_update_expects_the_version_that_was_read(self, kb: Kb) -> None:
        kb.add(node("a"), expected={("s", "a"): ""})
        (read,) = kb.get("a", space="s")
        version = kb.history.version(read)
        assert kb.add(replace(read, text="new"), expected={read.key: version}) == knowloom.Report(
            updated=1
        )
        assert failure(
            lambda: kb.add(replace(read, text="newer"), expected={read.key: version})
        ) == (Conflict, "version_mismatch")
        assert failure(lambda: kb.delete("a", space="s", expected={read.key: version})) == (
            Conflict,
            "version_mismatch",
        )
        assert [item.text for item in kb.items()] == ["new"]

    def test_deleting_returns_the_number_deleted(self, kb: Kb) -> None:
        kb.add(
            [node("a"), node("b"), node("c")],
            [Edge("a", "b", space="s"), Edge("b", "c", space="s")],
        )
        assert kb.delete_edges([Edge("a", "b", space="s"), Edge("a", "c", space="s")]) == 1
        assert kb.delete(["a", "nothing", "a"], space="s") == 1
        assert ([item.id for item in kb.items()], list(kb.edges())) == (
            ["b", "c"],
            [Edge("b", "c", space="s")],
        )

    def test_a_node_that_is_loaded_later_does_not_replace_a_profile(self, kb: Kb) -> None:
        layers = json.loads((ROOT / "examples" / "maya.json").read_text("utf-8"))
        reports = [
            kb.load({layer: layers[layer]}, space="care")
            for layer in ("metadata", "pieces", "graph")
        ]
        assert (
            sum(report.added for report in reports),
            sum(report.edges for report in reports),
            [report.skipped for report in reports],
        ) == (7, 2, [()] * 3)
        (maya,) = kb.get("user:maya", space="care")
        assert (maya.kind, maya.title, maya.properties) == (
            Kind.PROFILE,
            "Maya Okafor",
            layers["metadata"]["user:maya"]["properties"],
        )

    def test_rows_pages_and_layers_are_loaded_together(self, kb: Kb, tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "a.md").write_text("# A\n\nx\n\n## B\n\ny\n")
        (folder / "rows.jsonl").write_text('{"id": "r", "text": "z"}\n')
        for layer, entries in json.loads(
            (ROOT / "examples" / "maya.json").read_text("utf-8")
        ).items():
            (folder / f"{layer}.json").write_text(json.dumps({layer: entries}))
        first, again = kb.load(folder, space="s"), kb.load(folder, space="s")
        assert (
            first.added,
            first.edges,
            first.skipped,
            again.unchanged,
            again.added + again.updated + again.edges,
        ) == (9, 2, (), 9, 0)

    def test_a_folder_is_loaded_and_loading_again_changes_nothing(self, kb: Kb) -> None:
        seen: list[tuple[str, int, int]] = []
        report = kb.load(HARBOR, progress=lambda *step: seen.append(step))
        assert report.added > 150
        assert report.edges > 150
        assert report.skipped == report.problems == ()
        assert kb.load(str(HARBOR)) == knowloom.Report(unchanged=report.added)
        assert ("items", report.added, report.added) in seen
        assert kb.maintenance.stats().without_vector == 0

    def test_invalid_rows_are_reported_with_their_location(self, kb: Kb, tmp_path: Path) -> None:
        rows = [
            '{"id": "a", "text": "x"}',
            "nonsense",
            '{"source": "a", "target": "gone"}',
            '{"id": "bad"}',
            '{"id": "a", "text": "y"}',
        ]
        more = [
            '{"source": "a", "target": "b"}',
            '{"source": "b", "target": "gone"}',
            '{"id": "b", "text": "z"}',
        ]
        (tmp_path / "rows.jsonl").write_text("\n".join(rows + more))
        report = kb.load(tmp_path / "rows.jsonl", space="s")
        assert (report.added, report.edges) == (2, 1)
        assert [Path(row.where).name for row in report.skipped] == [
            f"rows.jsonl:{line}" for line in (2, 4, 5, 3, 7)
        ]
        assert report.skipped[-1].why == "no item 'gone' in space 's'"
        assert kb.load({"items": [{"id": "c", "text": "x"}]}, space="s", embed=False).added == 1
        assert kb.maintenance.stats().without_vector == 1
        assert kb.maintenance.embed(["s"]) == 1
        assert kb.reindex() == 3
        assert kb.verify() == []

    def test_supplied_vectors_are_stored_unchanged(self, how: str, url: str) -> None:
        with open_kb(how, url) as kb:
            kb.add(
                [node("a"), node("b")],
                vectors=[[3.0, 4.0, 0.1], np.array([0.1, 0.2, 0.7], np.float32)],
            )  # type: ignore[list-item]
            assert kb.maintenance.stats() == knowloom.Statistics(
                kb.maintenance.stats().spaces, "given:3", 0, 0, 0
            )

    def test_items_that_cannot_be_embedded_are_stored_and_reported(
        self, how: str, url: str
    ) -> None:
        with open_kb(how, url, Broken()) as kb:
            assert kb.add(node("a")).problems == (
                "1 items are stored but not embedded: letters: out of ink",
            )
            context = kb.context("some text", spaces=["s"])
            assert context.hits[0].item.id == "a"


class TestReading:
    def test_pages_cover_everything_in_order(self, kb: Kb) -> None:
        kb.add(
            [
                node(f"{n:02}", space=space, type="even" if n % 2 == 0 else "odd")
                for n in range(5)
                for space in "ts"
            ]
        )
        kb.add(
            [],
            [
                Edge("00", f"{n:02}", space=space, target_space="t")
                for n in range(1, 4)
                for space in "ts"
            ],
        )
        *_, last = kb.items(["s", "t"], limit=7)
        assert [item.key for item in kb.items(["s", "t"], limit=7, after=last.key)] == [
            ("t", "02"),
            ("t", "03"),
            ("t", "04"),
        ]
        assert [item.key for item in kb.items(["t"], types=["odd"], kinds=["node"], limit=100)] == [
            ("t", "01"),
            ("t", "03"),
        ]
        assert [item.key for item in kb.items()] == [
            (space, f"{n:02}") for space in "st" for n in range(5)
        ]
        edges = list(kb.edges(["s", "t"], limit=4))
        rest = kb.edges(["s", "t"], limit=4, after=edges[-1])
        assert [*edges, *rest] == list(kb.edges())
        assert list(kb.items(["t", "s", "t"])) == list(kb.items(["t", "s"]))
        spaces = kb.maintenance.stats().spaces
        assert [(space.name, space.items, space.edges) for space in spaces] == [
            ("s", 5, 3),
            ("t", 5, 3),
        ]

    def test_an_empty_store_has_no_spaces(self, kb: Kb) -> None:
        assert (list(kb.items()), list(kb.edges()), kb.maintenance.stats().spaces, kb.verify()) == (
            [],
            [],
            (),
            [],
        )
        assert failure(lambda: list(kb.items(["s"]))) == (NotFound, "unknown_space")

    @pytest.mark.parametrize(
        "filters",
        [
            {},
            {"types": ["faq"], "limit": 3},
            {"mode": "bm25", "exclude_types": ("faq",), "min_score": 0.02},
            {"mode": "vector", "kinds": [Kind.NODE, "memory"]},
            {"vector": np.arange(1, 27, dtype=np.float32), "types": ["faq"]},
            {
                "tags": ["refund", "refunds"],
                "created_to": NOW,
                "as_of": datetime(2026, 5, 1),
                "now": NOW,
            },
            {
                "kinds": ["claim"],
                "subject": "kestrel-2-tent",
                "min_confidence": 0.1,
                "created_from": datetime(2020, 1, 1, tzinfo=UTC),
            },
        ],
    )
    def test_search_returns_the_same_hits(
        self, harbor: tuple[Engine, Client], filters: dict[str, Any]
    ) -> None:
        local, remote = [
            kb.search("How long is the warranty, and how do refunds work?", spaces=BOTH, **filters)
            for kb in harbor
        ]
        assert local
        assert remote == local
        assert (remote.confidence, remote.degraded) == (local.confidence, local.degraded)

    def test_the_minimum_confidence_is_sent(self, harbor: tuple[Engine, Client]) -> None:
        for kb in harbor:
            hits = kb.search("refund", spaces=["support"], min_answer_confidence=1.0)
            context = kb.context("refund", spaces=["support"], min_answer_confidence=1.0, now=NOW)
            assert hits == [] and context.text == "" and context.query.min_answer_confidence == 1
            for answer in (hits, context):
                assert 0 < answer.confidence < 1
                assert [problem.code for problem in answer.degraded] == ["low_confidence"]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"format": "json", "max_tokens": 400},
    {"format": "yaml", "max_tokens": None, "recipe": "profile", "entity": "user:maya"},
    {"format": "plain", "max_tokens": 150, "model": "gpt-4o", "types": ("faq",), "depth": 0},
    {
        "mode": "bm25",
        "limit": 4,
        "min_score": 0.1,
        "as_of": datetime(2026, 5, 1),
        "now": NOW - timedelta(days=3, microseconds=1),
    },
    {
        "recipe": "search",
        "kinds": [Kind.NODE],
        "tags": ["refunds"],
        "exclude_types": ["faq"],
        "max_tokens": 0,
    },
    {"bm25_weight": 0.1, "vector_weight": 2.0},
    {"vector": [0.1] * 20 + [0.5] * 6},
    {
        "recipe": [
            Recipe(
                "own",
                kinds=(Kind.NODE,),
                weights=Weights(match=1, recency=0.5),
                forms=(Form.SUMMARY,),
                limit=FIT_BUDGET,
            )
        ],
        "max_tokens": 300,
    },
    {
        "recipe": (
            *RECIPES["profile"],
            Recipe("more", "neighbours", edge_types=("related",), depth=1, max_share=0.2),
        ),
        "entity": "user:maya",
    },
]


class TestContexts:
    @pytest.mark.parametrize("options", OPTIONS)
    def test_a_context_is_the_same_value(
        self, harbor: tuple[Engine, Client], options: dict[str, Any]
    ) -> None:
        local, remote = [
            kb.context("How do I process a refund request?", spaces=BOTH, **options)
            for kb in harbor
        ]
        assert timeless(remote) == timeless(local)
        assert remote.sections() == local.sections()
        assert set(remote.stats.timings) >= {"total"}

    @pytest.mark.parametrize("options", [*OPTIONS[:3], *OPTIONS[7:]])
    def test_an_explanation_is_the_same_value(
        self, harbor: tuple[Engine, Client], options: dict[str, Any]
    ) -> None:
        ids = ["sql-pending-approvals", "warranty-policy"]
        local, remote = [
            kb.explain("How do I process a refund request?", spaces=BOTH, ids=ids, **options)
            for kb in harbor
        ]
        assert timeless(remote) == timeless(local)
        assert local.left_out

    def test_a_degraded_context_reports_the_problem(self, how: str, url: str) -> None:
        with open_kb(how, url) as kb:
            items = [node("a"), node("b", "some text about berths")]
            kb.add(items, vectors=[[1.0, 0.0], [0.0, 1.0]])
            context = kb.context("some text", spaces=["s"])
        reason = "words only: the stored vectors are of 'given:2', and no embedder was opened"
        assert context.degraded == (Problem("vectors", reason, "embedder_required"),)
        assert len(context.hits) == 2


class TestErrors:
    @pytest.fixture
    def support(self, kb: Kb) -> Kb:
        kb.add([node("a"), node("b")])
        return kb

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            (lambda kb: kb.context("x", spaces=["nowhere"]), (NotFound, "unknown_space")),
            (lambda kb: kb.search("x", spaces=["nowhere"]), (NotFound, "unknown_space")),
            (lambda kb: kb.get("a", space="nowhere"), (NotFound, "unknown_space")),
            (lambda kb: kb.delete("a", space="nowhere"), (NotFound, "unknown_space")),
            (lambda kb: list(kb.items(["nowhere"], limit=9)), (NotFound, "unknown_space")),
            (lambda kb: list(kb.items(["nowhere"])), (NotFound, "unknown_space")),
            (lambda kb: kb.maintenance.embed(["nowhere"]), (NotFound, "unknown_space")),
            (lambda kb: kb.load("nowhere.jsonl"), (NotFound, "not_found")),
            (lambda kb: kb.context("x", spaces="s"), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], nonsense=1), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], ids=["a"]), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], format="xml"), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], recipe="cake"), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], recipe=[]), (Invalid, "invalid")),
            (
                lambda kb: kb.context("x", spaces=["s"], recipe=[Recipe("a", limit=-1)]),
                (Invalid, "invalid"),
            ),
            (
                lambda kb: kb.context("x", spaces=["s"], recipe=[Recipe("a", source="magic")]),
                (Invalid, "invalid"),
            ),
            (lambda kb: kb.context("x", spaces=["s"], vector=[0.0]), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], max_tokens=-1), (Invalid, "invalid")),
            (lambda kb: kb.context("x", spaces=["s"], now="yesterday"), (Invalid, "invalid")),
            (lambda kb: kb.context("x\ud800", spaces=["s"]), (Invalid, "invalid")),
            (lambda kb: kb.search("x", spaces=["s"], mode="magic"), (Invalid, "invalid")),
            (lambda kb: kb.search("x", spaces=["s"], min_score=float("nan")), (Invalid, "invalid")),
            (lambda kb: kb.search("x", spaces=["s"], limit=0), (Invalid, "invalid")),
            (lambda kb: list(kb.items(["s"], limit=0)), (Invalid, "invalid")),
            (lambda kb: kb.add(Item("", "s", text="x")), (Invalid, "invalid")),
            (lambda kb: kb.add(Item("e", "s")), (Invalid, "invalid")),
            (lambda kb: kb.add("text"), (Invalid, "invalid")),
            (lambda kb: kb.add([node("d"), node("d")]), (Invalid, "invalid")),
            (lambda kb: kb.add(node("d"), vectors=[[1.0], [2.0]]), (Invalid, "invalid")),
            (lambda kb: kb.add([], [Edge("a", "gone", space="s")]), (Invalid, "invalid")),
            (
                lambda kb: kb.add(node("a"), expected={("s", "a"): "0123"}),
                (Conflict, "version_mismatch"),
            ),
        ],
    )
    def test_errors_are_the_same(
        self, support: Kb, call: Callable[[Any], object], expected: tuple[type, str]
    ) -> None:
        assert failure(lambda: call(support)) == expected
        assert [item.id for item in support.items()] == ["a", "b"]

    def test_an_unknown_option_lists_the_available_ones(
        self, harbor: tuple[Engine, Client]
    ) -> None:
        messages = set()
        for kb in harbor:
            with pytest.raises(Invalid) as caught:
                kb.context("x", spaces=BOTH, nonsense=1)
            messages.add(str(caught.value))
        assert len(messages) == 1

    def test_vector_search_fails_without_an_embedder(self, how: str, url: str) -> None:
        with open_kb(how, url, Broken()) as kb:
            kb.add(node("a"), vectors=[[1.0] * 26])
            assert failure(lambda: kb.search("x", spaces=["s"], mode="vector")) == (
                EmbeddingError,
                "embedding_error",
            )
