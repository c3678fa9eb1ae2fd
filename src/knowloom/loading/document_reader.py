"""Read a document file: its bytes, its parser, its items and its links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from knowloom.errors import Invalid
from knowloom.loading import discovery, document_parser, sections
from knowloom.loading.discovery import SourceFile
from knowloom.loading.document_links import LinkTable
from knowloom.loading.file_formats import FileFormat
from knowloom.loading.sections import DocumentRow, DocumentRows
from knowloom.loading.source_rows import SourceRow
from knowloom.loading.sources.file_records import FileRecords
from knowloom.report import Skipped


def read_document(
    file: SourceFile, space: str | None, format: FileFormat, links: LinkTable, files: FileRecords
) -> Iterator[SourceRow | Skipped]:
    """Yield the rows of a document; its links are added to the table.

    A file that is unchanged since the last load has none: its edges come with the links.
    """
    mtime_ns = discovery.stat_regular_file(file.path).st_mtime_ns
    raw = discovery.read_regular_file(file.path, format.max_mb * 1_000_000)
    where, state = str(file.path), files.state_of(raw, mtime_ns, space, format)
    if not files.restore(file.name, state, space, links):
        record = partial(files.add, file.name, state)
        yield from parse_rows(raw, file.name, where, space, format, links, record)


def parse_rows(
    raw: bytes,
    name: str,
    where: str,
    space: str | None,
    format: FileFormat,
    links: LinkTable,
    record: Callable[[DocumentRows, tuple[str, ...]], None] = lambda rows, names: None,
) -> Iterator[SourceRow | Skipped]:
    """Yield the rows of the bytes of a document."""
    document = document_parser.parse_document(format, raw, name)
    for problem in document.problems:
        yield replace(problem, where=f"{where}:{problem.where}" if problem.where else where)
    built = sections.build_rows(document, name, name.removesuffix(".md"))
    if not built.rows:
        raise Invalid("empty: it has no text")
    links.add(name, built, space, document.names)
    record(built, document.names)
    yield from (_source_row(where, line, row, space, name) for line, row in built.rows)


def _source_row(where: str, line: int, row: DocumentRow, space: str | None, name: str) -> SourceRow:
    # An edge of a named part is dropped in silence if its ends were not stored.
    part = name if "target" in row else ""
    return SourceRow(f"{where}:{line}", row, space, part=part, is_document=True)


def read_links(links: LinkTable, files: FileRecords) -> Iterator[SourceRow]:
    """Yield the edges of unchanged files, and those between documents, which were read before."""
    for name, space, edge in files.edges:
        yield SourceRow(name, edge, space, part=name)
    for name, space, edge in links.resolve():
        yield SourceRow(f"links of {name}", edge, space, part=name)
