"""Every cache of the package comes from `caching`, with a name and a bound."""

from __future__ import annotations

import ast
from pathlib import Path

import knowloom
from knowloom import caching

SOURCE = Path(knowloom.__file__).parent
FACTORIES = {"cached": 0, "register": 0, "TwoGenerationCache": 0, "MemoDict": 0}


def modules() -> list[tuple[Path, ast.Module]]:
    files = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "caching.py"]
    return [(path, ast.parse(path.read_text("utf-8"))) for path in files]


def test_functools_caches_are_used_in_caching_alone() -> None:
    offenders = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "functools"
        if {"cache", "lru_cache"} & {alias.name for alias in node.names}
    ]
    assert offenders == []


def test_every_cache_has_a_name_of_its_own() -> None:
    names: dict[str, str] = {}
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in FACTORIES:
                name = node.args[0]
                where = f"{path.relative_to(SOURCE)}:{node.lineno}"
                assert isinstance(name, ast.Constant) and isinstance(name.value, str), where
                assert name.value not in names, f"{name.value!r}: {where} and {names[name.value]}"
                names[name.value] = where
    assert len(names) >= 17


def test_every_listed_cache_is_bounded() -> None:
    knowloom.open("memory:", embedder=None).close()
    stats = caching.list_caches()
    assert stats and all(0 < cache.bound < 10**9 for cache in stats)
