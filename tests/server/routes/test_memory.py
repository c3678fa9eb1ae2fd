"""Tests of the memory routes: responses, errors, and access by workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from fake_openai import FakeOpenAI
from knowloom.server import app as application
from knowloom.server.auth import Keyring
from paths import ROOT

NOW = "2026-06-01T00:00:00Z"


@contextmanager
def server(kb: knowloom.Engine, keyring: Keyring | None = None) -> Iterator[TestClient]:
    with TestClient(application.create_app(kb, keyring), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        yield kb


@pytest.fixture
def client(kb: knowloom.Engine) -> Iterator[TestClient]:
    with server(kb) as client:
        yield client


def remember(client: TestClient, content: str, **fields: Any) -> Any:
    response = client.post(
        "/api/memory/remember",
        json={"workspace": "home", "content": content, "created_at": "2026-05-01T00:00:00Z"}
        | fields,
    )
    assert response.status_code == 201, response.text
    return response.json()


def test_a_memory_is_stored_found_rendered_and_deleted(
    kb: knowloom.Engine, client: TestClient
) -> None:
    memory = remember(
        client,
        "Ada drinks tea",
        type="preference",
        conversation="c1",
        confidence=0.9,
        metadata={"cups": 2},
        speaker="Bob",
    )
    assert (memory["workspace"], memory["confidence"], memory["metadata"], memory["title"]) == (
        "home",
        0.9,
        {"speaker": "Bob", "cups": 2},
        "Bob at 12:00 am on 1 May, 2026",
    )
    request = {"workspace": "home", "query": "tea", "now": NOW}
    (result,) = client.post("/api/memory/search", json=request).json()["memories"]
    same = knowloom.Memory(kb, "home").search("tea", now=datetime(2026, 6, 1, tzinfo=UTC))[0]
    assert (result["memory"]["id"], result["score"], result["rank"]) == (
        memory["id"],
        same.score,
        same.rank,
    )
    context, preview = (
        client.post(f"/api/memory/{name}", json=request).json() for name in ("context", "preview")
    )
    heading = "Relevant context from past conversations:"
    line = "- Bob at 12:00 am on 1 May, 2026: Ada drinks tea"
    assert context["context"] == f"{heading}\n\n{line}\n"
    assert {name: preview[name] for name in context} == context
    assert (
        preview["memory_ids"] == [memory["id"]]
        and preview["budget_used"] > 0
        and preview["left_out"] == []
    )
    assert client.post(
        "/api/memory/delete", json={"workspace": "home", "ids": [memory["id"], "nobody"]}
    ).json() == {"deleted": 1}
    assert client.post("/api/memory/search", json=request).json()["memories"] == []


def test_every_option_reaches_the_library(client: TestClient) -> None:
    old = remember(client, "tea is green", type="fact")
    new = remember(
        client,
        "tea is black",
        type="fact",
        created_at="2026-05-20T00:00:00Z",
        supersedes=[old["id"]],
    )
    cup = remember(client, "a cup of porcelain", type="note", related={new["id"]: "holds"})
    request = {
        "workspace": "home",
        "query": "tea",
        "now": NOW,
        "memory_types": ["fact"],
        "include_relationships": True,
        "min_confidence": 0.5,
    }
    (result,) = client.post("/api/memory/search", json=request).json()["memories"]
    assert result["memory"]["id"] == new["id"] and [
        link["memory"]["id"] for link in result["relationships"]
    ] == [cup["id"]]
    before = client.post(
        "/api/memory/search", json=request | {"as_of": "2026-05-10T00:00:00Z"}
    ).json()["memories"]
    assert [result["memory"]["id"] for result in before] == [old["id"]] and before[0]["memory"][
        "superseded_by"
    ] is None
    template = {
        "name": "own",
        "header": "<",
        "memory_format": "{{type}}={{content}}",
        "footer": ">",
        "separator": ";",
    }
    body = request | {
        "template": template,
        "token_budget": 50,
        "ranker": "recency",
        "ranking": {"recency_weight": 1.0},
        "limit": None,
    }
    assert (
        client.post("/api/memory/context", json=body).json()["context"]
        == "<fact=tea is black ([1]);note=a cup of porcelain ([2], holds [1])>"
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("context", {"template": "letter"}, 422, "template_not_found"),
        ("context", {"template": {"memory_format": "{{colour}}"}}, 422, "invalid"),
        ("context", {"token_budget": -1}, 422, "invalid"),
        ("search", {"ranker": "alphabet"}, 422, "invalid"),
        ("search", {"date_from": NOW, "date_to": "2025-01-01T00:00:00Z"}, 422, "invalid"),
        ("context", {"template": "- {{content}}"}, 422, "invalid"),
        ("context", {"template": {"memory_format": "{content}"}}, 422, "invalid"),
        ("context", {"template": {"order": "alphabet"}}, 422, "invalid"),
        ("search_many", {"queries": [" "]}, 422, "invalid"),
        ("search_many", {"queries": ["tea"], "query": "tea"}, 422, "invalid"),
        ("search_many", {"queries": "tea"}, 422, "invalid"),
        ("search_many", {"queries": ["tea"] * 101}, 422, "invalid"),
        ("search", {"query": " "}, 422, "invalid"),
        ("search", {"query": None}, 422, "invalid"),
        ("search", {"vector": [1.0]}, 422, "invalid"),
        ("search", {"colour": "red"}, 422, "invalid"),
        ("search", {"workspace": ""}, 422, "invalid"),
        ("remember", {"content": "x", "confidence": 1.5}, 422, "invalid"),
        ("remember", {"content": "x", "supersedes": ["nobody"]}, 404, "not_found"),
        ("remember", {"content": "password: " + "hunter2" * 2}, 422, "secret"),
        (
            "remember",
            {"content": "x", "valid_from": NOW, "valid_to": "2025-01-01T00:00:00Z"},
            422,
            "invalid",
        ),
    ],
)
def test_errors_are_problem_details_with_a_code(
    kb: knowloom.Engine, client: TestClient, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    has_query = path not in ("remember", "search_many")
    request = {"workspace": "home"} | ({"query": "tea"} if has_query else {}) | body
    response = client.post(f"/api/memory/{path}", json=request)
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json" and list(kb.items()) == []


def test_an_unknown_template_is_refused_with_the_available_ones(client: TestClient) -> None:
    response = client.post(
        "/api/memory/context", json={"workspace": "home", "query": "tea", "template": "letter"}
    )
    available = "bullets, chat, detailed, summary, timeline, xml"
    assert response.json()["detail"] == f"unknown template 'letter'; available: {available}"


def test_many_queries_are_answered_in_their_order(client: TestClient) -> None:
    tea, cup = remember(client, "tea is green"), remember(client, "a cup of porcelain")
    body = {"workspace": "home", "queries": ["cup", "nothing", "tea"], "now": NOW, "limit": 1}
    results = client.post("/api/memory/search_many", json=body).json()["results"]
    assert [[row["memory"]["id"] for row in answer["memories"]] for answer in results] == [
        [cup["id"]],
        [],
        [tea["id"]],
    ]
    single = {"workspace": "home", "query": "tea", "now": NOW, "limit": 1}
    memories = client.post("/api/memory/search", json=single).json()["memories"]
    assert results[2]["memories"] == memories
    empty = client.post("/api/memory/search_many", json={"workspace": "home", "queries": []})
    assert empty.json()["results"] == []


def test_links_between_results_are_told(client: TestClient) -> None:
    rome = remember(client, "Ada lives in Rome")
    kiel = remember(client, "Ada lives in Kiel", related={rome["id"]: "contradicts"})
    body = {"workspace": "home", "query": "Ada lives", "now": NOW}
    for row in client.post("/api/memory/search", json=body).json()["memories"]:
        (link,) = row["links"]
        ends = (link["source"], link["target"])
        assert (ends, link["type"]) == ((kiel["id"], rome["id"]), "contradicts")
    context = client.post("/api/memory/context", json=body | {"include_relationships": True}).json()
    assert "contradicts [" in context["context"]
    assert all(row["links"] for row in context["memories"])


def test_custom_templates_need_the_tier_enterprise(kb: knowloom.Engine, tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    knowloom.Memory(kb, "home").remember("tea")
    body = {"workspace": "home", "query": "tea", "template": {"memory_format": "<{{content}}>"}}
    with server(kb, keyring) as client:
        for tier, status in (("writer_pro", 403), ("teams", 403), ("enterprise", 200)):
            secret = keyring.add(
                tier, reads=["home"], writes=[], role="viewer", tier=tier, now=datetime.now(UTC)
            )[1]
            headers = {"authorization": f"Bearer {secret}"}
            response = client.post("/api/memory/context", json=body, headers=headers)
            assert response.status_code == status, response.text
            if tier == "teams":
                assert response.json()["code"] == "tier"
                named = body | {"template": "xml"}
                assert client.post("/api/memory/context", json=named, headers=headers).is_success


@pytest.mark.parametrize("script", [["ok"] + 20 * ["401"], 20 * ["401"], ["401"]])
def test_a_failing_embedder_is_an_error_not_an_empty_list(script: list[str]) -> None:
    with (
        FakeOpenAI(script) as fake,
        knowloom.open("memory:", embedder=f"openai:fake@{fake.base_url}") as kb,
        server(kb) as client,
    ):
        remember(client, "tea")
        response = client.post("/api/memory/search", json={"workspace": "home", "query": "coffee"})
        assert (response.status_code, response.json()["code"]) == (503, "embedding_error")


def test_a_precomputed_vector_replaces_the_query(kb: knowloom.Engine, client: TestClient) -> None:
    kb.add(
        [
            knowloom.Item("a", "home", knowloom.Kind.MEMORY, text="tea"),
            knowloom.Item("b", "home", knowloom.Kind.MEMORY, text="cup"),
        ],
        vectors=[[1, 0], [0, 1]],
    )
    for path, name in (("search", "memories"), ("context", "memories"), ("preview", "memories")):
        results = client.post(
            f"/api/memory/{path}", json={"workspace": "home", "vector": [0.1, 0.9], "limit": 1}
        ).json()[name]
        assert [result["memory"]["id"] for result in results] == ["b"]
    assert (
        client.post(
            "/api/memory/search", json={"workspace": "home", "vector": [1.0, 2.0, 3.0]}
        ).status_code
        == 422
    )


def test_a_key_reads_and_writes_only_its_workspaces(kb: knowloom.Engine, tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    secrets = {
        name: keyring.add(
            name,
            reads=reads,
            writes=writes,
            role=role,
            tier="teams",
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )[1]
        for name, reads, writes, role in (
            ("reader", ["home"], [], "viewer"),
            ("writer", [], ["home"], "editor"),
            ("other", ["work"], ["work"], "editor"),
        )
    }
    knowloom.Memory(kb, "home").remember("tea")
    with server(kb, keyring) as client:

        def status(key: str, path: str, **body: Any) -> int:
            headers = {"authorization": f"Bearer {secrets[key]}"}
            return int(
                client.post(
                    f"/api/memory/{path}", json={"workspace": "home"} | body, headers=headers
                ).status_code
            )

        for path in ("search", "context", "preview"):
            assert [status(key, path, query="tea") for key in secrets] == [200, 200, 403]
        assert [status(key, "search_many", queries=["tea"]) for key in secrets] == [200, 200, 403]
        assert [status(key, "remember", content="more tea") for key in secrets] == [403, 201, 403]
        assert [status(key, "delete", ids=["x"]) for key in secrets] == [403, 200, 403]
        assert (
            client.post(
                "/api/memory/search", json={"workspace": "home", "query": "tea"}
            ).status_code
            == 401
        )


def test_the_schema_has_an_example_of_every_body(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for name in (
        "RememberRequest",
        "MemorySearchRequest",
        "MemorySearchManyRequest",
        "MemoryContextRequest",
        "ForgetRequest",
    ):
        (example,) = schemas[name]["examples"]
        path = {
            "RememberRequest": "remember",
            "MemorySearchRequest": "search",
            "MemorySearchManyRequest": "search_many",
            "MemoryContextRequest": "context",
            "ForgetRequest": "delete",
        }[name]
        assert client.post(f"/api/memory/{path}", json=example).status_code in (200, 201)


def test_every_option_is_documented() -> None:
    from knowloom.server.schemas.memory import MemoryContextRequest, RememberRequest

    docs = (ROOT / "docs" / "memory.md").read_text("utf-8")
    assert [
        name
        for model in (MemoryContextRequest, RememberRequest)
        for name in model.model_fields
        if f"`{name}`" not in docs
    ] == []
