"""Parsers of foreign formats run in a process with limits; broken files change nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import document_samples
import pytest
from loads import counts, ids, reasons

from knowloom import caching
from knowloom.engine import Engine
from knowloom.errors import Invalid, MissingExtra
from knowloom.loading import document_parser, file_formats
from knowloom.loading.document_parser import ParserLimits, parse_document
from knowloom.loading.file_formats import FileFormat

HOSTILE = """
import os, time
from knowloom.loading.parsed_documents import ParsedDocument

def sleep(raw, name):
    time.sleep(60)

def crash(raw, name):
    os.abort()

def grow(raw, name):
    return ParsedDocument(str(bytearray(3_000_000_000))[:10])

def repeat(raw, name):
    return ParsedDocument("x" * 1_000)

def fail(raw, name):
    raise KeyError("broken")

def print_text(raw, name):
    print("forged answer")
    return ParsedDocument(raw.decode())
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "hostile_parsers.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(tmp_path)
    document_parser.close_idle()
    yield lambda name: FileFormat(name, (".x",), f"hostile_parsers:{name}", isolated=True)
    document_parser.close_idle()


class TestProcess:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("sleep", "parsing takes longer than 0.5 s"),
            ("crash", "parsing ended its process, which has 1000 MB"),
            ("repeat", "text must have <= 100 characters, got 1,000"),
            ("fail", "cannot be parsed: KeyError: 'broken'"),
            pytest.param(
                "grow",
                "needs more than 1000 MB of memory",
                marks=pytest.mark.skipif(sys.platform != "linux", reason="limits need Linux"),
            ),
        ],
    )
    def test_a_limit_is_an_error_and_the_next_file_is_read(
        self, hostile, name: str, message: str
    ) -> None:
        limits = ParserLimits(0.5 if name == "sleep" else 20, memory_mb=1_000, text=100)
        with pytest.raises(Invalid, match=message):
            parse_document(hostile(name), b"x", "a.x", limits)
        later = ParserLimits(timeout_s=20, memory_mb=1_000, text=100)
        assert parse_document(hostile("print_text"), b"next", "a.x", later).text == "next"

    def test_a_missing_package_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_formats, "find_spec", lambda name: None)
        caching.clear()
        pdf = file_formats.formats_by_suffix()[".pdf"]
        with pytest.raises(MissingExtra, match=r"PDF needs pypdfium2: pip install 'knowloom\[docu"):
            parse_document(pdf, b"", "a.pdf")
        caching.clear()


class TestLoading:
    SAMPLES: ClassVar[dict[str, bytes]] = {
        "handbook.pdf": document_samples.pdf(),
        "handbook.docx": document_samples.word_document(),
        "piers.xlsx": document_samples.workbook({"Piers": [["pier", "depth"], ["north", 12.5]]}),
        "tides.ipynb": document_samples.notebook(),
        "boats.csv": b"name,length\nAda,12\n",
        "page.html": b"<h1>Page</h1><p>Text of a page.",
        "code.py": b'def dock():\n    """Dock."""\n',
        "guide.rst": b"Guide\n=====\n\nText.\n",
    }

    def write(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        for name, raw in self.SAMPLES.items():
            (folder / name).write_bytes(raw)
        return folder

    def test_every_kind_is_loaded_once_and_cited(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.write(tmp_path / "docs")
        first = kb.load(folder)
        assert (first.skipped, sum(count.files for count in first.files)) == ((), 8)
        again = kb.load(folder)
        assert (counts(again), again.edges) == ((0, 0, first.added, 0), 0)
        context = kb.context("tugs on call at night", spaces=["docs"], citations=True)
        assert "handbook.pdf, pages 1-3" in context.text
        for name in self.SAMPLES:
            assert any(item.source == name for item in kb.items()), name

    def test_truncated_files_are_reported_and_keep_their_items(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.write(tmp_path / "docs")
        kb.load(folder)
        before = ids(kb)
        for name in ("handbook.pdf", "handbook.docx", "piers.xlsx", "tides.ipynb"):
            (folder / name).write_bytes(self.SAMPLES[name][:200])
        report = kb.load(folder)
        assert (len(report.skipped), report.removed, ids(kb)) == (4, 0, before)

    def test_random_bytes_are_reported(self, kb: Engine, tmp_path: Path) -> None:
        for name in self.SAMPLES:
            (tmp_path / name).write_bytes(bytes(range(256)) * 20)
        report = kb.load(tmp_path, space="s")
        skipped = {Path(skip.where.split(":")[0]).name for skip in report.skipped}
        assert skipped >= set(self.SAMPLES) - {"page.html"}
        assert all(reasons(report))
