"""Folders of the file store: foreign files, damage, file names and interrupted writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowloom import Corrupt, Unavailable
from knowloom.files import safe_name
from knowloom.model import Filter
from knowloom.stores.file import folder as files
from knowloom.stores.file.store import FileStore
from knowloom.testing.knowledge import ACME, batch, edge, item


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Unavailable, match="permission"):
        FileStore.open(str(tmp_path / "x"))


def test_a_file_that_is_not_json_is_named_and_left_untouched(tmp_path: Path) -> None:
    FileStore.open(str(tmp_path)).apply(batch([item("a", "one"), item("b", "two")]))
    broken = tmp_path / "items" / "s-acme" / "i-a.json"
    broken.write_text("{")
    with pytest.raises(Corrupt, match=r"i-a\.json"):
        FileStore.open(str(tmp_path))
    assert broken.read_text() == "{"
    broken.write_text(
        json.dumps(
            {"id": "a", "space": "acme", "text": "one", "created_at": "2025-06-01T12:00:00Z"}
        )
    )
    store = FileStore.open(str(tmp_path))
    assert (store.find(ACME, 9), store.verify()) == ([item("a", "one"), item("b", "two")], [])


def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    FileStore.open(str(tmp_path))
    (tmp_path / files.MARKER).write_text('{"format": 99}')
    with pytest.raises(Unavailable, match="newer knowloom") as caught:
        FileStore.open(str(tmp_path))
    assert caught.value.code == "newer_version"


def test_a_folder_of_another_program_is_refused_and_left_untouched(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(Corrupt, match="another program"):
        FileStore.open(str(tmp_path))
    assert (tmp_path / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("marker", [files.LEGACY_MARKER, files.MARKER])
def test_a_folder_of_a_pre_release_version_is_refused_and_left_untouched(
    tmp_path: Path, marker: str
) -> None:
    contents = {
        marker: b'{"format": 1}',
        files.LOG: b'{"number": 1}\n',
        files.JOURNAL: b'{"files": {}, "log": "", "offset": 0}',
        files.LOCK: b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Corrupt, match="pre-release version with another file format") as caught:
        FileStore.open(str(tmp_path))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == contents
    assert caught.value.code == "foreign_file"


@pytest.mark.parametrize("damage", ["changed", "missing", "foreign", "log"])
def test_verify_detects_files_changed_by_other_programs(tmp_path: Path, damage: str) -> None:
    store = FileStore.open(str(tmp_path))
    store.apply(batch([item("a", "one"), item("b")], [edge("a", "b")]))
    assert store.verify() == []
    stored = tmp_path / "items" / "s-acme" / "i-a.json"
    if damage == "changed":
        stored.write_text(stored.read_text().replace("one", "two"))
    elif damage == "missing":
        (tmp_path / "edges" / "s-acme" / "i-a.json").unlink()
    elif damage == "foreign":
        (stored.parent / "i-c.json").write_text(stored.read_text())
    else:
        stored.unlink()
        store = FileStore.open(str(tmp_path))
    assert store.verify() != []


UNUSUAL_NAMES = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a\0b",
    "CON",
    "con",
    "nul",
    "aux.json",
    "A",
    "a",
    "ä",
    "Ä",
    "x" * 5000,
    "x" * 4999 + "y",
    "%41",
    "a/b",
    "a\\b",
    "é" * 300,
    "🧵",
    " ",
    "a ",
    "a.",
    "~",
    "$HOME",
    "\n",
]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.text(max_size=400) | st.sampled_from(UNUSUAL_NAMES), unique=True, min_size=2, max_size=12
    )
)
def test_safe_names_stay_in_their_folder_and_never_collide(names: list[str]) -> None:
    file_names = [safe_name("i", name) for name in names]
    assert len({name.casefold() for name in file_names}) == len(names)
    for name in file_names:
        assert (
            name.startswith("i-")
            and len(name.encode()) < 200
            and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-%.")
            and ".." not in name
        )


def test_unusual_ids_and_spaces_survive_a_round_trip(tmp_path: Path) -> None:
    names = [name for name in UNUSUAL_NAMES if name]
    stored = [
        item(id, f"text {number}", space=space)
        for number, id in enumerate(names)
        for space in ("acme", "../zoo", "ACME")
    ]
    FileStore.open(str(tmp_path / "inside" / "it")).apply(
        batch(stored, [edge(names[0], id) for id in names])
    )
    store = FileStore.open(str(tmp_path / "inside" / "it"))
    items = store.find(Filter(("acme", "../zoo", "ACME")), 1000)
    assert (items, len(store.edges(["acme"], 1000)), store.verify()) == (
        sorted(stored, key=lambda item: item.key),
        len(names),
        [],
    )
    assert [path.name for path in tmp_path.iterdir()] == ["inside"] and [
        path.name for path in (tmp_path / "inside").iterdir()
    ] == ["it"]


@pytest.mark.parametrize("step", ["journal", "files", "log"])
def test_an_interrupted_write_is_completed_or_discarded(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileStore.open(str(tmp_path)).apply(batch([item("a", "old"), item("b")]))
    original = files.write_atomic

    def stop(path: Path, data: bytes) -> None:
        if step == "journal" or (step == "files" and path.name == "i-b.json"):
            raise KeyboardInterrupt
        original(path, data)

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, AttributeError)):
        store = FileStore.open(str(tmp_path))
        patch.setattr(files, "write_atomic", stop)
        if step == "log":
            patch.setattr(files, "os", None)  # the log cannot be synced
        store.apply(batch([item("a", "new"), item("b", "new")]))
    after = FileStore.open(str(tmp_path))
    assert ([item.text for item in after.find(ACME, 9)], after.verify()) == (
        ["old", ""] if step == "journal" else ["new", "new"],
        [],
    )


def test_a_reading_block_of_a_file_store_sees_one_state(tmp_path: Path) -> None:
    first, second = FileStore.open(str(tmp_path)), FileStore.open(str(tmp_path))
    first.apply(batch([item("a")]))
    with second.reading():
        before = second.find(ACME, 9)
        first.apply(batch([item("b")]))
        assert second.find(ACME, 9) == before
    assert [item.id for item in second.find(ACME, 9)] == ["a", "b"]
