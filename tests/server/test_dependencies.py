"""Tests of the lock for CPU-bound queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import knowloom
from knowloom.server.app import create_app
from knowloom.server.settings import ServerLimits


class CountingLock:
    """A lock that counts its acquisitions."""

    taken = 0

    def acquire(self, timeout: float) -> bool:
        assert timeout > 0  # that of the query
        self.taken += 1
        return True

    def release(self) -> None:
        pass


class RemoteEmbedder:
    """An unknown embedder, which may call a service."""

    name, dimensions, fingerprint = "elsewhere", 2, "elsewhere@1"

    def embed(self, texts: Sequence[str]) -> list[Any]:
        return [np.array([1.0, 0.0], np.float32) for _ in texts]


@pytest.mark.parametrize(("embedder", "turns"), [(None, 3), (RemoteEmbedder(), 0)])
def test_only_cpu_bound_queries_take_the_lock(embedder: Any, turns: int) -> None:
    with knowloom.open("memory:", embedder=embedder) as kb:
        kb.add(knowloom.Item("a", "t", type="faq", text="alpha"))
        app = create_app(kb, limits=ServerLimits(hosts=("*",)))
        app.state.cpu_lock = CountingLock()
        with TestClient(app) as client:
            for path, request in (
                ("context", {"tenant_ids": ["t"]}),
                ("search", {"spaces": ["t"]}),
                ("explain", {"spaces": ["t"]}),
            ):
                assert (
                    client.post(f"/api/{path}", json={"query": "alpha", **request}).status_code
                    == 200
                )
            assert client.get("/api/spaces").status_code == 200
        assert app.state.cpu_lock.taken == turns
