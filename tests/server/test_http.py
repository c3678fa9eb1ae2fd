"""The HTTP service, as agents and operators use it: what it answers, what it refuses, and how its process starts and ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import numpy as np
import pytest
import schemathesis
from click.testing import CliRunner
from starlette.testclient import TestClient

import knowloom
from knowloom.cli.main import cli
from knowloom.server import app as application
from knowloom.server import settings
from knowloom.server.auth import Keyring
from knowloom.server.rate_limit import RateLimiter
from knowloom.server.settings import ServerLimits
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CHAIN = [
    {
        "id": n,
        "type": "faq" if n == 1 else "note",
        "title": f"note {n}",
        "text": "alpha" if n == 1 else "beta",
    }
    for n in range(1, 5)
]


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example company, words only."""
    path = tmp_path_factory.mktemp("http") / "harbor.db"
    with knowloom.open(str(path), embedder=None) as kb:
        kb.load(ROOT / "examples" / "harbor")
    return path


@pytest.fixture
def own(file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(file, tmp_path / "own.db"))


@pytest.fixture(scope="session")
def embedded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("http") / "embedded.db"
    with knowloom.open(str(path)) as kb:
        kb.load(ROOT / "examples" / "harbor" / "support.jsonl", space="support")
    return path


@pytest.fixture
def embedded(embedded_file: Path) -> Iterator[TestClient]:
    with knowloom.open(str(embedded_file)) as kb, server(kb) as client:
        yield client


@pytest.fixture
def client(own: Path) -> Iterator[TestClient]:
    with knowloom.open(str(own), embedder=None) as kb, server(kb) as client:
        yield client


@contextmanager
def server(
    kb: knowloom.Engine, keyring: Keyring | None = None, **limits: Any
) -> Iterator[TestClient]:
    with TestClient(
        application.create_app(kb, keyring, ServerLimits(**limits)), base_url="http://localhost"
    ) as client:
        yield client


def ask(client: TestClient, **asked: Any) -> Any:
    answer = client.post("/api/context", json={"tenant_ids": ["support"]} | asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def fill(client: TestClient, space: str, items: list[Any], edges: list[Any] = []) -> Any:  # noqa: B006
    answer = client.post(f"/api/spaces/{space}/bulk", json={"items": items, "edges": edges})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(nodes: list[Any]) -> list[Any]:
    return [node["id"] for node in nodes]


class TestUseCases:
    def test_customer_support(self, client: TestClient) -> None:
        asked = {
            "query": "Customer asking about refund policy",
            "tenant_ids": ["support"],
            "entry_types": ["faq", "playbook"],
            "entry_limit": 5,
        }
        found = ask(client, **asked, expand=True, max_depth=2, max_tokens=4000)
        assert {"answer-refund-policy-question", "what-is-the-refund-policy"} <= set(
            ids(found["entry_points"])
        )
        assert {node["node_type"] for node in found["entry_points"]} <= {"faq", "playbook"}
        assert len(found["entry_points"]) == 5
        assert found["context"] and found["entities"]
        assert 0 < found["stats"]["total_tokens"] <= 4000

    def test_data_analysis(self, client: TestClient) -> None:
        asked = {
            "query": "How to query order data",
            "tenant_ids": ["analytics"],
            "entry_types": ["schema_index", "schema_field", "example"],
        }
        found = ask(
            client,
            **asked,
            include_schemas=True,
            include_examples=True,
            entry_limit=10,
            max_tokens=8000,
        )
        assert "orders-orders" in ids(found["entry_points"])
        assert {node["node_type"] for node in found["entry_points"]} <= {
            "schema_index",
            "schema_field",
            "example",
        }

    def test_compliance(self, client: TestClient) -> None:
        asked = {
            "query": "What permissions are needed for financial reports",
            "tenant_ids": ["finance", "shared"],
        }
        found = ask(
            client,
            **asked,
            entry_types=["permission_rule", "playbook"],
            include_entities=True,
            max_depth=3,
            max_tokens=6000,
        )
        assert {"report-roles-by-report", "financial-reports-access"} <= set(
            ids(found["entry_points"])
        )
        schemas = ["finance.monthly_revenue", "ledgerline.journal"]
        assert {
            "id": "financial-report",
            "title": "Financial report",
            "entity_path": "finance.reports",
            "related_schemas": schemas,
        } in found["entities"]

    def test_the_python_client(self, own: Path) -> None:
        async def context_for_agent(query: str, tenant_ids: list[str], base: str) -> Any:
            async with httpx.AsyncClient() as client:
                asked = {
                    "query": query,
                    "tenant_ids": tenant_ids,
                    "entry_limit": 10,
                    "expand": True,
                    "max_depth": 2,
                    "max_tokens": 8000,
                }
                return (await client.post(f"{base}/api/context", json=asked)).json()

        with running(own) as base:
            found = asyncio.run(
                context_for_agent("How do I process a refund?", ["purchasing", "shared"], base)
            )
        assert "process-a-supplier-refund" in ids(found["entry_points"])
        assert set(found) == {
            "entry_points",
            "context",
            "entities",
            "stats",
            "degraded",
            "left_out",
            "digest",
            "text",
        }
        assert all(
            set(node)
            >= {"id", "node_type", "title", "summary", "content", "tags", "score", "match_source"}
            for node in found["entry_points"]
        )


class TestContext:
    def test_faqs_playbooks_rules_and_concepts_are_searched_by_default(
        self, client: TestClient
    ) -> None:
        fill(
            client,
            "t",
            [
                {"id": kind, "type": kind, "text": "alpha"}
                for kind in ("faq", "playbook", "permission_rule", "concept", "note", "example")
            ],
        )
        assert sorted(ids(ask(client, query="alpha", tenant_ids=["t"])["entry_points"])) == [
            "concept",
            "faq",
            "permission_rule",
            "playbook",
        ]

    def test_flags_add_schemas_and_examples(self, client: TestClient) -> None:
        fill(
            client,
            "t",
            [
                {"id": kind, "type": kind, "text": "alpha"}
                for kind in ("faq", "schema_index", "schema_field", "example")
            ],
        )
        found = ask(
            client, query="alpha", tenant_ids=["t"], include_schemas=True, include_examples=True
        )
        assert sorted(ids(found["entry_points"])) == [
            "example",
            "faq",
            "schema_field",
            "schema_index",
        ]

    def test_links_lead_to_schemas_and_examples_only_with_their_flags(
        self, client: TestClient
    ) -> None:
        items = [
            {"id": "faq", "type": "faq", "text": "alpha"},
            {"id": "s", "type": "schema_index", "text": "x"},
            {"id": "e", "type": "example", "text": "y"},
        ]
        fill(
            client, "t", items, [{"source": "faq", "target": "s"}, {"source": "faq", "target": "e"}]
        )
        assert ids(ask(client, query="alpha", tenant_ids=["t"])["context"]) == []
        assert ids(
            ask(client, query="alpha", tenant_ids=["t"], include_schemas=True)["context"]
        ) == ["s"]
        assert ids(
            ask(client, query="alpha", tenant_ids=["t"], expansion_types=["example"])["context"]
        ) == ["e"]

    def test_what_knowloom_notes_of_an_item_is_not_shown(self, client: TestClient) -> None:
        fill(
            client,
            "t",
            [
                {
                    "id": "a",
                    "type": "faq",
                    "text": "alpha",
                    "properties": {"size": 2, "knowloom:since": "2026-01-01"},
                }
            ],
        )
        assert [
            node["content"] for node in ask(client, query="alpha", tenant_ids=["t"])["entry_points"]
        ] == [{"text": "alpha", "size": 2}]

    def test_entities_can_be_left_away(self, client: TestClient) -> None:
        assert ask(client, query="refund", include_entities=True)["entities"]
        assert ask(client, query="refund", include_entities=False)["entities"] == []

    def test_match_source_says_what_found_an_item(self, embedded: TestClient) -> None:
        sources = {
            method: {
                node["match_source"]
                for node in ask(embedded, query="refund policy", search_method=method)[
                    "entry_points"
                ]
            }
            for method in METHODS
        }
        assert sources["bm25"] == {"bm25"}
        assert sources["vector"] == {"vector"}
        assert "hybrid" in sources["hybrid"]

    def test_weights_change_the_order(self, embedded: TestClient) -> None:
        orders = [
            ids(
                ask(embedded, query="money back", bm25_weight=a, vector_weight=b, expand=False)[
                    "entry_points"
                ]
            )
            for a, b in ((1, 0), (0, 1))
        ]
        assert orders[0] != orders[1]

    def test_min_score_and_tags_restrict_the_search(self, client: TestClient) -> None:
        scores = [node["score"] for node in ask(client, query="refund")["entry_points"]]
        assert all(
            node["score"] >= scores[1]
            for node in ask(client, query="refund", min_score=scores[1])["entry_points"]
        )
        assert all(
            "policy" in node["tags"]
            for node in ask(client, query="refund", tags=["policy"])["entry_points"]
        )

    @pytest.mark.parametrize(
        ("weight", "scores"), [(1.0, [1 / 2, 1 / 3, 1 / 4]), (0.8, [0.4, 0.8 / 3, 0.2])]
    )
    def test_scores_fall_with_the_distance(
        self, client: TestClient, weight: float, scores: list[float]
    ) -> None:
        fill(
            client,
            "t",
            CHAIN,
            [
                {"source": n, "target": n + 1, "weight": weight if n == len(CHAIN) - 1 else 1.0}
                for n in range(1, 4)
            ],
        )
        found = ask(client, query="alpha", tenant_ids=["t"], max_depth=3)["context"]
        assert [node["distance"] for node in found] == [1, 2, 3]
        assert found[2]["score"] == pytest.approx(scores[2], abs=1e-5)
        assert [node["score"] for node in found[:2]] == pytest.approx([1 / 2, 1 / 3], abs=1e-5)

    def test_a_weight_of_80_percent_scores_40_at_one_hop(self, client: TestClient) -> None:
        fill(client, "t", CHAIN, [{"source": 1, "target": 2, "weight": 0.8}])
        assert ask(client, query="alpha", tenant_ids=["t"])["context"][0]["score"] == pytest.approx(
            0.4
        )

    def test_path_and_edge_type_say_how_a_node_was_reached(self, client: TestClient) -> None:
        fill(
            client,
            "t",
            CHAIN,
            [
                {"source": 1, "target": 2, "type": "parent"},
                {"source": 3, "target": 2, "type": "example_of"},
            ],
        )
        found = ask(client, query="alpha", tenant_ids=["t"])["context"]
        assert [(node["path"], node["edge_type"]) for node in found] == [
            ([1, 2], "parent"),
            ([1, 2, 3], "example_of"),
        ]

    def test_no_expansion_gives_no_context(self, client: TestClient) -> None:
        assert ask(client, query="refund", expand=False)["context"] == []
        assert ask(client, query="refund", max_depth=0)["context"] == []

    def test_what_one_part_does_not_use_goes_to_the_others(self, client: TestClient) -> None:
        used = ask(client, query="refund", entry_limit=1, max_tokens=1000)["stats"]["tokens_used"]
        assert used["entry_points"] < 600
        assert used["context_nodes"] > 300

    def test_entry_points_get_their_share(self, client: TestClient) -> None:
        used = ask(client, query="refund", max_tokens=1000)["stats"]["tokens_used"]
        assert used["entry_points"] >= 450

    @pytest.mark.parametrize("format", ["json", "markdown", "plain", "yaml"])
    @pytest.mark.parametrize("budget", [0, 50, 333, 2000])
    def test_the_text_is_within_the_budget(
        self, client: TestClient, format: str, budget: int
    ) -> None:
        from knowloom import tokens

        found = ask(client, query="refund", format=format, max_tokens=budget)
        assert (
            tokens.counter("gpt-4").count(found["text"]) == found["stats"]["total_tokens"] <= budget
        )

    def test_no_budget_is_no_limit(self, client: TestClient) -> None:
        found = ask(client, query="refund", max_tokens=None, entry_limit=30)
        assert found["left_out"] == []
        assert {node["form"] for node in found["entry_points"] + found["context"]} == {"whole"}

    def test_text_comes_only_with_a_format(self, client: TestClient) -> None:
        assert ask(client, query="refund")["text"] is None
        assert "refund" in ask(client, query="refund", format="markdown")["text"]

    def test_every_number_is_counted(self, client: TestClient) -> None:
        found = ask(client, query="refund", entry_limit=4, context_limit=6)
        stats = found["stats"]
        assert (
            (stats["entry_points_found"], stats["context_nodes_found"])
            == (len(found["entry_points"]), len(found["context"]))
            == (4, 6)
        )
        assert stats["max_depth_reached"] == max(node["distance"] for node in found["context"])
        assert stats["nodes_searched"] >= 4 and stats["nodes_expanded"] >= 6
        assert set(stats["tokens_used"]) == {"entry_points", "context_nodes", "entities"}

    def test_whole_numbers_stay_whole_numbers_everywhere(self, client: TestClient) -> None:
        entity = {"id": -7, "kind": "entity", "type": "entity", "title": "seven"}
        fill(
            client,
            "t",
            [*CHAIN, entity, {"id": "007", "text": "beta", "type": "note"}],
            [*line(1, 2), *line(2, "007"), *line("007", 3), *line(1, -7)],
        )
        found = ask(client, query="alpha", tenant_ids=["t"], max_depth=3)
        assert [node["path"] for node in found["context"]] == [
            [1, 2],
            [1, 2, "007"],
            [1, 2, "007", 3],
        ]
        assert ids(found["entities"]) == [-7]
        assert ids(ask(client, query="alpha", tenant_ids=["t"], max_tokens=1)["left_out"])[0] == 1
        assert client.get("/api/spaces/t/items/2").json()["id"] == 2
        assert ids(client.get("/api/spaces/t/items").json()["items"]) == [-7, "007", 1, 2, 3, 4]
        edges = client.get("/api/spaces/t/edges").json()["edges"]
        assert [(edge["source"], edge["target"]) for edge in edges] == [
            ("007", 3),
            (1, -7),
            (1, 2),
            (2, "007"),
        ]
        made = client.post("/api/spaces/t/edges", json={"source": 3, "target": "007"}).json()
        assert (made["source"], made["target"]) == (3, "007")

    def test_no_space_reads_nothing(self, client: TestClient) -> None:
        found = ask(client, query="refund", tenant_ids=[], max_tokens=4000)
        assert (
            found["entry_points"],
            found["context"],
            found["entities"],
            found["stats"]["nodes_searched"],
        ) == ([], [], [], 0)

    def test_an_empty_request_is_answered(self, client: TestClient) -> None:
        assert client.post("/api/context", json={}).status_code == 200

    def test_the_same_question_gets_the_same_bytes(self, client: TestClient) -> None:
        asked = {
            "query": "refund",
            "tenant_ids": ["support"],
            "now": "2026-06-01T00:00:00Z",
            "format": "json",
            "max_tokens": 900,
        }
        first, second = (client.post("/api/context", json=asked).json() for _ in range(2))
        assert first["stats"].pop("timings_ms") and second["stats"].pop("timings_ms")
        assert first == second

    def test_search_by_meaning_without_vectors_is_refused_with_the_reason(
        self, client: TestClient
    ) -> None:
        answer = client.post(
            "/api/context",
            json={"query": "refund", "tenant_ids": ["support"], "search_method": "vector"},
        )
        assert (answer.status_code, answer.json()["code"]) == (409, "vectors_pending")

    def test_a_weaker_search_says_so(self, embedded_file: Path) -> None:
        with knowloom.open(str(embedded_file), embedder=None) as kb, server(kb) as client:
            assert (
                "no embedder"
                in client.post(
                    "/api/search", json={"query": "refund", "spaces": ["support"]}
                ).json()["notes"][0]
            )
            assert "no embedder" in ask(client, query="refund")["degraded"][0]["reason"]

    def test_explain_says_why_not(self, client: TestClient) -> None:
        asked = {
            "query": "refund",
            "spaces": ["support"],
            "max_tokens": 300,
            "ids": ["gift-card-refunds"],
        }
        found = client.post("/api/explain", json=asked).json()
        assert found["tokens"] <= 300
        assert "gift-card-refunds" in ids(found["left_out"]) + [
            one["id"] for part in found["fragments"] for one in part["chosen"]
        ]


METHODS = ("bm25", "vector", "hybrid")
ITEM: dict[str, Any] = {
    "id": "a",
    "type": "faq",
    "title": "A",
    "text": "alpha",
    "properties": {"nothing": None, "deep": {"nothing": None}},
}


def line(source: int | str, target: int | str) -> list[Any]:
    return [{"source": source, "target": target}]


class TestKnowledge:
    def test_an_item_is_created_read_changed_and_deleted(self, client: TestClient) -> None:
        made = client.post("/api/spaces/t/items", json=ITEM)
        assert (made.status_code, made.json()["properties"]) == (201, ITEM["properties"])
        read = client.get("/api/spaces/t/items/a")
        assert read.json() == made.json() and read.headers["etag"] == f'"{read.json()["version"]}"'
        changed = client.put("/api/spaces/t/items/a", json=read.json() | {"text": "beta"})
        assert (changed.status_code, changed.json()["text"]) == (200, "beta")
        assert client.delete("/api/spaces/t/items/a").status_code == 204
        assert client.get("/api/spaces/t/items/a").status_code == 404

    def test_creating_what_exists_is_a_conflict(self, client: TestClient) -> None:
        client.post("/api/spaces/t/items", json=ITEM)
        again = client.post("/api/spaces/t/items", json=ITEM)
        assert (again.status_code, again.json()["code"]) == (409, "exists")

    def test_a_change_of_what_somebody_else_changed_is_refused(self, client: TestClient) -> None:
        old = client.post("/api/spaces/t/items", json=ITEM).headers["etag"]
        new = client.put(
            "/api/spaces/t/items/a", json=ITEM | {"text": "beta"}, headers={"if-match": old}
        ).headers["etag"]
        late = client.put(
            "/api/spaces/t/items/a", json=ITEM | {"text": "gamma"}, headers={"if-match": old}
        )
        assert (late.status_code, late.json()["code"]) == (412, "changed")
        assert client.delete("/api/spaces/t/items/a", headers={"if-match": old}).status_code == 412
        assert client.get("/api/spaces/t/items/a").json()["text"] == "beta"
        assert (
            client.delete(
                "/api/spaces/t/items/a", headers={"if-match": f"{old}, {new}"}
            ).status_code
            == 204
        )

    def test_an_item_that_was_read_carries_its_version_along(self, client: TestClient) -> None:
        read = client.post("/api/spaces/t/items", json=ITEM).json()
        client.put("/api/spaces/t/items/a", json=ITEM | {"text": "beta"})
        assert client.put("/api/spaces/t/items/a", json=read).status_code == 412

    def test_any_version_will_do_if_there_is_one(self, client: TestClient) -> None:
        assert (
            client.put(
                "/api/spaces/support/items/a", json=ITEM, headers={"if-match": "*"}
            ).status_code
            == 404
        )
        client.post("/api/spaces/support/items", json=ITEM)
        assert (
            client.put(
                "/api/spaces/support/items/a", json=ITEM, headers={"if-match": "*"}
            ).status_code
            == 200
        )

    def test_the_id_and_the_space_must_be_those_of_the_address(self, client: TestClient) -> None:
        assert client.put("/api/spaces/t/items/b", json=ITEM).status_code == 422
        assert client.put("/api/spaces/t/items/a", json=ITEM | {"space": "u"}).status_code == 422

    def test_ids_may_have_slashes(self, client: TestClient) -> None:
        client.post("/api/spaces/t/items", json=ITEM | {"id": "a/b c"})
        assert client.get("/api/spaces/t/items/a/b%20c").json()["id"] == "a/b c"

    def test_pages_are_complete_and_disjoint(self, client: TestClient) -> None:
        fill(
            client,
            "t",
            [
                {"id": f"n{n:02}", "type": "odd" if n % 2 else "even", "text": "x"}
                for n in range(25)
            ],
            [*line("n00", "n01"), *line("n01", "n02")],
        )
        assert list(pages(client, "/api/spaces/t/items", "items", 10)) == [10, 10, 5]
        assert list(pages(client, "/api/spaces/t/items?type=odd", "items", 4)) == [4, 4, 4]
        assert list(pages(client, "/api/spaces/t/edges", "edges", 1)) == [1, 1]

    @pytest.mark.parametrize("cursor", ["nonsense", "W10=", "WyJcdWQ4MDAiXQ==", "WzFd", "W" * 1999])
    def test_a_cursor_of_somebody_else_is_refused(self, client: TestClient, cursor: str) -> None:
        answer = client.get("/api/spaces/support/items", params={"cursor": cursor})
        assert (answer.status_code, "cursor" in answer.json()["detail"]) == (422, True)

    def test_edges_are_made_listed_and_deleted(self, client: TestClient) -> None:
        fill(client, "t", CHAIN)
        made = client.post(
            "/api/spaces/t/edges",
            json={"source": 1, "target": 2, "weight": 0.5, "properties": {"why": None}},
        )
        assert (made.status_code, made.json()["properties"]) == (201, {"why": None})
        assert len(client.get("/api/spaces/t/edges").json()["edges"]) == 1
        assert client.post(
            "/api/spaces/t/edges/delete", json={"source": 1, "target": 2}
        ).json() == {"deleted": 1}

    def test_an_edge_to_nothing_is_refused(self, client: TestClient) -> None:
        fill(client, "t", CHAIN)
        answer = client.post("/api/spaces/t/edges", json={"source": 1, "target": 99})
        assert (answer.status_code, "99" in answer.json()["detail"]) == (422, True)

    def test_bad_rows_are_reported_and_the_rest_is_stored(self, client: TestClient) -> None:
        items = [
            {"id": "a", "text": "x"},
            {"id": "b"},
            {"id": "c", "text": "x", "space": "support"},
            {"id": "\ud800", "text": "x"},
            {"id": "e", "wrong": 1},
        ]
        answer = client.post(
            "/api/spaces/t/bulk",
            content=json.dumps({"items": items}),
            headers={"content-type": "application/json"},
        )
        assert (answer.status_code, answer.json()["added"]) == (200, 1)
        assert [one["where"] for one in answer.json()["skipped"]] == [
            "items[1]",
            "items[2]",
            "items[3]",
            "items[4]",
        ]
        assert client.get("/api/spaces/support/items/c").status_code == 404

    def test_three_layers_are_stored_and_their_bad_entries_reported(
        self, client: TestClient
    ) -> None:
        layers = json.loads((ROOT / "examples" / "maya.json").read_text("utf-8"))
        layers["pieces"] += [{"content": "x", "knowledge_type": "rumour"}, 7]
        first, again = (client.post("/api/spaces/care/bulk", json=layers).json() for _ in range(2))
        assert (first["added"], first["edges"], again["unchanged"], again["added"]) == (7, 2, 7, 0)
        wrong = len(layers["pieces"]) - 2
        assert [(one["where"], "rumour" in one["why"]) for one in first["skipped"]] == [
            (f"pieces[{wrong}]", True),
            (f"pieces[{wrong + 1}]", False),
        ]
        found = client.post(
            "/api/provide",
            json={"query": "chargebacks", "spaces": ["care"], "entity_id": "user:maya"},
        ).json()
        assert set(found["sections"]) >= {"user_profile", "instructions"}

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"pieces": {}}, "pieces"),
            ({"pieces": [], "items": []}, "items"),
            ({"graph": []}, "graph"),
        ],
    )
    def test_layers_of_another_shape_are_refused(
        self, client: TestClient, body: Any, field: str
    ) -> None:
        answer = client.post("/api/spaces/t/bulk", json=body)
        assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (
            422,
            [field],
        )

    def test_an_export_is_loaded_back_exactly(self, client: TestClient, tmp_path: Path) -> None:
        exported = client.get("/api/export", params={"space": "support"})
        assert exported.headers["content-type"] == "application/x-ndjson"
        rows = (
            "\n".join(line for line in exported.text.splitlines() if "target_space" not in line)
            + "\nnonsense\n"
        )
        with knowloom.open(str(tmp_path / "new.db"), embedder=None) as kb, server(kb) as other:
            report = other.post(
                "/api/spaces/support/bulk",
                content=rows.encode(),
                headers={"content-type": "application/x-ndjson"},
            ).json()
            assert [one["where"] for one in report["skipped"]] == [f"line {len(rows.splitlines())}"]
            again = other.get("/api/export", params={"space": "support"}).text
        assert again == rows.removesuffix("nonsense\n")

    def test_spaces_are_listed(self, client: TestClient) -> None:
        assert [one["name"] for one in client.get("/api/spaces").json()["spaces"]] == [
            "analytics",
            "finance",
            "purchasing",
            "shared",
            "support",
        ]


def pages(client: TestClient, address: str, part: str, size: int) -> Iterator[int]:
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(
            address,
            params={"limit": size}
            | ({"cursor": cursor} if cursor else {})
            | ({"type": "odd"} if "type=" in address else {}),
        ).json()
        cursor = page["next"]
        yield len(page[part])


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys.json")


def secret(
    keyring: Keyring,
    role: str = "viewer",
    reads: tuple[str, ...] = ("support",),
    writes: tuple[str, ...] = (),
) -> str:
    return keyring.add(role, reads=reads, writes=writes, role=role, tier="teams", now=NOW)[1]


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@pytest.fixture
def guarded(own: Path, keyring: Keyring) -> Iterator[TestClient]:
    with knowloom.open(str(own), embedder=None) as kb, server(kb, keyring) as client:
        yield client


class TestAccess:
    @pytest.mark.parametrize(
        "header",
        [
            {},
            {"authorization": "Bearer"},
            {"authorization": "Basic eDp5"},
            bearer("knowloom_x_y"),
            {"x-api-key": "a_b_é".encode("latin-1")},
        ],
    )
    def test_without_a_key_nothing_is_answered(
        self, guarded: TestClient, header: dict[str, Any]
    ) -> None:
        answer = guarded.get("/api/spaces", headers=header)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")

    def test_both_headers_carry_a_key(self, guarded: TestClient, keyring: Keyring) -> None:
        key = secret(keyring)
        assert guarded.get("/api/spaces", headers=bearer(key)).status_code == 200
        assert guarded.get("/api/spaces", headers={"x-api-key": key}).status_code == 200

    @pytest.mark.parametrize(
        ("role", "method", "path", "body", "status"),
        [
            ("viewer", "POST", "/api/context", {"tenant_ids": ["support"]}, 200),
            ("viewer", "POST", "/api/context", {"tenant_ids": []}, 200),
            ("viewer", "POST", "/api/context", {"tenant_ids": ["support", "shared"]}, 403),
            ("viewer", "POST", "/api/context", {"tenant_ids": ["no such space"]}, 403),
            ("viewer", "POST", "/api/search", {"query": "x", "spaces": ["shared"]}, 403),
            ("viewer", "POST", "/api/explain", {"query": "x", "spaces": ["shared"]}, 403),
            ("viewer", "GET", "/api/spaces/shared/items", None, 403),
            ("viewer", "GET", "/api/spaces/shared/items/refund-policy", None, 403),
            ("viewer", "GET", "/api/spaces/shared/edges", None, 403),
            ("viewer", "GET", "/api/export?space=support&space=shared", None, 403),
            ("viewer", "POST", "/api/spaces/support/items", ITEM, 403),
            ("viewer", "PUT", "/api/spaces/support/items/a", ITEM, 403),
            ("viewer", "DELETE", "/api/spaces/support/items/process-a-refund", None, 403),
            ("viewer", "POST", "/api/spaces/support/bulk", {}, 403),
            ("viewer", "GET", "/metrics", None, 403),
            ("editor", "POST", "/api/spaces/support/items", ITEM, 201),
            ("editor", "POST", "/api/spaces/shared/items", ITEM, 403),
            ("editor", "POST", "/api/spaces/new/bulk", {}, 403),
            (
                "editor",
                "POST",
                "/api/spaces/support/edges",
                {"source": "process-a-refund", "target": "refund-policy", "target_space": "shared"},
                403,
            ),
            ("editor", "GET", "/metrics", None, 403),
            ("admin", "GET", "/metrics", None, 200),
        ],
    )
    def test_a_key_opens_its_spaces_and_no_others(
        self,
        guarded: TestClient,
        keyring: Keyring,
        role: str,
        method: str,
        path: str,
        body: Any,
        status: int,
    ) -> None:
        key = secret(keyring, role, writes=() if role == "viewer" else ("support",))
        assert guarded.request(method, path, json=body, headers=bearer(key)).status_code == status

    def test_a_bulk_load_cannot_link_into_a_space_that_the_key_may_not_read(
        self, guarded: TestClient, keyring: Keyring
    ) -> None:
        edges = [
            {"source": "process-a-refund", "target": "refund-policy", "target_space": "shared"}
        ]
        report = guarded.post(
            "/api/spaces/support/bulk",
            json={"edges": edges},
            headers=bearer(secret(keyring, "editor", writes=("support",))),
        ).json()
        assert (report["edges"], len(report["skipped"])) == (0, 1)

    def test_only_readable_spaces_are_listed_and_none_are_named_in_errors(
        self, guarded: TestClient, keyring: Keyring
    ) -> None:
        assert [
            one["name"]
            for one in guarded.get("/api/spaces", headers=bearer(secret(keyring))).json()["spaces"]
        ] == ["support"]
        answer = guarded.post(
            "/api/context",
            json={"tenant_ids": ["nowhere"]},
            headers=bearer(secret(keyring, reads=("*",))),
        )
        assert answer.status_code == 404 and "analytics" not in answer.text

    @pytest.mark.parametrize("path", ["/api/explain", "/api/ask/context"])
    def test_what_a_key_may_not_read_does_not_exist_for_it(
        self, guarded: TestClient, keyring: Keyring, path: str
    ) -> None:
        asked = {
            "query": "refund",
            "spaces": ["support"],
            "ids": ["refund-policy"],
            "max_tokens": 0,
        }
        told = guarded.post(path, json=asked, headers=bearer(secret(keyring))).json()["left_out"][
            -1
        ]
        assert (told["id"], told["space"], told["reason"], told["remedy"]) == (
            "refund-policy",
            "",
            "no such item is stored",
            "",
        )
        told = guarded.post(path, json=asked, headers=bearer(secret(keyring, reads=("*",)))).json()[
            "left_out"
        ][-1]
        assert told["reason"] == "it is in space 'shared', which was not asked for"

    def test_a_revoked_key_is_refused_at_once(self, guarded: TestClient, keyring: Keyring) -> None:
        key, text = keyring.add("k", reads=["*"], writes=[], role="viewer", tier="teams", now=NOW)
        assert guarded.get("/api/spaces", headers=bearer(text)).status_code == 200
        Keyring(keyring.path).revoke(key.id, NOW)
        assert guarded.get("/api/spaces", headers=bearer(text)).status_code == 401

    def test_the_file_has_hashes_only_and_belongs_to_its_owner(self, keyring: Keyring) -> None:
        text = secret(keyring)
        assert (
            text not in keyring.path.read_text()
            and text.split("_", 2)[2] not in keyring.path.read_text()
        )
        assert stat.S_IMODE(keyring.path.stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "damage", ["", "{", "[]", '{"keys": 3}', '{"keys": [{"id": "x"}]}', '{"keys": [7]}']
    )
    def test_a_damaged_file_of_keys_opens_nothing(
        self, guarded: TestClient, keyring: Keyring, damage: str
    ) -> None:
        text = secret(keyring)
        keyring.path.write_text(damage)
        answer = guarded.get("/api/spaces", headers=bearer(text))
        assert (answer.status_code, str(keyring.path) in answer.text) == (500, False)

    def test_a_file_of_keys_that_is_gone_opens_nothing(
        self, guarded: TestClient, keyring: Keyring
    ) -> None:
        text = secret(keyring)
        keyring.path.unlink()
        assert guarded.get("/api/spaces", headers=bearer(text)).status_code == 401

    def test_keys_made_at_the_same_time_are_all_kept(self, keyring: Keyring) -> None:
        rings = [Keyring(keyring.path) for _ in range(8)]
        threads = [threading.Thread(target=secret, args=(ring,)) for ring in rings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(keyring.keys()) == 8

    @pytest.mark.parametrize(
        "wrong",
        [
            {"role": "king"},
            {"tier": "gold"},
            {"reads": []},
            {"writes": ["support"]},
            {"reads": ["a\nb"]},
        ],
    )
    def test_a_key_that_makes_no_sense_is_refused(
        self, keyring: Keyring, wrong: dict[str, Any]
    ) -> None:
        with pytest.raises(knowloom.Invalid):
            keyring.add(
                "k",
                **({"reads": ["support"], "writes": [], "role": "viewer", "tier": "teams"} | wrong),
                now=NOW,
            )  # type: ignore[arg-type]

    def test_too_many_requests_are_told_when_to_come_back(self, own: Path) -> None:
        with (
            knowloom.open(str(own), embedder=None) as kb,
            server(kb, requests_per_minute=3) as client,
        ):
            answers = [client.get("/api/spaces") for _ in range(4)]
        assert [one.status_code for one in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 21

    def test_the_rate_fills_up_with_time(self) -> None:
        now = [0.0]
        rate = RateLimiter(60, lambda: now[0])
        assert [rate.wait_s("k") for _ in range(60)] == [0.0] * 60
        assert rate.wait_s("k") == pytest.approx(1.0)
        now[0] = 1.0
        assert rate.wait_s("k") == 0.0

    @pytest.mark.parametrize(
        "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80"]
    )
    def test_another_host_name_is_refused(self, client: TestClient, host: str) -> None:
        assert client.get("/api/spaces", headers={"host": host}).status_code == 421

    @pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"])
    def test_the_names_of_this_machine_are_known(self, client: TestClient, host: str) -> None:
        assert client.get("/api/spaces", headers={"host": host}).status_code == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://["},
            {"sec-fetch-site": "cross-site"},
        ],
    )
    def test_other_sites_cannot_use_the_browser_of_a_user(
        self, client: TestClient, headers: dict[str, str]
    ) -> None:
        assert client.post("/api/context", json={}, headers=headers).status_code == 403

    def test_the_site_itself_can(self, client: TestClient) -> None:
        assert (
            client.post(
                "/api/context",
                json={},
                headers={"origin": "http://localhost", "sec-fetch-site": "same-origin"},
            ).status_code
            == 200
        )


BAD = [
    ("unknown field", {"question": "x"}, "question"),
    ("text for a number", {"entry_limit": "10"}, "entry_limit"),
    ("fraction for a number", {"entry_limit": 1.5}, "entry_limit"),
    ("truth for a number", {"max_tokens": True}, "max_tokens"),
    ("number for truth", {"expand": 1}, "expand"),
    ("below the range", {"max_tokens": -1}, "max_tokens"),
    ("above the range", {"max_depth": 11}, "max_depth"),
    ("zero", {"entry_limit": 0}, "entry_limit"),
    ("no types at all", {"entry_types": []}, "entry_types"),
    ("one text for a list", {"tenant_ids": "support"}, "tenant_ids"),
    ("empty name", {"tenant_ids": [""]}, "tenant_ids"),
    ("control character", {"tenant_ids": ["a\x00b"]}, "spaces"),
    ("half a character", {"query": "\ud800"}, "query"),
    ("half a character as a field", {"\ud800": 1}, ""),
    ("too long", {"query": "x" * 100_001}, "query"),
    ("unknown method", {"search_method": "magic"}, "search_method"),
    ("unknown format", {"format": "xml"}, "format"),
    ("not a number", {"min_score": float("nan")}, "min_score"),
    ("infinite", {"bm25_weight": float("inf")}, "bm25_weight"),
    ("no weight", {"bm25_weight": 0, "vector_weight": 0}, "bm25_weight"),
    ("a file of the server", {"token_model": "/etc/tokenizer.json"}, "token_model"),
    ("not a time", {"now": "yesterday"}, "now"),
    ("a number for a time", {"now": 1700000000}, "now"),
    ("a time at the end of time", {"as_of": "9999-12-31T23:59:59-23:00"}, "as_of"),
]


class TestBadInput:
    @pytest.mark.parametrize(
        "address",
        [
            "/api/spaces?x=1",
            "/api/spaces/support/items?typ=faq",
            "/api/export?space=support&x=1",
            "/api/stats?x",
        ],
    )
    def test_a_parameter_that_a_route_does_not_have_is_refused(
        self, client: TestClient, address: str
    ) -> None:
        answer = client.get(address + ("=" if address.endswith("x") else ""))
        assert (answer.status_code, "no such parameter; known: " in answer.json()["detail"]) == (
            422,
            True,
        )

    @pytest.mark.parametrize(
        ("body", "field"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
    )
    def test_the_message_names_the_field(
        self, client: TestClient, body: dict[str, Any], field: str
    ) -> None:
        answer = client.post(
            "/api/context", content=json.dumps(body), headers={"content-type": "application/json"}
        )
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert field in answer.json()["detail"]

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ("{", 400),
            ("", 422),
            ("\xff", 400),
            ("[" * 200_000, 400),
            ('{"a":' * 100_000, 400),
            ("9" * 5000, 400),
            ("[]", 422),
            ("null", 422),
        ],
    )
    @pytest.mark.parametrize("path", ["/api/context", "/api/spaces/t/items", "/api/spaces/t/bulk"])
    def test_what_is_not_a_json_object_is_refused(
        self, client: TestClient, path: str, body: str, status: int
    ) -> None:
        answer = client.post(
            path, content=body.encode("latin-1"), headers={"content-type": "application/json"}
        )
        assert answer.status_code in (status, 400), answer.text
        assert client.get("/api/spaces/t/items").status_code == 404

    @pytest.mark.parametrize("depth", [40, 500, 900])
    def test_properties_that_are_nested_too_deeply_are_refused(
        self, client: TestClient, depth: int
    ) -> None:
        body = '{"id": "a", "properties": {"a": ' + "[" * depth + "]" * depth + "}}"
        answer = client.post(
            "/api/spaces/t/items", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (400, 422)
        assert "nested" in answer.json()["detail"] or answer.status_code == 400

    @pytest.mark.parametrize(
        "wrong",
        [
            {"properties": {"x": float("nan")}},
            {"confidence": 2},
            {"kind": "king"},
            {"text": "a\x00b"},
            {"id": True},
            {"id": 10**30},
            {"id": ""},
        ],
    )
    def test_a_bad_item_is_not_stored(self, client: TestClient, wrong: dict[str, Any]) -> None:
        body = json.dumps({"id": "a", "text": "x"} | wrong)
        answer = client.post(
            "/api/spaces/t/items", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 422
        assert next(iter(wrong)) in answer.json()["detail"]
        assert client.get("/api/spaces/t/items").status_code == 404

    def test_a_body_that_is_too_large_is_refused_with_and_without_a_length(self, own: Path) -> None:
        with knowloom.open(str(own), embedder=None) as kb, server(kb, max_body=1000) as client:
            headers = {"content-type": "application/json"}
            assert (
                client.post("/api/context", content=b" " * 1001, headers=headers).status_code == 413
            )
            assert (
                client.post(
                    "/api/context", content=iter([b" " * 600] * 2), headers=headers
                ).status_code
                == 413
            )
            assert (
                client.post(
                    "/api/spaces/t/bulk", content=iter([b" " * 600] * 2), headers=headers
                ).status_code
                == 413
            )

    @pytest.mark.parametrize(
        "media",
        [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/x-ndjson",
            "",
        ],
    )
    def test_other_media_types_are_refused(self, client: TestClient, media: str) -> None:
        assert (
            client.post("/api/context", content=b"{}", headers={"content-type": media}).status_code
            == 415
        )

    def test_what_does_not_exist_is_not_found(self, client: TestClient) -> None:
        assert client.get("/api/nothing").json()["code"] == "no_route"
        assert client.get("/api/spaces/nowhere/items").json()["code"] == "unknown_space"
        assert client.request("PATCH", "/api/context").status_code == 405

    def test_logs_and_errors_repeat_no_text_and_no_secret(
        self, guarded: TestClient, keyring: Keyring, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        key = secret(keyring)
        private = "the patient has measles"
        answers = [
            guarded.post("/api/context", json=body, headers=bearer(key))
            for body in (
                {"query": private, "tenant_ids": ["support"]},
                {"query": private, "limit": private},
                {"query": [private]},
            )
        ]
        said = caplog.text + "".join(one.text for one in answers)
        assert private not in said and key not in said
        assert re.search(
            r"id=\w+ method=POST route=/api/context status=422 ms=[\d.]+ key=\w{8}", caplog.text
        )

    def test_a_fault_inside_says_nothing_of_the_inside(
        self, own: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        kb = knowloom.open(str(own), embedder=None)
        broken = application.create_app(kb)
        broken.state.engine = None
        with TestClient(broken, base_url="http://localhost") as client:
            answer = client.post("/api/context", json={"query": "measles"})
        kb.close()
        assert (answer.status_code, answer.json()["code"]) == (500, "error")
        assert (
            "Traceback" not in answer.text
            and "NoneType" not in answer.text
            and "measles" not in caplog.text
        )
        assert "AttributeError at state.py:" in caplog.text

    def test_a_store_that_is_gone_is_said_without_its_place(
        self, own: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        kb = knowloom.open(str(own), embedder=None)
        with server(kb) as client:
            kb.close()
            answer = client.get("/readyz")
        assert answer.status_code >= 500 and str(own) not in answer.text


class TestOperations:
    def test_health_needs_no_key_and_no_host_name(self, guarded: TestClient) -> None:
        assert [
            guarded.get(path, headers={"host": "10.0.0.7"}).status_code
            for path in ("/healthz", "/readyz")
        ] == [200, 200]

    def test_documentation_needs_no_key(self, guarded: TestClient) -> None:
        assert [guarded.get(path).status_code for path in ("/docs", "/openapi.json")] == [200, 200]

    def test_metrics_count_requests_tokens_and_time(self, client: TestClient) -> None:
        ask(client, query="refund")
        client.request("NONSENSE", "/api/context")
        shown = client.get("/metrics").text
        assert (
            'knowloom_requests_total{method="POST",route="/api/context",status="200"} 1.0' in shown
        )
        assert 'method="OTHER"' in shown and "NONSENSE" not in shown
        assert (
            "knowloom_context_tokens_total" in shown and "knowloom_request_seconds_bucket" in shown
        )

    @pytest.mark.parametrize(
        ("given", "kept"),
        [("abc-123", True), ("a b", False), ('"}\n', False), ("x" * 65, False), ("é", False)],
    )
    def test_a_request_id_is_echoed_if_it_is_harmless(
        self, client: TestClient, given: str, kept: bool
    ) -> None:
        answer = client.get("/healthz", headers={"x-request-id": given.encode("latin-1")})  # type: ignore[dict-item]
        assert (answer.headers["x-request-id"] == given) == kept
        assert re.fullmatch(r"[\w-]{6,64}", answer.headers["x-request-id"])

    def test_every_route_stands_in_the_docs(self, client: TestClient) -> None:
        docs = (ROOT / "docs" / "http.md").read_text("utf-8")
        for path, operations in client.get("/openapi.json").json()["paths"].items():
            for method in operations:
                assert f"{method.upper()} {path}`" in docs, (
                    f"docs/http.md does not have {method.upper()} {path}"
                )

    def test_every_field_of_a_context_request_stands_in_the_docs(self) -> None:
        from knowloom.server.schemas.context import ContextRequest

        docs = (ROOT / "docs" / "http.md").read_text("utf-8")
        assert [name for name in ContextRequest.model_fields if f"| `{name}` |" not in docs] == []

    def test_every_body_has_an_example_and_every_refusal_is_described(
        self, client: TestClient
    ) -> None:
        described = client.get("/openapi.json").json()
        for name in ("ContextRequest", "SearchRequest", "ExplainRequest", "ItemBody", "EdgeBody"):
            assert described["components"]["schemas"][name]["examples"]
        for operations in described["paths"].values():
            for operation in operations.values():
                assert {
                    "400",
                    "401",
                    "403",
                    "404",
                    "409",
                    "412",
                    "413",
                    "415",
                    "421",
                    "422",
                    "429",
                    "500",
                    "503",
                } <= set(operation["responses"])

    def test_the_examples_of_the_description_are_accepted(self, client: TestClient) -> None:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
        for path, name in (
            ("context", "ContextRequest"),
            ("search", "SearchRequest"),
            ("explain", "ExplainRequest"),
            ("spaces/t/items", "ItemBody"),
        ):
            assert client.post(f"/api/{path}", json=schemas[name]["examples"][0]).status_code in (
                200,
                201,
            )


@contextmanager
def running(file: Path, *options: str, **environ: str) -> Iterator[str]:
    """The real process; its address."""
    process, base = started(file, *options, **environ)
    try:
        yield base
    finally:
        stop(process)


def started(file: Path, *options: str, **environ: str) -> tuple[subprocess.Popen[str], str]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "knowloom",
        "serve",
        "--db",
        str(file),
        "--port",
        str(port),
        *options,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KNOWLOOM_EMBEDDER": "none",
        **environ,
    }
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=file.parent,
    )
    base = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            httpx.get(f"{base}/healthz")
            return process, base
        except httpx.TransportError:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
    raise TimeoutError(stop(process))


def stop(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and what it said."""
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=40)[1]
    return process.returncode, said


def servers(parent: int) -> list[int]:
    """The server processes that it started: copies of a process that has imported everything and does nothing else."""
    prepared = [
        child
        for child in children(parent)
        if b"multiprocessing.forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return [child for process in prepared for child in children(process)]


def children(parent: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ]


def alive(process: int) -> bool:
    with suppress(OSError):
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def free_port() -> int:
    """Below the ports that clients get, so that nobody is given it before the server listens."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := random.SystemRandom().randint(15_000, 32_000)))
            return port


def answers(port: int) -> bool:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        time.sleep(0.05)
    return False


def refused(file: Path, *options: str) -> str:
    command = [sys.executable, "-m", "knowloom", "serve", "--db", str(file), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, cwd=file.parent
    )
    assert done.returncode == 1, done
    return done.stderr


def keys(file: Path, *words: str) -> Any:
    result = CliRunner().invoke(
        cli, ["keys", *words, "--db", str(file), "--json"], prog_name="knowloom"
    )
    return json.loads(result.stdout)


class TestKeysCommand:
    def test_a_key_is_made_listed_and_revoked(self, own: Path) -> None:
        made = keys(own, "add", "reporting", "--read", "support", "--read", "shared")
        assert Keyring(own.with_name("own.db.keys.json")).find(made.pop("secret")) is not None
        assert keys(own, "list") == {"keys": [made]}
        assert keys(own, "revoke", made["id"])["revoked_at"]
        assert keys(own, "revoke", "nobody")["error"]["code"] == "not_found"

    def test_a_wrong_role_is_refused_with_the_right_ones(self, own: Path) -> None:
        assert (
            "admin, editor, viewer"
            in keys(own, "add", "k", "--read", "x", "--role", "king")["error"]["message"]
        )


class TestProcess:
    def test_an_open_server_says_so_logs_as_json_and_stops_cleanly(self, own: Path) -> None:
        process, base = started(own)
        answer = httpx.post(
            f"{base}/api/context", json={"query": "measles", "tenant_ids": ["support"]}
        )
        status, said = stop(process)
        assert (answer.status_code, "server" in answer.headers, status) == (200, False, 0)
        assert f"{base}/docs" in said and f"{base}/healthz" in said and "warning: open" in said
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        logged = next(line for line in lines if line.get("route") == "/api/context")
        assert set(logged) == {
            "time",
            "level",
            "message",
            "id",
            "method",
            "route",
            "status",
            "ms",
            "key",
        }
        assert "measles" not in said

    def test_two_servers_share_one_file(self, own: Path) -> None:
        with running(own) as one, running(own) as two:
            httpx.post(
                f"{one}/api/spaces/t/items", json={"id": "a", "type": "faq", "text": "zebra"}
            )
            assert httpx.get(f"{two}/api/spaces/t/items/a").status_code == 200
            found = httpx.post(
                f"{two}/api/context", json={"query": "zebra", "tenant_ids": ["t"]}
            ).json()
        assert ids(found["entry_points"]) == ["a"]

    def test_a_running_request_is_finished_before_the_end(self, own: Path) -> None:
        process, base = started(own)
        body = json.dumps({"query": "refund", "tenant_ids": ["support"]})
        connection = HTTPConnection(base.removeprefix("http://"), timeout=30)
        connection.putrequest("POST", "/api/context")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body[:10].encode())
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert process.poll() is None
        connection.send(body[10:].encode())
        answer = connection.getresponse()
        assert (answer.status, len(json.loads(answer.read())["entry_points"])) == (200, 10)
        connection.close()
        process.communicate(timeout=40)
        assert process.returncode == 0

    def test_the_knowledge_may_be_named_as_an_argument(self, own: Path) -> None:
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "knowloom",
            "serve",
            str(own),
            "--port",
            str(port),
            "--processes",
            "1",
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
        process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True, cwd=own.parent
        )
        assert (
            process.stderr is not None
            and process.stderr.readline() == f"knowloom serves at http://127.0.0.1:{port}\n"
        )
        spaces = (
            httpx.get(f"http://127.0.0.1:{port}/api/spaces", timeout=30).json()["spaces"]
            if answers(port)
            else []
        )
        assert "support" in [space["name"] for space in spaces] and stop(process)[0] == 0

    @pytest.mark.parametrize("stop_by", [signal.SIGTERM, signal.SIGINT])
    def test_a_server_that_is_stopped_while_it_starts_ends_in_silence(
        self, own: Path, stop_by: signal.Signals
    ) -> None:
        command = [
            sys.executable,
            "-m",
            "knowloom",
            "serve",
            str(own),
            "--port",
            str(free_port()),
            "--processes",
            "2",
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
        process = subprocess.Popen(
            command,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            cwd=own.parent,
            start_new_session=True,
        )
        assert process.stderr is not None and process.stderr.readline().startswith(
            "knowloom serves at"
        )
        os.killpg(process.pid, stop_by) if stop_by is signal.SIGINT else process.send_signal(
            stop_by
        )  # Ctrl-C reaches all processes
        said = process.communicate(timeout=60)[1]
        assert (process.returncode, "Traceback" in said) == (0, False), said

    def test_knowledge_that_is_named_twice_is_refused(self) -> None:
        result = CliRunner().invoke(cli, ["serve", "a.db", "--db", "b.db"], prog_name="knowloom")
        assert (result.exit_code, "named twice: 'a.db' and --db 'b.db'" in result.stderr) == (
            2,
            True,
        )

    @pytest.mark.parametrize("trickling", [False, True])
    def test_a_body_that_does_not_arrive_in_time_ends_its_connection(
        self, own: Path, trickling: bool
    ) -> None:
        with (
            running(own, "--body-timeout", "1", "--processes", "1") as base,
            socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as slow,
        ):
            slow.sendall(
                b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
            )
            slow.settimeout(0.2)
            said, ended, until = b"", False, time.monotonic() + 60
            while not ended and time.monotonic() < until:
                with suppress(BrokenPipeError, ConnectionResetError):
                    if trickling and not said:
                        slow.sendall(b" ")
                try:
                    part = slow.recv(10_000)
                    said, ended = said + part, not part
                except TimeoutError:
                    continue
                except ConnectionResetError:  # as it has not read all that was sent
                    ended = True
        assert ended and b" 408 " in said.splitlines()[0] and b'"code":"body_too_slow"' in said

    @pytest.mark.parametrize(
        "sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"]
    )
    @pytest.mark.parametrize("used_before", [False, True])
    def test_headers_that_do_not_arrive_in_time_end_their_connection(
        self, own: Path, sent: bytes, used_before: bool
    ) -> None:
        with (
            running(own, "--body-timeout", "1", "--processes", "1") as base,
            socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as slow,
        ):
            slow.settimeout(60)
            if used_before:
                slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while not answer.endswith(b"}"):
                    answer += slow.recv(10_000)
                assert b" 200 " in answer.splitlines()[0]
            slow.sendall(sent)
            assert slow.recv(10_000) == b""

    def test_a_connection_that_was_kept_waiting_is_answered_all_the_same(self, own: Path) -> None:
        with (
            running(own, "--body-timeout", "3", "--processes", "1") as base,
            socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as slow,
        ):
            slow.settimeout(60)
            for part in (b"GET /healthz HT", b"TP/1.1\r\nHost: local", b"host\r\n\r\n"):
                slow.sendall(part)
                time.sleep(0.5)
            assert b" 200 " in slow.recv(10_000)

    def test_several_processes_answer_count_and_limit_together(self, own: Path) -> None:
        with running(own, "--processes", "2", "--requests-per-minute", "12") as base:
            statuses = [
                httpx.get(f"{base}/api/spaces").status_code for _ in range(20)
            ]  # each on a connection of its own
            time.sleep(6)  # one more request may come every 5 seconds
            counted = httpx.get(f"{base}/metrics").text
        assert statuses.count(200) in (12, 13), statuses  # 13 if the 20 took more than 5 seconds
        assert f'route="/api/spaces",status="200"}} {statuses.count(200)}.0' in counted

    def test_a_process_that_dies_is_started_again_and_all_end_with_the_first(
        self, own: Path
    ) -> None:
        process, base = started(own, "--processes", "2")
        time.sleep(6)  # one that ends sooner would end again
        victim = servers(process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        until = time.monotonic() + 30
        while len(servers(process.pid)) < 2 or victim in servers(process.pid):
            assert time.monotonic() < until
            time.sleep(0.1)
        assert [httpx.get(f"{base}/healthz", timeout=30).status_code for _ in range(10)] == [
            200
        ] * 10
        others = servers(process.pid)
        process.kill()
        process.communicate()
        while any(alive(other) for other in others):
            assert time.monotonic() < until
            time.sleep(0.1)

    def test_processes_that_end_finish_what_they_began_and_nobody_else_is_let_in(
        self, own: Path
    ) -> None:
        process, base = started(own, "--processes", "2")
        port, body = int(base.rpartition(":")[2]), b'{"query": "refund", "spaces": ["support"]}'
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
            slow.sendall(
                b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            )
            slow.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
            assert slow.recv(1000).startswith(b"HTTP/1.1 100 ")  # it is being answered
            process.send_signal(signal.SIGTERM)
            until = time.monotonic() + 20
            with pytest.raises(ConnectionRefusedError):
                while time.monotonic() < until:
                    socket.create_connection(("127.0.0.1", port)).close()
                    time.sleep(0.05)
            assert process.poll() is None
            slow.sendall(body)
            assert b" 200 " in slow.recv(10_000).splitlines()[0]
        process.communicate(timeout=40)
        assert process.returncode == 0

    def test_what_is_in_memory_is_served_by_one_process(self, own: Path) -> None:
        assert "a memory of its own" in refused(Path("memory:"), "--processes", "2")

    def test_no_second_server_listens_on_the_same_port(self, own: Path) -> None:
        with running(own) as base:
            for processes in ("1", "2"):
                assert "cannot listen" in refused(
                    own, "--processes", processes, "--port", base.rpartition(":")[2]
                )

    def test_other_machines_need_a_key(self, own: Path) -> None:
        assert "knowloom keys add" in refused(own, "--host", "0.0.0.0")

    def test_keys_are_asked_for_once_there_are_some(self, own: Path) -> None:
        keyring = Keyring(own.with_name("own.db.keys.json"))
        key, text = keyring.add("k", reads=["*"], writes=[], role="viewer", tier="teams", now=NOW)
        with running(own) as base:
            assert httpx.get(f"{base}/api/spaces").status_code == 401
            assert httpx.get(f"{base}/api/spaces", headers=bearer(text)).status_code == 200
        keyring.revoke(key.id, NOW)
        assert (
            settings.load_keyring("127.0.0.1", keyring.path) is not None
        )  # taking away the last key does not open the door
        with pytest.raises(knowloom.Invalid, match="knowloom keys add"):
            settings.load_keyring("0.0.0.0", keyring.path)

    def test_without_its_packages_it_says_what_to_install(self) -> None:
        script = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['knowloom', 'serve']; from knowloom.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, "pip install 'knowloom[server]'" in done.stderr) == (1, True)

    def test_a_port_in_use_is_said_in_one_line(self, own: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            assert "error: cannot listen on 127.0.0.1:" in refused(
                own, "--port", str(taken.getsockname()[1])
            )

    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("127.0.0.1", True),
            ("127.8.8.8", True),
            ("::1", True),
            ("localhost", True),
            ("0.0.0.0", False),
            ("::", False),
            ("x.org", False),
        ],
    )
    def test_what_only_this_machine_can_reach(self, host: str, expected: bool) -> None:
        assert settings.is_loopback(host) == expected


@pytest.fixture
def described(own: Path) -> Iterator[Any]:
    with knowloom.open(str(own), embedder=None) as kb:
        yield schemathesis.openapi.from_asgi(
            "/openapi.json",
            application.create_app(kb, limits=ServerLimits(requests_per_minute=0, hosts=("*",))),
        )


CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
FEW = hypothesis.settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_no_request_brings_the_server_down_or_gets_an_answer_that_is_not_described(
    described: Any, mode: Any
) -> None:
    for operation in described.get_all_operations():

        @FEW
        @hypothesis.given(case=operation.ok().as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        ask()


class Turns:
    """Counts who took a turn."""

    taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        pass


class Elsewhere:
    """An embedder that knowloom does not know: it may be a service."""

    name, dimensions, fingerprint = "elsewhere", 2, "elsewhere@1"

    def embed(self, texts: Sequence[str]) -> list[Any]:
        return [np.array([1.0, 0.0], np.float32) for _ in texts]


@pytest.mark.parametrize(("embedder", "turns"), [(None, 3), (Elsewhere(), 0)])
def test_questions_take_turns_unless_they_wait_for_another_machine(
    embedder: Any, turns: int
) -> None:
    with knowloom.open("memory:", embedder=embedder) as kb:
        kb.add(knowloom.Item("a", "t", type="faq", text="alpha"))
        app = application.create_app(kb, limits=ServerLimits(hosts=("*",)))
        app.state.cpu_lock = Turns()
        with TestClient(app) as client:
            for path, asked in (
                ("context", {"tenant_ids": ["t"]}),
                ("search", {"spaces": ["t"]}),
                ("explain", {"spaces": ["t"]}),
            ):
                assert (
                    client.post(f"/api/{path}", json={"query": "alpha", **asked}).status_code == 200
                )
            assert client.get("/api/spaces").status_code == 200
        assert app.state.cpu_lock.taken == turns


def test_the_documentation_needs_no_network(client):
    page = client.get("/docs").text
    assets = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert assets and all(client.get(asset).status_code == 200 for asset in assets)
