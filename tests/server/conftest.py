"""Stores and clients that the tests of the server share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import (
    serve_app,
)
from knowloom.server.auth import Keyring
from paths import ROOT


@pytest.fixture(scope="session")
def harbor_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example company without vectors."""
    path = tmp_path_factory.mktemp("http") / "harbor.db"
    with knowloom.open(str(path), embedder=None) as kb:
        kb.load(ROOT / "examples" / "harbor")
    return path


@pytest.fixture
def store_file(harbor_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(harbor_file, tmp_path / "store.db"))


@pytest.fixture(scope="session")
def embedded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("http") / "embedded.db"
    with knowloom.open(str(path)) as kb:
        kb.load(ROOT / "examples" / "harbor" / "support.jsonl", space="support")
    return path


@pytest.fixture
def embedded_client(embedded_file: Path) -> Iterator[TestClient]:
    with knowloom.open(str(embedded_file)) as kb, serve_app(kb) as client:
        yield client


@pytest.fixture
def client(store_file: Path) -> Iterator[TestClient]:
    with knowloom.open(str(store_file), embedder=None) as kb, serve_app(kb) as client:
        yield client


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys.json")


@pytest.fixture
def guarded_client(store_file: Path, keyring: Keyring) -> Iterator[TestClient]:
    with knowloom.open(str(store_file), embedder=None) as kb, serve_app(kb, keyring) as client:
        yield client
