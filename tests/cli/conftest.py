"""Stores with the example company, and a clean environment for every test."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cli_runs import (
    create_store,
)
from paths import ROOT


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove all settings and change to an empty folder."""
    for name in [
        name
        for name in os.environ
        if name.startswith("KNOWLOOM_") or name in ("OPENAI_API_KEY", "NO_COLOR", "COLUMNS")
    ]:
        monkeypatch.delenv(name)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def keyword_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_store(tmp_path_factory.mktemp("words") / "harbor.db", "none")


@pytest.fixture(scope="session")
def embedded_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_store(tmp_path_factory.mktemp("vectors") / "harbor.db", "minilm")


@pytest.fixture
def store(keyword_store: Path, tmp_path: Path) -> Path:
    """A copy of the example company that the test may change."""
    return Path(shutil.copy(keyword_store, tmp_path / "harbor.db"))
