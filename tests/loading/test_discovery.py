"""Folders of anything: ignored files, links, changes, sizes and counts by kind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from loads import ids, reasons, write_files

from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.loading import discovery
from knowloom.report import FileCount


class TestIgnoreFiles:
    def test_a_repository_is_read_without_what_git_ignores(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        (tmp_path / ".git").mkdir()
        write_files(
            tmp_path,
            _gitignore="build/\n*.log.txt\n!keep.log.txt\n/top.md\n",
            a_md="a",
            top_md="ignored",
            sub__top_md="not ignored",
            sub___gitignore="secret.md\n!x.log.txt\n",
            sub__secret_md="ignored",
            sub__deep__secret_md="ignored",
            build__b_md="ignored",
        )
        for name in ("x.log.txt", "keep.log.txt", "sub/x.log.txt"):
            (tmp_path / name).write_text("text")
        report = kb.load(tmp_path, space="s")
        assert ids(kb) == ["a", "keep.log.txt", "sub/top", "sub/x.log.txt"]
        assert FileCount("ignored by .gitignore", 5) in report.files

    def test_a_folder_inside_a_repository_has_its_rules(self, kb: Engine, tmp_path: Path) -> None:
        (tmp_path / ".git" / "info").mkdir(parents=True)
        (tmp_path / ".git" / "info" / "exclude").write_text("private.md\n")
        write_files(
            tmp_path,
            _gitignore="docs/draft.md\n",
            docs__draft_md="x",
            docs__a_md="a",
            docs__private_md="x",
        )
        kb.load(tmp_path / "docs", space="s")
        assert ids(kb) == ["a"]

    def test_a_folder_without_a_repository_has_no_rules(self, kb: Engine, tmp_path: Path) -> None:
        kb.load(write_files(tmp_path, _gitignore="*.md\n", a_md="a"), space="s")
        assert ids(kb) == ["a"]

    def test_a_file_that_is_ignored_later_is_removed(self, kb: Engine, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        write_files(tmp_path, a_md="a", b_md="b")
        kb.load(tmp_path, space="s")
        write_files(tmp_path, _gitignore="b.md\n")
        assert (kb.load(tmp_path, space="s").removed, ids(kb)) == (1, ["a"])


class TestLinks:
    def test_links_out_of_the_folder_are_read_only_on_request(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = write_files(tmp_path / "docs", a_md="a")
        outside = write_files(tmp_path / "outside", b_md="b", sub__c_md="c")
        os.symlink(outside / "b.md", folder / "b.md")
        os.symlink(outside / "sub", folder / "sub")
        os.symlink(folder / "a.md", folder / "inside.md")
        report = kb.load(folder, space="s")
        assert ids(kb) == ["a", "inside"]
        assert reasons(report) == ["leads out of the folder; follow_links=True reads it"] * 2
        assert kb.load(folder, space="s", follow_links=True).skipped == ()
        assert ids(kb) == ["a", "b", "inside", "sub/c"]


class TestKinds:
    def test_the_report_counts_files_by_kind(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(
            tmp_path,
            a_md="a",
            b_md="",
            c_txt="c",
            d_yaml="x: 1\n",
            e_jsonl='{"id": "e", "text": "x"}\n',
            f_unknown="x",
        )
        (folder / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" * 100)
        report = kb.load(folder, space="s")
        assert report.files == (
            FileCount("JSON rows", 1, 1),
            FileCount("Markdown", 2, 1, 1),
            FileCount("settings", 1, 1),
            FileCount("text", 1, 1),
        )
        assert reasons(report)[1].startswith("unsupported suffixes: .png (1), .unknown (1); avail")

    def test_a_single_file_of_another_kind_is_skipped_once(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" * 100)
        report = kb.load(tmp_path / "p.png", space="s")
        assert [(skip.what, skip.why.partition(";")[0]) for skip in report.skipped] == [
            ("the whole file", "unsupported suffix: .png")
        ]

    def test_rows_are_read_from_a_file_with_any_suffix(self, kb: Engine, tmp_path: Path) -> None:
        (tmp_path / "backup").write_text('\n {"id": "a", "text": "x"}\n')
        assert kb.load(tmp_path / "backup", space="s").added == 1

    def test_settings_are_code(self, kb: Engine, tmp_path: Path) -> None:
        kb.load(write_files(tmp_path, a_yaml="# comment\n\n# heading?\nkey: 1\n"), space="s")
        (item,) = kb.items()
        assert item.text == "```yaml\n# comment\n\n# heading?\nkey: 1\n```"
        context = kb.context("key", spaces=["s"], citations=True)
        assert "a.yaml, lines 1-4" in context.text


class TestSizes:
    def test_deep_folders_are_read(self, kb: Engine, tmp_path: Path) -> None:
        folder = tmp_path
        for _ in range(200):
            folder /= "d"
        folder.mkdir(parents=True)
        (folder / "a.md").write_text("deep")
        assert kb.load(tmp_path, space="s").added == 1

    def test_a_file_over_the_limit_is_reported(self, kb: Engine, tmp_path: Path) -> None:
        with (tmp_path / "big.md").open("wb") as file:
            file.truncate(20_000_001)
        assert reasons(kb.load(tmp_path, space="s")) == [
            "must have <= 20,000,000 bytes, got 20,000,001: split the file"
        ]

    def test_a_file_that_is_being_written_is_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.md"
        path.write_text("first")
        status, calls = os.fstat, []

        def write_between(descriptor: int) -> os.stat_result:
            calls.append(descriptor)
            if len(calls) == 2:
                path.write_text("second, longer")
                os.utime(path, ns=(1, 1))
            return status(descriptor)

        monkeypatch.setattr(discovery.os, "fstat", write_between)
        assert discovery.read_regular_file(path) == b"second, longer"
        assert len(calls) == 4

    def test_a_file_that_never_rests_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.md"
        path.write_text("x")
        times = iter(range(1, 100))
        status = os.fstat

        def touch(descriptor: int) -> os.stat_result:
            os.utime(path, ns=(0, next(times)))
            return status(descriptor)

        monkeypatch.setattr(discovery.os, "fstat", touch)
        with pytest.raises(Invalid, match="changes while it is read"):
            discovery.read_regular_file(path)

    def test_pipes_are_reported(self, kb: Engine, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.md")
        (tmp_path / "a.md").write_text("a")
        done = threading.Event()
        threading.Timer(20, lambda: done.is_set() or os._exit(1)).start()
        assert reasons(kb.load(tmp_path, space="s")) == ["not a regular file"]
        done.set()
