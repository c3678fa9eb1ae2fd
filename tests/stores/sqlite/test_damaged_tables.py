"""Damage of derived data: items are read and written without it, and reindex builds it anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import knowloom
from knowloom import Conflict, Corrupt, Edge, Engine, Item
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from knowloom.stores.sqlite.damage.rebuild import DERIVED_TABLES
from letters import Letters
from sqlite_files import execute_sql

QUERY = "parcel refund"
# Values of each table that knowloom does not write.
GARBAGE = {
    "delta": "UPDATE delta SET terms = '{\"a\"' || terms",
    "delta list": "UPDATE delta SET terms = '[1]'",
    "item_meta": "UPDATE item_meta SET data = substr(data, 1, 1001)",
    "item_meta text": "UPDATE item_meta SET data = 'text'",
    "sign": "UPDATE sign SET data = substr(data, 1, 1001)",
    "posting": "UPDATE posting SET data = x'ffffffffffff0102'",
    "nearest": "UPDATE nearest SET data = x'00'",
    "name_labels": "UPDATE name_labels SET labels = '[broken'",
    "dirty": "INSERT OR REPLACE INTO dirty SELECT space, id, '{broken' FROM item",
    "links": "UPDATE edge SET body = '{broken', weight = 'x' WHERE origin <> ''",
    "segmenter": "UPDATE meta SET value = 'broken' WHERE key = 'segmenter'",
    "analyser": "UPDATE meta SET value = 'broken' WHERE key = 'analyser'",
    "counters": "UPDATE space SET items = 99, digest = 'zz'",
}
PAGES = (*DERIVED_TABLES, "edge_out", "edge_in", "sqlite_autoindex_posting_1")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "k.db"
    with knowloom.open(path, embedder=Letters()) as kb:
        names = ("Parcel Desk", "Refund Office", "Harbour Gate")
        items = [
            Item(
                f"i{n:02}",
                "s",
                type="faq" if n % 2 else "note",
                title=f"{names[n % 3]} {n}",
                text=f"the {names[(n + 1) % 3]} handles parcel refund number {n}. "
                * (40 * (n < 3) + 1),
                tags=("tag",),
                properties={"owner": f"team{n % 4}"},
            )
            for n in range(24)
        ]
        kb.add(items[:20], [Edge("i01", "i02", space="s")])
        kb.reindex()  # merges the terms
        kb.add(items[20:])
    return path


def check_reads(kb: Engine) -> None:
    """Items are read by id, by page and by filter, without an index."""
    assert [item.id for item in kb.get(["i03", "i21"], space="s")] == ["i03", "i21"]
    assert len(list(kb.items())) == 24
    assert len(list(kb.items(types=["faq"], where={"owner": "team1"}))) == 6
    try:
        hits = kb.search(QUERY, spaces=["s"], types=["faq"])
    except Conflict as error:  # the settings of the index are unknown
        assert error.code == "reindex_required"
        return
    assert hits and {hit.item.type for hit in hits} == {"faq"}
    assert kb.context(QUERY, spaces=["s"]).hits


def check_repair(path: Path) -> None:
    with knowloom.open(path, embedder=Letters()) as kb:
        kb.add(Item("new", "s", text="a new parcel refund"))
        kb.add(Item("i05", "s", text="another parcel refund"))
        kb.delete("i07", space="s")
        kb.reindex()
        assert kb.verify() == []
        assert [hit.item.id for hit in kb.search("new", spaces=["s"], mode="bm25")] == ["new"]
        assert len(list(kb.items())) == 24


@pytest.mark.parametrize("damage", list(GARBAGE))
def test_unreadable_values_of_derived_tables_block_nothing(
    original: Path, tmp_path: Path, damage: str
) -> None:
    path = shutil.copy(original, tmp_path / "k.db")
    execute_sql(str(path), GARBAGE[damage])
    with knowloom.open(path, embedder=Letters()) as kb:
        check_reads(kb)
    check_repair(Path(path))


def first_page(path: Path, name: str) -> int:
    connection = apsw.Connection(str(path), vfs=register_vfs())
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno DESC"
    pages = [page for (page,) in connection.execute(query, (name,))]
    connection.close()
    return int(pages[0])


@pytest.mark.parametrize("name", PAGES)
def test_a_flipped_bit_of_a_derived_page_blocks_nothing(
    original: Path, tmp_path: Path, name: str
) -> None:
    path = Path(shutil.copy(original, tmp_path / "k.db"))
    data = bytearray(path.read_bytes())
    data[(first_page(original, name) - 1) * 4096 + 2000] ^= 4
    path.write_bytes(data)
    with knowloom.open(path, embedder=Letters()) as kb:
        check_reads(kb)
    check_repair(path)


@pytest.mark.parametrize(
    "read",
    [
        lambda kb: kb.get("i03", space="s"),
        lambda kb: list(kb.items()),
        lambda kb: kb.add(Item("i03", "s", text="new")),
    ],
)
def test_a_damaged_item_is_named(
    original: Path, tmp_path: Path, read: Callable[[Engine], object]
) -> None:
    path = shutil.copy(original, tmp_path / "k.db")
    execute_sql(str(path), "UPDATE item SET body = '{broken' WHERE id = 'i03'")
    with knowloom.open(path, embedder=Letters()) as kb:
        with pytest.raises(Corrupt, match="item"):
            read(kb)
        assert kb.get("i04", space="s")
