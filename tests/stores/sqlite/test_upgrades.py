"""Files of all earlier schemas: they open, or are refused as they are, and survive a kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from killed_upgrades import SCHEMAS, count_writes, kill_at, unpack

import knowloom
from knowloom import Unavailable
from knowloom.stores.sqlite import database
from knowloom.stores.sqlite.damage.page_checksums import find_damaged_pages, has_checksums
from knowloom.stores.sqlite.database import VERSION
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.stores.sqlite.upkeep import upgrades
from sqlite_files import execute_sql, temporary_folder

ITEMS = {
    ("shop", "ada"): "",
    ("shop", "cafe"): "The café of Ada Byron is on the pier.",
    ("support", "returns"): "Within 30 days.",
}


def check_content(path: Path) -> None:
    """Check that nothing is lost: items, edges, vectors, history, and the words found."""
    with knowloom.open(path, embedder=None) as kb:
        stored = {item.key: item.text for item in kb.items()}
        assert stored.pop(("support", "manual")).startswith("Step 0: wait")
        assert stored == ITEMS
        assert [(edge.source, edge.target, edge.weight) for edge in kb.edges()] == [
            ("returns", "manual", 0.5)
        ]
        states = kb.history.states("returns", space="support")
        assert [state.item.text for state in states if state.item] == [
            "Within 30 days.",
            "Within 14 days.",
        ]
        assert kb.history.restore("gone", space="shop").added
        kb.delete("gone", space="shop")
        found = kb.search("cafe", spaces=["shop"], mode="bm25")
        assert [hit.item.id for hit in found] == ["cafe"]
        assert kb.maintenance.stats().embedder == "test:2"
        assert kb.verify() == []


def check_killed_upgrade(schema: int, number: int, folder: Path) -> None:
    """Kill the upgrade of an old file at a write, and check that the next one loses nothing."""
    path = unpack(schema, folder)
    assert kill_at(path, number)
    check_content(path)
    (backup,) = folder.glob("*.backup")
    check_content_of_backup(backup, folder / "restored.db")
    assert not [file for file in os.listdir(folder) if file.endswith(".partial")]


def check_content_of_backup(backup: Path, target: Path) -> None:
    knowloom.restore(backup, target)
    check_content(target)
    for file in target.parent.glob(f"{target.name}*"):
        file.unlink()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_an_old_file_opens_with_everything_in_it(schema: int, tmp_path: Path) -> None:
    path = unpack(schema, tmp_path)
    check_content(path)
    check_content(path)


def test_repair_gives_an_old_file_checksums(tmp_path: Path) -> None:
    old, new = unpack(1, tmp_path), tmp_path / "new.db"
    salvaged = knowloom.repair(old, new)
    assert salvaged.is_complete and has_checksums(new) and not has_checksums(old)
    check_content(new)
    assert find_damaged_pages(new) == []


def test_the_old_files_are_all_schemas_but_the_current_one() -> None:
    assert (*SCHEMAS, VERSION) == tuple(range(1, VERSION + 1))


def test_a_backup_is_written_before_an_upgrade_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = unpack(3, tmp_path)
    before = path.read_bytes()
    with knowloom.open(path, embedder=None) as kb:
        (backup,) = kb.maintenance.backups()
    assert backup.path == f"{path}.schema-3.backup" and backup.exists
    assert f"was upgraded from schema 3 to {VERSION}" in caplog.text
    assert backup.path in caplog.text
    restored = tmp_path / "restored.db"
    knowloom.restore(backup.path, restored)
    assert len(restored.read_bytes()) >= len(before)
    check_content(restored)


def test_a_second_try_uses_the_backup_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack(2, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(upgrades, "record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            SqliteStore.open(str(path))
    check_content(path)
    assert [file.name for file in tmp_path.glob("*.backup")] == ["old.db.schema-2.backup"]


def test_an_upgrade_without_room_for_its_backup_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack(4, tmp_path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise Unavailable("no space left", "disk_full")

    with monkeypatch.context() as patch:
        patch.setattr("knowloom.stores.sqlite.upkeep.copies.copy_pages", fail)
        with pytest.raises(Unavailable, match="schema 4 and was not upgraded: its backup") as error:
            SqliteStore.open(str(path))
    assert error.value.code == "disk_full"
    assert path.read_bytes() == before
    check_content(path)


def test_a_read_only_old_file_says_that_it_must_be_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack(4, tmp_path)
    before = path.read_bytes()
    # The tests may run as root, for whom no folder is read-only.
    monkeypatch.setattr(database, "_open", database._open_in_read_only_folder)
    with pytest.raises(Unavailable, match="read-only and has schema 4, which must be upgraded"):
        SqliteStore.open(str(path))
    assert path.read_bytes() == before and not list(tmp_path.glob("*.backup"))


def test_a_newer_file_is_refused_as_it_is(tmp_path: Path) -> None:
    path = unpack(4, tmp_path)
    execute_sql(str(path), "PRAGMA journal_mode=DELETE", f"PRAGMA user_version={VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(Unavailable, match="newer knowloom"):
        SqliteStore.open(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_killed_upgrade_loses_nothing(schema: int) -> None:
    with temporary_folder() as folder:
        writes = count_writes(unpack(schema, Path(folder)))
    for place in range(5):  # tools/upgrade_kills.py has more
        with temporary_folder() as folder:
            check_killed_upgrade(schema, 1 + place * (writes - 1) // 4, Path(folder))
