"""Imports of source code: what a file imports, and the names by which others import it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

_JS_IMPORT = re.compile(r"""(?:\bfrom|\bimport|\brequire\()\s*["'](\.[^"'\n]*)["']""")
_INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)\"""", re.M)
_PY_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))",
    re.M,
)
_JAVA_IMPORT = re.compile(r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.]+)", re.M)
_JAVA_PACKAGE = re.compile(r"^[ \t]*package[ \t]+([\w.]+)", re.M)
_RUST_MODULE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?mod[ \t]+(\w+)[ \t]*;", re.M)


def find_imports(text: str, name: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield the line, from 1, and the target of each import of a file."""
    for pattern, read in _IMPORTS.get(language, ()):
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            for target in read(match, name):
                yield line, target


def _read_path(match: re.Match[str], name: str) -> Iterator[str]:
    yield re.sub(r"\.js$", "", match[1]) if match[1].startswith(".") else match[1]


def _read_java(match: re.Match[str], name: str) -> Iterator[str]:
    yield f"module:{match[1]}"


def _read_rust(match: re.Match[str], name: str) -> Iterator[str]:
    yield f"{match[1]}.rs"


def _read_python(match: re.Match[str], name: str) -> Iterator[str]:
    """Yield the modules that a statement imports, and names that may be modules."""
    if match[3]:
        for part in match[3].split(","):
            yield f"module:{part.split(' as ')[0].strip()}"
        return
    module = match[1]
    dots = len(module) - len(module.lstrip("."))
    if dots:
        folder = posixpath.dirname(name).split("/")
        package = folder[: len(folder) - dots + 1]
        module = ".".join(part for part in (*package, module[dots:]) if part)
    yield f"module:{module}"
    for part in match[2].strip("()").split(","):
        imported = part.split(" as ")[0].strip()
        if imported.isidentifier():
            yield f"module:{module}.{imported}"


_IMPORTS = {
    "py": ((_PY_IMPORT, _read_python),),
    "java": ((_JAVA_IMPORT, _read_java),),
    "rs": ((_RUST_MODULE, _read_rust),),
    **dict.fromkeys(("js", "ts", "tsx"), ((_JS_IMPORT, _read_path),)),
    **dict.fromkeys(("c", "cpp"), ((_INCLUDE, _read_path),)),
}


def module_names(name: str, text: str) -> tuple[str, ...]:
    """Return the names by which other files import this one."""
    stem, _, suffix = name.rpartition(".")
    if suffix in ("py", "pyi"):
        path = stem.removesuffix("/__init__").split("/")
        # A package may be below a folder such as src, which is not part of its name.
        starts = range(len(path)) if len(path) > 1 else (0,)
        names = [".".join(path[start:]) for start in starts if len(path) - start > 1 or start == 0]
        return tuple(f"module:{module}" for module in names)
    if suffix == "java" and (package := _JAVA_PACKAGE.search(text)):
        return (f"module:{package[1]}.{stem.rpartition('/')[2]}",)
    return ()
