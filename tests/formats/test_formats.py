"""Formats round-trip stored values, and stored text cannot pass for structure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import tokens
from knowloom.errors import Invalid
from knowloom.formats.fields import available_forms, format_value, quote_name
from knowloom.formats.layout import FORMATS, assemble, get_layout
from knowloom.formats.markdown_escape import escape_body
from knowloom.model import LINES, Edge, Form, Hit, Item, Kind
from text_strategies import PARSER, SCALARS, any_text, headings, items, nasty, tricky

shown = st.tuples(items(any_text | tricky), st.sampled_from(Form))
documents = st.dictionaries(
    any_text.filter(lambda name: name.strip() != ""), st.lists(shown, max_size=3), max_size=3
)
Document = Mapping[str, Sequence[tuple[Item, Form]]]


def item(text: str = "", **fields: Any) -> Item:
    return Item(**{"id": "the-id", "space": "s", "title": "Title", "text": text, **fields})


def block(name: str, item: Item, form: Form = Form.WHOLE) -> str:
    return FORMATS[name].block(Hit(item, 1.0), form)


def document(name: str, sections: Document) -> str:
    return assemble(
        FORMATS[name],
        [(title, [block(name, *pair) for pair in pairs]) for title, pairs in sections.items()],
    )


def expected(item: Item, form: Form) -> dict[str, Any]:
    """Return the JSON and YAML fields of an item."""
    whole = form is Form.WHOLE
    fields = {
        "id": item.id,
        "type": "" if form is Form.POINTER else item.type,
        "title": item.title,
        "text": item.text if whole or (form is Form.EXCERPT and item.text.strip()) else "",
        "summary": item.summary if form is Form.SUMMARY or (whole and not item.text) else "",
        "properties": dict(item.properties) if whole else {},
        "tags": list(item.tags) if whole else [],
    }
    return {name: value for name, value in fields.items() if value}


def expected_document(sections: Document) -> dict[str, Any]:
    return {name: [expected(*pair) for pair in pairs] for name, pairs in sections.items() if pairs}


def one_line(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()


def name_of(item: Item) -> str:
    return one_line(item.title) or one_line(item.id)


def escape_hashes(text: str) -> str:
    """A heading's source text: hashes at its end need a backslash to be seen."""
    return re.sub(r"(^| )(#+)$", r"\1\\\2", text)


def titled(item: Item) -> str:
    kind = one_line(item.type)
    return f"{name_of(item)} ({kind})".strip() if kind else name_of(item)


def section_title(name: str) -> str:
    words = one_line(name.replace("_", " "))
    return words[:1].upper() + words[1:]


def our_headings(sections: Document) -> list[tuple[str, int, str]]:
    headings_of = []
    for name, pairs in sections.items():
        headings_of += [("h2", 0, escape_hashes(section_title(name)))] if pairs else []
        headings_of += [
            ("h3", 0, escape_hashes(titled(item)))
            for item, form in pairs
            if form is not Form.POINTER
        ]
    return headings_of


def after(text: str) -> str:
    """Return a document: the text, then a property, a pointer, another item and a section."""
    first = item(text, title="One", properties={"owner": "ann"})
    return document(
        "markdown",
        {
            "context": [
                (first, Form.WHOLE),
                (item(id="two", title="Two"), Form.POINTER),
                (item("See [a].", title="Three"), Form.WHOLE),
            ],
            "rules": [(item("The end.", title="Four"), Form.WHOLE)],
        },
    )


INTACT = [
    ("h2", 0, "Context"),
    ("h3", 0, "One"),
    ("h3", 0, "Three"),
    ("h2", 0, "Rules"),
    ("h3", 0, "Four"),
]


def assert_intact(text: str) -> None:
    """Nothing of the document is added, swallowed or changed by the text."""
    markdown = after(text)
    definitions: dict[str, Any] = {}
    tokens = PARSER.parse(markdown, definitions)
    lines = [(token.content, token.level) for token in tokens if token.type == "inline"]
    assert headings(markdown) == INTACT
    assert definitions.get("references", {}) == {}
    assert lines[-7:] == [
        ("**owner**: ann", 3),
        ("Two (id: two)", 3),
        ("Three", 1),
        ("See [a].", 1),
        ("Rules", 1),
        ("Four", 1),
        ("The end.", 1),
    ]


class TestEveryFormat:
    @given(documents)
    @settings(deadline=None, max_examples=40)
    def test_json_round_trips_stored_values(self, sections: Document) -> None:
        text = document("json", sections)
        assert (json.loads(text) if text else {}) == expected_document(sections)

    @given(documents)
    @settings(deadline=None, max_examples=40)
    def test_yaml_round_trips_stored_values(self, sections: Document) -> None:
        assert (yaml.safe_load(document("yaml", sections)) or {}) == expected_document(sections)

    @given(documents)
    @settings(deadline=None, max_examples=40)
    def test_a_markdown_parser_sees_our_headings_and_no_others(self, sections: Document) -> None:
        assert headings(document("markdown", sections)) == our_headings(sections)

    @given(documents)
    @settings(deadline=None, max_examples=40)
    def test_only_our_lines_of_plain_text_begin_in_the_first_column(
        self, sections: Document
    ) -> None:
        ours: list[str] = []
        for name, pairs in sections.items():
            ours += [f"{section_title(name)}:"] if pairs else []
            for item, form in pairs:
                pointer = f" ({one_line(item.id)})" if form is Form.POINTER else ""
                ours.append(f"[{one_line(item.type) or item.kind}] {name_of(item)}{pointer}")
                facts = item.shown_properties if form is Form.WHOLE else {}
                ours += [
                    f"- {quote_name(key)}: {format_value(value)}" for key, value in facts.items()
                ]
        lines = document("plain", sections).splitlines()
        assert [line.rstrip() for line in lines if line[:1].strip()] == [
            line.rstrip() for line in ours
        ]

    @pytest.mark.parametrize("name", ["markdown", "plain", "yaml"])
    @given(shown, any_text)
    @settings(deadline=None, max_examples=40)
    def test_parts_begin_with_a_visible_character_and_end_with_a_line(
        self, name: str, pair: tuple[Item, Form], section: str
    ) -> None:
        parts = [block(name, *pair), FORMATS[name].opening("x" + section)]
        assert all(
            part[0].strip() and part.endswith("\n") and not part.endswith("\n\n\n")
            for part in parts
        )

    @pytest.mark.parametrize("name", FORMATS)
    def test_a_document_is_the_sum_of_its_parts(self, name: str) -> None:
        parts, (first, second) = FORMATS[name], (block(name, item("one")), block(name, item("two")))
        expected = (
            parts.start + parts.opening("a") + first + parts.separator + second + parts.closing
        )
        expected += parts.section_separator + parts.opening("b") + first + parts.closing + parts.end
        assert assemble(parts, [("a", [first, second]), ("none", []), ("b", [first])]).rstrip(
            "\n"
        ) == expected.rstrip("\n")

    @pytest.mark.parametrize("name", FORMATS)
    def test_no_blocks_give_an_empty_document(self, name: str) -> None:
        assert assemble(FORMATS[name], []) == assemble(FORMATS[name], [("a", []), ("b", ())]) == ""

    @pytest.mark.parametrize("name", FORMATS)
    @pytest.mark.parametrize("form", Form)
    def test_a_link_that_led_to_an_item_is_not_printed(self, name: str, form: Form) -> None:
        linked = Hit(
            item("text"), 0.5, path=(("s", "x"), ("s", "the-id")), edge=Edge("x", "the-id", "cites")
        )
        assert FORMATS[name].block(linked, form) == block(name, item("text"), form)

    def test_an_unknown_format_is_rejected_by_name(self) -> None:
        with pytest.raises(
            Invalid, match="unknown format 'xml'; available: json, markdown, plain, yaml"
        ):
            get_layout("xml")

    def test_each_format_is_available_by_name(self) -> None:
        assert (
            [get_layout(name).name for name in FORMATS]
            == list(FORMATS)
            == ["json", "markdown", "plain", "yaml"]
        )


class TestForms:
    def test_an_item_with_a_longer_text_than_its_summary_has_three_forms(self) -> None:
        assert available_forms(item("a long text", summary="short")) == (
            Form.WHOLE,
            Form.SUMMARY,
            Form.POINTER,
        )

    def test_a_summary_that_is_not_shorter_is_no_form(self) -> None:
        assert available_forms(item("same", summary="same")) == (Form.WHOLE, Form.POINTER)
        assert available_forms(item("", summary="all there is")) == (Form.WHOLE, Form.POINTER)
        assert available_forms(item("text", summary=" \n ")) == (Form.WHOLE, Form.POINTER)

    def test_an_item_with_no_content_beyond_its_title_has_no_pointer(self) -> None:
        assert (
            available_forms(item())
            == available_forms(item(" \n"))
            == available_forms(item("Title\n"))
            == (Form.WHOLE,)
        )
        assert available_forms(item("Title", properties={"a": 1})) == (Form.WHOLE, Form.POINTER)
        assert available_forms(item("Title", properties={LINES: [1, 2]})) == (Form.WHOLE,)


class TestMarkdown:
    def test_a_document_reads_as_written_by_hand(self) -> None:
        facts = {
            "owner": "ann",
            "limits": {"eu": 30, "us": None},
            "note": "two\nlines",
            "open": True,
            "since": date(2024, 1, 2),
        }
        whole = item("Thirty days.\n\nThen ask.\n", type="faq", title="Refunds", properties=facts)
        brief = item("A long text.", type="", title="", id="returns", summary="Short.")
        text = document(
            "markdown",
            {
                "entry_points": [(whole, Form.WHOLE), (brief, Form.SUMMARY)],
                "related": [(whole, Form.POINTER)],
            },
        )
        assert text == (
            "## Entry points\n\n### Refunds (faq)\nThirty days.\n\nThen ask.\n\n"
            '- **owner**: ann\n- **limits**: {"eu": 30, "us": null}\n- **note**: "two\\nlines"\n'
            "- **open**: true\n- **since**: 2024-01-02\n\n"
            "### returns\nShort.\n\n## Related\n\n- Refunds (faq, id: the-id)"
        )

    def test_a_summary_without_text_is_rendered_in_full(self) -> None:
        assert block("markdown", item(summary="Short.")) == "### Title\nShort.\n\n"

    def test_an_item_without_text_is_its_heading(self) -> None:
        assert block("markdown", item(" \n")) == "### Title\n\n"

    @pytest.mark.parametrize(
        "prose",
        [
            "Plain words, with #hashtags, C# and a -- dash.\n\n"
            "A second paragraph; 3 < 4 > 2, a*b and snake_case.",
            "A list:\n- one\n- two\n  - nested\n    more\n\n1. first\n2. second\n\n"
            "> quoted\nand lazily continued",
            "#hashtag at the start\n#1 of 3\n####### seven is no heading",
            "[a link](https://example.org) begins the line\n[x] done\n"
            "[note]: several words after it\n\n[note]: call(x) first",
            "a | b\n--|--\n1 | 2",
            "Before a rule\n\n---\n\nafter it\n\n***\n\n= a = b =",
            "Use `<br>` or <b>bold</b>.\n<b>Bold</b> begins this one\n<https://example.org> too",
            "<details>\n<summary>More</summary>\n\nhidden\n\n</details>",
            "<!-- a comment\n\n# in it -->\ntext\n<pre>\n# kept\n\n</pre>",
            "Indented code:\n\n    # a comment\n    ---\n\nafter",
            "Tabs\tinside\tlines\n\n\tcode after a tab",
            "ends in a backslash \\",
        ],
    )
    def test_ordinary_prose_is_unchanged(self, prose: str) -> None:
        assert escape_body(prose) == prose
        assert_intact(prose)

    @pytest.mark.parametrize(
        "code",
        [
            "```python\n# comment\n\n---\n<!-- open\n[a]: /u\n```",
            "~~~\n# comment\n```\n~~~~\ntext",
            "````\n```\n# comment\n```\n````",
            "- step\n  ```sh\n  # comment\n  ```\n- next",
            "> ```\n> # comment\n> ```",
            "Words before\n```\n# comment\n```\nand after",
            "   ```\n# comment\n  ```  ",
            "Words before\n<b>\n```\n# comment\n```",
        ],
    )
    def test_closed_fences_are_unchanged(self, code: str) -> None:
        assert escape_body(code) == code
        assert_intact(code)

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("# x", "\\# x"),
            ("   ###### x", "   \\###### x"),
            ("a\n#", "a\n\\#"),
            ("#\tx", "\\#\tx"),
            ("> # x", "> \\# x"),
            ("1. - # x", "1. - \\# x"),
            ("-\t# x", "-\t\\# x"),
            ("1.\t# x", "1.\t\\# x"),
            ("- a\n\n  # x", "- a\n\n  \\# x"),
            ("x\n===", "x\n\\==="),
            ("x\n---", "x\n\\---"),
            ("x\n-", "x\n\\-"),
            ("> x\n> --", "> x\n> \\--"),
            ("```\n# x", "```\n# x\n```"),
            ("~~~~ py\n~~~", "~~~~ py\n~~~\n~~~~"),
            ("- ```\n# x", "- ```\n\\# x"),
            ("- ```\n  x", "- ```\n  x"),
            ("> ```\n# x", "> ```\n\\# x"),
            ("```\n    ```\n# x", "```\n    ```\n# x\n```"),
            ("a\n2. ```\n   # x", "a\n2. ```\n   \\# x"),
            ("-      # code", "-      # code"),
            ("- a\n<b>", "- a\n\\<b>"),
            ("<!-- x", "\\<!-- x"),
            ("a\n<script>", "a\n\\<script>"),
            ("<PRE", "\\<PRE"),
            ("<style\n", "\\<style"),
            ("<textarea>", "\\<textarea>"),
            ("<?php", "\\<?php"),
            ("<!DOCTYPE", "\\<!DOCTYPE"),
            ("<![CDATA[x", "\\<![CDATA[x"),
            ("--> <!--\n<!--", "--> <!--\n\\<!--"),
            ("<div>\n```\n\n# x", "<div>\n```\n\n\\# x"),
            ("<div>\n# x", "<div>\n\\# x"),
            ("<search>\n```\n\n# x", "\\<search>\n```\n\n# x\n```"),
            ("[a]: /u", "\\[a]: /u"),
            ("[a\nb]:\n/u 'title'", "\\[a\nb]:\n/u 'title'"),
            ("> [a]:\n> /u", "> \\[a]:\n> /u"),
            ("x\r# y\r\n===", "x\n\\# y\n\\==="),
            ("- - - - - - - - - - x", "- - - - - - - - \\- - x"),
            (">>>>>>>>>>> x", ">>>>>>>>\\>>> x"),
            ("> x\n    > # y", "> x\n    \\> # y"),
            ("-\n    \n  ```\nx", "-\n\n  ```\nx\n```"),
        ],
    )
    def test_markdown_structure_in_a_text_is_escaped(self, text: str, written: str) -> None:
        assert block("markdown", item(text)) == f"### Title\n{written}\n\n"
        assert_intact(text)

    @pytest.mark.parametrize("separator", ["\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\x00"])
    def test_other_separators_do_not_break_lines(self, separator: str) -> None:
        assert escape_body(f"x{separator}# y") == f"x{separator}# y"
        assert_intact(f"x{separator}# y{separator}===")

    @given(nasty)
    @settings(deadline=None, max_examples=300)
    def test_no_text_changes_what_follows_it(self, text: str) -> None:
        assert_intact(text)

    @given(nasty)
    @settings(deadline=None, max_examples=100)
    def test_only_backslashes_and_one_fence_are_ever_added(self, text: str) -> None:
        text = text.replace("\r", "\n").rstrip()
        escaped = (
            re.sub(r"\n(`+|~+)\Z", "", escape_body(text))
            if escape_body(text).count("\n") > text.count("\n")
            else escape_body(text)
        )
        assert re.sub(r"[\\ \t]", "", escaped) == re.sub(r"[\\ \t]", "", text)

    @pytest.mark.parametrize(
        "title",
        [
            "#",
            "a #",
            "a ##",
            "# a",
            "C#",
            "a\n# b",
            "a\r\n\u2028b",
            "```",
            "<!--",
            "[a]: /u",
            "- a",
            "\\#",
        ],
    )
    def test_a_title_stays_on_its_line(self, title: str) -> None:
        whole = (item("text", title=title), Form.WHOLE)
        assert (
            headings(document("markdown", {"a": [whole, whole]}))
            == [("h2", 0, "A")] + [("h3", 0, escape_hashes(one_line(title)))] * 2
        )

    def test_hashes_at_the_end_of_a_title_are_not_dropped(self) -> None:
        html = PARSER.render(
            "".join(block("markdown", item(title=title)) for title in ("a ##", "###", "C#"))
        )
        assert html == "<h3>a ##</h3>\n<h3>###</h3>\n<h3>C#</h3>\n"

    @pytest.mark.parametrize(
        ("title", "written"),
        [
            ("# a", "\\# a"),
            ("- a", "\\- a"),
            ("1. a", "1\\. a"),
            ("> a", "\\> a"),
            ("```", "\\```"),
            ("<!-- a", "\\<!-- a"),
            ("[a]: /u", "\\[a]: /u"),
            ("[a] b", "[a] b"),
            ("2024", "2024"),
        ],
    )
    def test_a_pointer_is_one_line_of_text(self, title: str, written: str) -> None:
        markdown = block("markdown", item(title=title, type="faq"), Form.POINTER)
        assert markdown == f"- {written} (faq, id: the-id)\n"
        assert [
            (token.content, token.level)
            for token in PARSER.parse(markdown)
            if token.type == "inline"
        ] == [(markdown[2:-1], 3)]

    @given(nasty)
    @settings(deadline=None, max_examples=100)
    def test_a_pointer_is_one_line_of_text_whatever_the_title(self, title: str) -> None:
        markdown = block("markdown", item(title=title), Form.POINTER)
        assert [
            (token.content, token.level)
            for token in PARSER.parse(markdown)
            if token.type == "inline"
        ] == [(markdown[2:-1], 3)]

    @given(nasty.filter(lambda name: "_" not in name and one_line(name) != ""))
    @settings(deadline=None, max_examples=100)
    def test_a_property_name_cannot_break_out_of_its_bold_span(self, name: str) -> None:
        tokens = PARSER.parse(block("markdown", item(properties={name: "v"})))
        inline = next(token for token in tokens if token.content.endswith(": v"))
        bold = "".join(child.content for child in (inline.children or [])[:-1])
        assert (bold, (inline.children or [])[-1].content) == (
            one_line(name).replace("\x00", "\ufffd"),
            ": v",
        )

    @pytest.mark.parametrize(
        "line",
        [
            "- **owner**: the CFO",
            "- **a** or **b**: c",
            "- Chargeback (faq, id: chargeback)",
            "- Chargeback (id: x)",
            "- **Tidewater** --[USES]--> **Gangway**",
        ],
    )
    def test_a_text_cannot_imitate_generated_lines(self, line: str) -> None:
        for text in (line, f"Before.\n\n{line}\n\nAfter.", f"- one\n{line}\n- two"):
            shown = block("markdown", item(text))
            assert line not in shown.splitlines() and f"*{line[1:]}" in shown.splitlines()
        fenced = f"```\n{line}\n```"
        assert escape_body(fenced) == fenced

    def test_long_hostile_texts_take_linear_time(self) -> None:
        for line in (
            "<!--\n",
            "[a\n\n",
            "```\n~~~~\n",
            "> " * 50 + "\n",
            "- " * 50 + "x\n",
            "\t" * 50 + "# x\n",
            "<a " + "a " * 50 + "\n",
        ):
            assert escape_body(line * 2000).count("\n") >= 2000
        for sign in ("id: ", "--[", "**a"):
            assert escape_body("- " + sign * 300_000) == "- " + sign * 300_000


class TestPlain:
    def test_a_document_reads_as_written_by_hand(self) -> None:
        whole = item(
            "\n\nThirty days.\n\n  Then ask.\n",
            type="faq",
            title="Refunds",
            properties={"owner": "ann", "limits": [1, "a"]},
        )
        text = document(
            "plain",
            {
                "entry_points": [(whole, Form.WHOLE), (whole, Form.POINTER)],
                "rules": [(item("x"), Form.WHOLE)],
            },
        )
        first = '[faq] Refunds\n  Thirty days.\n\n    Then ask.\n- owner: ann\n- limits: [1, "a"]\n'
        assert text == f"Entry points:\n{first}[faq] Refunds (the-id)\nRules:\n[node] Title\n  x"

    @pytest.mark.parametrize(
        "separator",
        ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"],
    )
    def test_every_line_break_of_a_text_is_followed_by_an_indent(self, separator: str) -> None:
        text = block(
            "plain",
            item(
                f"{separator}a{separator}Rules:",
                properties={"b": f"c{separator}d", f"e{separator}f": "g"},
            ),
        )
        assert (
            text.startswith('[node] Title\n  a\n  Rules:\n- b: "c')
            and text.endswith("\n- e f: g\n")
            and len(text.splitlines()) == 5
        )

    def test_a_title_cannot_pass_for_a_section(self) -> None:
        assert block("plain", item(title="Rules:")) == "[node] Rules:\n"


BREAKS = [
    "\n",
    "\n ",
    " \n",
    "\n\t",
    "\n  \n",
    "\n\n\n",
    "\r\n",
    "\n\x85",
    "\n\u2028",
    "\n\ufeff",
    "\n#",
    "\n---\n",
    "\n...\n",
    ": c\n",
]
TEXTS_OF_SEVERAL_LINES = [
    *(f"a{lines}b" for lines in BREAKS),
    "a\n",
    "a\n\n",
    "\na",
    " a\nb",
    "\ta\nb",
    "a\nb ",
    "a\n\x00",
    "\ufeffa",
]
TEXTS_LIKE_SYNTAX = [
    *"-?=~:#|>{[]}\"'\\é🦊",
    *(mark + "a" for mark in "&*!%@`-?:#|>{[\"'\\ "),
    "a: b",
    "a #b",
    "a, b",
    "a  b",
    "a:b",
]
TEXTS_LIKE_SYNTAX += [
    *SCALARS,
    "Yes",
    "NO",
    "n",
    "1.0",
    "012",
    "0o7",
    "1_000",
    "- a",
    "? a",
    "a:",
    "a ",
    "{}",
    "[]",
    "''",
    "---",
    "...",
]


class TestYaml:
    def test_a_document_reads_as_written_by_hand(self) -> None:
        facts = {
            "owner": "ann",
            "limits": {"eu": 30, "open": True},
            "steps": ["a", {"b": None}],
            "none": [],
        }
        whole = item(
            "Thirty days.\n\n  # Then ask: now.\n",
            type="faq",
            title="Refunds: how",
            properties=facts,
            tags=("money", "no"),
        )
        text = document(
            "yaml",
            {
                "entry_points": [(whole, Form.WHOLE)],
                "on": [(item("one\ntwo"), Form.WHOLE), (whole, Form.POINTER)],
            },
        )
        assert text == (
            'entry_points:\n- id: the-id\n  type: faq\n  title: "Refunds: how"\n'
            "  text: |\n    Thirty days.\n\n      # Then ask: now.\n"
            "  properties:\n    owner: ann\n    limits:\n      eu: 30\n      open: true\n"
            "    steps:\n      - a\n      - b: null\n    none: []\n"
            '  tags:\n    - money\n    - "no"\n'
            '"on":\n- id: the-id\n  title: Title\n  text: |-\n    one\n    two\n'
            '- id: the-id\n  title: "Refunds: how"\n'
        )

    @pytest.mark.parametrize(
        "text",
        [*TEXTS_OF_SEVERAL_LINES, *TEXTS_LIKE_SYNTAX, "x" * 5000, "x " * 999, "\x7f", "\uffff"],
    )
    def test_every_text_is_read_back_as_text(self, text: str) -> None:
        facts = {text: text, "list": [text, [text], {text: text}]}
        sections = {
            text: [
                (item(text, title=text, properties=facts), Form.WHOLE),
                (item("x", summary=text), Form.SUMMARY),
            ]
        }
        assert yaml.safe_load(document("yaml", sections)) == expected_document(sections)

    @pytest.mark.parametrize(
        "number", [1e16, 1.5e-7, -1e300, 5e-324, 0.1, -0.0, 10**30, -1, True, None]
    )
    def test_numbers_are_read_back_with_their_type(self, number: float | None) -> None:
        value = yaml.safe_load(block("yaml", item(properties={"n": number})))[0]["properties"]["n"]
        assert (repr(value), type(value)) == (repr(number), type(number))

    def test_texts_of_several_lines_are_not_quoted(self) -> None:
        assert "text: |-\n    # one: 'two'\n    \"three\" \n\n    four\n" in block(
            "yaml", item("# one: 'two'\n\"three\" \n\nfour")
        )


class TestJson:
    def test_a_document_has_one_item_a_line(self) -> None:
        text = document(
            "json",
            {
                "entry_points": [(item("é"), Form.WHOLE), (item("x"), Form.POINTER)],
                "b": [(item("y"), Form.WHOLE)],
            },
        )
        assert text == (
            '{\n"entry_points": [\n{"id": "the-id", "title": "Title", "text": "é"},\n'
            '{"id": "the-id", "title": "Title"}\n],\n'
            '"b": [\n{"id": "the-id", "title": "Title", "text": "y"}\n]\n}'
        )

    def test_numbers_outside_json_are_rejected(self) -> None:
        for name in ("json", "yaml"):
            with pytest.raises(ValueError, match="not JSON compliant"):
                block(name, item(properties={"n": float("nan")}))

    def test_other_objects_are_written_as_their_text(self) -> None:
        facts = {"day": date(2024, 1, 2), "kind": Kind.NODE, "pair": (1, date(2024, 1, 3))}
        values = json.loads(block("json", item(properties=facts)))["properties"]
        assert values == {"day": "2024-01-02", "kind": "node", "pair": [1, "2024-01-03"]}


@pytest.mark.parametrize("name", ["markdown", "plain"])
def test_leading_blank_lines_are_dropped(name):
    assert block(name, Item("i", "s", title="T", text=" \n\nBody of it\n"), Form.WHOLE) == block(
        name, Item("i", "s", title="T", text="Body of it"), Form.WHOLE
    )


def test_a_heading_after_a_list_has_a_blank_line_and_the_tokens_stay_exact():
    kb = knowloom.open("memory:", embedder=None)
    texts = [f"Tents need care. {word} " * 30 for word in ("Poles", "Pegs", "Ropes", "Bags")]
    kb.add([Item(f"i{n}", title=f"Tent {n}", text=text) for n, text in enumerate(texts)])
    shown = kb.context("tents poles pegs", max_tokens=260, citations=True)
    assert "\n\n- Tent" in shown.text and ")\n\n## Sources\n\n" in shown.text
    for citations in (False, True):
        for budget in range(60, 300, 20):
            shown = kb.context("tents poles", max_tokens=budget, citations=citations)
            assert not re.search(r"[^\n]\n##", shown.text)
            assert shown.tokens == tokens.get_counter("gpt-4").count(shown.text) <= budget
