"""Jupyter notebooks: the text and code of their cells, and short outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from knowloom.errors import Invalid
from knowloom.loading.decoding import decode_text, unify_line_breaks
from knowloom.loading.formats.markdown_pages import parse_text
from knowloom.loading.formats.plain import longest_run
from knowloom.loading.parsed_documents import DocumentBuilder, ParsedDocument

MAX_OUTPUT = 2_000  # characters of the output of a cell


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return a notebook as a page; places are the numbers of its cells."""
    try:
        notebook = json.loads(decode_text(raw))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"not a notebook: {error}") from None
    if not isinstance(notebook, Mapping) or not ("cells" in notebook or "worksheets" in notebook):
        raise Invalid("not a notebook: it has no cells")
    language = _language(notebook)
    builder = DocumentBuilder("cell")
    for number, cell in enumerate(_cells(notebook), 1):
        for block in _format_cell(cell, language):
            if block.strip():
                builder.add_block(unify_line_breaks(block).strip("\n"), number)
    page = parse_text("\n".join(builder.lines))
    return replace(page, unit="cell", places=tuple(builder.places))


def _cells(notebook: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    sheets = notebook.get("worksheets") or [notebook]
    for sheet in sheets if isinstance(sheets, list) else ():
        cells = sheet.get("cells", ()) if isinstance(sheet, Mapping) else ()
        yield from (cell for cell in cells if isinstance(cell, Mapping))


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, Mapping) else None
    return str(info.get("name", "python")) if isinstance(info, Mapping) else "python"


def _format_cell(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    source = _text(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") == "code":
        if source.strip():
            yield _fence(source, language)
        outputs = cell.get("outputs", ())
        texts = (_output(output) for output in outputs if isinstance(output, Mapping))
        text = "".join(texts)
        if text.strip():
            shown = text if len(text) <= MAX_OUTPUT else f"{text[:MAX_OUTPUT]}\n[…]"
            yield _fence(shown, "text")
    elif cell.get("cell_type") == "heading":
        yield f"{'#' * int(cell.get('level', 1))} {source}"
    else:
        yield source


def _output(output: Mapping[str, Any]) -> str:
    data = output.get("data")
    if isinstance(data, Mapping):
        return _text(data.get("text/plain", "")) + "\n"
    if "evalue" in output:
        return f"{output.get('ename', 'Error')}: {output['evalue']}\n"
    return _text(output.get("text", ""))


def _text(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _fence(text: str, language: str) -> str:
    ticks = "`" * max(3, 1 + longest_run(text, "`"))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"
