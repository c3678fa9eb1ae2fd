"""The shape of the package: imports point one way, optional packages stay in one file, nothing grows without notice."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import knowloom

ROOT = Path(knowloom.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
NAMES = [str(file.relative_to(ROOT)) for file in FILES]

# What each part of the package may import. A package may import from itself; each store and each capability only its own files.
LAYERS: dict[str, set[str]] = {
    "model": set(),
    "errors": set(),
    "trace": set(),
    "quick": set(),
    "recent": set(),
    "ports": {"model"},
    "recipes": {"model"},
    "codec": {"model", "errors", "quick"},
    "words": {"model"},
    "config": {"errors"},
    "tokens": {"errors", "ports"},
    "remote": {"errors"},
    "templates": {"errors"},
    "stages": {
        "model",
        "errors",
        "ports",
        "recipes",
        "codec",
        "words",
        "trace",
        "quick",
        "recent",
        "ingest.called",
        "ingest.mentions",
    },
    "axioms": {"model", "errors", "ports", "codec"},
    "disk": {"errors"},
    "layers": {"model", "ports", "codec"},
    "registry": {"errors", "ports", "layers"},
    "ingest": {"model", "errors", "ports", "codec"},
    "request": {"model", "errors", "recipes", "ingest"},
    "retrieval": {"errors", "recipes", "request"},
    "tiers": {"model", "errors", "recipes"},
    "agents": {"model", "errors", "recipes", "stages", "ingest", "request", "tiers"},
    "linking": {"model", "errors", "ports", "quick", "ingest"},
    "meaning": {"model", "errors", "ports", "recipes", "trace", "ingest", "embedders.cached"},
    "loading": {"model", "ports", "codec", "ingest", "meaning"},
    "engine": {
        "model",
        "errors",
        "ports",
        "recipes",
        "codec",
        "tokens",
        "trace",
        "stages",
        "ingest",
        "request",
        "meaning",
        "linking",
        "loading",
        "life",
        "axioms",
        "tiers",
        "agents",
        "retrieval",
    },
    "stores": {"model", "errors", "codec", "words", "disk", "quick", "recent"},
    "embedders": {"model", "errors", "codec", "words", "ports", "remote"},
    "llms": {"errors", "ports", "remote"},
    "names": {"errors"},
    "capabilities": {
        "model",
        "errors",
        "ports",
        "recipes",
        "codec",
        "quick",
        "words",
        "tokens",
        "trace",
        "stages",
        "ingest",
        "request",
        "engine",
        "templates",
        "axioms",
        "tiers",
    },
    "evaluation": {"model", "errors", "request", "retrieval", "meaning", "engine"},
    "surfaces": {
        "model",
        "errors",
        "ports",
        "recipes",
        "codec",
        "tokens",
        "ingest",
        "engine",
        "meaning",
        "life",
        "axioms",
        "tiers",
        "agents",
        "capabilities",
        "evaluation",
        "retrieval",
        "registry",
        "config",
        "disk",
        "",
    },
    "testing": {"model", "errors", "ports", "codec", "words"},
    "": {
        "disk",
        "model",
        "errors",
        "ports",
        "recipes",
        "ingest",
        "engine",
        "linking",
        "agents",
        "life",
        "axioms",
        "capabilities",
        "registry",
        "surfaces",
        "templates",
        "retrieval",
        "evaluation",
    },
    "life": {"model", "errors", "ports", "codec", "ingest"},
    "__main__": {"surfaces"},
}
REQUIRED = {
    "Stemmer",
    "apsw",
    "click",
    "markdown_it",
    "numpy",
    "onnxruntime",
    "re2",
    "rich",
    "tiktoken",
    "tokenizers",
    "yaml",
}

MAX_FUNCTION = 60
MAX_FILE = 320
LARGER = {
    "engine.py": 520,
    "model.py": 420,
    "stores/memory.py": 480,
    "stores/sqlite/store.py": 440,
    "surfaces/client.py": 370,
    "testing/items.py": 340,
}


def module(file: Path) -> str:
    """The name inside the package: "" for its front door, "stages.fit" for a part."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[str]:
    """Every module a file imports, at its top, inside a function or for type checkers."""
    for statement in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            assert not statement.level, f"{file}: relative import"
            yield from _imported_from(
                str(statement.module), [alias.name for alias in statement.names]
            )


def _imported_from(source: str, names: list[str]) -> Iterator[str]:
    for name in names:
        below = ROOT.parent.joinpath(*source.split("."), name)
        yield f"{source}.{name}" if below.is_dir() or below.with_suffix(".py").is_file() else source


def inside(file: Path) -> list[str]:
    """The parts of the package that a file imports."""
    return sorted(
        {
            name.removeprefix("knowloom").removeprefix(".")
            for name in imports(file)
            if name.split(".")[0] == "knowloom"
        }
    )


def layer(name: str) -> str:
    return name.split(".")[0]


def own(name: str) -> str:
    """What a file may always import from: its package, and of the stores or capabilities only itself."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] in ("stores", "capabilities") else parts[0]


def allowed(importer: str, imported: str) -> bool:
    return (bool(importer) and part_of(imported, own(importer))) or any(
        part_of(imported, one) for one in LAYERS[layer(importer)]
    )


def part_of(name: str, whole: str) -> bool:
    return name == whole or (bool(whole) and name.startswith(f"{whole}."))


@pytest.mark.parametrize("name", NAMES)
def test_imports_point_one_way(name):
    here = module(ROOT / name)
    assert layer(here) in LAYERS, f"{name} has no place in the table of layers"
    assert [imported for imported in inside(ROOT / name) if not allowed(here, imported)] == []


def test_the_table_of_layers_has_no_cycle():
    for name in LAYERS:
        assert layer(name) not in below(name, set()), f"{name} is below itself"


def below(name: str, seen: set[str]) -> set[str]:
    for one in LAYERS[name]:
        if one and layer(one) not in seen:
            seen.add(layer(one))
            below(layer(one), seen)
    return seen


def test_the_core_names_no_store_and_no_embedder():
    kinds = ("stores", "embedders", "llms", "names")
    adapters = [
        name
        for file in FILES
        if layer(module(file)) not in kinds
        for name in inside(file)
        if layer(name) in kinds
    ]
    assert sorted(set(adapters)) == ["embedders.cached"]


def test_an_optional_package_is_imported_in_one_file_or_folder_of_its_own():
    users: dict[str, set[str]] = defaultdict(set)
    for name in NAMES:
        for imported in imports(ROOT / name):
            users[imported.split(".")[0]].add(
                next(
                    (
                        folder
                        for folder in ("surfaces/http", "testing")
                        if name.startswith(f"{folder}/")
                    ),
                    name,
                )
            )
    others = {
        package: files
        for package, files in users.items()
        if package not in REQUIRED | sys.stdlib_module_names | {"knowloom"}
    }
    # httpx speaks HTTP for embedders and LLMs (remote.py) and for the client, each in its one file.
    assert {
        package: sorted(files)
        for package, files in others.items()
        if len(files) > 1 and package != "httpx"
    } == {}
    assert not {name for files in others.values() for name in files} & {
        "engine.py",
        "model.py",
        "ports.py",
        "registry.py",
        "__init__.py",
    }


def test_importing_knowloom_loads_no_optional_and_no_heavy_package():
    script = "import sys, knowloom; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    loaded = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True
    ).stdout.split()
    assert not {
        "httpx",
        "yaml",
        "onnxruntime",
        "tokenizers",
        "rich",
        "click",
        "pytest",
        "hypothesis",
        "apsw",
    } & set(loaded)


def test_only_the_settings_and_the_command_line_know_the_environment():
    users = {
        name
        for name in NAMES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert {
        name for name in users if layer(module(ROOT / name)) not in ("config", "surfaces")
    } == set()


def test_the_library_prints_nothing_and_has_no_async_twins():
    for name in NAMES:
        if layer(module(ROOT / name)) != "surfaces":
            nodes = list(ast.walk(tree(name)))
            assert not [
                node.lineno
                for node in nodes
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "print"
            ]
            assert not [node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)]


def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_no_function_is_too_long(name):
    functions = [
        node
        for node in ast.walk(tree(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [
        f"{one.name}: {length}"
        for one in functions
        if (length := (one.end_lineno or 0) - one.lineno + 1) > MAX_FUNCTION
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_file_is_too_long_and_each_opens_with_a_sentence(name):
    text = (ROOT / name).read_text("utf-8")
    assert len(text.splitlines()) <= LARGER.get(name, MAX_FILE)
    assert not text or ast.get_docstring(ast.parse(text))


def test_no_file_is_named_after_nothing():
    vague = {"utils", "util", "helpers", "common", "manager", "base", "core", "misc"}
    assert {name for name in NAMES if vague & set(module(ROOT / name).split("."))} == set()
