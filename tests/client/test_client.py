"""The client behaves like the engine: the same calls, values and errors, over a real server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import (
    Client,
    Conflict,
    Context,
    Edge,
    Engine,
    Forbidden,
    Invalid,
    Item,
    Kind,
    KnowloomError,
    NotFound,
    Recipe,
    Unavailable,
    Weights,
)
from knowloom.codec import to_json
from knowloom.errors import Corrupt, EmbeddingError, MissingExtra
from knowloom.model import Chosen, Form, Fragment, Hit, LeftOut, Problem, Query, Stats
from knowloom.outbound_http import RetryPolicy
from knowloom.recipes import FIT_BUDGET, RECIPES
from knowloom.registry import open_stores
from knowloom.server.auth import Keyring
from knowloom.wire.contexts import context_from_json, context_to_json, hits_from_json, hits_to_json
from knowloom.wire.knowledge import report_from_json, report_to_json
from live_server import BOTH, HARBOR, NOW, Broken, Letters, serving
from paths import ROOT

Kb = Engine | Client


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


def node(id: str, text: str = "some text", space: str = "s", **fields: Any) -> Item:
    return Item(id, space, text=text, **fields)


def timeless(context: Context) -> Context:
    return replace(context, stats=replace(context.stats, timings={}))


def failure(call: Callable[[], object]) -> tuple[type, str]:
    with pytest.raises(KnowloomError) as caught:
        call()
    return type(caught.value), caught.value.code


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
        ) == (10, 3, (), 10, 0)

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
            kb.add([node("a"), node("b")], vectors=[[1.0, 0.0], [0.0, 1.0]])
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


@contextmanager
def scripted(*answers: tuple[int, dict[str, str], object]) -> Iterator[tuple[str, list[str]]]:
    """Serve these answers in turn, then repeat the last; yield the URL and the paths requested."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            requested.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, headers, body = answers[min(len(requested), len(answers)) - 1]
            if status == 0:  # hang up
                self.close_connection = True
                return
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (
                headers | {"Content-Length": str(len(content)), "Connection": "close"}
            ).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requested
        server.shutdown()
        thread.join()


def problem(status: int, code: str, wait: str = "") -> tuple[int, dict[str, str], object]:
    return (
        status,
        {"Retry-After": wait} if wait else {},
        {"status": status, "code": code, "detail": "sorry"},
    )


GOOD = (200, {}, {"ok": True, "problems": []})


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(RetryPolicy.run, "__defaults__", (waits.append,))
    return waits


class TestServers:
    def test_a_busy_server_is_retried_after_the_requested_wait(
        self, no_waiting: list[float]
    ) -> None:
        with (
            scripted(problem(429, "rate_limited", "7"), problem(503, "unavailable"), GOOD) as (
                url,
                requested,
            ),
            Client(url) as client,
        ):
            assert client.verify() == []
        assert (len(requested), no_waiting) == (3, [7.0, 0.4])

    def test_a_server_that_stays_busy_is_unavailable(self, no_waiting: list[float]) -> None:
        with (
            scripted(problem(429, "rate_limited", "1")) as (url, requested),
            Client(url, max_retries=3) as client,
        ):
            assert failure(client.verify) == (Unavailable, "rate_limited")
        assert len(requested) == 4

    def test_no_wait_exceeds_the_timeout(self, no_waiting: list[float]) -> None:
        with (
            scripted(problem(429, "rate_limited", "3600"), GOOD) as (url, requested),
            Client(url) as client,
        ):
            assert failure(client.verify) == (Unavailable, "rate_limited")
        assert (len(requested), no_waiting) == (1, [])

    @pytest.mark.parametrize("answer", [problem(503, "unavailable"), (0, {}, "")])
    def test_a_write_is_not_sent_twice(self, no_waiting: list[float], answer: Any) -> None:
        with scripted(answer) as (url, requested), Client(url) as client:
            assert failure(lambda: client.add(node("a"))) == (Unavailable, "unavailable")
        assert len(requested) == 1

    def test_a_rate_limited_write_is_retried(self, no_waiting: list[float]) -> None:
        with (
            scripted(
                problem(429, "rate_limited", "1"),
                (200, {}, report_to_json(knowloom.Report(added=1))),
            ) as (url, _),
            Client(url) as client,
        ):
            assert client.add(node("a")) == knowloom.Report(added=1)

    def test_a_read_survives_a_lost_connection(self, no_waiting: list[float]) -> None:
        with scripted((0, {}, ""), GOOD) as (url, requested), Client(url) as client:
            assert client.verify() == []
        assert len(requested) == 2

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (problem(400, "malformed"), (Invalid, "malformed")),
            (problem(413, "body_too_large"), (Invalid, "body_too_large")),
            (problem(401, "key_required"), (Forbidden, "key_required")),
            (problem(412, "precondition_failed"), (Conflict, "precondition_failed")),
            (problem(500, "corrupt"), (Corrupt, "corrupt")),
            (problem(500, "error"), (Unavailable, "error")),
            (problem(501, "missing_extra"), (MissingExtra, "missing_extra")),
            ((502, {}, "<html>bad gateway"), (Unavailable, "unavailable")),
            ((302, {"Location": "/elsewhere"}, ""), (Unavailable, "unavailable")),
            ((200, {}, "<html>hello"), (Unavailable, "unavailable")),
            ((200, {}, {"other": 1}), (Unavailable, "unavailable")),
            ((200, {}, []), (Unavailable, "unavailable")),
        ],
    )
    def test_every_response_is_a_value_or_a_knowloom_error(
        self, answer: Any, expected: tuple[type, str]
    ) -> None:
        with scripted(answer) as (url, _), Client(url, max_retries=0) as client:
            assert failure(client.verify) == expected

    def test_a_server_that_is_down_is_unavailable(self, no_waiting: list[float]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with Client(url) as client:
            assert failure(lambda: client.context("x", spaces=["s"])) == (
                Unavailable,
                "unavailable",
            )
        assert len(no_waiting) == 2

    def test_a_server_that_does_not_answer_in_time_is_unavailable(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with (
                Client(url, timeout_s=0.1, max_retries=0) as client,
                pytest.raises(Unavailable, match=r"0\.1 s"),
            ):
                client.maintenance.stats()


class TestKeys:
    def test_a_key_grants_its_spaces_and_is_never_shown(self, tmp_path: Path) -> None:
        keyring = Keyring(tmp_path / "keys.json")
        _, secret = keyring.add(
            "reader", reads=["s"], writes=[], role="viewer", tier="teams", now=NOW
        )
        with Engine(open_stores("memory:", {}), clock=lambda: NOW) as engine:
            engine.add([node("a"), node("b", space="secret")])
            with serving(engine, keyring) as url, Client(url, key=secret) as client:
                assert [item.key for item in client.items()] == [("s", "a")]
                calls: list[Callable[[], object]] = [
                    lambda: client.get("b", space="secret"),
                    lambda: client.context("x", spaces=["s", "secret"]),
                    lambda: list(client.items(["secret"], limit=9)),
                    lambda: list(client.edges(["secret"], limit=9)),
                    lambda: client.add(node("c")),
                    lambda: client.load({"items": [{"id": "c", "text": "x"}]}, space="s"),
                    lambda: client.delete("a", space="s"),
                    lambda: client.delete_edges([Edge("a", "b", space="s")]),
                    client.maintenance.stats,
                    client.verify,
                    client.maintenance.embed,
                    client.reindex,
                ]
                assert [failure(call) for call in calls] == [(Forbidden, "forbidden")] * len(calls)
                assert secret not in repr(client) + str(vars(client))
                assert failure(lambda: list(client.items(["secret"]))) == (
                    NotFound,
                    "unknown_space",
                )

    def test_a_writer_is_restricted_to_its_spaces(self, tmp_path: Path) -> None:
        keyring = Keyring(tmp_path / "keys.json")
        _, secret = keyring.add(
            "writer", reads=[], writes=["s"], role="editor", tier="teams", now=NOW
        )
        with Engine(open_stores("memory:", {}), clock=lambda: NOW) as engine:
            engine.add(node("b", space="secret"))
            with serving(engine, keyring) as url, Client(url, key=secret) as client:
                assert client.add(node("a")) == knowloom.Report(added=1)
                calls: list[Callable[[], object]] = [
                    lambda: client.add([node("c"), node("c", space="secret")]),
                    lambda: client.add([], [Edge("a", "b", space="s", target_space="secret")]),
                    lambda: client.add(node("c"), expected={("secret", "b"): ""}),
                    lambda: client.delete("a", space="s", expected={("secret", "b"): ""}),
                    lambda: client.load({"items": [{"id": "c", "text": "x", "space": "secret"}]}),
                    lambda: client.load(
                        {
                            "edges": [
                                {
                                    "source": "a",
                                    "target": "b",
                                    "space": "s",
                                    "target_space": "secret",
                                }
                            ]
                        }
                    ),
                ]
                assert [failure(call) for call in calls] == [(Forbidden, "forbidden")] * len(calls)

    def test_a_wrong_key_is_rejected_without_being_quoted(self, tmp_path: Path) -> None:
        with (
            Engine(open_stores("memory:", {})) as engine,
            serving(engine, Keyring(tmp_path / "keys.json")) as url,
        ):
            client = Client(url, key="knowloom_0_secret")
            with client, pytest.raises(Forbidden) as caught:
                client.maintenance.stats()
        assert caught.value.code == "key_required"
        assert "knowloom_0_secret" not in str(caught.value) + repr(client)

    def test_a_server_that_repeats_the_key_is_not_quoted(self) -> None:
        with scripted(
            (403, {}, {"code": "forbidden", "detail": "no access with knowloom_0_secret"})
        ) as (url, _):
            client = Client(url, key="knowloom_0_secret")
            with client, pytest.raises(Forbidden, match=r"no access with \[key\]"):
                client.maintenance.stats()

    @pytest.mark.parametrize(
        "url",
        [
            "knowledge.db",
            "ftp://host",
            "http://",
            "http://me:knowloom_0_secret@host",
            "http://host:port",
            7,
        ],
    )
    def test_an_invalid_url_is_rejected(self, url: Any) -> None:
        with pytest.raises(Invalid) as caught:
            Client(url)
        assert "knowloom_0_secret" not in str(caught.value)

    def test_an_invalid_key_is_rejected_without_being_quoted(self) -> None:
        with pytest.raises(Invalid) as caught:
            Client("http://localhost", key="söcret\n1")
        assert "cret" not in str(caught.value)


def test_a_missing_package_names_the_extra_to_install() -> None:
    script = (
        "import sys; sys.modules['httpx'] = None\nimport knowloom\n"
        "try: knowloom.Client\nexcept knowloom.MissingExtra as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "package 'httpx' is not installed: pip install 'knowloom[client]'\n"


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
times = st.datetimes(
    min_value=datetime(1990, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)
fractions = st.floats(0, 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
properties = st.dictionaries(words, json_values, max_size=2)
times_or_none = {
    name: st.none() | times for name in ("created_at", "updated_at", "valid_from", "valid_to")
}
texts_or_none = {name: st.none() | words for name in ("subject", "source", "embedding_text")}
item_fields = {
    "kind": st.sampled_from(Kind),
    "properties": properties,
    "tags": st.lists(names, max_size=2).map(tuple),
    "confidence": st.none() | fractions,
}
items = st.builds(
    Item,
    names,
    names,
    **item_fields,
    type=words,
    title=words,
    text=words,
    summary=words,
    section=words,
    **times_or_none,
    **texts_or_none,
)
numbered = st.builds(
    lambda item, number: replace(item, id=str(number), numbered=True),
    items,
    st.integers(-(10**18), 10**18),
)
edges = st.builds(
    Edge,
    names,
    names,
    names,
    st.floats(0.001, 1),
    names,
    st.none() | names,
    properties,
    st.just("") | names,
)
queries = st.builds(
    Query,
    words,
    st.lists(names, max_size=2).map(tuple),
    times,
    st.none() | st.integers(0, 9999),
    entity=st.none() | names,
    as_of=st.none() | times,
    vector=st.lists(st.floats(-1, 1), max_size=3).map(tuple),
    paths=st.booleans(),
)


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    drawn = draw(
        st.lists(items | numbered, min_size=1, max_size=4, unique_by=lambda item: item.key)
    )
    paths = st.lists(st.tuples(names, names), max_size=3).map(tuple)
    found_by = st.lists(st.sampled_from(["bm25", "vector", "graph"]), unique=True).map(tuple)
    signals, chains = (
        st.dictionaries(names, fractions, max_size=2),
        st.lists(edges, max_size=2).map(tuple),
    )
    hits = st.builds(
        Hit,
        st.sampled_from(drawn),
        fractions,
        signals,
        found_by,
        paths,
        st.none() | edges,
        chains,
        words,
    )
    counts = st.integers(0, 10_000)
    chosen = st.builds(Chosen, hits, st.sampled_from(Form), counts, words)
    fragments = st.builds(
        Fragment, names, st.lists(chosen, max_size=3).map(tuple), counts, words, words
    )
    left_out = st.builds(LeftOut, hits, names, words, counts, words)
    stats = st.builds(Stats, counts, counts, counts, counts, words, fractions)
    return Context(
        draw(words),
        draw(counts),
        draw(queries),
        tuple(draw(st.lists(fragments, max_size=2))),
        tuple(draw(st.lists(left_out, max_size=2))),
        tuple(draw(st.lists(st.builds(Problem, names, words, names), max_size=2))),
        draw(words),
        draw(stats),
    )


class TestWire:
    @settings(max_examples=150, deadline=None)
    @given(contexts())
    def test_a_context_survives_the_wire(self, context: Context) -> None:
        assert context_from_json(json.loads(to_json(context_to_json(context)))) == context
        assert hits_from_json(json.loads(to_json(hits_to_json(context.hits)))) == list(context.hits)

    @settings(max_examples=50, deadline=None)
    @given(
        st.builds(
            knowloom.Report,
            *[st.integers(0, 99)] * 4,
            st.lists(st.builds(knowloom.Skipped, words, words, words)).map(tuple),
            st.lists(words).map(tuple),
        )
    )
    def test_a_report_survives_the_wire(self, report: knowloom.Report) -> None:
        assert report_from_json(json.loads(to_json(report_to_json(report)))) == report
