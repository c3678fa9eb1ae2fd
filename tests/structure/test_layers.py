"""The import rules: imports point one way, and optional packages stay in one file or folder."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import defaultdict

from source_tree import (
    FILES,
    PACKAGE,
    imports,
    internal_imports,
    module_name,
    parse,
    relative_name,
)

# From the bottom to the top. A unit may import from every layer below its own, within the limits
# of RESTRICTED; units of one layer do not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("model", "errors", "construction", "caching"),
    (
        "tracing",
        "ports",
        "recipes",
        "codec",
        "files",
        "text",
        "report",
        "outbound_http",
        "isolation",
        "vectors",
        "columns",
    ),
    ("validation", "filters", "formats", "config", "tokens", "tiers", "registry", "keyvalue"),
    ("retrieval_settings", "openai_http", "templates", "axioms", "retrieval", "loading"),
    ("options", "conversation", "context", "linking", "secrets"),
    ("agents", "structuring", "rerankers.guard", "embedders.onnx_text", "embedders.calibration"),
    ("embedders.batches", "embedders.cache", "embedders.queries", "embedders.model_files"),
    ("embedding",),
    ("commit", "reader"),
    ("operations",),
    ("history", "maintenance"),
    ("engine",),
    ("capabilities", "evaluation"),
    ("wire",),
    ("factory", "client"),
    ("",),
    ("mcp",),
    ("integrations", "server", "cli"),
    ("__main__", "testing"),
)

# Units that may import less than their layer allows.
STORE_BASE = frozenset(
    "model errors codec text files caching construction ports vectors columns keyvalue".split()
)
RESTRICTED: dict[str, frozenset[str]] = {
    "retrieval": frozenset("model errors ports recipes text caching construction".split()),
    "context": frozenset(
        "model errors ports recipes text tracing caching construction formats retrieval".split()
    ),
    "stores": STORE_BASE,
    "embedders": STORE_BASE | {"openai_http", "validation"},
    "embedders.onnx_text": frozenset(("errors",)),
    "embedders.calibration": STORE_BASE | {"validation"},
    "embedders.batches": frozenset(("model", "ports", "text")),
    "embedders.cache": STORE_BASE | {"validation"},
    "embedders.queries": STORE_BASE | {"validation"},
    "embedders.model_files": frozenset(("errors", "files")),
    "rerankers": STORE_BASE
    | {"openai_http", "validation", "embedders.onnx_text", "embedders.calibration"},
    "rerankers.guard": frozenset(("errors", "ports")),
    "llms": frozenset(("errors", "ports", "openai_http")),
    "ner": frozenset(("errors",)),
    "testing": frozenset(("model", "errors", "ports", "text", "linking", "vectors", "loading")),
}
EXCEPTIONS = frozenset(
    (
        ("registry", "stores.composite.store"),  # combines the stores that it opens
        ("registry", "stores.composite.layers"),
        ("cli.commands.operations.serve", "server"),  # starts the server
        ("cli.commands.operations.web_console", "server"),
    )
)
ADAPTERS = ("stores", "embedders", "rerankers", "llms", "ner")
REQUIRED = frozenset(
    (
        "Stemmer apsw click markdown_it numpy onnxruntime pathspec re2 rich tiktoken tokenizers "
        "yaml"
    ).split()
)
HEIGHT = {unit: height for height, layer in enumerate(LAYERS) for unit in layer}


def unit_of(name: str) -> str:
    """The unit of a module: its package, or the module itself where the table names it."""
    return name if name in HEIGHT else name.split(".")[0]


def home_of(name: str) -> str:
    """The package whose modules may import each other: one store or capability is a home."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] in ("stores", "capabilities") else parts[0]


def is_allowed(importer: str, imported: str) -> bool:
    if importer and home_of(importer) == home_of(imported):
        return True
    unit, target = unit_of(importer), unit_of(imported)
    if (importer, imported) in EXCEPTIONS or (importer, target) in EXCEPTIONS:
        return True
    if not importer:  # the root imports lazily
        return target not in ADAPTERS
    if target in ADAPTERS:
        return False
    if unit in RESTRICTED:
        return target in RESTRICTED[unit]
    return HEIGHT[target] < HEIGHT[unit]


def test_imports_point_one_way():
    assert [
        f"{relative_name(file)} imports {imported}"
        for file in FILES
        for imported in internal_imports(file)
        if not is_allowed(module_name(file), imported)
    ] == []


def test_an_optional_package_is_imported_in_one_file_or_folder():
    users: dict[str, set[str]] = defaultdict(set)
    folders = ("mcp/", "server/", "stores/postgresql/", "testing/")
    for file in FILES:
        name = relative_name(file)
        home = next((folder for folder in folders if name.startswith(folder)), name)
        for imported in imports(file):
            users[imported.split(".")[0]].add(home)
    required = REQUIRED | sys.stdlib_module_names | {"knowloom"}
    optional = {package: files for package, files in users.items() if package not in required}
    # httpx serves embedders and LLMs (openai_http.py) and the client, each in its own file.
    shared = {name: sorted(files) for name, files in optional.items() if len(files) > 1}
    assert set(shared) <= {"httpx"}, shared
    core = {"engine.py", "registry.py", "__init__.py"}
    assert not [
        name
        for files in optional.values()
        for name in files
        if name in core or name.startswith(("model/", "ports/"))
    ]


def loaded_by(statement: str) -> set[str]:
    """The modules in memory after a statement ran in a new process."""
    script = f"import sys; {statement}; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_no_optional_and_no_heavy_package():
    heavy = set("httpx yaml onnxruntime tokenizers rich click pytest hypothesis apsw".split())
    assert not heavy & {name.split(".")[0] for name in loaded_by("import knowloom")}


def test_the_server_does_not_load_the_command_line():
    loaded = loaded_by("import knowloom.server.app")
    assert not [name for name in loaded if name.startswith(("knowloom.cli", "click"))]


def test_only_the_settings_and_the_processes_read_the_environment():
    readers = {
        relative_name(file)
        for file in FILES
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert not {n for n in readers if n.split("/")[0] not in ("config.py", "cli", "server")}


def test_the_library_prints_nothing_and_has_no_async_twins():
    surfaces = ("cli", "server", "integrations", "client", "mcp")
    for file in FILES:
        if unit_of(module_name(file)) in surfaces:
            continue
        for node in ast.walk(parse(file)):
            assert not isinstance(node, ast.AsyncFunctionDef), f"{file}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{file}:{node.lineno}"
