"""Opening and closing SQLite files, foreign files and full disks."""

from __future__ import annotations

import os
import random
import resource
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import knowloom
from knowloom import Conflict, Corrupt, Item, Unavailable
from knowloom.loading import loader
from knowloom.stores.sqlite import database
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.graph import link
from knowloom.testing.knowledge import ACME, batch, directions, edge, item, matches
from knowloom.testing.vectors import embed
from sqlite_files import execute_sql


def test_a_read_only_file_with_a_pending_wal_is_refused(path: str) -> None:
    sqlite = SqliteStore.open(path)
    sqlite.apply(batch([item("a", "refund")]))
    copy = f"{path}.copy"
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    with pytest.raises(Unavailable) as caught:
        database._open_in_read_only_folder(copy)
    assert caught.value.code == "read_only" and "-wal" in str(caught.value)
    sqlite.close()


def test_a_reopened_store_returns_the_same_answers(path: str) -> None:
    first = SqliteStore.open(path)
    link(first, edge("a", "b"))
    embed(first, directions(5, 24))
    before = (
        first.find(ACME, 10),
        first.spaces(),
        first.edges(["acme"], 10),
        first.search_vector(directions(5, 24)[0], ACME, 10),
    )
    first.close()
    reopened = SqliteStore.open(path)
    assert (
        reopened.find(ACME, 10),
        reopened.spaces(),
        reopened.edges(["acme"], 10),
        reopened.search_vector(directions(5, 24)[0], ACME, 10),
    ) == before
    reopened.close()


@pytest.mark.parametrize(
    "use",
    [lambda store: store.find(ACME, 1), lambda store: store.apply(batch([item("a")]))],
    ids=["read", "write"],
)
def test_a_closed_store_raises_unavailable(
    sqlite: SqliteStore, use: Callable[[SqliteStore], None]
) -> None:
    sqlite.close()
    with pytest.raises(Unavailable) as caught:
        use(sqlite)
    assert caught.value.code == "closed"


def test_a_file_of_a_newer_version_is_refused_and_left_untouched(path: str) -> None:
    SqliteStore.open(path).close()
    execute_sql(path, "PRAGMA journal_mode=DELETE", "PRAGMA user_version=99")
    assert open_error_code(path) == "newer_version"


@pytest.mark.parametrize("version", [0, 1, 99])
def test_a_file_of_another_program_is_refused_and_left_untouched(path: str, version: int) -> None:
    execute_sql(path, "CREATE TABLE photo(id)", f"PRAGMA user_version={version}")
    assert open_error_code(path) == "foreign_file"


def test_a_file_of_a_pre_release_version_is_refused_and_left_untouched(path: str) -> None:
    execute_sql(
        path, f"PRAGMA application_id={database.LEGACY_APPLICATION_ID}", "CREATE TABLE item(id)"
    )
    with pytest.raises(Corrupt, match="pre-release version with another file format"):
        SqliteStore.open(path)
    assert open_error_code(path) == "foreign_file"


@pytest.mark.parametrize(
    "content",
    [b"hello", random.Random(1).randbytes(9000), b"SQLite format 3\0" + bytes(84)],
    ids=len,
)
def test_a_file_that_is_not_a_database_is_refused_and_left_untouched(
    path: str, content: bytes
) -> None:
    Path(path).write_bytes(content)
    assert open_error_code(path) == "corrupt"


def open_error_code(path: str) -> str:
    """Return the error code of opening the file, which must stay untouched."""
    before = Path(path).read_bytes()
    with pytest.raises(Unavailable) as caught:
        SqliteStore.open(path)
    assert (Path(path).read_bytes(), len(list(Path(path).parent.iterdir()))) == (before, 1)
    return caught.value.code


def test_an_empty_file_is_a_new_store(path: str) -> None:
    Path(path).touch()
    store = SqliteStore.open(path)
    assert (store.spaces(), store.verify()) == ([], [])
    store.close()


def test_a_missing_folder_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nowhere"):
        SqliteStore.open(str(tmp_path / "nowhere" / "knowloom.db"))


def test_opening_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SqliteStore.open(str(tmp_path))


def test_a_full_disk_stores_nothing_of_the_batch(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    before = sqlite.spaces()
    assert sqlite._writer is not None
    sqlite._writer.pragma("max_page_count", sqlite._writer.pragma("page_count") + 5)
    with pytest.raises(Unavailable) as caught:
        sqlite.apply(batch(item(f"{number}", "refund " * 100) for number in range(500)))
    assert (caught.value.code, sqlite.spaces(), sqlite.find(ACME, 10)) == (
        "disk_full",
        before,
        [item("a", "refund")],
    )
    sqlite._writer.pragma("max_page_count", 2**31)
    sqlite.apply(batch([item("b", "refund")]))
    assert (matches(sqlite.search_text("refund", ACME, 10)), sqlite.verify()) == (["a", "b"], [])


def test_a_disk_that_is_full_at_the_end_loses_nothing(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore.open(path)
    store.apply(batch(item(f"{number}", "refund " * 100) for number in range(300)))
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + 4096, hard))
    try:
        store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "write-ahead log kept" in caplog.text
    with closing(SqliteStore.open(path)) as again:
        assert (len(again.find(ACME, 1000)), again.verify()) == (300, [])


def test_a_load_stopped_by_a_full_disk_keeps_its_batches_and_can_be_repeated(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "BATCH_SIZE", 50)
    (tmp_path / "s.jsonl").write_text(
        "".join(f'{{"id": "{number}", "text": "{"refund " * 100}"}}\n' for number in range(500))
    )
    with knowloom.open(path, embedder=None, links=[]) as kb:
        kb.add(Item("a", "s", text="refund"))
        writer = kb._stores.items._writer
        writer.pragma("max_page_count", writer.pragma("page_count") + 60)
        with pytest.raises(Unavailable, match="earlier writes are kept") as caught:
            kb.load(tmp_path / "s.jsonl", space="s")
        assert (caught.value.code, kb.maintenance.stats().spaces[0].items > 50) == (
            "disk_full",
            True,
        )
        writer.pragma("max_page_count", 2**31)
        assert (
            kb.load(tmp_path / "s.jsonl", space="s").unchanged > 0,
            kb.maintenance.stats().spaces[0].items,
            kb.verify(),
        ) == (True, 501, [])


def test_an_index_of_another_analyser_requires_reindexing(sqlite: SqliteStore, path: str) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    execute_sql(path, "UPDATE meta SET value = 'klingon-1' WHERE key = 'analyser'")
    with pytest.raises(Conflict) as caught:
        sqlite.search_text("refund", ACME, 10)
    sqlite.rebuild_words(sqlite.find(ACME, 10))
    assert (caught.value.code, matches(sqlite.search_text("refund", ACME, 10))) == (
        "reindex_required",
        ["a"],
    )
