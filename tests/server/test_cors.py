"""Cross-origin requests: refused by default, allowed for the origins of the setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import bearer, create_secret
from knowloom import Invalid
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits, parse_origins

APP = "https://app.example.com"
PREFLIGHT = {"access-control-request-method": "POST"}
BODY = {"query": "refund", "spaces": ["support"]}


def serve(kb: knowloom.Engine, keyring: Keyring | None, *origins: str) -> TestClient:
    app = create_app(kb, keyring, ServerLimits(cors_origins=",".join(origins)))
    return TestClient(app, base_url="http://localhost")


def test_no_origin_is_allowed_by_default(client: TestClient) -> None:
    headers = {"origin": APP}
    preflight = client.options("/api/search", headers=headers | PREFLIGHT)
    assert preflight.status_code == 405
    write = client.post("/api/search", json=BODY, headers=headers)
    assert write.json()["code"] == "cross_site"
    for response in (preflight, write, client.get("/api/spaces", headers=headers)):
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_an_allowed_origin_may_ask_and_needs_a_key(store_file: Path, keyring: Keyring) -> None:
    secret = create_secret(keyring)
    with knowloom.open(str(store_file), embedder=None) as kb, serve(kb, keyring, APP) as client:
        preflight = client.options("/api/search", headers={"origin": APP} | PREFLIGHT)
        assert (preflight.status_code, preflight.content) == (204, b"")
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        assert preflight.headers["access-control-allow-origin"] == APP
        without_key = client.post("/api/search", json=BODY, headers={"origin": APP})
        assert without_key.status_code == 401
        assert without_key.headers["access-control-allow-origin"] == APP
        headers = {"origin": APP, "sec-fetch-site": "cross-site"} | bearer(secret)
        answer = client.post("/api/search", json=BODY, headers=headers)
        assert answer.status_code == 200 and answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers
        other = {"origin": "https://evil.example.com"}
        refused = client.post("/api/search", json=BODY, headers=bearer(secret) | other)
        assert refused.json()["code"] == "cross_site"
        assert "access-control-allow-origin" not in refused.headers


def test_a_star_allows_any_origin(store_file: Path) -> None:
    with knowloom.open(str(store_file), embedder=None) as kb, serve(kb, None, "*") as client:
        answer = client.post("/api/search", json=BODY, headers={"origin": "http://localhost:5173"})
    assert answer.headers["access-control-allow-origin"] == "http://localhost:5173"


def test_the_setting_is_a_list_of_origins() -> None:
    assert parse_origins("") == ()
    assert parse_origins(f" {APP.upper()}, http://localhost:5173 ,*") == (
        APP,
        "http://localhost:5173",
        "*",
    )


@pytest.mark.parametrize(
    "text", ["app.example.com", f"{APP}/page", "ftp://x", "https://u@x", "https://x:port", "null"]
)
def test_other_values_of_the_setting_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="cors_origins must be origins such as"):
        parse_origins(text)
