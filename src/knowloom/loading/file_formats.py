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


FORMATS = (
    FileFormat("Markdown", (".md", ".markdown", ".mdx"), f"{_PARSERS}.markdown_pages:parse"),
    FileFormat(
        *("reStructuredText", (".rst", ".rest"), f"{_PARSERS}.restructured:parse"),
        packages=("docutils",),
        extra="documents",
        isolated=True,
        fallback=PLAIN_TEXT,
    ),
    FileFormat("text", (".txt", ".text", ".adoc", ".asciidoc"), PLAIN_TEXT),
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


def missing_packages(format: FileFormat) -> list[str]:
    return [name for name in format.packages if find_spec(name) is None]
