"""The package's source files, parsed once, for the tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import knowloom

PACKAGE = Path(knowloom.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def relative_name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


@cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def module_name(file: Path) -> str:
    """Return the name inside the package: "" for its root, "context.packing" for a module."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(file: Path) -> Iterator[Function]:
    yield from (node for node in ast.walk(parse(file)) if isinstance(node, Function))


def imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, inside functions and for type checkers too."""
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            source = str(node.module)
            for alias in node.names:
                path = PACKAGE.parent.joinpath(*source.split("."), alias.name)
                is_module = path.is_dir() or path.with_suffix(".py").is_file()
                yield f"{source}.{alias.name}" if is_module else source


def internal_imports(file: Path) -> list[str]:
    """Return the package's own modules that a file imports, relative to the package."""
    names = {name for name in imports(file) if name.split(".")[0] == "knowloom"}
    return sorted(name.removeprefix("knowloom").removeprefix(".") for name in names)
