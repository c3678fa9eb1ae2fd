"""Encodings, unreadable files and files without a space."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from loads import ids, reasons, write_files

import knowloom
from knowloom.engine import Engine
from knowloom.model import Item


class TestFiles:
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.md", "# Ärger\nx\n"),
            ("a.jsonl", '{"id": "a", "title": "Ärger"}\n'),
            ("a.json", '[{"id": "a", "title": "Ärger"}]'),
        ],
    )
    def test_a_byte_order_mark_selects_the_encoding(
        self, kb: Engine, tmp_path: Path, encoding: str, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text, encoding=encoding)
        assert kb.load(tmp_path / name, space="s").skipped == ()
        assert [item.title for item in kb.items()] == ["Ärger"]

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            (
                "a.md",
                "# caf\u00e9".encode("latin-1"),
                "not UTF-8: byte 5 is 0xe9 (unexpected end of data); save it as UTF-8",
            ),
            ("a.md", b"", "empty: it has no text"),
            ("a.txt", b" \n\n", "empty: it has no text"),
            ("a.json", b'{"pieces": [,]}', "not JSON: Expecting value: line 1 column 13 (char 12)"),
            ("a.json", b"[" * 100_000, "not JSON: nested too deeply"),
            (
                "a.md",
                b"\xff\xfe\x00",
                "not UTF-16: byte 2 is 0x00 (truncated data); save it as UTF-8",
            ),
        ],
    )
    def test_an_unreadable_file_is_reported_with_its_place(
        self, kb: Engine, tmp_path: Path, name: str, content: bytes, reason: str
    ) -> None:
        (tmp_path / name).write_bytes(content)
        assert reasons(kb.load(tmp_path / name, space="s")) == [reason]

    def test_circular_links_between_folders_are_read_once(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(tmp_path / "docs", a_md="# A\nx", deep__b_md="# B\ny")
        os.symlink(folder, folder / "deep" / "up")
        os.symlink(tmp_path / "nowhere", folder / "gone.md")
        report = kb.load(folder, space="s")
        assert (ids(kb), [(Path(skip.where).name, skip.why) for skip in report.skipped]) == (
            ["a", "deep/b"],
            [
                ("up", "leads to a folder that is read already"),
                ("gone.md", "cannot be read: No such file or directory"),
            ],
        )

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    def test_a_pipe_is_not_waited_for(self, kb: Engine, tmp_path: Path) -> None:
        for name in ("pipe.md", "pipe.jsonl", "pipe.json"):
            os.mkfifo(tmp_path / name)
        assert reasons(kb.load(tmp_path, space="s")) == ["not a regular file"] * 3

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.md", "# A\nx"),
            ("a.jsonl", '\n{"id": "x", "text": "y"}\n'),
            ("a.json", '[{"id": "x", "text": "y"}]'),
            ("a.json", '{"pieces": [{"piece_id": "p", "content": "c"}]}'),
        ],
    )
    def test_a_single_file_without_a_space_goes_to_the_default(
        self, kb: Engine, tmp_path: Path, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text)
        assert kb.load(tmp_path / name).added == 1
        assert [space.name for space in kb.maintenance.stats().spaces] == ["default"]

    @pytest.mark.parametrize("name", ["a.md", "a.jsonl"])
    def test_a_single_file_must_name_one_of_several_spaces(
        self, kb: Engine, tmp_path: Path, name: str
    ) -> None:
        kb.add([Item("x", space, text="x") for space in ("one", "two")])
        (tmp_path / name).write_text('{"id": "y", "text": "# Y"}')
        with pytest.raises(knowloom.Invalid, match=r"does not name its space|one of one, two"):
            kb.load(tmp_path / name)
        assert kb.load(tmp_path / name, space="two").added == 1

    def test_a_later_row_without_a_space_is_reported(self, kb: Engine, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text(
            '{"id": "x", "space": "s", "text": "t"}\n{"id": "y", "text": "t"}\n'
        )
        report = kb.load(tmp_path / "a.jsonl")
        assert (report.added, reasons(report)) == (
            1,
            ["space is missing: set one for the whole load, or one in each row"],
        )
