"""A page that is not as it was written is noticed when it is read."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

import knowloom
from knowloom import Corrupt, Item, Unavailable
from knowloom.stores.sqlite.damage import page_checksums
from knowloom.stores.sqlite.damage.page_checksums import find_damaged_pages, register_vfs

PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.db"
    with knowloom.open(path, embedder=None) as kb:
        kb.add([Item(f"i{number}", "s", text=f"word{number} " * 300) for number in range(30)])
    return path


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_flipped_bit_of_a_text_is_noticed(file: Path) -> None:
    flip(file, file.read_bytes().rindex(b"word7 word7 word7"))
    with knowloom.open(file, embedder=None) as kb, pytest.raises(Corrupt, match="damaged"):
        list(kb.items())


def test_no_flipped_bit_changes_an_answer(file: Path) -> None:
    good, chance = file.read_bytes(), random.Random(3)
    with knowloom.open(file, embedder=None) as kb:
        expected = list(kb.items()), kb.search("word9", spaces=["s"])
    for _ in range(25):
        file.write_bytes(good)
        flip(file, chance.randrange(len(good)))
        try:
            with knowloom.open(file, embedder=None) as kb:
                assert (list(kb.items()), kb.search("word9", spaces=["s"])) == expected
        except Unavailable:
            pass
        finally:
            for suffix in ("-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)


def test_every_page_is_sealed_however_it_was_written(file: Path, tmp_path: Path) -> None:
    with knowloom.open(file, embedder=None) as kb:
        kb.delete([f"i{number}" for number in range(20)], space="s")
        kb.add([Item(f"j{number}", "s", text="more " * 900) for number in range(40)])
    assert find_damaged_pages(file) == []
    copy = tmp_path / "copy.db"
    source = apsw.Connection(str(file), vfs=register_vfs())
    target = apsw.Connection(str(copy), vfs=register_vfs())
    target.execute("PRAGMA cache_size=2")  # pages are written before the header
    with target.backup("main", source, "main") as backup:
        backup.step(-1)
    target.close()
    source.close()
    assert find_damaged_pages(copy) == [] and copy.stat().st_size == file.stat().st_size
    flip(copy, 3 * PAGE + 17)
    assert find_damaged_pages(copy) == [4]


def test_a_file_without_checksums_is_used_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain.db"
    with monkeypatch.context() as patch:
        patch.setattr(page_checksums, "reserve_bytes", lambda connection: None)
        with knowloom.open(plain, embedder=None) as kb:
            kb.add(Item("old", "s", text="old"))
    assert plain.read_bytes()[20] == 0
    with knowloom.open(plain, embedder=None) as kb:
        kb.add(Item("new", "s", text="new"))
        assert len(list(kb.items())) == 2 and kb.verify() == []
