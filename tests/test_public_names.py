"""The public names: one table, and the imports for type checkers beside it."""

from __future__ import annotations

import ast
from pathlib import Path

import knowloom
from knowloom import Item, Report, Skipped


def test_type_checkers_see_the_names_of_the_table():
    tree = ast.parse(Path(knowloom.__file__).read_text("utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in blocks[0].body if isinstance(node, ast.ImportFrom)]
    declared = {node.module: " ".join(sorted(name.name for name in node.names)) for node in imports}
    assert declared == {
        module: " ".join(sorted(names.split())) for module, names in knowloom._HOMES.items()
    }
    assert all(name.asname == name.name for node in imports for name in node.names)


def test_every_public_name_can_be_imported():
    assert knowloom.__all__ == sorted(set(knowloom.__all__))
    assert all(getattr(knowloom, name) is not None for name in knowloom.__all__)
    assert set(knowloom.__all__) <= set(dir(knowloom))


def test_a_context_prints_as_its_text():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(Item("a", "s", title="Refunds", text="if a < b & c: refund"))
        context = kb.context("refund", spaces=["s"], max_tokens=100)
    assert str(context) == context.text
    html = context._repr_html_()
    assert "a &lt; b &amp; c" in html and "a < b" not in html
    assert f"{context.tokens} of 100 tokens" in html


def test_a_report_prints_as_one_line():
    report = Report(2, 0, 1, skipped=(Skipped("f:1", "<x>", "no text"),), problems=("later",))
    assert str(report) == "2 added, 1 unchanged, 1 skipped, 1 problems"
    assert str(Report()) == "0 added"
    assert "<li>f:1: &lt;x&gt;: no text</li>" in report._repr_html_()
    assert "<ul>" not in Report()._repr_html_()
