"""Tests of the checks, limits and log lines around every request."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import (
    bearer,
    create_secret,
    serve_app,
)
from knowloom.server.auth import Keyring


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80"]
)
def test_unknown_host_names_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/spaces", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"])
def test_loopback_host_names_are_accepted(client: TestClient, host: str) -> None:
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
def test_cross_site_writes_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/api/context", json={}, headers=headers).status_code == 403


def test_same_origin_writes_are_accepted(client: TestClient) -> None:
    assert (
        client.post(
            "/api/context",
            json={"query": "refund", "spaces": ["support"]},
            headers={"origin": "http://localhost", "sec-fetch-site": "same-origin"},
        ).status_code
        == 200
    )


def test_large_bodies_are_refused_with_and_without_a_length(store_file: Path) -> None:
    with (
        knowloom.open(str(store_file), embedder=None) as kb,
        serve_app(kb, max_body=1000) as client,
    ):
        headers = {"content-type": "application/json"}
        assert client.post("/api/context", content=b" " * 1001, headers=headers).status_code == 413
        assert (
            client.post("/api/context", content=iter([b" " * 600] * 2), headers=headers).status_code
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
def test_other_media_types_are_refused(client: TestClient, media: str) -> None:
    assert (
        client.post("/api/context", content=b"{}", headers={"content-type": media}).status_code
        == 415
    )


def test_too_many_requests_get_a_retry_after_header(store_file: Path) -> None:
    with (
        knowloom.open(str(store_file), embedder=None) as kb,
        serve_app(kb, requests_per_minute=3) as client,
    ):
        responses = [client.get("/api/spaces") for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429]
    assert 1 <= int(responses[3].headers["retry-after"]) <= 21


def test_logs_and_errors_contain_no_text_and_no_secret(
    guarded_client: TestClient, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = create_secret(keyring)
    private = "the patient has measles"
    responses = [
        guarded_client.post("/api/context", json=body, headers=bearer(key))
        for body in (
            {"query": private, "tenant_ids": ["support"]},
            {"query": private, "limit": private},
            {"query": [private]},
        )
    ]
    output = caplog.text + "".join(response.text for response in responses)
    assert private not in output and key not in output
    assert re.search(
        r"id=\w+ method=POST route=/api/context status=422 ms=[\d.]+ key=\w{8}", caplog.text
    )


@pytest.mark.parametrize(
    ("id", "is_echoed"),
    [("abc-123", True), ("a b", False), ('"}\n', False), ("x" * 65, False), ("é", False)],
)
def test_a_request_id_is_echoed_if_it_is_harmless(
    client: TestClient, id: str, is_echoed: bool
) -> None:
    headers: Any = {"x-request-id": id.encode("latin-1")}
    response = client.get("/healthz", headers=headers)
    assert (response.headers["x-request-id"] == id) == is_echoed
    assert re.fullmatch(r"[\w-]{6,64}", response.headers["x-request-id"])
