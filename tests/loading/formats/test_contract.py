"""Every parser keeps the contract of parsers."""

from __future__ import annotations

import document_samples
import pytest

from knowloom.loading.document_parser import load_parser
from knowloom.loading.file_formats import FORMATS, formats_by_suffix
from knowloom.testing import DocumentParserContract

TEXT = "Harbour\n=======\n\nAbove.\n\nCranes\n------\n\nThey lift forty tons.\n"
MARKDOWN = b"---\na: 1\n---\n# Harbour\n\nAbove, see [cranes](#cranes).\n\n## Cranes\n\nLift.\n"
SAMPLES = {
    "Markdown": ("a.md", MARKDOWN),
    "text": ("a.txt", TEXT.encode()),
    "reStructuredText": ("a.rst", TEXT.encode()),
    "HTML": ("a.html", b"<h1>Harbour</h1><p>Above.<h2>Cranes</h2><a href=b.html>Lift</a>."),
    "workbook": ("a.xlsx", document_samples.workbook({"A": [["a"], ["b"]], "B": [["c"], ["d"]]})),
    "DOCX": ("a.docx", document_samples.word_document()),
    "PDF": ("a.pdf", document_samples.pdf()),
    "notebook": ("a.ipynb", document_samples.notebook()),
    "code": ("a.py", b'"""Harbour."""\n\nimport os\n\n\ndef lift():\n    return 40\n'),
}
WITHOUT_HEADINGS = {"settings", "CSV"}


@pytest.mark.parametrize("kind", SAMPLES)
class TestParsers(DocumentParserContract):
    @pytest.fixture
    def sample(self, kind):
        return SAMPLES[kind]

    @pytest.fixture
    def parser(self, sample):
        name, _ = sample
        return load_parser(formats_by_suffix()[name[name.rindex(".") :]].parser)


def test_every_format_is_covered():
    assert {format.kind for format in FORMATS} == set(SAMPLES) | WITHOUT_HEADINGS
