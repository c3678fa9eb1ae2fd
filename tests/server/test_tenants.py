"""Tests that keys of some spaces learn nothing of others, and administer only their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import bearer, create_secret, serve_app
from knowloom import Edge, Item
from knowloom.server.auth import Keyring

HIDDEN = "acquisition-of-acme"


@pytest.fixture
def client(tmp_path: Path, keyring: Keyring) -> Iterator[TestClient]:
    with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
        items = [Item(id, "beta", text=f"text of {id}") for id in ("a", "b", "c")]
        edges = [Edge("a", HIDDEN, "PART_OF", space="beta", target_space="board")]
        edges += [Edge(id, "b", "PART_OF", space="beta") for id in ("a", "c")]
        kb.add([*items, Item(HIDDEN, "board", text="Buy Acme.")], edges)
        with serve_app(kb, keyring) as client:
            yield client


@pytest.fixture
def beta(keyring: Keyring) -> dict[str, str]:
    return bearer(create_secret(keyring, "admin", (), ("beta",)))


def test_edges_to_spaces_that_a_key_cannot_read_are_not_listed(
    client: TestClient, beta: dict[str, str]
) -> None:
    listed = client.get("/api/spaces/beta/edges", headers=beta)
    body = {"spaces": ["beta"], "limit": 10, "made": None}
    paged = client.post("/api/edge_page", json=body, headers=beta)
    exported = client.get("/api/export?space=beta", headers=beta)
    for response in (listed, paged, exported):
        assert response.status_code == 200 and HIDDEN not in response.text
    ends = [(edge["source"], edge["target"]) for edge in listed.json()["edges"]]
    assert ends == [("a", "b"), ("c", "b")]
    assert len(exported.text.splitlines()) == 5


def test_pages_without_hidden_edges_are_full_and_cursors_name_no_hidden_id(
    client: TestClient, beta: dict[str, str]
) -> None:
    first = client.get("/api/spaces/beta/edges?limit=1", headers=beta).json()
    path = f"/api/spaces/beta/edges?limit=1&cursor={first['next']}"
    second = client.get(path, headers=beta).json()
    assert [page["edges"][0]["source"] for page in (first, second)] == ["a", "c"]
    assert second["next"] is None


def test_a_key_of_all_spaces_sees_all_edges(client: TestClient, keyring: Keyring) -> None:
    everything = bearer(create_secret(keyring, reads=("*",)))
    edges = client.get("/api/spaces/beta/edges", headers=everything).json()["edges"]
    assert HIDDEN in [edge["target"] for edge in edges]
    assert HIDDEN in client.get("/api/export?space=beta", headers=everything).text


def test_an_admin_of_one_space_administers_that_space(
    client: TestClient, beta: dict[str, str]
) -> None:
    sizes = client.get("/api/stats", headers=beta).json()
    assert [space["name"] for space in sizes["spaces"]] == ["beta"]
    assert sizes["without_vector"] == 3
    body = {"space": "beta", "days": 30}
    assert client.post("/api/retention", json=body, headers=beta).status_code == 200
    assert client.get("/api/retention", headers=beta).json() == {"retention": {"beta": 30}}
    purge = {"space": "beta", "ids": ["c"]}
    assert client.post("/api/purge", json=purge, headers=beta).json()["ids"] == ["c"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/metrics", None),
        ("GET", "/api/verify", None),
        ("GET", "/api/backups", None),
        ("POST", "/api/backup", {}),
        ("POST", "/api/relink", None),
        ("POST", "/api/reindex", None),
        ("POST", "/api/embed", {"spaces": ["board"]}),
        ("POST", "/api/retention", {"space": "board", "days": 0}),
        ("POST", "/api/purge", {"space": "board", "ids": [HIDDEN]}),
    ],
)
def test_an_admin_of_one_space_administers_nothing_else(
    client: TestClient, beta: dict[str, str], method: str, path: str, body: object
) -> None:
    response = client.request(method, path, json=body, headers=beta)
    assert response.status_code == 403, response.text


def test_retention_of_other_spaces_is_not_shown(
    client: TestClient, keyring: Keyring, beta: dict[str, str]
) -> None:
    root = bearer(create_secret(keyring, "admin", (), ("*",)))
    body = {"space": "board", "days": 7}
    assert client.post("/api/retention", json=body, headers=root).status_code == 200
    assert client.get("/api/retention", headers=beta).json() == {"retention": {}}


def test_one_tenant_does_not_set_the_size_of_all_vectors(
    client: TestClient, keyring: Keyring, beta: dict[str, str]
) -> None:
    body = {"items": [{"id": "v", "space": "beta", "text": "x"}], "vectors": [[1.0, 0.0]]}
    refused = client.post("/api/add", json=body, headers=beta)
    assert refused.status_code == 403 and "all spaces" in refused.json()["detail"]
    root = bearer(create_secret(keyring, "admin", (), ("*",)))
    assert client.post("/api/add", json=body, headers=root).status_code == 200
    assert client.post("/api/add", json=body, headers=beta).status_code == 200
