"""Fixtures of the store tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowloom.stores.sqlite import postings, rows, search, space_view, vector_search
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.stores.sqlite.writing import writer
from sqlite_files import temporary_folder


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
    monkeypatch.setattr(postings, "DELTA_LIMIT", 4)
    monkeypatch.setattr(search, "SMALL_RESULT", 3)
    for module in (rows, space_view, vector_search, writer):
        monkeypatch.setattr(module, "CHUNK", 8)
    for module in (space_view, postings):
        monkeypatch.setattr(module, "BLOCK", 4)
