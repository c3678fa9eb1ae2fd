"""Tests of the whole application: schema, documentation and generated requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from starlette.testclient import TestClient

import knowloom
from knowloom.server.app import create_app
from knowloom.server.settings import ServerLimits
from paths import ROOT


def test_documentation_needs_no_key(guarded_client: TestClient) -> None:
    assert [guarded_client.get(path).status_code for path in ("/docs", "/openapi.json")] == [
        200,
        200,
    ]


def test_every_route_is_documented(client: TestClient) -> None:
    docs = (ROOT / "docs" / "http.md").read_text("utf-8")
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}`" in docs, (
                f"docs/http.md does not have {method.upper()} {path}"
            )


def test_every_field_of_a_context_request_is_documented() -> None:
    from knowloom.server.schemas.context import ContextRequest

    docs = (ROOT / "docs" / "http.md").read_text("utf-8")
    assert [name for name in ContextRequest.model_fields if f"| `{name}` |" not in docs] == []


def test_the_schema_has_examples_and_all_error_responses(client: TestClient) -> None:
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


def test_the_examples_of_the_schema_are_accepted(client: TestClient) -> None:
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


def test_the_documentation_page_uses_local_assets(client: TestClient) -> None:
    page = client.get("/docs").text
    assets = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert assets and all(client.get(asset).status_code == 200 for asset in assets)


@pytest.fixture
def described(store_file: Path) -> Iterator[Any]:
    with knowloom.open(str(store_file), embedder=None) as kb:
        yield schemathesis.openapi.from_asgi(
            "/openapi.json",
            create_app(kb, limits=ServerLimits(requests_per_minute=0, hosts=("*",))),
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
def test_generated_requests_get_documented_responses(described: Any, mode: Any) -> None:
    for operation in described.get_all_operations():

        @FEW
        @hypothesis.given(case=operation.ok().as_strategy(generation_mode=mode))
        def call(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        call()
