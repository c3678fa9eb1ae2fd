"""The vocabulary: no private dialect, unique names, docstrings that open with a verb or a noun."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from source_tree import FILES, PACKAGE, functions, module_name, parse, relative_name

DIALECT = frozenset(
    "one found asked given known said told held kept wanted made own most least every".split()
)
RELATIVE_CLAUSE = re.compile(r"(What|Whether|Where|Which|Who|How|Why|Those|That|Of)\b")
VAGUE = frozenset("utils util helpers common manager base core misc".split())

# A capability has modules of the same name in the packages that expose it.
SURFACES = frozenset(("cli", "server", "wire", "client", "capabilities"))
# Roles that a module has within its package.
SHARED_MODULE_NAMES = frozenset(
    "model options store openai packing formats ports rules pipeline markdown".split()
)


def bindings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names that a module binds: variables, parameters, fields, functions, classes, aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name.strip("_").lower(), node.lineno


def test_no_name_of_the_private_dialect_is_bound():
    assert [
        f"{relative_name(file)}:{line}: {name}"
        for file in FILES
        for name, line in bindings(parse(file))
        if name in DIALECT
    ] == []


def docstrings(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parse(file)):
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def test_docstrings_open_with_a_verb_or_a_noun_phrase():
    assert [
        f"{relative_name(file)}:{line}: {text.splitlines()[0]}"
        for file in FILES
        for line, text in docstrings(file)
        if RELATIVE_CLAUSE.match(text)
    ] == []


def test_each_module_opens_with_a_docstring():
    assert [relative_name(file) for file in FILES if not ast.get_docstring(parse(file))] == []


def test_no_two_modules_share_a_name_outside_the_surfaces_of_one_capability():
    homes: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        if file.stem not in ("__init__", "__main__") and file.stem not in SHARED_MODULE_NAMES:
            homes[file.stem].append(module_name(file))
    clashes = {
        stem: modules
        for stem, modules in homes.items()
        if len([name for name in modules if name.split(".")[0] not in SURFACES]) > 1
    }
    assert clashes == {}


def test_no_module_has_a_name_that_describes_nothing():
    assert [relative_name(f) for f in FILES if VAGUE & set(module_name(f).split("."))] == []


def test_no_two_public_top_level_classes_share_a_name():
    homes: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        for node in parse(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module_name(file))
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_no_public_function_takes_untyped_keyword_options():
    assert [
        f"{relative_name(file)}:{function.lineno}: {function.name}"
        for file in FILES
        for function in functions(file)
        if not function.name.startswith("_")
        and (rest := function.args.kwarg) is not None
        and rest.annotation is not None
        and ast.unparse(rest.annotation) == "Any"
    ] == []


def test_the_package_has_no_second_name():
    sources = [file for file in PACKAGE.rglob("*") if file.suffix in (".py", ".md", ".toml")]
    legacy = {relative_name(f) for f in sources if "weft" in f.read_text("utf-8").lower()}
    # The marker of folders in a format that is no longer read.
    assert legacy <= {"stores/file/folder.py"}
