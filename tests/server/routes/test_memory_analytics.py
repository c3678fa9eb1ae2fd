"""The statistics of memory requests over HTTP and in the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import NOW, bearer, create_secret
from knowloom import Client, Conflict, Engine, Memory
from knowloom.cli.session import Session
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits
from live_server import serving


@pytest.fixture
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        for workspace in ("maya", "ada"):
            Memory(kb, workspace).remember("The launch is in June")
        yield kb


def test_the_client_reads_what_the_server_recorded(kb: Engine, tmp_path: Path) -> None:
    limits = ServerLimits(analytics=str(tmp_path / "a.db"), analytics_text=True)
    with serving(kb, None, limits) as address, Client(address) as client:
        maya, ada = client.memory("maya"), client.memory("ada")
        maya.search_many(["launch", "zebra"], mode="bm25")
        maya.build_context("launch", mode="bm25")
        ada.search("June", mode="bm25")
        rows = {row.operation: row for row in maya.analytics()}
        assert (rows["search"].count, rows["search"].found_nothing) == (2, 1)
        assert (rows["context"].count, {row.workspace for row in rows.values()}) == (1, {"maya"})
        assert maya.recorded_queries() == ["launch", "zebra", "launch"]
        assert maya.recorded_queries(found_nothing=True) == ["zebra"]
        assert len(client.memory("nobody").analytics()) == 0


def test_analytics_that_are_off_are_no_empty_answer(kb: Engine, tmp_path: Path) -> None:
    with serving(kb) as address, Client(address) as client:
        for call in (client.memory("maya").analytics, client.memory("maya").recorded_queries):
            with pytest.raises(Conflict, match="analytics are off") as caught:
                call()
            assert caught.value.code == "no_analytics"
    limits = ServerLimits(analytics=str(tmp_path / "a.db"))
    with serving(kb, None, limits) as address, Client(address) as client:
        assert client.memory("maya").analytics() == []
        with pytest.raises(Conflict, match="analytics_text"):
            client.memory("maya").recorded_queries()


def test_a_key_sees_its_workspaces_only(kb: Engine, keyring: Keyring, tmp_path: Path) -> None:
    limits = ServerLimits(analytics=str(tmp_path / "a.db"), analytics_text=True)
    viewer = bearer(create_secret(keyring, reads=("maya",)))
    admin = bearer(create_secret(keyring, "admin", reads=("*",)))
    lower = bearer(
        keyring.add("low", reads=("maya",), writes=(), role="viewer", tier="writer_pro", now=NOW)[1]
    )
    with TestClient(create_app(kb, keyring, limits), base_url="http://localhost") as client:
        for workspace in ("maya", "ada"):
            body = {"workspace": workspace, "query": "launch", "mode": "bm25"}
            assert client.post("/api/memory/search", json=body, headers=admin).status_code == 200
        rows = client.get("/api/memory/analytics", headers=viewer).json()["summaries"]
        assert [row["workspace"] for row in rows] == ["maya"]
        address = "/api/memory/analytics?workspace=ada"
        assert client.get(address, headers=viewer).status_code == 403
        assert client.get("/api/memory/analytics", headers=lower).status_code == 403
        queries = "/api/memory/queries?workspace=maya"
        assert client.get(queries, headers=viewer).status_code == 403
        assert client.get(queries, headers=admin).json() == {"queries": ["launch"]}


def test_the_server_command_uses_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWLOOM_ANALYTICS", "beside")
    session = Session(str(tmp_path / "k.db"), "none", False, True)
    path = str(tmp_path / "k.db.analytics")
    assert session.analytics_settings() == {"analytics": path, "analytics_text": False}
    assert ServerLimits(**session.analytics_settings()).analytics == path
