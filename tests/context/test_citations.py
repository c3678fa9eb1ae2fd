"""The sources of items and ranges, and the numbers of the blocks of a context."""

from __future__ import annotations

from typing import Any

import pytest

from knowloom import tokens
from knowloom.context.citations import (
    add_citation_costs,
    citation_heading,
    cite_fragments,
    count_citation,
    is_cited,
    list_sources,
    source_of,
    sources_fragment,
    url_of,
)
from knowloom.context.renderings import Rendering
from knowloom.formats.layout import FORMATS
from knowloom.model import LINES, LINK, Chosen, Citation, Form, Fragment, Hit, Item, Kind, Passage

MARKDOWN, COUNTER = FORMATS["markdown"], tokens.get_counter("gpt-4")

TEXT = "one\ntwo\nthree\n\nfive\nsix\n"


def item(text: str = TEXT, **fields: Any) -> Item:
    return Item(**{"id": "guide", "space": "docs", "title": "Guide", "text": text, **fields})


def loaded(first: int, last: int, text: str = TEXT) -> Item:
    return item(text, source="docs/install.md", properties={LINES: [first, last]})


def at(part: str, *headings: str, text: str = TEXT) -> Passage:
    start = text.index(part)
    return Passage(0, start, start + len(part), headings)


class TestSources:
    def test_an_item_without_a_source_is_named_by_its_id_and_space(self) -> None:
        assert source_of(item()) == "guide, space docs"

    def test_a_file_is_named_with_the_lines_of_the_item(self) -> None:
        assert source_of(loaded(12, 17)) == "docs/install.md, lines 12-17"
        assert source_of(loaded(12, 12, "one")) == "docs/install.md, line 12"

    def test_an_excerpt_is_named_with_its_lines_and_headings(self) -> None:
        path = ("Install", "Linux")
        assert source_of(loaded(12, 17), [at("two\nthree", *path)]) == (
            "docs/install.md, lines 13-14 (Install > Linux)"
        )
        assert source_of(loaded(12, 17), [at("six", "Guide", *path)]) == (
            "docs/install.md, line 17 (Install > Linux)"
        )

    def test_ranges_are_listed_and_joined_where_they_touch(self) -> None:
        assert source_of(loaded(1, 6), [at("one"), at("three"), at("six")]).endswith(
            ", lines 1, 3, 6"
        )
        assert source_of(loaded(1, 6), [at("one"), at("two\nthree\n"), at("six")]).endswith(
            ", lines 1-3, 6"
        )
        text = "\n".join(f"line {number}." for number in range(1, 20))
        ranges = [at(f"line {number}.", text=text) for number in range(1, 20, 2)]
        assert source_of(loaded(1, 19, text), ranges).endswith(", lines 1-19")

    def test_ranges_of_several_sections_have_their_common_headings(self) -> None:
        ranges = [at("one", "Install", "Linux"), at("six", "Install", "Windows")]
        assert source_of(item(source="a.md"), ranges) == "a.md (Install)"
        assert source_of(item(source="a.md"), [at("one", "A"), at("six", "B")]) == "a.md (A; B)"
        assert source_of(item(source="a.md"), [at("one", "A"), at("six")]) == "a.md"
        many = [at("one", name) for name in "ABCD"]
        assert source_of(item(source="a.md"), many) == "a.md"

    def test_a_range_of_several_sections_has_their_common_headings(self) -> None:
        text = "# Install\n\n## Linux\n\nUnpack.\n\n## Windows\n\nRun."
        linux, windows = ("Install", "Linux"), ("Install", "Windows")
        several = at("## Linux\n\nUnpack.\n\n## Windows\n\nRun.", *linux, text=text)
        assert source_of(item(text, source="a.md"), [several]) == "a.md (Install)"
        for path in (linux, windows):
            single = at(f"## {path[1]}", *path, text=text)
            assert source_of(item(text, source="a.md"), [single]) == f"a.md (Install > {path[1]})"

    def test_text_behind_the_lines_of_the_file_has_the_last_line(self) -> None:
        assert source_of(loaded(12, 14), [at("six")]) == "docs/install.md, line 14"

    @pytest.mark.parametrize(
        "lines",
        [None, "12-30", [12], [12, 30, 31], [0, 5], [30, 12], ["1", "2"], [1.5, 2], [True, 2]],
    )
    def test_lines_of_another_shape_are_ignored(self, lines: object) -> None:
        assert source_of(item(source="a.md", properties={LINES: lines})) == "a.md"

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"source": "manual.pdf", "properties": {"page": 4}}, "manual.pdf, page 4"),
            ({"source": "manual.pdf", "properties": {"page_number": "iv"}}, "manual.pdf, page iv"),
            ({"source": "manual.pdf", "properties": {"page": True}}, "manual.pdf"),
            ({"source": "manual.pdf", "properties": {"page": " "}}, "manual.pdf"),
            ({"properties": {"url": "https://x.org/a"}}, "https://x.org/a"),
            ({"source": "https://x.org/a"}, "https://x.org/a"),
            (
                {"source": "Blog", "properties": {"link": "https://x.org/a"}},
                "Blog, https://x.org/a",
            ),
            ({"source": "slack", "properties": {"message_id": "m7"}}, "slack, message m7"),
            (
                {"kind": Kind.MEMORY, "subject": "chat-3"},
                "conversation chat-3, memory guide",
            ),
            ({"kind": Kind.MEMORY}, "guide, space docs"),
        ],
    )
    def test_addresses_pages_and_messages_are_named(
        self, fields: dict[str, Any], expected: str
    ) -> None:
        assert source_of(item(**fields)) == expected

    def test_a_source_is_one_short_line(self) -> None:
        source = source_of(item(source="a\n## Sources\n\u2028[1] b" + " x" * 1_000_000))
        assert source.startswith("a ## Sources [1] b x") and len(source) <= 200

    def test_an_address_must_be_one(self) -> None:
        assert url_of(item(properties={"url": "javascript:alert(1)"})) == ""
        assert url_of(item(properties={"url": 3, "link": " HTTPS://x.org "})) == "HTTPS://x.org"

    def test_a_long_text_costs_no_more_than_its_lines(self) -> None:
        text = "x" * 20_000_000
        assert source_of(loaded(1, 1, text), [Passage(0, 19_000_000, 20_000_000)]).endswith(
            "line 1"
        )


def chosen(form: Form, number: int, source: str = "a.md") -> Chosen:
    fields = {"id": f"i{number}", "title": f"T{number}", "summary": "x"}
    shown = Hit(item("x", source=source, **fields), 1.0)
    return Chosen(shown, form, 10, FORMATS["markdown"].block(shown, form))


class TestNumbers:
    def test_blocks_are_numbered_in_the_order_of_the_text(self) -> None:
        link = Hit(item(properties={"from": "a", "type": "x", "to": "b"}), 1.0, found_by=LINK)
        text = MARKDOWN.block(link, Form.WHOLE)
        fragments = [
            Fragment("entry", (chosen(Form.WHOLE, 1), chosen(Form.POINTER, 2)), 25),
            Fragment(
                "links", (Chosen(link, Form.WHOLE, 5, text), chosen(Form.SUMMARY, 3, "b.md")), 20
            ),
        ]
        cited, citations = cite_fragments(fragments, MARKDOWN, COUNTER)
        assert [[block.text for block in fragment.chosen] for fragment in cited] == [
            ["### T1 [1]\nx\n\n", "- T2 (id: i2)\n"],
            ["- a --[x]--> b\n", "### T3 [2]\nx\n\n"],
        ]
        assert citations == (
            Citation(1, "docs", "i1", "T1", "a.md"),
            Citation(2, "docs", "i3", "T3", "b.md"),
        )
        assert list_sources(citations, MARKDOWN) == ["[1] a.md\n", "[2] b.md\n"]

    def test_the_tokens_of_numbered_blocks_are_exact(self) -> None:
        (fragment,), _ = cite_fragments(
            [Fragment("entry", (chosen(Form.WHOLE, 1), chosen(Form.POINTER, 2)), 23)],
            MARKDOWN,
            COUNTER,
        )
        first, second = fragment.chosen
        assert (first.tokens, second.tokens) == (COUNTER.count(first.text), 10)
        assert fragment.tokens == first.tokens + 10 + 3
        assert fragment.text == f"## Entry\n\n{first.text}{second.text}".rstrip("\n")

    @pytest.mark.parametrize("name", ["json", "yaml"])
    def test_there_is_no_list_where_blocks_have_a_source(self, name: str) -> None:
        citations = [Citation(1, "s", "a", "A", "a.md")]
        assert list_sources(citations, FORMATS[name]) == []
        assert sources_fragment(citations, FORMATS[name], COUNTER) == ()
        assert citation_heading(FORMATS[name]) == ""

    def test_the_list_of_sources_is_a_fragment_without_items(self) -> None:
        (fragment,) = sources_fragment([Citation(1, "s", "a", "A", "a.md")], MARKDOWN, COUNTER)
        assert fragment == Fragment("sources", (), fragment.tokens, "## Sources\n\n[1] a.md")
        assert fragment.tokens == COUNTER.count(fragment.text)
        assert sources_fragment([], MARKDOWN, COUNTER) == ()

    def test_names_and_relationships_are_not_cited(self) -> None:
        forms = [Form.WHOLE, Form.EXCERPT, Form.SUMMARY]
        assert [form for form in Form if is_cited(Hit(item(), 1.0), form)] == forms
        assert not is_cited(Hit(item(), 1.0, found_by=LINK), Form.WHOLE)
        assert not is_cited(Hit(item(" \n", properties={LINES: [1, 1]}), 1.0), Form.WHOLE)
        assert is_cited(Hit(item("", properties={"owner": "ann"}), 1.0), Form.WHOLE)
        assert is_cited(Hit(item("", summary="Short."), 1.0), Form.WHOLE)

    @pytest.mark.parametrize("name", FORMATS)
    @pytest.mark.parametrize("model", ["gpt-4", "gpt-4o", "unknown"])
    def test_the_cost_of_a_citation_suffices_for_any_number(self, name: str, model: str) -> None:
        layout, counter = FORMATS[name], tokens.get_counter(model)
        hit = Hit(item(source="docs/a guide.md", properties={LINES: [120, 125]}), 1.0)
        block = layout.block(hit, Form.WHOLE)
        cost = count_citation(hit, layout, counter)
        for count in (1, 12, 999):
            shown = (Chosen(hit, Form.WHOLE, counter.count(block), block),) * count
            (fragment,), citations = cite_fragments([Fragment("a", shown)], layout, counter)
            last, line = fragment.chosen[-1], list_sources(citations[-1:], layout)
            bare = counter.count(block + layout.separator)
            assert bare + cost >= last.tokens + counter.count("".join(line))

    def test_costs_are_added_to_cited_forms_alone(self) -> None:
        hit = Hit(item(source="a.md"), 1.0)
        forms = [Rendering(Form.WHOLE, "w", 50), Rendering(Form.POINTER, "p", 8)]
        cost = count_citation(hit, MARKDOWN, COUNTER)
        costly = add_citation_costs(forms, hit, MARKDOWN, COUNTER)
        assert [rendering.tokens for rendering in costly] == [50 + cost, 8]
        assert add_citation_costs((), hit, MARKDOWN, COUNTER) == ()
