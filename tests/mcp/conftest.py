"""Stores with the example company."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_runs import create_store


@pytest.fixture(scope="session")
def harbor_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_store(tmp_path_factory.mktemp("mcp") / "harbor.db", "none")


@pytest.fixture
def store(harbor_store: Path, tmp_path: Path) -> Path:
    """A copy of the example company that the test may change."""
    return Path(shutil.copy(harbor_store, tmp_path / "harbor.db"))
