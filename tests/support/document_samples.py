"""Small office documents, written by hand or with the libraries that read them."""

from __future__ import annotations

import io
import json
import zipfile

PDF_PAGES = (
    (
        "Cranes",
        "The north crane lifts forty tons.",
        [("Pier", "Depth", "Crane"), ("North", "12.5", "yes"), ("South", "9", "no")],
    ),
    ("Tugs", "Two tugs are on call at night.", []),
    ("Pilots", "Pilots board at the outer buoy.", []),
)


def pdf(encrypted: bool = False) -> bytes:
    """Return a file of three pages with an outline, a table and a running title."""
    objects: list[bytes] = []
    count = len(PDF_PAGES)
    first_page, first_entry = 4, 4 + 2 * count
    kids = " ".join(f"{first_page + 2 * n} 0 R" for n in range(count))
    objects.append(f"<< /Type /Catalog /Pages 2 0 R /Outlines {first_entry} 0 R >>".encode())
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, (title, text, table) in enumerate(PDF_PAGES):
        stream = _page_stream(number, title, text, table)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents "
            f"{first_page + 2 * number + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects.append(
        f"<< /Type /Outlines /First {first_entry + 1} 0 R /Last {first_entry + count} 0 R "
        f"/Count {count} >>".encode()
    )
    for number, (title, _, _) in enumerate(PDF_PAGES):
        following = f"/Next {first_entry + 2 + number} 0 R " if number + 1 < count else ""
        objects.append(
            f"<< /Title ({title}) /Parent {first_entry} 0 R {following}"
            f"/Dest [{first_page + 2 * number} 0 R /Fit] >>".encode()
        )
    trailer = b""
    if encrypted:
        objects.append(
            b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <"
            + b"41" * 32
            + b"> /U <"
            + b"42" * 32
            + b"> >>"
        )
        trailer = b"/Encrypt %d 0 R /ID [<41> <41>] " % len(objects)
    return _pdf_file(objects, trailer)


def _page_stream(number: int, title: str, text: str, table: list[tuple[str, ...]]) -> bytes:
    parts = [(50, 770, "Harbour handbook"), (50, 720, title), (50, 680, text)]
    for row, cells in enumerate(table):
        parts += [(50 + 150 * column, 640 - 14 * row, cell) for column, cell in enumerate(cells)]
    parts.append((300, 30, f"page {number + 1}"))
    return b"\n".join(
        f"BT /F1 12 Tf {x} {y} Td ({content}) Tj ET".encode() for x, y, content in parts
    )


def _pdf_file(objects: list[bytes], trailer: bytes) -> bytes:
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    out.write(b"trailer\n<< /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n" % (size, trailer, start))
    out.write(b"%%EOF\n")
    return out.getvalue()


def word_document() -> bytes:
    """Return a document with a title, headings, a list, a table and a link."""
    import docx

    document = docx.Document()
    document.core_properties.author = "Ada"
    document.add_heading("Harbour handbook", 0)
    document.add_heading("Cranes", 1)
    document.add_paragraph("The north crane lifts forty tons.")
    document.add_paragraph("Check the brake", style="List Bullet")
    document.add_paragraph("Check the cable", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, (("Pier", "Depth"), ("North", "12.5")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_heading("Tugs", 1)
    document.add_paragraph("Two tugs are on call at night.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def workbook(sheets: dict[str, list[list[object]]]) -> bytes:
    """Return a workbook with inline strings."""
    out = io.BytesIO()
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        parts = [
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="application/vnd.openxml'
            'formats-officedocument.spreadsheetml.worksheet+xml"/>'
            for n in range(1, len(sheets) + 1)
        ]
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="applic'
            'ation/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" Content'
            'Type="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application'
            '/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
            f"{''.join(parts)}</Types>",
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type='
            f'"{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        names = [
            f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>'
            for n, name in enumerate(sheets, 1)
        ]
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>{"".join(names)}</sheets>'
            "</workbook>",
        )
        targets = [
            f'<Relationship Id="rId{n}" Type="{relations}/worksheet" '
            f'Target="worksheets/sheet{n}.xml"/>'
            for n in range(1, len(sheets) + 1)
        ]
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{"".join(targets)}</Relationships>',
        )
        for number, rows in enumerate(sheets.values(), 1):
            archive.writestr(f"xl/worksheets/sheet{number}.xml", _sheet(main, rows))
    return out.getvalue()


def _sheet(main: str, rows: list[list[object]]) -> str:
    lines = []
    for number, row in enumerate(rows, 1):
        cells = []
        for column, value in enumerate(row):
            place = f"{chr(65 + column)}{number}"
            if isinstance(value, str):
                cells.append(f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>')
            else:
                cells.append(f'<c r="{place}"><v>{value}</v></c>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return f'<worksheet xmlns="{main}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "How high it is."]},
        {
            "cell_type": "code",
            "source": "height(12)",
            "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["3.2 m"]}}],
        },
        {"cell_type": "markdown", "source": "## Currents\nThey turn at noon."},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()
