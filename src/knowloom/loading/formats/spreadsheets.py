"""Tables of CSV files and workbooks: short ones as tables, long ones as records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from knowloom.errors import Invalid
from knowloom.loading.decoding import decode_text
from knowloom.loading.formats.tables import format_table
from knowloom.loading.parsed_documents import DocumentBuilder, ParsedDocument

MAX_TABLE_ROWS = 12  # a longer table is shown as records, which need no header above them
MAX_CELL = 1_000_000  # characters
MAX_ROWS = 1_000_000
_DELIMITERS = ",;\t|"


def parse_csv(raw: bytes, name: str) -> ParsedDocument:
    """Return a file of comma-, semicolon- or tab-separated values."""
    text = decode_text(raw)
    csv.field_size_limit(MAX_CELL)
    try:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(io.StringIO(text), _dialect(text, name))
        ]
    except csv.Error as error:
        raise Invalid(f"not CSV: {error}") from None
    builder = DocumentBuilder("row")
    add_rows(builder, rows)
    return builder.build()


def _dialect(text: str, name: str) -> type[csv.Dialect]:
    class Delimited(csv.excel):
        delimiter = "\t" if name.lower().endswith(".tsv") else _find_delimiter(text)

    return Delimited


def _find_delimiter(text: str) -> str:
    """Return the delimiter that splits the first lines most evenly."""
    lines = [line for line in text[:20_000].split("\n")[:20] if line.strip()]

    def score(delimiter: str) -> tuple[int, int, int]:
        counts = [line.count(delimiter) for line in lines]
        return (min(counts, default=0), -len(set(counts)), -_DELIMITERS.index(delimiter))

    return max(_DELIMITERS, key=score)


def parse_workbook(raw: bytes, name: str) -> ParsedDocument:
    """Return the sheets of a workbook."""
    import python_calamine

    from knowloom.loading.formats.archives import check_archive

    check_archive(raw)
    try:
        workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(raw))
        names = workbook.sheet_names
        builder = DocumentBuilder("row")
        for sheet in names:
            values = workbook.get_sheet_by_name(sheet).to_python(skip_empty_area=False)
            rows = [[format_value(value) for value in row] for row in values[:MAX_ROWS]]
            if any(any(row) for row in rows):
                if len(names) > 1:
                    builder.add_heading(1, sheet, None, (sheet,))
                add_rows(builder, rows)
    except python_calamine.PasswordError as error:
        raise Invalid("encrypted: save it without a password") from error
    except python_calamine.CalamineError as error:
        raise Invalid(f"not a workbook: {error}") from error
    return builder.build()


def format_value(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


def add_rows(builder: DocumentBuilder, rows: Sequence[Sequence[str]]) -> None:
    """Add a table, or a line for each record with the names of its columns."""
    numbered = [(number, row) for number, row in enumerate(rows, 1) if any(row)]
    if not numbered:
        return
    has_header = _has_header([row for _, row in numbered])
    if len(numbered) <= MAX_TABLE_ROWS:
        start = builder.add_block(format_table([row for _, row in numbered], header=has_header))
        first = start if has_header else start + 2
        for line, (number, _) in enumerate(numbered):
            builder.places.append((first + line + (has_header and line > 0), number))
        return
    header = numbered[0][1] if has_header else []
    lines: list[str] = []
    start = builder.add_block("")
    builder.lines.pop()
    for number, row in numbered[1:] if has_header else numbered:
        builder.places.append((start + len(lines), number))
        lines.append(f"- {'; '.join(_name_cells(header, row))}")
    builder.lines.extend(lines)


def _name_cells(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    for column, cell in enumerate(row):
        if cell:
            name = header[column] if column < len(header) else ""
            text = " ".join(cell.split())
            yield f"{' '.join(name.split())}: {text}" if name else text


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row has names: texts that differ, and no numbers."""
    first = [cell for cell in rows[0] if cell]
    names = [
        cell for cell in first if not cell.replace(".", "").replace(",", "").lstrip("-").isdigit()
    ]
    return len(rows) > 1 and len(names) == len(first) == len(set(first)) and bool(first)
