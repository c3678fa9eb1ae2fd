"""`repair` writes what can be read from a damaged file to a new one, and names what was lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import apsw
import pytest

import knowloom
from cli_runs import run
from knowloom import Conflict, Edge, Item, NotFound
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from letters import Letters
from sqlite_files import execute_sql

PAGE = 4096


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("salvage") / "k.db"
    with knowloom.open(path, embedder=Letters()) as kb:
        items = [
            Item(f"i{n:03}", "s", text=f"text number {n} " * (n % 9 * 60 + 1)) for n in range(90)
        ]
        kb.add(items, [Edge(f"i{n:03}", f"i{n + 1:03}", space="s") for n in range(89)])
        kb.add(Item("other", "t", text="another space"))
        kb.delete("i050", space="s")
    return path


@pytest.fixture
def damaged(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "k.db"))


def pages(path: Path, name: str, kind: str = "leaf") -> list[int]:
    connection = apsw.Connection(str(path), vfs=register_vfs())
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ? ORDER BY pageno"
    numbers = [page for (page,) in connection.execute(query, (name, kind))]
    connection.close()
    return numbers


def overwrite(path: Path, number: int, data: bytes = bytes(range(1, 201)) * 20) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(data)


def stored(path: Path) -> dict[str, str]:
    with knowloom.open(path, embedder=None) as kb:
        assert kb.verify() == []
        return {item.id: item.text for item in kb.items()}


def test_everything_is_salvaged_if_only_the_index_is_damaged(
    original: Path, damaged: Path, tmp_path: Path
) -> None:
    overwrite(damaged, pages(original, "item_meta", "overflow")[0])
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    assert (salvaged.is_complete, salvaged.items, salvaged.lost) == (True, 90, ())
    assert stored(tmp_path / "new.db") == stored(original)
    with knowloom.open(tmp_path / "new.db", embedder=Letters()) as kb:
        assert len(kb.history.states("i050", space="s")) >= 2
        assert not kb.search("text", spaces=["s"], mode="vector").degraded


def test_the_items_of_an_unreadable_page_are_lost_by_id(
    original: Path, damaged: Path, tmp_path: Path
) -> None:
    overwrite(damaged, pages(original, "item")[1])
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    expected, result = stored(original), stored(tmp_path / "new.db")
    assert salvaged.lost and {id for _, id in salvaged.lost} == expected.keys() - result.keys()
    assert {id: expected[id] for id in result} == result and "i050" not in result
    assert salvaged.items == len(result) and len(result) > 60
    with knowloom.open(tmp_path / "new.db", embedder=None) as kb:
        assert salvaged.edges == len(list(kb.edges())) > 40


def test_the_history_survives_lost_items(original: Path, damaged: Path, tmp_path: Path) -> None:
    execute_sql(str(damaged), "UPDATE space SET retention_days = 90 WHERE name = 's'")
    overwrite(damaged, pages(original, "item")[1])
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    lost = {id for _, id in salvaged.lost}
    assert (salvaged.lost_changes, salvaged.lost_vectors > 80) == (0, True)
    with (
        knowloom.open(original, embedder=None) as before,
        knowloom.open(tmp_path / "new.db", embedder=None) as after,
    ):
        assert salvaged.changes == len(before.maintenance.audit(limit=1000))
        for id in [*sorted({item.id for item in before.items(["s"])} - lost), "i050"]:
            states = [(state.at, state.action, state.item) for state in _items(before, id)]
            assert [(state.at, state.action, state.item) for state in _items(after, id)] == states
        assert [state.action for state in _items(after, min(lost))] == ["delete"]
        assert after.maintenance.audit(actor="repair") and after.verify() == []
        assert after.maintenance.retention() == {"s": 90}


def _items(kb: knowloom.Engine, id: str) -> list[knowloom.State]:
    states = kb.history.states(id, space="s")
    return [state for state in states if state.action in ("add", "update", "delete")]


def test_lost_lines_of_the_history_are_counted(
    original: Path, damaged: Path, tmp_path: Path
) -> None:
    overwrite(damaged, pages(original, "change_log")[1])
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    assert salvaged.lost_changes > 0 and salvaged.changes > 0
    with knowloom.open(original, embedder=None) as kb:
        total = len(kb.maintenance.audit(limit=1000))
    assert salvaged.changes + salvaged.lost_changes == total
    assert stored(tmp_path / "new.db") == stored(original)


def test_an_inner_page_that_is_lost_takes_no_item_with_it(
    original: Path, damaged: Path, tmp_path: Path
) -> None:
    overwrite(damaged, pages(original, "item", "internal")[0])
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    assert (salvaged.lost, len(salvaged.doubtful)) == ((), 90)
    assert stored(tmp_path / "new.db") == stored(original)


def test_a_truncated_file_is_salvaged_up_to_its_end(
    original: Path, damaged: Path, tmp_path: Path
) -> None:
    with damaged.open("r+b") as file:
        file.truncate(damaged.stat().st_size * 2 // 3)
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    expected, result = stored(original), stored(tmp_path / "new.db")
    assert {id: expected[id] for id in result} == result and len(result) > 20
    lost = {id for _, id in salvaged.lost}
    # The line of the log that deleted i050 may be lost, too.
    assert lost - {"i050"} == expected.keys() - result.keys()


def test_a_flipped_bit_makes_the_items_of_its_page_doubtful(
    original: Path, damaged: Path, tmp_path: Path
) -> None:
    data = bytearray(damaged.read_bytes())
    data[data.rindex(b"text number 80 text")] ^= 1
    damaged.write_bytes(data)
    salvaged = knowloom.repair(damaged, tmp_path / "new.db")
    assert salvaged.lost == () and ("s", "i080") in salvaged.doubtful and salvaged.items == 90


def test_the_command_lists_what_was_lost(damaged: Path, tmp_path: Path) -> None:
    execute_sql(str(damaged), "UPDATE item SET body = '{broken' WHERE id = 'i007'")
    result = run("repair", str(damaged), "--to", str(tmp_path / "new.db"))
    assert result.exit_code == 1 and "lost: i007 of space s" in result.stdout
    result = run("repair", str(damaged), "--to", str(tmp_path / "other.db"), "--json")
    assert json.loads(result.stdout)["lost"] == [{"space": "s", "id": "i007"}]


def test_existing_files_are_not_replaced(damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "new.db").write_text("mine")
    with pytest.raises(Conflict, match="exists"):
        knowloom.repair(damaged, tmp_path / "new.db")
    with pytest.raises(NotFound, match="no file"):
        knowloom.repair(tmp_path / "missing.db", tmp_path / "other.db")
    assert (tmp_path / "new.db").read_text() == "mine"
