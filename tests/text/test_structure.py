"""Headings and code blocks of Markdown, reStructuredText and AsciiDoc."""

from __future__ import annotations

import pytest

from knowloom.text.structure import find_structure


def headings(text: str) -> list[tuple[str, ...]]:
    return [section.headings for section in find_structure(text).sections if section.titled]


def code(text: str) -> list[str]:
    return [text[start:end] for start, end in find_structure(text).code]


def test_markdown_headings_nest_by_their_level() -> None:
    text = "Intro\n\n# T\n\n## A\ntext\n### B ##\n\nmore\n## C {#c}\nx\n# D\n"
    assert headings(text) == [("T",), ("T", "A"), ("T", "A", "B"), ("T", "C")]
    assert headings(f"{text}\n# D\n")[-1] == ("D",)


def test_underlined_headings_nest_in_the_order_of_their_marks() -> None:
    text = "Part\n----\nx\n\nChapter\n=======\nx\n\nSection\n~~~~~~~\nx\n\nNext\n----\nx"
    assert headings(text) == [
        ("Part",),
        ("Part", "Chapter"),
        ("Part", "Chapter", "Section"),
        ("Next",),
    ]


def test_an_overline_is_another_mark_than_an_underline() -> None:
    text = "====\n Doc\n====\n\nOne\n===\nx\n\nTwo\n===\nx"
    assert headings(text) == [("Doc",), ("Doc", "One"), ("Doc", "Two")]
    assert find_structure(text).sections[0].start == 0


def test_beside_prefixes_underlines_have_the_levels_of_markdown() -> None:
    assert headings("Sub\n---\nx\n\nTop\n===\nx\n\n### C\n") == [("Sub",), ("Top",), ("Top", "C")]


def test_asciidoc_and_wiki_headings_nest_by_their_level() -> None:
    assert headings("= T\n\n== A\n\nx\n\n== B ==\nx") == [("T",), ("T", "A"), ("T", "B")]


@pytest.mark.parametrize(
    "text",
    [
        "#hashtag\n\ntext",
        "x = 1\n# a comment\ny = 2",
        "#" * 7 + " deep",
        "A long sentence that is followed by a rule.\n---\n\ntext",
        "two lines\nof text\n=========",
        "- item\n------",
        "| a | b |\n---------",
        "---\ntitle: x\n---\ntext",
        "a\n\n-----\n\nb",
        "# " + "x" * 300,
        "==\n==",
        "```\n# comment\n```",
        "    # comment\n",
        "code::\n\n  Title\n  =====\n",
    ],
)
def test_other_lines_are_no_headings(text: str) -> None:
    assert headings(text) == []


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n```py\nx\n```\nb", ["```py\nx\n```"]),
        ("a\n~~~\nx\n```\n~~~\nb", ["~~~\nx\n```\n~~~"]),
        ("````\n```\n````\n```\nx", ["````\n```\n````", "```\nx"]),
        ("a ```inline``` b\n```inline```\n\nc", []),
        ("a\n\n    x\n\n    y\n\nb", ["    x\n\n    y"]),
        ("\tx\nb", ["\tx"]),
        ("a\n    continued\n\nb", []),
        ("1. a\n\n    b\n\n    c\n\nd", []),
        ("- a\n\n    ```\n    x\n    ```\n", ["    ```\n    x\n    ```"]),
        (".. note::\n\n    text\n\nb", []),
        ("Run::\n\n  x\n   y\n\n  z\n\nb", ["  x\n   y\n\n  z"]),
        (".. code-block:: python\n   :x:\n\n   y\n\nb", [".. code-block:: python\n   :x:\n\n   y"]),
        ("Empty::\n\nb", []),
        ("== A\n\n----\nx\n\ny\n----\n\nb", ["----\nx\n\ny\n----"]),
    ],
)
def test_code_blocks_have_their_lines(text: str, blocks: list[str]) -> None:
    assert code(text) == blocks


def test_a_section_knows_where_its_text_begins() -> None:
    text = "# A\n\n\n  text\n\n# B\n\n# C\nx"
    first, bare, last = find_structure(text).sections
    assert text[first.start : first.body] == "# A\n\n\n  "
    assert bare.body == bare.end
    assert text[last.body : last.end] == "x"


def test_a_text_of_too_many_headings_has_none_at_its_end() -> None:
    text = "## x\n" * 120_000 + "end"
    last = find_structure(text).sections[-1]
    assert not last.titled and last.headings == () and last.end == len(text)


def test_windows_line_breaks_make_no_difference() -> None:
    text = "Top\n===\n\n## A\n\n```\nx\n```\n\n    y\n"
    windows = text.replace("\n", "\r\n")
    assert headings(windows) == headings(text) == [("Top",), ("Top", "A")]
    assert [block.replace("\r", "") for block in code(windows)] == code(text)
