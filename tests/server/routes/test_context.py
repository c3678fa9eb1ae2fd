"""Tests of /api/context, /api/search and /api/explain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import (
    CHAIN,
    ask_context,
    bulk_load,
    ids,
    link,
    serve_app,
)
from server_process import (
    running_server,
)

METHODS = ("bm25", "vector", "hybrid")


def test_customer_support(client: TestClient) -> None:
    request = {
        "query": "Customer asking about refund policy",
        "tenant_ids": ["support"],
        "entry_types": ["faq", "playbook"],
        "entry_limit": 5,
    }
    body = ask_context(client, **request, expand=True, max_depth=2, max_tokens=4000)
    assert {"answer-refund-policy-question", "what-is-the-refund-policy"} <= set(
        ids(body["entry_points"])
    )
    assert {node["node_type"] for node in body["entry_points"]} <= {"faq", "playbook"}
    assert len(body["entry_points"]) == 5
    assert body["context"] and body["entities"]
    assert 0 < body["stats"]["total_tokens"] <= 4000


def test_data_analysis(client: TestClient) -> None:
    request = {
        "query": "How to query order data",
        "tenant_ids": ["analytics"],
        "entry_types": ["schema_index", "schema_field", "example"],
    }
    body = ask_context(
        client,
        **request,
        include_schemas=True,
        include_examples=True,
        entry_limit=10,
        max_tokens=8000,
    )
    assert "orders-orders" in ids(body["entry_points"])
    assert {node["node_type"] for node in body["entry_points"]} <= {
        "schema_index",
        "schema_field",
        "example",
    }


def test_compliance(client: TestClient) -> None:
    request = {
        "query": "What permissions are needed for financial reports",
        "tenant_ids": ["finance", "shared"],
    }
    body = ask_context(
        client,
        **request,
        entry_types=["permission_rule", "playbook"],
        include_entities=True,
        max_depth=3,
        max_tokens=6000,
    )
    assert {"report-roles-by-report", "financial-reports-access"} <= set(ids(body["entry_points"]))
    schemas = ["finance.monthly_revenue", "ledgerline.journal"]
    assert {
        "id": "financial-report",
        "space": "finance",
        "title": "Financial report",
        "entity_path": "finance.reports",
        "related_schemas": schemas,
    } in body["entities"]


def test_an_async_client_gets_a_complete_response(store_file: Path) -> None:
    async def context_for_agent(query: str, tenant_ids: list[str], base: str) -> Any:
        async with httpx.AsyncClient() as client:
            request = {
                "query": query,
                "tenant_ids": tenant_ids,
                "entry_limit": 10,
                "expand": True,
                "max_depth": 2,
                "max_tokens": 8000,
            }
            return (await client.post(f"{base}/api/context", json=request)).json()

    with running_server(store_file) as base:
        body = asyncio.run(
            context_for_agent("How do I process a refund?", ["purchasing", "shared"], base)
        )
    assert "process-a-supplier-refund" in ids(body["entry_points"])
    assert set(body) == {
        "entry_points",
        "context",
        "entities",
        "see_also",
        "stats",
        "confidence",
        "truncated",
        "degraded",
        "left_out",
        "digest",
        "text",
    }
    assert all(
        set(node)
        >= {"id", "node_type", "title", "summary", "content", "tags", "score", "match_source"}
        for node in body["entry_points"]
    )


def test_all_types_but_schemas_examples_and_entities_are_searched_by_default(
    client: TestClient,
) -> None:
    types = ("faq", "playbook", "permission_rule", "concept", "note", "schema_index", "example")
    rows = [{"id": kind, "type": kind, "text": "alpha"} for kind in types]
    rows += [
        {"id": "document", "text": "alpha"},
        {"id": "thing", "kind": "entity", "text": "alpha"},
        {"id": "somebody", "kind": "profile", "text": "alpha"},
    ]
    bulk_load(client, "t", rows)
    body = ask_context(client, query="alpha", tenant_ids=["t"])
    assert sorted(ids(body["entry_points"])) == [
        "concept",
        "document",
        "faq",
        "note",
        "permission_rule",
        "playbook",
    ]
    assert {node["space"] for node in body["entry_points"]} == {"t"}


@pytest.mark.parametrize("type", ["FAQ", "fqa"])
def test_an_unknown_entry_type_is_reported_with_those_that_exist(
    client: TestClient, type: str
) -> None:
    bulk_load(client, "t", [{"id": "a", "type": "faq", "text": "alpha"}])
    body = ask_context(client, query="alpha", tenant_ids=["t"], entry_types=[type])
    assert body["entry_points"] == [] and body["confidence"] == 0
    problem = body["degraded"][0]
    assert (problem["code"], problem["severity"]) == ("unknown_type", "notice")
    assert problem["reason"].endswith("types: faq; did you mean 'faq'?")


def test_confidence_and_its_minimum(client: TestClient) -> None:
    question = "How do I process a refund request?"
    body = ask_context(client, query=question)
    assert 0.2 < body["confidence"] <= 1 and body["degraded"] == []
    doubtful = ask_context(client, query=question, min_answer_confidence=1.0, format="markdown")
    assert doubtful["text"] == "" and doubtful["entry_points"] == doubtful["context"] == []
    assert [problem["code"] for problem in doubtful["degraded"]] == ["low_confidence"]
    assert doubtful["confidence"] == body["confidence"]
    hits = client.post("/api/search", json={"query": question, "spaces": ["support"]}).json()
    assert 0.2 < hits["confidence"] <= 1 and hits["degraded"] == []


@pytest.mark.parametrize("agent", [None, "copilot"])
def test_the_tokens_of_the_parts_add_up(client: TestClient, agent: str | None) -> None:
    for citations in (False, True):
        body = ask_context(client, query="refund", agent=agent, max_tokens=700, citations=citations)
        used = body["stats"]["tokens_used"]
        assert sum(used.values()) == body["stats"]["total_tokens"] > 0
        assert abs(used.get("other", 0)) < 20


def test_an_unknown_space_does_not_hide_the_others(client: TestClient) -> None:
    body = ask_context(client, query="refund", tenant_ids=["support", "nowhere"])
    assert body["entry_points"]
    assert [problem["code"] for problem in body["degraded"]] == ["unknown_space"]
    request = {"query": "refund", "tenant_ids": ["nowhere"]}
    assert client.post("/api/context", json=request).status_code == 404


@pytest.mark.parametrize("query", ["", " ", "?!"])
def test_a_query_without_words_is_refused_by_every_route(client: TestClient, query: str) -> None:
    for route, name in (("context", "tenant_ids"), ("search", "spaces"), ("explain", "spaces")):
        response = client.post(f"/api/{route}", json={"query": query, name: ["support"]})
        assert response.status_code == 422
        assert "must contain a word or a number" in response.json()["detail"]


def test_flags_add_schemas_and_examples(client: TestClient) -> None:
    bulk_load(
        client,
        "t",
        [
            {"id": kind, "type": kind, "text": "alpha"}
            for kind in ("faq", "schema_index", "schema_field", "example")
        ],
    )
    body = ask_context(
        client, query="alpha", tenant_ids=["t"], include_schemas=True, include_examples=True
    )
    assert sorted(ids(body["entry_points"])) == [
        "example",
        "faq",
        "schema_field",
        "schema_index",
    ]


def test_links_lead_to_schemas_and_examples_only_with_their_flags(client: TestClient) -> None:
    items = [
        {"id": "faq", "type": "faq", "text": "alpha"},
        {"id": "s", "type": "schema_index", "text": "x"},
        {"id": "e", "type": "example", "text": "y"},
    ]
    bulk_load(
        client, "t", items, [{"source": "faq", "target": "s"}, {"source": "faq", "target": "e"}]
    )
    assert ids(ask_context(client, query="alpha", tenant_ids=["t"])["context"]) == []
    assert ids(
        ask_context(client, query="alpha", tenant_ids=["t"], include_schemas=True)["context"]
    ) == ["s"]
    assert ids(
        ask_context(client, query="alpha", tenant_ids=["t"], expansion_types=["example"])["context"]
    ) == ["e"]


def test_reserved_properties_are_not_shown(client: TestClient) -> None:
    bulk_load(
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
        node["content"]
        for node in ask_context(client, query="alpha", tenant_ids=["t"])["entry_points"]
    ] == [{"text": "alpha", "size": 2}]


def test_entities_can_be_left_out(client: TestClient) -> None:
    assert ask_context(client, query="refund", include_entities=True)["entities"]
    assert ask_context(client, query="refund", include_entities=False)["entities"] == []


def test_match_source_names_the_index_that_found_an_item(embedded_client: TestClient) -> None:
    sources = {
        method: {
            node["match_source"]
            for node in ask_context(embedded_client, query="refund policy", search_method=method)[
                "entry_points"
            ]
        }
        for method in METHODS
    }
    assert sources["bm25"] == {"bm25"}
    assert sources["vector"] == {"vector"}
    assert "hybrid" in sources["hybrid"]


def test_weights_change_the_order(embedded_client: TestClient) -> None:
    orders = [
        ids(
            ask_context(
                embedded_client, query="money back", bm25_weight=a, vector_weight=b, expand=False
            )["entry_points"]
        )
        for a, b in ((1, 0), (0, 1))
    ]
    assert orders[0] != orders[1]


def test_min_score_and_tags_restrict_the_search(client: TestClient) -> None:
    scores = [node["score"] for node in ask_context(client, query="refund")["entry_points"]]
    assert all(
        node["score"] >= scores[1]
        for node in ask_context(client, query="refund", min_score=scores[1])["entry_points"]
    )
    assert all(
        "policy" in node["tags"]
        for node in ask_context(client, query="refund", tags=["policy"])["entry_points"]
    )


@pytest.mark.parametrize(
    ("weight", "scores"), [(1.0, [1 / 2, 1 / 3, 1 / 4]), (0.8, [0.4, 0.8 / 3, 0.2])]
)
def test_scores_decrease_with_distance(
    client: TestClient, weight: float, scores: list[float]
) -> None:
    bulk_load(
        client,
        "t",
        CHAIN,
        [
            {"source": n, "target": n + 1, "weight": weight if n == len(CHAIN) - 1 else 1.0}
            for n in range(1, 4)
        ],
    )
    body = ask_context(client, query="alpha", tenant_ids=["t"], max_depth=3)["context"]
    assert [node["distance"] for node in body] == [1, 2, 3]
    assert body[2]["score"] == pytest.approx(scores[2], abs=1e-5)
    assert [node["score"] for node in body[:2]] == pytest.approx([1 / 2, 1 / 3], abs=1e-5)


def test_a_weight_of_80_percent_scores_40_at_one_hop(client: TestClient) -> None:
    bulk_load(client, "t", CHAIN, [{"source": 1, "target": 2, "weight": 0.8}])
    assert ask_context(client, query="alpha", tenant_ids=["t"])["context"][0][
        "score"
    ] == pytest.approx(0.4)


def test_path_and_edge_type_describe_how_a_node_was_reached(client: TestClient) -> None:
    bulk_load(
        client,
        "t",
        CHAIN,
        [
            {"source": 1, "target": 2, "type": "parent"},
            {"source": 3, "target": 2, "type": "example_of"},
        ],
    )
    body = ask_context(client, query="alpha", tenant_ids=["t"])["context"]
    assert [(node["path"], node["edge_type"]) for node in body] == [
        ([1, 2], "parent"),
        ([1, 2, 3], "example_of"),
    ]


def test_no_expansion_gives_no_context(client: TestClient) -> None:
    assert ask_context(client, query="refund", expand=False)["context"] == []
    assert ask_context(client, query="refund", max_depth=0)["context"] == []


def test_unused_shares_go_to_the_other_parts(client: TestClient) -> None:
    used = ask_context(client, query="refund", entry_limit=1, max_tokens=1000)["stats"][
        "tokens_used"
    ]
    assert used["entry_points"] < 600
    assert used["context_nodes"] > 300


def test_entry_points_get_their_share(client: TestClient) -> None:
    used = ask_context(client, query="refund", max_tokens=1000)["stats"]["tokens_used"]
    assert used["entry_points"] >= 450


@pytest.mark.parametrize("format", ["json", "markdown", "plain", "yaml"])
@pytest.mark.parametrize("budget", [0, 50, 333, 2000])
def test_the_text_is_within_the_budget(client: TestClient, format: str, budget: int) -> None:
    from knowloom import tokens

    body = ask_context(client, query="refund", format=format, max_tokens=budget)
    assert (
        tokens.get_counter("gpt-4").count(body["text"]) == body["stats"]["total_tokens"] <= budget
    )


def test_no_budget_is_no_limit(client: TestClient) -> None:
    body = ask_context(client, query="refund", max_tokens=None, entry_limit=30)
    assert body["left_out"] == []
    assert {node["form"] for node in body["entry_points"] + body["context"]} == {"whole"}


def test_text_comes_only_with_a_format(client: TestClient) -> None:
    assert ask_context(client, query="refund")["text"] is None
    assert "refund" in ask_context(client, query="refund", format="markdown")["text"]


def test_stats_match_the_response(client: TestClient) -> None:
    body = ask_context(client, query="refund", entry_limit=4, context_limit=6)
    stats = body["stats"]
    assert (
        (stats["entry_points_found"], stats["context_nodes_found"])
        == (len(body["entry_points"]), len(body["context"]))
        == (4, 6)
    )
    assert stats["max_depth_reached"] == max(node["distance"] for node in body["context"])
    assert stats["nodes_searched"] >= 4 and stats["nodes_expanded"] >= 6
    assert {"entry_points", "context_nodes", "entities", "see_also"} <= set(stats["tokens_used"])
    assert stats["nodes_matched"] >= stats["entry_points_found"]
    assert body["truncated"] is False and stats["candidates"] >= 10


def test_pointers_are_listed_apart_and_can_be_read(client: TestClient) -> None:
    question = "How do I process a refund request?"
    bodies = (ask_context(client, query=question, max_tokens=n) for n in range(100, 600, 25))
    body = next(body for body in bodies if body["see_also"])  # pointers fill what is left
    pointers = body["see_also"]
    assert body["stats"]["tokens_used"]["see_also"] > 0
    shown = {*ids(body["entry_points"]), *ids(body["context"])}
    for pointer in pointers:
        assert pointer["id"] not in shown
        path = f"/api/items/{pointer['id']}/read"
        page = client.get(path, params={"space": pointer["space"]}).json()
        assert page["title"] == pointer["title"] and page["text"]


def test_integer_ids_stay_integers_everywhere(client: TestClient) -> None:
    entity = {"id": -7, "kind": "entity", "type": "entity", "title": "seven"}
    bulk_load(
        client,
        "t",
        [*CHAIN, entity, {"id": "007", "text": "beta", "type": "note"}],
        [*link(1, 2), *link(2, "007"), *link("007", 3), *link(1, -7)],
    )
    body = ask_context(client, query="alpha", tenant_ids=["t"], max_depth=3)
    assert [node["path"] for node in body["context"]] == [
        [1, 2],
        [1, 2, "007"],
        [1, 2, "007", 3],
    ]
    assert ids(body["entities"]) == [-7]
    assert (
        ids(ask_context(client, query="alpha", tenant_ids=["t"], max_tokens=1)["left_out"])[0] == 1
    )
    assert client.get("/api/spaces/t/items/2").json()["id"] == 2
    assert ids(client.get("/api/spaces/t/items").json()["items"]) == [-7, "007", 1, 2, 3, 4]
    edges = client.get("/api/spaces/t/edges").json()["edges"]
    assert [(edge["source"], edge["target"]) for edge in edges] == [
        ("007", 3),
        (1, -7),
        (1, 2),
        (2, "007"),
    ]
    created = client.post("/api/spaces/t/edges", json={"source": 3, "target": "007"}).json()
    assert (created["source"], created["target"]) == (3, "007")


def test_no_spaces_return_nothing(client: TestClient) -> None:
    body = ask_context(client, query="refund", tenant_ids=[], max_tokens=4000)
    assert (
        body["entry_points"],
        body["context"],
        body["entities"],
        body["stats"]["nodes_searched"],
    ) == ([], [], [], 0)


def test_an_empty_request_is_refused(client: TestClient) -> None:
    assert client.post("/api/context", json={}).status_code == 422


def test_equal_requests_get_equal_responses(client: TestClient) -> None:
    request = {
        "query": "refund",
        "tenant_ids": ["support"],
        "now": "2026-06-01T00:00:00Z",
        "format": "json",
        "max_tokens": 900,
    }
    first, second = (client.post("/api/context", json=request).json() for _ in range(2))
    assert first["stats"].pop("timings_ms") and second["stats"].pop("timings_ms")
    assert first == second


def test_vector_search_without_vectors_is_a_conflict(client: TestClient) -> None:
    response = client.post(
        "/api/context",
        json={"query": "refund", "tenant_ids": ["support"], "search_method": "vector"},
    )
    assert (response.status_code, response.json()["code"]) == (409, "vectors_pending")


def test_a_degraded_search_is_reported(embedded_file: Path) -> None:
    with knowloom.open(str(embedded_file), embedder=None) as kb, serve_app(kb) as client:
        assert (
            "no embedder"
            in client.post("/api/search", json={"query": "refund", "spaces": ["support"]}).json()[
                "notes"
            ][0]
        )
        assert "no embedder" in ask_context(client, query="refund")["degraded"][0]["reason"]


def test_explain_covers_the_given_ids(client: TestClient) -> None:
    request = {
        "query": "refund",
        "spaces": ["support"],
        "max_tokens": 300,
        "ids": ["gift-card-refunds"],
    }
    body = client.post("/api/explain", json=request).json()
    assert body["tokens"] <= 300
    assert "gift-card-refunds" in ids(body["left_out"]) + [
        chosen["id"] for part in body["fragments"] for chosen in part["chosen"]
    ]


@pytest.mark.parametrize("request_", [{"expand": False}, {"max_depth": 0}])
def test_without_expansion_nothing_counts_as_expanded(
    client: TestClient, request_: dict[str, object]
) -> None:
    bulk_load(client, "support", [{"id": "till", "kind": "entity", "title": "till"}])
    bulk_load(client, "support", [{"id": "till-faq", "type": "faq", "text": "till"}])
    link_body = {"source": "till-faq", "target": "till"}
    assert client.post("/api/spaces/support/edges", json=link_body).status_code < 300
    body = ask_context(client, query="till", **request_)
    assert [entity["id"] for entity in body["entities"]] == ["till"]
    stats = body["stats"]
    assert (stats["nodes_expanded"], stats["max_depth_reached"]) == (0, 0)
    assert ask_context(client, query="till")["stats"]["nodes_expanded"] > 0
