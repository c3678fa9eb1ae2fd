"""Find the files of a source and choose the reader of each: rows of JSON, or documents."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from knowloom.errors import Invalid, KnowloomError, MissingExtra, NotFound
from knowloom.loading import discovery, document_reader, json_rows
from knowloom.loading.discovery import SourceFile
from knowloom.loading.document_links import LinkTable
from knowloom.loading.file_formats import formats_by_suffix, missing_packages
from knowloom.loading.json_rows import ROW_READERS
from knowloom.loading.source_rows import NamedBytes, SourcePart, SourceRow
from knowloom.loading.sources.file_records import FileRecords
from knowloom.loading.sources.web_source import WebPages
from knowloom.report import Skipped

LoadSource = str | Path | Mapping[str, Any] | NamedBytes | WebPages
JSON_ROWS = "JSON rows"  # the kind of files with knowloom's own rows
IGNORED = "ignored by .gitignore"
LINKS = "links"  # the part that resolves the links between documents


def read_rows(
    source: LoadSource,
    space: str | None,
    follow_links: bool = False,
    default: str | None = None,
) -> Iterator[SourceRow | Skipped]:
    """Yield all rows of a source."""
    for part in list_parts(source, space, follow_links, default):
        yield from part.rows()


def list_parts(
    source: LoadSource,
    space: str | None,
    follow_links: bool = False,
    default: str | None = None,
    files: FileRecords | None = None,
) -> list[SourcePart]:
    """Return the files of a folder, the single file, or the dict.

    Without a space, rows of a folder go to a space with the name of their file, and documents to
    one with the name of the folder; a single file or a dict goes to the `default`. Files that
    cannot be loaded are one part that reports them. Documents that `files` has a record of are not
    parsed again.
    """
    if isinstance(source, Mapping):
        rows = partial(json_rows.read_object, "dict", source, space or default)
        return [SourcePart("", rows)]
    links, files = LinkTable(), files or FileRecords()
    if isinstance(source, WebPages):
        return [_build_web_part(source, space, links), _links_part(links, files)]
    if isinstance(source, NamedBytes):
        name = space or default
        if name is None:
            raise Invalid(f"{source.name!r} does not name its space: pass one", "no_space")
        rows = partial(_read_bytes, source, name, links)
        return [
            SourcePart(source.name, rows, _kind_of(Path(source.name)), 1),
            _links_part(links, files),
        ]
    if not isinstance(source, str | Path):
        raise Invalid(
            f"source must be a path or a dict with `items` and `edges`, got {type(source).__name__}"
        )
    if str(source).startswith(("http://", "https://")):
        raise Invalid(f"to read web pages, pass knowloom.WebPages({str(source)[:200]!r})")
    path = Path(source)
    if not os.path.exists(path):  # False for what can be no path at all, where Path.exists raises
        raise NotFound(f"no file or folder {str(source)[:200]!r}")
    if not path.is_dir():
        file = SourceFile(path, path.name)
        is_named = space is not None or (default is not None and _is_document(path))
        read = _read_file if is_named else _read_file_with_spaces
        rows = partial(read, file, space or default, links, files)
        return [SourcePart(path.name, rows, _kind_of(path), 1), _links_part(links, files)]
    return _list_folder(path, space, follow_links, links, files)


def _list_folder(
    path: Path, space: str | None, follow_links: bool, links: LinkTable, files: FileRecords
) -> list[SourcePart]:
    suffixes = supported_suffixes()
    listing = discovery.list_files(path, suffixes, follow_links)
    if not listing.files:
        raise Invalid(f"no {', '.join(suffixes)} file in {str(path)!r}")
    folder = path.resolve().name
    parts = [_build_part(file, space, folder, links, files) for file in listing.files]
    parts += [SourcePart(skip.where, partial(iter, (skip,))) for skip in listing.skipped]
    if listing.ignored:
        parts.append(SourcePart("", partial(iter, ()), IGNORED, listing.ignored))
    return [*parts, _links_part(links, files)]


def default_space(
    source: LoadSource, space: str | None, choose: Callable[[str | None], str]
) -> str | None:
    """Return the default space of a single file or a dict; None if rows name their spaces."""
    path = Path(source) if isinstance(source, str | Path) else None
    if isinstance(source, WebPages) or (path is not None and os.path.isdir(path)):
        return None
    try:
        return choose(space)
    except Invalid:  # there are several, but rows of JSON may name theirs
        is_file = path is not None and os.path.exists(path)
        if isinstance(source, NamedBytes) or (path and is_file and _is_document(path)):
            raise
        return None


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in formats_by_suffix()


def supported_suffixes() -> tuple[str, ...]:
    return (*ROW_READERS, *sorted(formats_by_suffix()))


def _build_part(
    file: SourceFile, space: str | None, folder: str, links: LinkTable, files: FileRecords
) -> SourcePart:
    if space is None:
        space = file.path.stem if file.path.suffix.lower() in ROW_READERS else folder
    rows = partial(_read_file, file, space, links, files)
    return SourcePart(file.name, rows, _kind_of(file.path), 1)


def _build_web_part(pages: WebPages, space: str | None, links: LinkTable) -> SourcePart:
    try:
        from knowloom.loading.sources import web_crawl  # only web pages need httpx
    except ImportError as error:
        advice = "pip install 'knowloom[web]'"
        raise MissingExtra(f"web pages need {error.name}: {advice}") from error
    return web_crawl.build_part(pages, space, links)


def _links_part(links: LinkTable, files: FileRecords) -> SourcePart:
    return SourcePart(LINKS, lambda: document_reader.read_links(links, files), is_links=True)


def _kind_of(path: Path) -> str:
    suffix = path.suffix.lower()
    format = formats_by_suffix().get(suffix)
    if format is None:
        return JSON_ROWS if suffix in ROW_READERS else "other"
    return f"{format.kind} as text" if format.fallback and missing_packages(format) else format.kind


def _read_file_with_spaces(
    file: SourceFile, space: str | None, links: LinkTable, files: FileRecords
) -> Iterator[SourceRow | Skipped]:
    """Read a single file of rows. The space is theirs if the first row names none.

    Raise if there is none for them: skipping every row would look like success.
    """
    has_rows, default = False, None
    for row in _read_file(file, None, links, files):
        if isinstance(row, SourceRow) and not has_rows:
            has_rows = True
            default = space if row.values.get("space") is None else None
            if default is None and row.values.get("space") is None:
                path, name = str(file.path), file.path.stem
                raise Invalid(
                    f"{path!r} does not name its space: pass one, such as {name!r}", "no_space"
                )
        yield replace(row, space=default) if isinstance(row, SourceRow) else row


def _read_file(
    file: SourceFile, space: str | None, links: LinkTable, files: FileRecords
) -> Iterator[SourceRow | Skipped]:
    suffix = file.path.suffix.lower()
    format = formats_by_suffix().get(suffix)
    with _reporting(str(file.path)) as problems:
        if format is not None:
            yield from document_reader.read_document(file, space, format, links, files)
        elif suffix in ROW_READERS or discovery.starts_with_object(file.path):
            yield from ROW_READERS.get(suffix, json_rows.read_lines)(file, space)
        else:
            raise Invalid(_unsupported(suffix))
    yield from problems


def _read_bytes(source: NamedBytes, space: str, links: LinkTable) -> Iterator[SourceRow | Skipped]:
    suffix = Path(source.name).suffix.lower()
    format = formats_by_suffix().get(suffix)
    with _reporting(source.name) as problems:
        if format is None and suffix not in ROW_READERS:
            raise Invalid(_unsupported(suffix))
        if format is None or (source.raw.lstrip()[:1] == b"{" and format.kind != "notebook"):
            yield from json_rows.parse_lines(io.BytesIO(source.raw), source.name, space)
        else:
            yield from document_reader.parse_rows(
                source.raw, source.name, source.name, space, format, links
            )
    yield from problems


@contextmanager
def _reporting(where: str) -> Iterator[list[Skipped]]:
    """Collect the error that ends the reading of a file as a skipped part of it."""
    problems: list[Skipped] = []

    def add(what: str, why: str) -> None:
        problems.append(Skipped(where, what, why))

    try:
        yield problems
    except KnowloomError as error:
        add("the whole file", str(error))
    except RecursionError:
        add("the whole file", "not JSON: nested too deeply")
    except ValueError as error:
        add("the whole file", f"not JSON: {error}")
    except OSError as error:
        add("the rest of the file", f"cannot be read: {error.strerror}")


def _unsupported(suffix: str) -> str:
    available = ", ".join(supported_suffixes())
    return f"unsupported suffix: {suffix or 'none'}; available: {available}"
