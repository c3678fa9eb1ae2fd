"""Knowledge in memory and in a file, verified after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import knowloom
from knowloom.engine import Engine


@pytest.fixture(params=["memory", "sqlite"])
def kb(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    url = "memory:" if request.param == "memory" else str(tmp_path_factory.mktemp("store") / "k.db")
    with knowloom.open(url, embedder=None) as engine:
        yield engine
        assert engine.verify() == []
