"""Fixtures of the store tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

import pytest

from knowloom.stores.sqlite.store import SqliteStore
from sqlite_files import temporary_folder

SQLITE = "knowloom.stores.sqlite."


@pytest.fixture
def path() -> Iterator[str]:
    """The path of a new file."""
    with temporary_folder() as parent:
        yield f"{parent}/knowloom.db"


@pytest.fixture
def sqlite(path: str) -> Iterator[SqliteStore]:
    store = SqliteStore.open(path)
    yield store
    store.close()


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that a few items cross them all."""
    limits = {"DELTA_LIMIT": 4, "SMALL_RESULT": 3, "CHUNK": 8, "BLOCK": 4}
    # In every module that imports the name: files have one layout for all of them.
    modules = [sys.modules[name] for name in sys.modules if name.startswith(SQLITE)]
    for module, (name, limit) in product(modules, limits.items()):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, limit)
