"""Backups: consistent under writers, verified, rotated by name, and restored or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

import pytest
from client_helpers import failure, node

import knowloom
from knowloom import Conflict, Corrupt, Edge, Engine, Forbidden, Invalid, Unavailable
from knowloom.server.auth import Keyring
from sqlite_files import execute_sql

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def kb(path: Path) -> Iterator[Engine]:
    with knowloom.open(path, embedder=None) as engine:
        engine.add(
            [node("a", "one"), node("b", "Ada Byron")],
            [Edge("a", "b", space="s")],
            vectors=[[0.6, 0.8], [0.8, 0.6]],
        )
        engine.add(node("a", "two"), vectors=[[1.0, 0.0]])
        yield engine


def describe(kb: Engine) -> object:
    """Return everything that a backup must bring back."""
    return (
        list(kb.items()),
        list(kb.edges(automatic=None)),
        kb.history.states("a", space="s"),
        kb.maintenance.stats().spaces,
        kb.search("one", spaces=["s"], vector=[1.0, 0.0], mode="vector"),
        kb.verify(),
    )


def test_a_backup_brings_everything_back(kb: Engine, path: Path, tmp_path: Path) -> None:
    _, secret = Keyring(Path(f"{path}.keys.json")).add(
        "bot", reads=["s"], writes=[], role="viewer", tier="teams", now=NOW
    )
    before = describe(kb)
    backup = kb.maintenance.backup(tmp_path / "all.backup")
    kb.delete(["a", "b"], space="s")
    restored = knowloom.restore(backup.path, tmp_path / "other.db")
    assert backup.has_keys and restored.at == backup.at
    with knowloom.open(tmp_path / "other.db", embedder=None) as other:
        assert describe(other) == before
    key = Keyring(Path(restored.keys)).find(secret)
    assert key is not None and key.name == "bot"
    assert Path(backup.path).stat().st_mode & 0o077 == 0
    assert Path(restored.keys).stat().st_mode & 0o077 == 0


def test_backups_under_a_writer_are_states_that_existed(
    kb: Engine, path: Path, tmp_path: Path
) -> None:
    stop = Event()

    def write() -> None:
        with knowloom.open(path, embedder=None) as writer:
            number = 0
            while not stop.is_set():
                number += 1
                writer.add([node("left", f"{number}"), node("right", f"{number}")])

    thread = Thread(target=write)
    thread.start()
    try:
        paths = [kb.maintenance.backup(tmp_path / f"{number}.backup").path for number in range(4)]
    finally:
        stop.set()
        thread.join()
    for number, backup in enumerate(paths):
        knowloom.restore(backup, tmp_path / f"{number}.db")
        with knowloom.open(tmp_path / f"{number}.db", embedder=None) as copy:
            assert len({item.text for item in copy.get(["left", "right"], space="s")}) <= 1
            assert copy.verify() == []


def test_a_copy_with_problems_is_never_called_a_backup(
    kb: Engine, path: Path, tmp_path: Path
) -> None:
    kb.close()
    execute_sql(str(path), "UPDATE space SET items = items + 1")
    with knowloom.open(path, embedder=None) as damaged:
        with pytest.raises(Corrupt, match="was not written: the copy has 1 problems"):
            damaged.maintenance.backup(tmp_path / "b" / "")
        assert damaged.maintenance.backups() == []
    assert list((tmp_path / "b").iterdir() if (tmp_path / "b").exists() else []) == []
    assert not [file for file in tmp_path.iterdir() if "partial" in file.name]


def test_rotation_keeps_the_newest_and_all_foreign_files(kb: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    foreign = [
        folder / name
        for name in (
            "notes.txt",
            "knowledge.db.20200101T000000000000Z.backup",  # named alike, not recorded
            "other.db.20200101T000000000000Z.backup",
        )
    ]
    for file in foreign:
        file.write_text("mine")
    written = [kb.maintenance.backup(folder, keep=2) for _ in range(4)]
    assert [len(backup.removed) for backup in written] == [0, 0, 1, 1]
    left = {file for file in folder.iterdir() if file not in foreign}
    assert left == {Path(backup.path) for backup in written[-2:]}
    assert [file.read_text() for file in foreign] == ["mine"] * 3
    assert [entry.path for entry in kb.maintenance.backups()] == sorted(map(str, left))


def test_invalid_requests_write_nothing(kb: Engine, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    before = sorted(tmp_path.iterdir())
    maintenance = kb.maintenance
    assert failure(lambda: maintenance.backup(tmp_path / "taken")) == (Invalid, "exists")
    assert failure(lambda: maintenance.backup(tmp_path / "no" / "file")) == (Invalid, "no_folder")
    for keep in (0, -1, True, 1.5):
        assert failure(lambda keep=keep: maintenance.backup(keep=keep))[0] is Invalid
    assert failure(lambda: maintenance.backup(tmp_path / "x", keep=2))[0] is Invalid
    assert failure(lambda: maintenance.backup(keys=tmp_path / "none"))[1] == "no_file"
    restricted = knowloom.restrict(kb, {"team": "sales"})
    assert failure(restricted.maintenance.backup)[0] is Forbidden
    assert sorted(tmp_path.iterdir()) == before


def test_a_restore_overwrites_only_when_told_and_nothing_that_is_open(
    kb: Engine, path: Path
) -> None:
    backup = kb.maintenance.backup().path
    kb.add(node("late"))
    assert failure(lambda: knowloom.restore(backup, path)) == (Conflict, "exists")
    open_elsewhere = failure(lambda: knowloom.restore(backup, path, overwrite=True))
    assert open_elsewhere == (Unavailable, "busy")
    assert kb.get("late", space="s")
    kb.close()
    knowloom.restore(backup, path, overwrite=True)
    with knowloom.open(path, embedder=None) as restored:
        assert not restored.get("late", space="s") and restored.verify() == []
        assert [entry.path for entry in restored.maintenance.backups()] == [backup]


def test_a_damaged_store_is_replaced(kb: Engine, path: Path) -> None:
    backup = kb.maintenance.backup().path
    kb.close()
    data = bytearray(path.read_bytes())
    data[200:9000] = bytes(8800)
    path.write_bytes(data)
    knowloom.restore(backup, path, overwrite=True)
    with knowloom.open(path, embedder=None) as restored:
        assert restored.verify() == [] and len(list(restored.items())) == 2


def test_damaged_and_foreign_backups_are_refused_and_change_nothing(
    kb: Engine, path: Path, tmp_path: Path
) -> None:
    backup = kb.maintenance.backup(tmp_path / "good").path
    kb.close()
    data = Path(backup).read_bytes()
    bad = tmp_path / "bad"
    before = path.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 25)):
        bad.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            knowloom.restore(bad, path, overwrite=True)
        except knowloom.KnowloomError:
            assert path.read_bytes() == before
        else:  # a byte that carries no information, such as one of an unused area
            with knowloom.open(path, embedder=None) as restored:
                assert restored.verify() == [] and len(list(restored.items())) == 2
            path.write_bytes(before)
    bad.write_bytes(data[: len(data) // 2])
    assert failure(lambda: knowloom.restore(bad, path, overwrite=True))[0] is Corrupt
    assert failure(lambda: knowloom.restore(path, path, overwrite=True)) == (Invalid, "no_backup")
    bad.unlink()
    execute_sql(str(bad), "CREATE TABLE photo(id)")
    assert failure(lambda: knowloom.restore(bad, path, overwrite=True)) == (Corrupt, "foreign_file")
    assert failure(lambda: knowloom.restore(tmp_path / "none", path))[1] == "no_file"
    assert path.read_bytes() == before


def test_a_file_of_another_program_is_never_overwritten(kb: Engine, tmp_path: Path) -> None:
    backup = kb.maintenance.backup().path
    notes, photos = tmp_path / "notes.txt", tmp_path / "photos.db"
    notes.write_text("mine")
    execute_sql(str(photos), "CREATE TABLE photo(id)")
    for file in (notes, photos):
        before = file.read_bytes()
        refused = failure(lambda file=file: knowloom.restore(backup, file, overwrite=True))
        assert refused == (Corrupt, "foreign_file") and file.read_bytes() == before


def test_changed_keys_in_a_backup_are_noticed(kb: Engine, path: Path, tmp_path: Path) -> None:
    Path(f"{path}.keys.json").write_text(json.dumps({"keys": []}))
    backup = kb.maintenance.backup().path
    execute_sql(backup, "UPDATE backup_file SET data = 'other'")
    with pytest.raises(Corrupt, match="its copy of the keys differs"):
        knowloom.restore(backup, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_stores_without_one_file_refuse_with_their_part(tmp_path: Path) -> None:
    with (
        knowloom.open("memory:", embedder=None) as kb,
        pytest.raises(Invalid, match="'memory:' is not stored in a file"),
    ):
        kb.maintenance.backup(tmp_path / "x")
    with (
        knowloom.open(tmp_path / "k.db", embedder=None, metadata="memory:") as kb,
        pytest.raises(Invalid, match="profiles of the metadata store: they must be in an SQLite"),
    ):
        kb.maintenance.backup(tmp_path / "x")
    with pytest.raises(Invalid, match="SQLite file only, got 'memory:'"):
        knowloom.restore(tmp_path / "x", "memory:")
