"""The table of file formats: suffixes, parser, required packages and limits.

A plug-in adds a format through the entry point group "knowloom.loaders": the name of the entry
point is the suffix without its dot, the value a `Parser`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec

from knowloom.caching import cached

_PARSERS = "knowloom.loading.formats"
PLAIN_TEXT = f"{_PARSERS}.plain:parse"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A kind of file and the function that parses it.

    An isolated parser runs in a process of its own, with limits of time and memory.
    """

    kind: str
    suffixes: tuple[str, ...]
    parser: str  # module:function
    max_mb: int = 20
    packages: tuple[str, ...] = ()  # modules that the parser imports
    extra: str = ""  # that installs them
    isolated: bool = False
    fallback: str = ""  # a parser that needs no package


_DOCUMENTS = "documents"  # the extra
_GRAMMARS = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
_CODE_SUFFIXES = (
    ".py .pyi .pyw .js .mjs .cjs .jsx .ts .mts .cts .tsx .go .rs .java .c .h .cc .cpp .cxx .hpp "
    ".hh .hxx"
).split()
FORMATS = (
    FileFormat("Markdown", (".md", ".markdown", ".mdx"), f"{_PARSERS}.markdown_pages:parse"),
    FileFormat("text", (".txt", ".text", ".adoc", ".asciidoc"), PLAIN_TEXT, 50),
    FileFormat(
        "settings",
        (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".sql", ".sh", ".bash", ".proto"),
        f"{_PARSERS}.plain:parse_code",
        max_mb=5,
    ),
    FileFormat(
        "reStructuredText",
        (".rst", ".rest"),
        f"{_PARSERS}.restructured:parse",
        packages=("docutils",),
        extra=_DOCUMENTS,
        isolated=True,
        fallback=PLAIN_TEXT,
    ),
    FileFormat(
        "HTML",
        (".html", ".htm", ".xhtml"),
        f"{_PARSERS}.web_pages:parse",
        max_mb=100,
        packages=("selectolax",),
        extra=_DOCUMENTS,
        isolated=True,
    ),
    FileFormat(
        "CSV", (".csv", ".tsv"), f"{_PARSERS}.spreadsheets:parse_csv", max_mb=100, isolated=True
    ),
    FileFormat(
        "workbook",
        (".xlsx", ".xlsm", ".xls", ".ods"),
        f"{_PARSERS}.spreadsheets:parse_workbook",
        max_mb=100,
        packages=("python_calamine",),
        extra=_DOCUMENTS,
        isolated=True,
    ),
    FileFormat(
        "DOCX",
        (".docx",),
        f"{_PARSERS}.word_documents:parse",
        max_mb=100,
        packages=("docx",),
        extra=_DOCUMENTS,
        isolated=True,
    ),
    FileFormat(
        "PDF",
        (".pdf",),
        f"{_PARSERS}.pdf_files:parse",
        max_mb=600,
        packages=("pypdfium2",),
        extra=_DOCUMENTS,
        isolated=True,
    ),
    FileFormat("notebook", (".ipynb",), f"{_PARSERS}.notebooks:parse", max_mb=100, isolated=True),
    FileFormat(
        "code",
        tuple(_CODE_SUFFIXES),
        f"{_PARSERS}.source_code:parse",
        max_mb=5,
        packages=("tree_sitter", *(f"tree_sitter_{grammar}" for grammar in _GRAMMARS)),
        extra="code",
        isolated=True,
        fallback=f"{_PARSERS}.plain:parse_code",
    ),
)


@cached("file_formats", 1)
def formats_by_suffix() -> dict[str, FileFormat]:
    """Return the formats of knowloom and of plug-ins; those of knowloom come first."""
    points = entry_points(group="knowloom.loaders")
    plugins = [
        FileFormat(point.name, (f".{point.name.lower()}",), point.value, isolated=True)
        for point in sorted(points, key=lambda point: (point.name, point.value))
    ]
    formats = (*reversed(plugins), *reversed(FORMATS))
    return {suffix: format for format in formats for suffix in format.suffixes}


@cached("missing_packages", 100)
def missing_packages(format: FileFormat) -> list[str]:
    """Return the packages that the parser of a format needs and that are not installed."""
    return [name for name in format.packages if find_spec(name) is None]
