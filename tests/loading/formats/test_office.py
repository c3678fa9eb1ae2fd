"""PDF, DOCX, workbooks, CSV and notebooks: text, headings, tables and places."""

from __future__ import annotations

import io
import zipfile

import document_samples
import pytest

from knowloom.errors import Invalid
from knowloom.loading.formats import notebooks, pdf_files, spreadsheets, word_documents


class TestPdf:
    def test_text_has_pages_headings_and_columns(self) -> None:
        document = pdf_files.parse(document_samples.pdf(), "handbook.pdf")
        assert [(heading.level, heading.title) for heading in document.headings] == [
            (1, "Cranes"),
            (1, "Tugs"),
            (1, "Pilots"),
        ]
        assert document.unit == "page"
        assert [place for _, place in document.places] == [1, 2, 3]
        assert "Pier | Depth | Crane\nNorth | 12.5 | yes\nSouth | 9 | no" in document.text
        assert "The north crane lifts forty tons." in document.text

    def test_running_titles_and_page_numbers_are_left_out(self) -> None:
        text = pdf_files.parse(document_samples.pdf(), "handbook.pdf").text
        assert "Harbour handbook" not in text
        assert "page 2" not in text

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (b"", "not PDF: it does not begin with %PDF-"),
            (document_samples.pdf()[:300], "truncated or broken PDF"),
            (b"%PDF-1.4\n" + bytes(range(256)) * 40, "truncated or broken PDF"),
            (document_samples.pdf(encrypted=True), "encrypted: save it without a password"),
        ],
    )
    def test_broken_files_are_refused(self, raw: bytes, message: str) -> None:
        with pytest.raises(Invalid, match=message):
            pdf_files.parse(raw, "a.pdf")

    def test_words_that_are_divided_at_the_end_of_a_line_are_joined(self) -> None:
        stream = (
            b"BT /F1 12 Tf 50 700 Td (Agents lever-) Tj 0 -14 Td (age multi-agent tools.) Tj ET"
        )
        raw = document_samples._pdf_file(
            [
                b"<< /Type /Catalog /Pages 2 0 R >>",
                b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
                b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 5 0 R"
                b" /Resources << /Font << /F1 3 0 R >> >> >>",
                b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
            ],
            b"",
        )
        assert pdf_files.parse(raw, "a.pdf").text == "Agents leverage multi-agent tools."

    def test_scanned_pages_are_refused(self) -> None:
        raw = document_samples._pdf_file(
            [
                b"<< /Type /Catalog /Pages 2 0 R >>",
                b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
            ],
            b"",
        )
        with pytest.raises(Invalid, match="has no text in its 1 pages"):
            pdf_files.parse(raw, "a.pdf")


class TestWord:
    def test_headings_lists_and_tables(self) -> None:
        document = word_documents.parse(document_samples.word_document(), "a.docx")
        assert [(heading.level, heading.title) for heading in document.headings] == [
            (1, "Cranes"),
            (1, "Tugs"),
        ]
        assert document.title == "Harbour handbook"
        assert "- Check the brake\n- Check the cable" in document.text
        assert "| Pier | Depth |\n| --- | --- |\n| North | 12.5 |" in document.text
        assert (document.unit, document.places[:3]) == ("paragraph", ((0, 2), (2, 3), (4, 4)))
        assert document.fields["author"] == "Ada"

    def test_archives_that_unpack_to_too_much_are_refused(self) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(6):
                archive.writestr(f"word/{number}.xml", b"\0" * 100_000_000)
        assert len(out.getvalue()) < 1_000_000
        with pytest.raises(Invalid, match="must unpack to <= 500,000,000 bytes"):
            word_documents.parse(out.getvalue(), "bomb.docx")

    def test_archives_of_too_many_files_are_refused(self) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for number in range(20_001):
                archive.writestr(f"{number}", b"")
        with pytest.raises(Invalid, match="must have <= 20,000 files inside, got 20,001"):
            word_documents.parse(out.getvalue(), "many.docx")

    def test_the_strict_variant_is_refused_by_name(self) -> None:
        office = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        strict = b"http://purl.oclc.org/ooxml/officeDocument/relationships"
        out = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(document_samples.word_document())) as usual,
            zipfile.ZipFile(out, "w") as archive,
        ):
            for name in usual.namelist():
                archive.writestr(name, usual.read(name).replace(office, strict))
        with pytest.raises(Invalid, match=r"^Strict Open XML: save it as Word Document \(.docx\)"):
            word_documents.parse(out.getvalue(), "a.docx")

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 600, "not DOCX: it is no ZIP archive"),
            (document_samples.word_document()[:2_000], "truncated or broken"),
            (document_samples.workbook({"a": [["x"]]}), "not DOCX"),
            (
                b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
                "encrypted",
            ),
        ],
    )
    def test_broken_files_are_refused(self, raw: bytes, message: str) -> None:
        with pytest.raises(Invalid, match=message):
            word_documents.parse(raw, "a.docx")


class TestSheets:
    def test_a_short_sheet_is_a_table_and_a_long_one_records(self) -> None:
        long = [["boat", "length"], *([f"boat {n}", n] for n in range(30))]
        raw = document_samples.workbook({"Piers": [["pier", "depth"], ["north", 12.5]], "B": long})
        document = spreadsheets.parse_workbook(raw, "a.xlsx")
        assert [heading.title for heading in document.headings] == ["Piers", "B"]
        assert "| pier | depth |\n| --- | --- |\n| north | 12.5 |" in document.text
        assert "- boat: boat 7; length: 7" in document.text
        lines, places = document.text.split("\n"), dict(document.places)
        assert places[lines.index("| north | 12.5 |")] == 2
        assert places[lines.index("- boat: boat 7; length: 7")] == 9

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_values_are_separated_by_any_usual_delimiter(self, delimiter: str) -> None:
        text = f'name{delimiter}note\nAda{delimiter}"first, and; only"\n'
        document = spreadsheets.parse_csv(text.encode(), "a.csv")
        assert document.text == "| name | note |\n| --- | --- |\n| Ada | first, and; only |"

    def test_rows_without_a_header_have_no_names(self) -> None:
        text = "\n".join(f"{n},{n * n}" for n in range(20))
        assert "- 3; 9" in spreadsheets.parse_csv(text.encode(), "a.csv").text

    @pytest.mark.parametrize(
        "raw", [b"", b"PK\x03\x04 broken", document_samples.workbook({"a": [["x"]]})[:400]]
    )
    def test_broken_workbooks_are_refused(self, raw: bytes) -> None:
        with pytest.raises(Invalid, match=r"not a workbook|truncated or broken"):
            spreadsheets.parse_workbook(raw, "a.xlsx")


class TestNotebooks:
    def test_cells_are_text_code_and_output(self) -> None:
        document = notebooks.parse(document_samples.notebook(), "tides.ipynb")
        assert [heading.title for heading in document.headings] == ["Tides", "Currents"]
        assert "```python\nheight(12)\n```\n\n```text\n3.2 m\n```" in document.text
        assert (document.unit, [place for _, place in document.places]) == ("cell", [1, 2, 3])

    @pytest.mark.parametrize("raw", [b"{", b"[]", b"{}", b"[" * 100_000])
    def test_other_json_is_refused(self, raw: bytes) -> None:
        with pytest.raises(Invalid, match="not a notebook"):
            notebooks.parse(raw, "a.ipynb")
