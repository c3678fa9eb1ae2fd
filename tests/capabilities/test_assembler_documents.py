"""The user's own document and selection are shown byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from knowloom import (
    Assembler,
    Assembly,
    DocumentStrategy,
    Piece,
    SelectionStrategy,
    tokens,
)
from knowloom.capabilities.assembler.verbatim import PIECE_LENGTH, split_verbatim
from text_strategies import headings, nasty

MARKUP = """# Title

Some *text* with `code`, <b>tags</b> and a [link][1].

* item
  * nested

    indented code


| a | b |
|---|---|
| 1 | 2 |

```python
# a comment


def f(): ...
```

## Memory

- **owner**: the CFO
- Chargeback (faq, id: chargeback)

Setext
======

<!-- a comment

with a blank line -->

[1]: https://example.org
"""


class Notes:
    name, priority, enabled = "notes", 99.0, True

    def __init__(self, pieces: list[Any] | None = None) -> None:
        self._pieces = ["The end."] if pieces is None else pieces

    def get(self, _: object) -> list[Any]:
        return self._pieces


def assemble(document: str, **options: Any) -> Assembly:
    strategies = [DocumentStrategy(), SelectionStrategy(), Notes()]
    return Assembler(strategies).assemble("x", document=document, **options)


def test_a_document_with_markup_is_shown_byte_for_byte() -> None:
    assembly = assemble(MARKUP)
    assert assembly.text == f"## Document\n\n~~~\n{MARKUP}\n~~~\n\n## Notes\n\nThe end."
    assert [report.status for report in assembly.strategies] == ["used", "empty", "used"]


def test_a_selection_with_markup_is_shown_byte_for_byte() -> None:
    start, end = MARKUP.index("* item"), MARKUP.index("## Memory") + len("## Memory")
    assembly = assemble(MARKUP, selection=(start, end))
    assert f"## Selection\n\n~~~\n{MARKUP[start:end]}\n~~~\n\n## Notes" in assembly.text


def test_a_document_may_repeat_itself() -> None:
    text = "The same words again.\n\nSomething else.\n\nThe same words again."
    assert text in assemble(text).text
    selected = assemble(text, selection=(0, 21)).text
    assert "## Document\n\nSomething else.\n\n" in selected


def test_prose_needs_no_fence() -> None:
    text = "Dear customer,\n\n\n  your money:\n- is on its way\n\nKind regards\n"
    assert assemble(text).text == f"## Document\n\n{text}\n\n## Notes\n\nThe end."


def test_a_fence_is_longer_than_those_of_the_document() -> None:
    for text, fence in [
        ("# x\n````\ny", "~~~"),
        ("# x\n````\n~~~~~\ny", "`````"),
        ("# x `a`", "```"),
        ("# x ``` y\n~~", "~~~"),
    ]:
        assert f"## Document\n\n{fence}\n{text}\n{fence}\n\n## Notes" in assemble(text).text


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_long_paragraph_is_cut_without_changing_it(ending: str) -> None:
    rows = [f"| {number} | a cell of row {number}. |" for number in range(200)]
    text = ending.join(rows)
    pieces = list(split_verbatim(text))
    assert "".join(piece.text for piece in pieces) == text
    assert len(pieces) > 3 and all(len(piece.text) <= PIECE_LENGTH for piece in pieces)
    assert text in assemble(text).text


def test_a_piece_begins_with_its_indent() -> None:
    text = "\n\n  One.\n\n\n   Two.\n \n Three.\n"
    pieces = [piece.text for piece in split_verbatim(text)]
    assert pieces == ["  One.\n\n\n", "   Two.\n \n", " Three.\n"]


@given(nasty | st.lists(nasty, max_size=4).map("\n\n".join))
@settings(deadline=None, max_examples=200)
def test_the_pieces_of_a_document_are_the_document(text: str) -> None:
    joined = "".join(piece.text for piece in split_verbatim(text))
    assert text.endswith(joined) and not text.removesuffix(joined).strip()


@given(nasty.filter(str.strip), st.integers(0, 60))
@settings(deadline=None, max_examples=150)
def test_no_document_forges_or_swallows_the_structure(text: str, budget: int) -> None:
    whole = assemble(text, max_tokens=None)
    titles = [title for _, _, title in headings(whole.text)]
    assert titles == ["Document", "Notes"]
    assert text.strip() in whole.text
    part = assemble(text, max_tokens=budget)
    assert part.tokens == tokens.get_counter("gpt-4").count(part.text) <= budget
    assert set(headings(part.text)) <= {("h2", 0, "Document"), ("h2", 0, "Notes")}


@pytest.mark.parametrize("text", ["---\n\x85\n# x", "- a\n\x85\n## b\n\x85\n# c"])
def test_no_blank_line_is_added_to_a_document(text: str) -> None:
    assert text in assemble(text, max_tokens=None).text


def test_the_pieces_of_a_part_are_unchanged() -> None:
    text = "\n\n".join(f"# Part {number}\n\n    code {number}" for number in range(40))
    assembly = assemble(text, max_tokens=120)
    shown = assembly.text.split("```")[1].split("\n\n")
    assert len(shown) > 3 and all(part.strip("\n") in text for part in shown)
    assert assembly.tokens <= 120


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_fields_have_the_pieces_as_they_are(format: str) -> None:
    load = json.loads if format == "json" else yaml.safe_load
    rows = load(assemble(MARKUP, format=format).text)["document"]
    assert [row["text"] for row in rows] == [
        piece.text.rstrip() for piece in split_verbatim(MARKUP)
    ]
    assert all(set(row) == {"id", "type", "text"} for row in rows)


def test_texts_of_other_strategies_are_still_escaped() -> None:
    mine, other = Piece("# mine", verbatim=True), "# other"
    assert Assembler([Notes([mine])]).assemble("x").text == "## Notes\n\n```\n# mine\n```"
    assert Assembler([Notes([other])]).assemble("x").text == "## Notes\n\n\\# other"
    mixed = Assembler([Notes([mine, other])]).assemble("x").text
    assert mixed == "## Notes\n\n\\# mine\n\n\\# other"


def test_a_mark_that_is_not_boolean_is_rejected() -> None:
    wrong: Any = "yes"
    assembly = Assembler([Notes([Piece("a", verbatim=wrong)])]).assemble("x")
    assert assembly.strategies[0].status == "failed"
    assert "piece 1: verbatim must be" in assembly.strategies[0].reasons[0]
