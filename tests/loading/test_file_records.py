"""Files that did not change since the last load are not parsed, and nothing else differs."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from loads import reasons, write_files

import knowloom
from knowloom import Item
from knowloom.engine import Engine
from knowloom.loading import provenance, readers
from knowloom.loading.loader import Loader
from knowloom.loading.sources.file_records import FileRecords

PAGES = ("a.md", "b.md", "c.md", "d.rst", "e.txt")


def load(kb: Engine, folder: Path, *, keep: bool = False, records: bool = True) -> FileRecords:
    """Load a folder as `Engine.load` does, and return the records of its files."""
    files = FileRecords(kb._secrets.screen().fingerprint)
    parts = readers.list_parts(folder, "s", files=files if records else None)
    parse, apply = kb._secrets.screen().parse_row, kb._commits.apply
    source_id = provenance.identify_source(folder, "s")
    Loader(kb._stores, parse, apply, kb.reader.now(), source_id, None, files).run(parts, keep)
    return files


def write_pages(folder: Path) -> Path:
    return write_files(
        folder,
        a_md="# A\nsee [b](b.md#part) and [[c]]\n",
        b_md="# B\ny\n\n## Part\n" + "long " * 3_000,
        c_md="# C\nz\n",
    )


def ids(kb: Engine) -> set[str]:
    return {item.id for item in kb.items(["s"])}


def edges(kb: Engine) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.target, edge.type) for edge in kb.edges()}


class TestFilesThatDidNotChange:
    def test_they_are_not_parsed_again(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_pages(tmp_path / "docs")
        assert load(kb, folder).unchanged == set()
        assert load(kb, folder).unchanged == {"a.md", "b.md", "c.md"}

    def test_the_report_counts_their_items(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_pages(tmp_path / "docs")
        first = kb.load(folder, space="s")
        second = kb.load(folder, space="s")
        assert (second.unchanged, second.added, second.edges) == (first.added, 0, 0)
        assert [count.items for count in second.files] == [count.items for count in first.files]

    @pytest.mark.parametrize("change", ["bytes", "time"])
    def test_a_file_with_other_bytes_or_another_time_is_parsed(
        self, kb: Engine, tmp_path: Path, change: str
    ) -> None:
        folder = write_pages(tmp_path / "docs")
        load(kb, folder)
        before = os.stat(folder / "c.md")
        if change == "bytes":
            (folder / "c.md").write_text("# C\nq\n")
            os.utime(folder / "c.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            os.utime(folder / "c.md", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        assert load(kb, folder).unchanged == {"a.md", "b.md"}
        assert ("q" in kb.get("c", space="s")[0].text) == (change == "bytes")

    def test_links_between_them_and_new_files_are_found(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_pages(tmp_path / "docs")
        (folder / "b.md").rename(tmp_path / "b.md")
        load(kb, folder)
        assert edges(kb) == {("a", "c", "links")}
        (tmp_path / "b.md").rename(folder / "b.md")
        assert load(kb, folder).unchanged == {"a.md", "c.md"}
        assert ("a", "b#part", "links") in edges(kb)

    def test_edited_and_deleted_items_are_restored(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_pages(tmp_path / "docs")
        load(kb, folder)
        kb.add(Item("a", "s", text="edited"), embed=False)
        kb.delete("c", space="s")
        assert load(kb, folder).unchanged == {"b.md"}
        assert "see" in kb.get("a", space="s")[0].text
        assert ids(kb) >= {"a", "b", "c"}

    def test_deleted_edges_are_restored(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_pages(tmp_path / "docs")
        load(kb, folder)
        before = edges(kb)
        kb.delete_edges([edge for edge in kb.edges() if edge.source == "a"])
        assert edges(kb) < before
        load(kb, folder)
        assert edges(kb) == before

    def test_a_file_with_a_problem_is_reported_each_time(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(tmp_path / "docs", a_md="# A\nx\n", b_md="", c_md="# C\nx\n")
        first = reasons(kb.load(folder, space="s"))
        assert first
        assert reasons(kb.load(folder, space="s")) == first

    def test_other_rules_about_secrets_parse_them_again(self, tmp_path: Path) -> None:
        folder = write_files(tmp_path / "docs", a_md="# A\nkey AKIAZ7QXTR4MWPLK2NHD\n")
        path = str(tmp_path / "kb.db")
        with knowloom.open(path, embedder=None, secrets="allow") as kb:
            assert kb.load(folder, space="s").added == 1
        with knowloom.open(path, embedder=None, secrets="refuse") as kb:
            assert reasons(kb.load(folder, space="s"))

    def test_an_item_that_was_kept_is_deleted_by_a_load_without_keep(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = write_pages(tmp_path / "docs")
        load(kb, folder)
        (folder / "b.md").write_text("# B\ny\n")
        (folder / "a.md").write_text("# A\nno link\n")
        load(kb, folder, keep=True)
        assert "b#part" in ids(kb)
        assert ("a", "c", "links") in edges(kb)
        load(kb, folder)
        assert ids(kb) == {"a", "b", "c"}
        assert edges(kb) == set()


def change_folder(folder: Path, chance: random.Random) -> None:
    """Write, delete or touch some pages, with links and sections by chance."""
    for name in chance.sample(PAGES, chance.randint(0, 3)):
        path = folder / name
        if path.exists() and chance.random() < 0.25:
            path.unlink()
            continue
        links = " ".join(f"[x]({other})" for other in chance.sample(PAGES, 2))
        sections = "".join(f"\n## S{n}\n{'w ' * 3_500}\n" for n in range(chance.randint(0, 2)))
        path.write_text(chance.choice(["", f"# {name}\n{links}\n{sections}", f"{links}\n"]))
    (folder / "z.md").write_text("# Z\nalways\n")


def change_knowledge(kb: Engine, seed: int) -> None:
    """Edit or delete an item by chance, as users do."""
    chance = random.Random(seed)
    stored = sorted(ids(kb))
    if stored and chance.random() < 0.4:
        id = chance.choice(stored)
        if chance.random() < 0.5:
            kb.delete(id, space="s")
        else:
            kb.add(Item(id, "s", text="edited"), embed=False)


@pytest.mark.parametrize("seed", range(12))
def test_loads_with_and_without_records_store_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folder = tmp_path / "docs"
    folder.mkdir()
    with (
        knowloom.open("memory:", embedder=None, links=[]) as recorded,
        knowloom.open("memory:", embedder=None, links=[]) as parsed,
    ):
        for step in range(10):
            change_folder(folder, chance)
            keep = chance.random() < 0.2
            for kb in (recorded, parsed):
                load(kb, folder, keep=keep, records=kb is recorded)
            assert summary(recorded) == summary(parsed), step
            for kb in (recorded, parsed):
                change_knowledge(kb, seed * 100 + step)


def summary(kb: Engine) -> tuple[list[tuple[str, str]], set[tuple[str, str, str]]]:
    return [(item.id, item.text) for item in kb.items(["s"])], edges(kb)
