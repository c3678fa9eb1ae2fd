"""An application in this process for tests of routes, and calls that many of them make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from starlette.testclient import TestClient

import knowloom
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits

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


ITEM: dict[str, Any] = {
    "id": "a",
    "type": "faq",
    "title": "A",
    "text": "alpha",
    "properties": {"nothing": None, "deep": {"nothing": None}},
}


@contextmanager
def serve_app(
    kb: knowloom.Engine, keyring: Keyring | None = None, **limits: int
) -> Iterator[TestClient]:
    with TestClient(
        create_app(kb, keyring, ServerLimits(**limits)), base_url="http://localhost"
    ) as client:
        yield client


def ask_context(client: TestClient, **request: object) -> Any:
    response = client.post("/api/context", json={"tenant_ids": ["support"]} | request)
    assert response.status_code == 200, response.text
    return response.json()


def bulk_load(client: TestClient, space: str, items: list[Any], edges: Sequence[Any] = ()) -> Any:
    body = {"items": items, "edges": list(edges)}
    response = client.post(f"/api/spaces/{space}/bulk", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def ids(nodes: list[Any]) -> list[Any]:
    return [node["id"] for node in nodes]


def link(source: int | str, target: int | str) -> list[Any]:
    return [{"source": source, "target": target}]


def create_secret(
    keyring: Keyring,
    role: str = "viewer",
    reads: tuple[str, ...] = ("support",),
    writes: tuple[str, ...] = (),
) -> str:
    return keyring.add(role, reads=reads, writes=writes, role=role, tier="teams", now=NOW)[1]


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}
