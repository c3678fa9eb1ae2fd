"""reStructuredText is read as docutils reads it, and shown as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from loads import write_files

from knowloom import caching
from knowloom.engine import Engine
from knowloom.loading import file_formats
from knowloom.loading.formats import restructured
from knowloom.loading.formats.tables import format_table
from knowloom.model import PLACES
from knowloom.report import FileCount

PAGE = """.. _boats:

=====
Boats
=====

See :ref:`the sails <sails>`, :doc:`/guide/start` and `the yard <https://example.com/yard>`__.
Call :py:func:`~harbour.dock` with ``force=True``.

.. toctree::
   :maxdepth: 2

   guide/start

Hull
----

.. note::

   Paint it *red*.

.. code-block:: python
   :linenos:

   def paint():
       return "red"

.. my-own-directive:: argument
   :option: value

   Contents of an extension.

.. _sails:

Sails
-----

====  =====
name  area
====  =====
main  40
jib   20
====  =====

1. First

   - inner
2. Second

.. raw:: html

   <script>alert(1)</script>

.. include:: /etc/passwd
"""


class TestText:
    def test_a_page_becomes_markdown(self) -> None:
        text = restructured.parse(PAGE.encode(), "boats.rst").text
        assert "# Boats\n" in text
        assert "See the sails, guide/start and [the yard](https://example.com/yard)." not in text
        assert "[the yard](https://example.com/yard)" in text
        assert "Call `dock` with `force=True`." in text
        assert "> Paint it *red*." in text
        assert '```python\ndef paint():\n    return "red"\n```' in text
        assert "**argument**\n\nContents of an extension." in text
        assert "| name | area |\n| --- | --- |\n| main | 40 |\n| jib | 20 |" in text
        assert "1. First\n\n   - inner\n2. Second" in text

    def test_nothing_is_included_or_executed(self) -> None:
        text = restructured.parse(PAGE.encode(), "boats.rst").text
        assert "root:" not in text
        assert "<script>" not in text
        assert "maxdepth" not in text

    def test_headings_have_levels_anchors_and_lines(self) -> None:
        document = restructured.parse(PAGE.encode(), "boats.rst")
        assert [(heading.level, heading.title) for heading in document.headings] == [
            (1, "Boats"),
            (2, "Hull"),
            (2, "Sails"),
        ]
        assert "sails" in document.headings[2].anchors
        places, lines = dict(document.places), PAGE.split("\n")
        for heading in document.headings:
            assert lines[places[heading.start] - 1] == heading.title
        code = document.text.split("\n").index("def paint():")
        assert lines[places[code - 1] - 1].strip() == "def paint():"

    def test_a_directive_that_names_the_heading_below_it_is_not_text(self) -> None:
        page = (
            "Settings\n========\n\n.. setting:: depth\n\n``depth``\n---------\n\nHow deep.\n\n"
            ".. setting:: width\n\n``width``\n---------\n\nHow wide.\n\n.. autoclass:: Hull\n"
        )
        document = restructured.parse(page.encode(), "settings.rst")
        texts = [line for line in document.text.split("\n") if line and not line.startswith("#")]
        assert texts == ["How deep.", "How wide.", "Hull"]

    @pytest.mark.parametrize(
        "text", ["Title\n==\n\n.. |x| image:: a\n\n*unclosed\n", "=\n", ".. ::\n", "+--+\n|x\n"]
    )
    def test_broken_markup_keeps_its_text(self, text: str) -> None:
        document = restructured.parse(f"{text}\nThe end.\n".encode(), "a.rst")
        assert "The end." in document.text


class TestLoading:
    def test_items_have_titles_links_and_lines(self, kb: Engine, tmp_path: Path) -> None:
        sails = f"Rig\n===\n\nRig it, see :ref:`boats`.\n\n{'word ' * 100}\n"
        folder = write_files(tmp_path, boats_rst=PAGE, guide__start_rst=sails)
        assert kb.load(folder, space="s").skipped == ()
        boats, start = kb.items()
        assert (boats.id, boats.title, boats.source) == ("boats.rst", "Boats", "boats.rst")
        assert start.title == "Rig"
        assert boats.properties[PLACES]["line"][0] == [0, 7]
        assert {(edge.source, edge.target, edge.type) for edge in kb.edges()} == {
            ("boats.rst", "guide/start.rst", "links"),
            ("guide/start.rst", "boats.rst", "links"),
        }
        context = kb.context("paint red", spaces=["s"], citations=True)
        assert "boats.rst, lines 7-" in context.text

    def test_without_docutils_it_is_read_as_plain_text(
        self, kb: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file_formats, "find_spec", lambda name: None)
        caching.clear()
        report = kb.load(write_files(tmp_path, boats_rst=PAGE), space="s")
        (item,) = kb.items()
        caching.clear()
        assert item.title == "boats"
        assert report.files == (FileCount("reStructuredText as text", 1, 1),)
        assert ".. code-block:: python" in item.text


def test_tables_leave_out_empty_columns_and_escape_pipes() -> None:
    rows = [["a", "", "b"], ["1|2", "", "x\ny"], ["", "", ""]]
    assert format_table(rows) == "| a | b |\n| --- | --- |\n| 1\\|2 | x y |"
    assert format_table([["1"]], header=False) == "|  |\n| --- |\n| 1 |"
    assert format_table([]) == ""
