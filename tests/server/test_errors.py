"""Tests of error responses to invalid requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import (
    serve_app,
)
from knowloom.server.app import create_app

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
    ("no weight", {"tenant_ids": [], "bm25_weight": 0, "vector_weight": 0}, "bm25_weight"),
    ("a file of the server", {"token_model": "/etc/tokenizer.json"}, "token_model"),
    ("not a time", {"now": "yesterday"}, "now"),
    ("a number for a time", {"now": 1700000000}, "now"),
    ("a time at the end of time", {"as_of": "9999-12-31T23:59:59-23:00"}, "as_of"),
]


@pytest.mark.parametrize(
    "address",
    [
        "/api/spaces?x=1",
        "/api/spaces/support/items?typ=faq",
        "/api/export?space=support&x=1",
        "/api/stats?x",
    ],
)
def test_unknown_query_parameters_are_refused(client: TestClient, address: str) -> None:
    response = client.get(address + ("=" if address.endswith("x") else ""))
    assert (
        response.status_code,
        "unknown parameter; available: " in response.json()["detail"],
    ) == (
        422,
        True,
    )


@pytest.mark.parametrize(("body", "field"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_validation_errors_name_the_field(
    client: TestClient, body: dict[str, Any], field: str
) -> None:
    response = client.post(
        "/api/context", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert field in response.json()["detail"]


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
def test_bodies_other_than_json_objects_are_refused(
    client: TestClient, path: str, body: str, status: int
) -> None:
    response = client.post(
        path, content=body.encode("latin-1"), headers={"content-type": "application/json"}
    )
    assert response.status_code in (status, 400), response.text
    assert client.get("/api/spaces/t/items").status_code == 404


@pytest.mark.parametrize("depth", [40, 500, 900])
def test_deeply_nested_properties_are_refused(client: TestClient, depth: int) -> None:
    body = '{"id": "a", "properties": {"a": ' + "[" * depth + "]" * depth + "}}"
    response = client.post(
        "/api/spaces/t/items", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code in (400, 422)
    assert "nested" in response.json()["detail"] or response.status_code == 400


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
def test_an_invalid_item_is_not_stored(client: TestClient, wrong: dict[str, Any]) -> None:
    body = json.dumps({"id": "a", "text": "x"} | wrong)
    response = client.post(
        "/api/spaces/t/items", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 422
    assert next(iter(wrong)) in response.json()["detail"]
    assert client.get("/api/spaces/t/items").status_code == 404


def test_unknown_routes_and_spaces_are_not_found(client: TestClient) -> None:
    assert client.get("/api/nothing").json()["code"] == "no_route"
    assert client.get("/api/spaces/nowhere/items").json()["code"] == "unknown_space"
    assert client.request("PATCH", "/api/context").status_code == 405


def test_internal_errors_reveal_no_details(
    store_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kb = knowloom.open(str(store_file), embedder=None)
    broken = create_app(kb)
    broken.state.engine = None
    with TestClient(broken, base_url="http://localhost") as client:
        response = client.post("/api/context", json={"query": "measles"})
    kb.close()
    assert (response.status_code, response.json()["code"]) == (500, "error")
    assert (
        "Traceback" not in response.text
        and "NoneType" not in response.text
        and "measles" not in caplog.text
    )
    assert "AttributeError at engine.py:" in caplog.text


def test_a_closed_store_is_reported_without_its_path(
    store_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kb = knowloom.open(str(store_file), embedder=None)
    with serve_app(kb) as client:
        kb.close()
        response = client.get("/readyz")
    assert response.status_code >= 500 and str(store_file) not in response.text
