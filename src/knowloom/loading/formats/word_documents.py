"""DOCX: paragraphs with the levels of their headings, lists, tables and links."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any
from xml.etree.ElementTree import ParseError

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table

from knowloom.errors import Invalid
from knowloom.loading.formats.archives import check_archive
from knowloom.loading.formats.tables import format_table
from knowloom.loading.parsed_documents import DocumentBuilder, ParsedDocument

_STRICT = b"http://purl.oclc.org/ooxml/"
_HEADING = re.compile(r"(?:heading|überschrift|titre|título) ?([1-9])", re.I)


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return the text of a document; places are the numbers of its paragraphs and tables."""
    document = _open(raw)
    builder = DocumentBuilder("paragraph")
    for number, block in enumerate(document.iter_inner_content(), 1):
        if isinstance(block, Table):
            rows = [[cell.text for cell in _unique_cells(row)] for row in block.rows]
            if table := format_table(rows):
                builder.add_block(table, number)
        else:
            _add_paragraph(builder, block, number)
    properties = document.core_properties
    fields = {
        name: value
        for name in ("author", "subject", "keywords", "category")
        if (value := getattr(properties, name, ""))
    }
    fields = {("topic" if name == "subject" else name): value for name, value in fields.items()}
    return builder.build(_find_title(document) or (properties.title or "").strip(), fields)


def _open(raw: bytes) -> Any:
    check_archive(raw)
    if not raw.startswith(b"PK"):
        raise Invalid("not DOCX: it is no ZIP archive; save an old .doc as .docx")
    try:
        return docx.Document(io.BytesIO(raw))
    except (PackageNotFoundError, zipfile.BadZipFile, KeyError, ValueError, ParseError) as error:
        if _is_strict(raw):
            raise Invalid("Strict Open XML: save it as Word Document (.docx)") from None
        detail = error.args[0] if error.args else error  # str() of a KeyError has quotes
        raise Invalid(f"not DOCX: {detail}") from None


def _is_strict(raw: bytes) -> bool:
    """Return True for the strict variant of the format, whose namespaces python-docx lacks."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return "_rels/.rels" in archive.namelist() and _STRICT in archive.read("_rels/.rels")


def _find_title(document: Any) -> str:
    """Return the first paragraph if it has the style of a title."""
    first = next((paragraph for paragraph in document.paragraphs if paragraph.text.strip()), None)
    is_title = first is not None and first.style is not None and first.style.name == "Title"
    return " ".join(first.text.split()) if first is not None and is_title else ""


def _unique_cells(row: Any) -> list[Any]:
    """Return the cells of a row; a merged one is in it several times."""
    cells: list[Any] = []
    for cell in row.cells:
        if not cells or cell._tc is not cells[-1]._tc:
            cells.append(cell)
    return cells


def _add_paragraph(builder: DocumentBuilder, paragraph: Any, number: int) -> None:
    text = paragraph.text.strip()
    if not text:
        return
    style = (paragraph.style.name or "") if paragraph.style is not None else ""
    links = [link.address for link in paragraph.hyperlinks if link.address]
    heading = _HEADING.match(style)
    if heading:
        builder.add_heading(int(heading[1]), " ".join(text.split()), number)
        return
    if style == "Title" and not builder.lines:
        return
    if style.startswith("List"):
        mark = "1. " if "Number" in style else "- "
        if builder.lines and builder.lines[-1].startswith(("1. ", "- ")):
            builder.lines.append(mark + text)
            builder.add_place(len(builder.lines) - 1, number)
            return
        text = mark + text
    builder.add_block(text, number, links)
