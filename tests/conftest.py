"""Fixtures and settings that all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_samples import node
from hypothesis import HealthCheck, settings

import knowloom
from knowloom import Engine
from knowloom.stores.sqlite.store import SqliteStore

pytest.register_assert_rewrite("knowloom.testing")

# No telemetry from tests; both variables are read when the package is imported.
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "OPENAI_AGENTS_DISABLE_TRACING": "true"}

# Machines are shared: a slow moment is no defect of the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore.open(str(tmp_path / "knowloom.db"))
    yield store
    store.close()


@pytest.fixture(params=["memory", "sqlite"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else str(tmp_path / "knowledge.db")


@pytest.fixture
def kb(store_url: str) -> Iterator[Engine]:
    with knowloom.open(store_url, embedder=None) as engine:
        yield engine


@pytest.fixture
def refund_kb(kb: Engine) -> Engine:
    """Ten items about refunds, numbered by their count of the word, and two other items."""
    refunds = [
        node(
            f"refund-{n}",
            "refund " * (n + 1) + "policy of the shop " * 3,
            title=f"Refund {n}",
            type="faq",
        )
        for n in range(10)
    ]
    kb.add(
        [
            *refunds,
            node("parking", "where to leave the car", type="guide"),
            node("lunch", "what the kitchen cooks"),
        ]
    )
    return kb
