"""Source code: functions and classes with their comments, and imports as links."""

from __future__ import annotations

from pathlib import Path

import pytest
from loads import write_files

from knowloom.engine import Engine
from knowloom.loading.formats import source_code
from knowloom.loading.formats.source_code import CODE_ITEM_SIZE
from knowloom.loading.sections import build_rows

PYTHON = '''"""Boats of the harbour."""

import os
from .hull import Hull

LIMIT = 3


# Where boats lie.
@dataclass
class Boat:
    """A boat."""

    def sail(self):
        """Set sail."""
        return LIMIT


def dock(boat):
    def inner():
        pass
    return inner
'''
SAMPLES = {
    "a.py": (PYTHON, ["class Boat", "def dock"]),
    "a.js": (
        "/** A boat. */\nexport class Boat { sail() {} }\nfunction dock() {}\n"
        "const tie = () => 1;\nconst limit = 3;\n",
        ["class Boat", "function dock", "const tie"],
    ),
    "a.ts": (
        "interface Hull { a: string }\ntype Id = string;\nexport enum E { A }\n"
        "export abstract class Boat {}\n",
        ["interface Hull", "type Id", "enum E", "class Boat"],
    ),
    "a.tsx": ("export function View() { return <p>x</p>; }\n", ["function View"]),
    "a.go": (
        "package a\n\n// Boat floats.\ntype Boat struct{}\n\nfunc (b *Boat) Sail() {}\n"
        "func Dock() {}\n",
        ["type Boat", "func (b *Boat) Sail", "func Dock"],
    ),
    "a.rs": (
        "mod hull;\n/// A boat.\n#[derive(Debug)]\npub struct Boat;\nimpl Boat { fn sail() {} }\n"
        "impl Float for Boat {}\ntrait Float {}\nfn dock() {}\n",
        ["struct Boat", "impl Boat", "impl Float for Boat", "trait Float", "fn dock"],
    ),
    "A.java": (
        "package x;\n/** A boat. */\npublic class A { void sail() {} }\ninterface B {}\n",
        ["class A", "interface B"],
    ),
    "a.c": (
        "/* Docks. */\nint *dock(int pier) { return 0; }\nstruct boat { int x; };\n"
        "struct boat fleet;\n",
        ["dock", "struct boat"],
    ),
    "a.cpp": (
        "namespace sea { class Boat {}; }\ntemplate <class T> T dock(T x) { return x; }\n"
        "void Boat::sail() {}\n",
        ["namespace sea", "dock", "Boat::sail"],
    ),
}


class TestDefinitions:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_each_language_has_its_definitions(self, name: str) -> None:
        text, titles = SAMPLES[name]
        document = source_code.parse(text.encode(), name)
        assert [heading.title for heading in document.headings] == titles
        lines = document.text.split("\n")
        assert [line for line in text.split("\n") if line not in lines] == []

    @pytest.mark.parametrize("name", SAMPLES)
    def test_lines_are_those_of_the_file(self, name: str) -> None:
        text, _ = SAMPLES[name]
        document = source_code.parse(text.encode(), name)
        lines, source = document.text.split("\n"), text.split("\n")
        for line, place in document.places:
            if not lines[line].startswith(("```", "#")):
                assert lines[line] == source[place - 1]

    def test_comments_and_decorators_belong_to_the_definition_below(self) -> None:
        document = source_code.parse(PYTHON.encode(), "a.py")
        assert "# class Boat\n\n```python\n# Where boats lie.\n@dataclass\nclass" in document.text

    def test_a_long_class_is_cut_into_its_methods(self, kb: Engine, tmp_path: Path) -> None:
        body = "        x = 1\n" * (CODE_ITEM_SIZE // 14)
        text = PYTHON.replace("        return LIMIT\n", f"{body}\n    def turn(self):\n{body}")
        kb.load(write_files(tmp_path, boats_py=text), space="s")
        assert {item.id: item.title for item in kb.items()} == {
            "boats.py": "boats.py",
            "boats.py#class-boat": "boats.py > class Boat",
            "boats.py#def-sail": "boats.py > class Boat > def sail",
            "boats.py#def-turn": "boats.py > class Boat > def turn",
            "boats.py#def-dock": "boats.py > def dock",
        }

    def test_a_bare_declaration_is_part_of_what_is_below_it(self) -> None:
        body = "        x = 1\n" * (CODE_ITEM_SIZE // 14)
        methods = (f"    def {name}(self):\n{body}" for name in ("sail", "turn"))
        text = "\n".join(["class Boat(Hull):", *methods])
        document = source_code.parse(text.encode(), "boats.py")
        assert [heading.title for heading in document.headings] == [
            "class Boat",
            "def sail",
            "def turn",
        ]
        assert "## def sail\n\n```python\nclass Boat(Hull):\n    def sail(" in document.text
        rows = build_rows(document, "boats.py", "boats.py").rows
        assert [row["id"] for _, row in rows if "id" in row] == [
            "boats.py#def-sail",
            "boats.py#def-turn",
        ]

    @pytest.mark.parametrize(
        ("name", "title"),
        [
            ("src/harbour/boats.py", "boats.py"),
            ("src/harbour/__init__.py", "harbour/__init__.py"),
            ("web/index.ts", "web/index.ts"),
            ("index.ts", "index.ts"),
        ],
    )
    def test_the_title_is_the_name_of_the_file(self, name: str, title: str) -> None:
        assert source_code.parse(b"x = 1\n", name).title == title

    def test_imports_alone_are_no_item_of_a_long_file(self) -> None:
        imports = (
            "import os\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import re\n"
        )
        body = "    x = 1\n" * (CODE_ITEM_SIZE // 10)
        for header, ids in (
            (imports, ["boats.py#def-dock"]),
            (f'"""Boats."""\n{imports}', ["boats.py", "boats.py#def-dock"]),
        ):
            document = source_code.parse(f"{header}\n\ndef dock():\n{body}".encode(), "boats.py")
            built = build_rows(document, "boats.py", "boats.py")
            assert [row["id"] for _, row in built.rows if "id" in row] == ids
            assert built.links[0] == (ids[0], "module:os", "imports")

    @pytest.mark.parametrize(
        "text", ["def (:\n  class\n", "}}}}{{{{", "\x0c", "def f(", "(" * 5_000]
    )
    def test_code_that_does_not_parse_keeps_its_text(self, text: str) -> None:
        for name in ("a.py", "a.ts", "a.rs"):
            document = source_code.parse(f"{text}\nend\n".encode(), name)
            assert "end" in document.text


class TestImports:
    def test_imports_are_links(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(
            tmp_path,
            src__harbour__boats_py="from .hull import Hull\nfrom harbour import pier as p\n",
            src__harbour__hull_py="import os\n",
            src__harbour__pier_py="import harbour.hull\n",
            web__app_ts='import { x } from "./util";\nimport y from "react";\n',
            web__util_ts="export const x = 1;\n",
            c__main_c='#include "boat.h"\n#include <stdio.h>\nint main() {}\n',
            c__boat_h="int dock();\n",
        )
        kb.load(folder, space="s")
        assert {(edge.source, edge.target) for edge in kb.edges() if edge.type == "imports"} == {
            ("src/harbour/boats.py", "src/harbour/hull.py"),
            ("src/harbour/boats.py", "src/harbour/pier.py"),
            ("src/harbour/pier.py", "src/harbour/hull.py"),
            ("web/app.ts", "web/util.ts"),
            ("c/main.c", "c/boat.h"),
        }


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("a.py", "# Copyright 2020 Ann\n# All rights reserved.\nLIMIT = 3\n", "LIMIT = 3"),
        ("a.java", "/* Licensed under X */\n/** A boat. */\nclass Boat {}\n", "A boat"),
        ("a.go", "// SPDX-License-Identifier: MIT\n\n// Package a sails.\npackage a\n", "sails"),
    ],
)
def test_a_licence_notice_at_the_top_is_not_text(name: str, raw: str, text: str) -> None:
    document = source_code.parse(raw.encode(), name)
    assert text in document.text
    assert not any(word in document.text for word in ("Copyright", "Licensed", "SPDX"))


def test_other_comments_at_the_top_are_text() -> None:
    document = source_code.parse(b"# Boats of the harbour.\nLIMIT = 3\n", "a.py")
    assert "Boats of the harbour." in document.text
