"""A second load writes only changes and deletes what vanished from the source."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from loads import MAYA, counts, ids, reasons, write_files

import knowloom
from knowloom import Edge, Invalid, Item, Report
from knowloom.engine import Engine
from knowloom.loading import provenance, readers
from knowloom.loading.loader import Loader
from knowloom.ports import PROVENANCE_SPACE

LONG = "word " * 1_500  # two sections of it are too long for one item


def open_loader(kb: Engine, folder: Path, loader: type[Loader] = Loader) -> Loader:
    return loader(
        kb._stores,
        kb._secrets.screen().parse_row,
        kb._commits.apply,
        kb.reader.now(),
        provenance.identify_source(folder, "s"),
    )


class TestReloading:
    def folder(self, tmp_path: Path) -> Path:
        return write_files(
            tmp_path / "docs",
            a_md=f"# A\nx\n## One\n1 {LONG}\n## Two\n2 {LONG}\n",
            b_md="# B\ny\n",
            rows_jsonl='{"id": "r1", "text": "z"}\n{"id": "r2", "text": "z"}\n',
        )

    def test_only_changes_are_written_and_vanished_items_are_deleted(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        assert counts(kb.load(folder, space="s")) == (6, 0, 0, 0)
        assert counts(kb.load(folder, space="s")) == (0, 0, 6, 0)
        write_files(
            folder,
            a_md=f"# A\nx\n## One\nchanged {LONG}\n## Three\n3 {LONG}\n",
            rows_jsonl='{"id": "r2", "text": "z"}\n',
        )
        (folder / "b.md").unlink()
        report = kb.load(folder, space="s")
        assert (counts(report), ids(kb)) == ((1, 1, 2, 3), ["a", "a#one", "a#three", "r2"])
        assert {(edge.source, edge.target) for edge in kb.edges()} == {
            ("a#one", "a"),
            ("a#three", "a"),
        }
        assert kb.load(folder, space="s") == Report(unchanged=4)

    def test_keep_deletes_nothing_until_a_load_without_it(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        (folder / "b.md").unlink()
        assert counts(kb.load(folder, space="s", keep=True)) == (0, 0, 5, 0)
        assert counts(kb.load(folder, space="s")) == (0, 0, 5, 1)

    def test_the_same_folder_by_another_path_is_the_same_source(
        self, kb: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        (folder / "b.md").unlink()
        (folder / "rows.jsonl").unlink()
        monkeypatch.chdir(tmp_path)
        assert kb.load("docs/", space="s").removed == 3
        write_files(folder, b_md="# B\ny\n")
        os.symlink(folder, tmp_path / "link")
        assert kb.load(tmp_path / "link", space="s").added == 1
        (folder / "b.md").unlink()
        (tmp_path / "x").mkdir()
        assert kb.load(f"{tmp_path}/x/../docs", space="s").removed == 1

    def test_a_file_that_cannot_be_read_keeps_its_items(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        write_files(folder, rows_json=json.dumps([{"id": "j", "text": "x"}]))
        kb.load(folder, space="s")
        (folder / "a.md").write_bytes(b"# A\n\xff")
        (folder / "rows.json").write_text('[{"id": "j", ')
        (folder / "rows.jsonl").write_text('{"id": "r1", "text": "z"}\n{"id": "r2", \n')
        (folder / "b.md").unlink()
        report = kb.load(folder, space="s")
        assert (report.removed, ids(kb)) == (1, ["a", "a#one", "a#two", "j", "r1", "r2"])
        assert [edge.source for edge in kb.edges()] == ["a#one", "a#two"]
        assert "line 1 column 14" in reasons(report)[1]
        for name, text in (
            ("a.md", "# A\nx\n"),
            ("rows.json", "[]"),
            ("rows.jsonl", '{"id": "r1", "text": "z"}\n'),
        ):
            (folder / name).write_text(text)
        assert (kb.load(folder, space="s").removed, ids(kb)) == (4, ["a", "r1"])

    def test_items_of_other_sources_and_of_users_are_never_deleted(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        row = '{"id": "r1", "text": "z"}\n'
        other = write_files(tmp_path / "other", c_md="# C\nz\n", rows_jsonl=row)
        kb.add([Item("hand", "s", text="by hand"), Item("r2", "s", text="z")])
        kb.load(folder, space="s")
        kb.load(other, space="s")
        kb.load(folder, space="t")
        kb.add(Item("b", "s", title="B", text="corrected by hand", source="b.md"))
        for name in ("a.md", "b.md", "rows.jsonl"):
            (folder / name).unlink()
        write_files(folder, z_md="# Z\nz\n")
        assert kb.load(folder, space="s").removed == 3
        assert [item.id for item in kb.items(["s"])] == ["b", "c", "hand", "r1", "r2", "z"]
        assert len(list(kb.items(["t"]))) == 6
        (other / "rows.jsonl").unlink()
        assert kb.load(other, space="s").removed == 1

    def test_an_item_that_moves_to_another_file_stays(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        shutil.move(folder / "rows.jsonl", folder / "moved.jsonl")
        assert kb.load(folder, space="s") == Report(unchanged=6)

    def test_vanished_edges_are_deleted_and_user_edges_stay(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        path = tmp_path / "maya.json"
        path.write_text(json.dumps(MAYA))
        kb.load(path, space="s")
        kb.add([], [Edge("user:maya", "train-new-agents", "WROTE", space="s")])
        path.write_text(
            json.dumps({**MAYA, "graph": {"nodes": MAYA["graph"]["nodes"], "edges": []}})
        )
        report = kb.load(path, space="s")
        assert (report.edges, report.removed, [edge.type for edge in kb.edges()]) == (
            2,
            0,
            ["WROTE"],
        )

    def test_an_interrupted_load_leaves_provenance(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)

        class Stop(Exception):
            pass

        class Stopped(Loader):
            def _write_claims(self) -> None:
                raise Stop

        with pytest.raises(Stop):
            open_loader(kb, folder, Stopped).run(readers.list_parts(folder, "s"), keep=False)
        (folder / "b.md").unlink()
        assert counts(kb.load(folder, space="s")) == (0, 0, 5, 1)

    def test_an_emptied_folder_is_rejected_and_nothing_is_deleted(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        for file in folder.iterdir():
            file.unlink()
        with pytest.raises(Invalid, match="file in"):
            kb.load(folder, space="s")
        assert len(ids(kb)) == 6

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.jsonl", '{"id": "a", "text": "x"}\n'),
            ("a.json", '[{"id": "a", "text": "x"}]'),
            ("a.md", "# A\n\nx\n"),
        ],
    )
    def test_an_emptied_file_is_reported_and_nothing_is_deleted(
        self, kb: Engine, tmp_path: Path, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text)
        kb.load(tmp_path / name, space="s")
        (tmp_path / name).write_text("")
        for source in (tmp_path / name, tmp_path):
            report = kb.load(source, space="s")
            assert (counts(report), [skip.what for skip in report.skipped], len(ids(kb))) == (
                (0, 0, 0, 0),
                ["the whole file"],
                1,
            )

    def test_provenance_of_many_items_spans_several_pages(self, kb: Engine, tmp_path: Path) -> None:
        path = tmp_path / "many.jsonl"
        rows = [json.dumps({"id": f"i{number:04}", "text": "x"}) for number in range(2500)]
        path.write_text("\n".join(rows))
        kb.load(path, space="s")
        path.write_text("\n".join([*rows[:-1], json.dumps({"id": "new", "text": "x"})]))
        assert counts(kb.load(path, space="s")) == (1, 0, 2499, 1)
        assert kb.load(path, space="s") == Report(unchanged=2500)

    def test_the_provenance_space_is_not_visible(self, kb: Engine, tmp_path: Path) -> None:
        kb.load(self.folder(tmp_path), space="s")
        assert [info.name for info in kb.maintenance.stats().spaces] == ["s"]
        assert {item.space for item in kb.items()} == {"s"}
        for call in (
            lambda: kb.search("x", spaces=[PROVENANCE_SPACE]),
            lambda: kb.get("x", space=PROVENANCE_SPACE),
            lambda: kb.delete("x", space=PROVENANCE_SPACE),
        ):
            with pytest.raises(knowloom.NotFound):
                call()
        with pytest.raises(Invalid, match="'knowloom:loaded', which is reserved"):
            kb.add(Item("x", PROVENANCE_SPACE, text="x"))
        with pytest.raises(Invalid, match="'knowloom:loaded', which is reserved"):
            kb.add([], [Edge("r1", "x", space="s", target_space=PROVENANCE_SPACE)])

    def test_provenance_survives_reindexing(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        kb.reindex()
        (folder / "b.md").unlink()
        assert counts(kb.load(folder, space="s")) == (0, 0, 5, 1)

    def test_a_file_that_vanishes_while_others_are_read_is_reported_and_keeps_its_items(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = write_files(tmp_path, a_md="# A\nx", b_md="# B\ny")
        kb.load(folder, space="s")
        parts = readers.list_parts(folder, "s")
        (folder / "b.md").unlink()
        report = open_loader(kb, folder).run(parts, keep=False)
        assert (reasons(report), report.removed, ids(kb)) == (
            ["cannot be read: No such file or directory"],
            0,
            ["a", "b"],
        )
