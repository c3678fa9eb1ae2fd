"""Widths and sizes. The tables of exceptions may only shrink."""

from __future__ import annotations

from collections import Counter

import knowloom
from paths import ROOT
from source_tree import FILES, functions, relative_name

MAX_COLUMNS = 100
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 45
MAX_MODULES = 17

WIDER_LINES: dict[str, int] = {}  # file: number of lines over the limit
LONGER_FILES: dict[str, int] = {}
LARGER_FOLDERS: dict[str, int] = {"": 26}  # the package's root


def test_no_line_is_wider_than_the_limit():
    wide = Counter(
        file.relative_to(ROOT).as_posix()
        for folder in ("src", "tests", "bench", "tools", "examples")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line in file.read_text("utf-8").splitlines()
        if len(line) > MAX_COLUMNS
    )
    assert dict(wide) == WIDER_LINES


def test_no_file_is_longer_than_the_limit():
    lengths = {relative_name(file): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == LONGER_FILES


def test_no_function_is_longer_than_the_limit():
    assert [
        f"{relative_name(file)}:{function.lineno}: {function.name}, {lines} lines"
        for file in FILES
        for function in functions(file)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > MAX_FUNCTION_LINES
    ] == []


def test_no_folder_has_more_modules_than_the_limit():
    modules = [name for file in FILES if not (name := relative_name(file)).endswith("__init__.py")]
    folders = Counter(name.rpartition("/")[0] for name in modules)
    assert {folder: n for folder, n in folders.items() if n > MAX_MODULES} == LARGER_FOLDERS


def test_the_engine_has_at_most_21_public_members():
    with knowloom.open("memory:", embedder=None) as kb:
        members = {name for name in (*dir(type(kb)), *vars(kb)) if not name.startswith("_")}
    configuration = {"agents", "retrieval"}
    assert len(members - configuration) <= 21, sorted(members)
