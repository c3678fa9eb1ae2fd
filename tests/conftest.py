"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from knowloom.stores.sqlite.store import SqliteStore

pytest.register_assert_rewrite("knowloom.testing")

# Tests tell nobody about themselves; both are read when the package is imported.
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "OPENAI_AGENTS_DISABLE_TRACING": "true"}

# Machines are shared: that one was slow for a moment says nothing of the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore.open(str(tmp_path / "knowloom.db"))
    yield store
    store.close()
