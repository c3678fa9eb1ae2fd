"""Requests that name no space, and the two names of some options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import NOW, bearer, serve_app
from knowloom import Item
from knowloom.server.auth import Keyring

SPACES = ("attic", "secret", "shop")


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys.json")


@pytest.fixture
def client(keyring: Keyring) -> Iterator[TestClient]:
    with knowloom.open("memory:", embedder=None) as kb, serve_app(kb, keyring) as client:
        kb.add([Item("tent", s, "entity", "Thing", "Tent", f"A tent of {s}") for s in SPACES])
        kb.add([Item("pitch", s, type="faq", text=f"Pitch the tent of {s}") for s in SPACES])
        yield client


def headers(keyring: Keyring, *spaces: str) -> dict[str, str]:
    _, secret = keyring.add("k", reads=(), writes=spaces, role="editor", tier="enterprise", now=NOW)
    return bearer(secret)


READS: list[tuple[str, dict[str, Any]]] = [
    ("/api/context", {"query": "tent", "entry_types": ["Thing"]}),
    ("/api/search", {"query": "tent"}),
    ("/api/explain", {"query": "tent"}),
    ("/api/provide", {"query": "tent"}),
    ("/api/graph", {"query": "tent"}),
    ("/api/assemble", {"query": "tent"}),
    ("/api/check_answer", {"answer": "A tent of shop"}),
    ("/api/items", {"ids": ["tent"]}),
    ("/api/history", {"id": "tent"}),
]
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("/api/add", {"items": [{"id": "pole", "text": "A pole"}]}),
    ("/api/load", {"items": [{"id": "pole", "text": "A pole"}]}),
    ("/api/delete", {"ids": ["tent"]}),
    ("/api/restore", {"id": "tent", "at": "2099-01-01"}),
    ("/api/memory/remember", {"content": "Ada likes tents"}),
    ("/api/memory/search", {"query": "tent"}),
    ("/api/memory/context", {"query": "tent"}),
    ("/api/memory/delete", {"ids": ["m"]}),
]


class TestDefaultSpace:
    @pytest.mark.parametrize(
        ("route", "body"), [*READS, *WRITES], ids=lambda value: str(value)[:22]
    )
    def test_the_only_space_of_the_key_is_used(
        self, client: TestClient, keyring: Keyring, route: str, body: dict[str, Any]
    ) -> None:
        response = client.post(route, json=body, headers=headers(keyring, "shop"))
        assert response.status_code in (200, 201), response.text
        assert "secret" not in response.text and "attic" not in response.text
        if (route, body) in READS:
            assert "shop" in response.text

    @pytest.mark.parametrize(
        ("route", "body"), [*READS, *WRITES], ids=lambda value: str(value)[:22]
    )
    def test_the_error_lists_the_spaces_of_the_key_only(
        self, client: TestClient, keyring: Keyring, route: str, body: dict[str, Any]
    ) -> None:
        response = client.post(route, json=body, headers=headers(keyring, "shop", "attic", "new"))
        assert (response.status_code, response.json()["code"]) == (422, "several_spaces")
        assert response.json()["detail"] == "several spaces exist: name one of attic, shop"

    def test_the_error_about_an_unknown_space_lists_those_of_the_key(
        self, client: TestClient, keyring: Keyring
    ) -> None:
        key = headers(keyring, "shop", "new")
        response = client.post("/api/search", json={"query": "x", "spaces": ["new"]}, headers=key)
        assert response.status_code == 404
        assert response.json()["detail"] == "unknown space 'new'; available: shop"

    def test_the_only_space_of_the_key_may_be_new(
        self, client: TestClient, keyring: Keyring
    ) -> None:
        key = headers(keyring, "new")
        body = {"items": [{"id": "pole", "text": "A pole"}]}
        assert client.post("/api/add", json=body, headers=key).json()["added"] == 1
        (hit,) = client.post("/api/search", json={"query": "pole"}, headers=key).json()["hits"]
        assert hit["item"]["space"] == "new"

    @pytest.mark.parametrize("field", ["tenant_ids", "spaces"])
    def test_an_empty_list_reads_nothing(
        self, client: TestClient, keyring: Keyring, field: str
    ) -> None:
        key = headers(keyring, "shop")
        response = client.post("/api/context", json={"query": "tent", field: []}, headers=key)
        assert (response.status_code, response.json()["stats"]["nodes_searched"]) == (200, 0)
        assert response.json()["entry_points"] == response.json()["entities"] == []

    def test_a_viewer_may_not_write_its_only_space(
        self, client: TestClient, keyring: Keyring
    ) -> None:
        _, secret = keyring.add(
            "v", reads=("shop",), writes=(), role="viewer", tier="teams", now=NOW
        )
        response = client.post("/api/delete", json={"ids": ["tent"]}, headers=bearer(secret))
        assert response.status_code == 403


TWO_NAMES: list[tuple[str, dict[str, Any], str, str, Any, Any]] = [
    ("/api/context", {"query": "tent"}, "tenant_ids", "spaces", ["shop"], ["attic"]),
    ("/api/context", {"query": "tent"}, "entry_limit", "limit", 5, 6),
    ("/api/provide", {"query": "tent"}, "top_k", "limit", 5, 6),
    ("/api/graph", {"query": "tent"}, "entity_types", "types", ["Thing"], ["Person"]),
    ("/api/memory/context", {"query": "tent"}, "token_budget", "max_tokens", 50, 60),
    ("/api/memory/search", {"query": "tent"}, "memory_types", "types", ["fact"], ["note"]),
    ("/api/memory/search", {"query": "tent"}, "workspace", "space", "shop", "attic"),
]


class TestTwoNames:
    @pytest.mark.parametrize(("route", "body", "name", "other", "value", "differs"), TWO_NAMES)
    def test_both_names_are_accepted_unless_they_differ(
        self,
        client: TestClient,
        keyring: Keyring,
        route: str,
        body: dict[str, Any],
        name: str,
        other: str,
        value: Any,
        differs: Any,
    ) -> None:
        key = headers(keyring, "shop")
        now = {"now": "2026-06-01T00:00:00Z"}

        def answer(fields: dict[str, Any]) -> dict[str, Any]:
            response = client.post(route, json=body | now | fields, headers=key)
            assert response.status_code == 200, response.text
            row: dict[str, Any] = response.json()
            row.pop("timings_ms", None), row.get("stats", {}).pop("timings_ms", None)
            return row

        both = {name: value, other: value}
        assert answer({name: value}) == answer({other: value}) == answer(both)
        clash = client.post(route, json=body | {name: value, other: differs}, headers=key)
        assert clash.status_code == 422
        assert f"{name} and {other} are the same: pass one of them" in clash.json()["detail"]

    def test_the_schema_documents_both_names(self, client: TestClient) -> None:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
        assert {"tenant_ids", "spaces"} <= set(schemas["ContextRequest"]["properties"])
        assert {"token_budget", "max_tokens"} <= set(schemas["MemoryContextRequest"]["properties"])

    def test_nodes_have_their_type_under_both_names(
        self, client: TestClient, keyring: Keyring
    ) -> None:
        key = headers(keyring, "shop")
        body = {"query": "tent", "types": ["Thing"]}
        row = client.post("/api/context", json=body, headers=key).json()["entry_points"][0]
        assert row["type"] == row["node_type"] == "Thing"

    def test_nodes_of_a_graph_are_loaded_with_either_name(
        self, client: TestClient, keyring: Keyring
    ) -> None:
        nodes = [
            {"node_id": "a", "node_type": "City", "label": "Aa"},
            {"node_id": "b", "type": "City", "label": "Bb"},
            {"node_id": "c", "type": "City", "node_type": "Town", "label": "Cc"},
        ]
        report = client.post(
            "/api/spaces/shop/bulk",
            json={"graph": {"nodes": nodes}},
            headers=headers(keyring, "shop"),
        ).json()
        assert report["added"] == 2
        assert "node_type and type are the same" in report["skipped"][0]["why"]
