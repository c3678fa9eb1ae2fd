"""Excerpts show ranges of a text under their headings, and leave nothing open behind them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from knowloom.formats.layout import FORMATS, assemble
from knowloom.formats.runs import Fence, excerpt_runs, find_fence, format_headings
from knowloom.model import Form, Hit, Item, Passage, ScoredPassage
from knowloom.text.passages import split_passages
from text_strategies import PARSER, any_text, headings, nasty

LINUX = "Unpack the archive with tar. " * 20
WINDOWS = "Run the installer twice. " * 24
GUIDE = (
    "# Guide\n\nRead this first.\n\n## Install\n\nPick a system.\n\n### Linux\n\n"
    f"{LINUX}\n\n### Windows\n\n{WINDOWS}\n"
)


def item(text: str, title: str = "Guide") -> Item:
    properties = {"owner": "ann"}
    return Item("guide", "s", title=title, text=text, properties=properties, tags=("docs",))


def block(name: str, text: str, ranges: Sequence[Passage], title: str = "Guide") -> str:
    return FORMATS[name].block(Hit(item(text, title), 1.0), Form.EXCERPT, ranges)


def markdown(text: str, *ranges: Passage) -> str:
    return block("markdown", text, ranges)


def at(text: str, part: str, headings: tuple[str, ...] = (), inner: int = 0) -> Passage:
    """Return the range of a part of the text."""
    start = text.index(part)
    return Passage(0, start, start + len(part), headings, inner)


PATH = ("Guide", "Install", "Linux")


class TestRuns:
    def test_an_excerpt_of_two_sections_reads_as_written_by_hand(self) -> None:
        ranges = (
            at(GUIDE, "Read this first.", ("Guide",)),
            at(GUIDE, "Unpack the archive with tar.", PATH),
        )
        assert markdown(GUIDE, *ranges) == (
            "### Guide\nRead this first.\n\n[…]\n\n#### Install > Linux\n"
            "Unpack the archive with tar.\n\n"
        )
        assert block("plain", GUIDE, ranges) == (
            "[node] Guide\n  Read this first.\n  […]\nin: Install > Linux\n"
            "  Unpack the archive with tar.\n"
        )
        assert json.loads(block("json", GUIDE, ranges)) == {
            "id": "guide",
            "title": "Guide",
            "text": "Read this first.\n[…]\nUnpack the archive with tar.",
        }

    @pytest.mark.parametrize("name", ["json", "yaml"])
    def test_fields_have_the_headings_of_the_first_range(self, name: str) -> None:
        text = block(name, GUIDE, [at(GUIDE, "Unpack the archive", PATH)])
        assert yaml.safe_load(f"[{text}]" if name == "json" else text) == [
            {
                "id": "guide",
                "title": "Guide",
                "headings": "Install > Linux",
                "text": "Unpack the archive",
            }
        ]

    @pytest.mark.parametrize("name", FORMATS)
    def test_properties_and_tags_are_not_shown(self, name: str) -> None:
        text = block(name, GUIDE, [at(GUIDE, "Read this first.")])
        assert "ann" not in text and "docs" not in text

    def test_adjacent_ranges_are_joined_as_in_the_text(self) -> None:
        text = "First part.\n\n  Second part. Third."
        ranges = at(text, "First part."), at(text, "Second part."), at(text, "Third.")
        assert markdown(text, *ranges) == ("### Guide\nFirst part.\n\n  Second part. Third.\n\n")
        assert json.loads(block("json", text, ranges))["text"] == text

    def test_a_heading_inside_the_range_is_not_repeated_above_it(self) -> None:
        section = at(GUIDE, "### Linux\n\nUnpack", PATH, inner=1)
        assert markdown(GUIDE, section) == ("### Guide\n#### Install\n\\### Linux\n\nUnpack\n\n")

    def test_several_headings_inside_the_range_are_not_repeated(self) -> None:
        text = "# A\n\n## B\n\n### C\n\nText."
        shown = markdown(text, at(text, "## B\n\n### C\n\nText.", ("A", "B", "C"), inner=2))
        assert shown == "### Guide\n#### A\n\\## B\n\n\\### C\n\nText.\n\n"

    def test_rows_of_a_table_are_shown_below_its_header(self) -> None:
        header = "| pier | depth |\n| --- | ---: |"
        text = f"Piers.\n\n{header}\n| north | 12 |\n| south | 9 |\n| west | 7 |\n\nDone."
        assert markdown(text, at(text, "| south | 9 |")) == (
            f"### Guide\n{header}\n| south | 9 |\n\n"
        )
        ranges = at(text, f"{header}\n| north | 12 |"), at(text, "| west | 7 |\n\nDone.")
        assert markdown(text, *ranges).count("pier | depth") == 1
        twice = markdown(text, at(text, "| north | 12 |"), at(text, "| west | 7 |"))
        assert twice.count("pier | depth") == 1

    @pytest.mark.parametrize(
        "text",
        [
            "| a | b |\n| c | d |\n| rows",
            "Names | of\n--- | ---\n| rows",
            f"| {'a' * 500} |\n| - |\n| rows",
            "```\n| a |\n| - |\n| rows\n```",
        ],
    )
    def test_other_lines_with_bars_have_no_header(self, text: str) -> None:
        [run] = excerpt_runs(Hit(item(text), 1.0), [at(text, "| rows")])
        assert run.table == ""

    def test_a_range_cut_behind_its_heading_is_shown_below_it(self) -> None:
        section = at(GUIDE, "Unpack the archive", PATH, inner=1)
        assert markdown(GUIDE, section).startswith("### Guide\n#### Install > Linux\nUnpack")

    @pytest.mark.parametrize(
        "start", ["Linux\n=====\n\n", "=====\nLinux\n=====\n\n", "## Linux ##\n"]
    )
    def test_underlined_and_closed_headings_count_as_written(self, start: str) -> None:
        text = f"Before.\n\n{start}Unpack."
        shown = excerpt_runs(Hit(item(text), 1.0), [at(text, f"{start}Unpack.", ("Linux",), 1)])
        assert [run.headings for run in shown] == [""]

    def test_headings_are_shown_where_they_change(self) -> None:
        text = "# A\n\none. two. three.\n\n# B\n\nfour. five."
        ranges = [
            at(text, "one.", ("A",)),
            at(text, "three.", ("A",)),
            at(text, "four.", ("B",)),
        ]
        assert [run.headings for run in excerpt_runs(Hit(item(text), 1.0), ranges)] == [
            "A",
            "",
            "B",
        ]

    def test_a_section_that_began_in_the_range_before_is_not_announced(self) -> None:
        text = "# A\n\none. two. three."
        ranges = [at(text, "# A\n\none.", ("A",), 1), at(text, "three.", ("A",))]
        assert [run.headings for run in excerpt_runs(Hit(item(text), 1.0), ranges)] == ["", ""]

    def test_without_ranges_the_best_passage_is_shown(self) -> None:
        passages = split_passages(GUIDE)
        hit = Hit(item(GUIDE), 1.0, passages=(ScoredPassage(passages[-1], 0.5),))
        for layout in FORMATS.values():
            expected = layout.block(hit, Form.EXCERPT, [passages[-1]])
            assert layout.block(hit, Form.EXCERPT) == expected
            assert "installer" in expected and "archive" not in expected

    def test_a_first_line_of_code_keeps_its_indent(self) -> None:
        text = "Steps:\n\n    first()\n    second()\n\nDone."
        assert markdown(text, at(text, "first()\n    second()")) == (
            "### Guide\n    first()\n    second()\n\n"
        )

    def test_every_passage_of_a_text_together_is_the_text(self) -> None:
        for name in ("json", "yaml"):
            text = block(name, GUIDE, split_passages(GUIDE))
            (fields,) = yaml.safe_load(f"[{text}]" if name == "json" else text)
            assert fields["text"] == GUIDE.rstrip()


class TestCode:
    CODE = "Before.\n\n```python\nfirst = 1\n# second\nthird = 3\n```\n\n# After\n\nThe end."

    def test_a_range_that_begins_in_code_gets_the_opening_fence(self) -> None:
        text = markdown(self.CODE, at(self.CODE, "# second\nthird = 3\n```\n\n# After"))
        assert text == "### Guide\n```python\n# second\nthird = 3\n```\n\n\\# After\n\n"

    def test_a_range_that_ends_in_code_gets_the_closing_fence(self) -> None:
        text = markdown(self.CODE, at(self.CODE, "Before.\n\n```python\nfirst = 1"))
        assert text == "### Guide\nBefore.\n\n```python\nfirst = 1\n```\n\n"

    def test_ranges_of_one_code_block_are_code_on_their_own(self) -> None:
        text = markdown(self.CODE, at(self.CODE, "first = 1"), at(self.CODE, "third = 3"))
        assert text == (
            "### Guide\n```python\nfirst = 1\n```\n\n[…]\n\n```python\nthird = 3\n```\n\n"
        )

    @pytest.mark.parametrize("fence", ["```", "~~~~", "- ```", "1. ~~~", "> ```", "  ```"])
    def test_code_in_lists_and_quotes_is_recognised(self, fence: str) -> None:
        indent = "> " if fence[0] == ">" else " " * (len(fence) - len(fence.lstrip(" -1.>")))
        mark = fence.lstrip(" -1.>")
        text = f"Before.\n\n{fence}sh\n{indent}# one\n{indent}# two\n{indent}{mark}\n\nAfter."
        assert find_fence(text, text.index("# two")) is not None
        assert find_fence(text, text.index("After.")) is None
        tokens = PARSER.parse(markdown(text, at(text, f"{indent}# two\n{indent}{mark}\n\nAfter.")))
        assert [token.content.strip() for token in tokens if token.type == "fence"] == ["# two"]
        assert tokens[-2].content == "After."

    def test_only_positions_behind_the_first_line_are_inside(self) -> None:
        text = "a\n```\nb\n```\nc"
        assert [bool(find_fence(text, place)) for place in range(len(text) + 1)] == [
            2 < place < 11 for place in range(len(text) + 1)
        ]

    def test_code_without_an_end_reaches_to_the_end_of_the_text(self) -> None:
        assert find_fence("a\n```sh\nb", 8) == Fence(2, 9, "```sh")

    def test_inline_code_is_no_fence(self) -> None:
        text = "```a``` b\nc\n``` d `\ne"
        assert find_fence(text, len(text)) is None and find_fence(text, 11) is None


class TestHostileTexts:
    @given(nasty, st.data())
    @settings(deadline=None, max_examples=300)
    def test_no_range_changes_what_follows_it(self, text: str, data: st.DataObject) -> None:
        ranges = data.draw(ranges_of(text))
        blocks = [
            markdown(text, *ranges),
            FORMATS["markdown"].block(
                Hit(Item("b", "s", title="Next", text="end"), 1.0), Form.WHOLE
            ),
        ]
        document = assemble(FORMATS["markdown"], [("context", blocks)])
        assert headings(document) == [("h2", 0, "Context"), ("h3", 0, "Guide"), ("h3", 0, "Next")]
        assert PARSER.parse(document)[-2].content == "end"

    @given(any_text, st.data())
    @settings(deadline=None, max_examples=100)
    def test_only_generated_lines_of_plain_text_begin_in_the_first_column(
        self, text: str, data: st.DataObject
    ) -> None:
        path = (data.draw(any_text), "Rules:")
        lines = block("plain", text, data.draw(ranges_of(text, path))).splitlines()
        generated = ["[node] Guide", f"in: {format_headings(path)}"]
        assert all(line in generated for line in lines if line[:1].strip())

    @given(any_text, st.data())
    @settings(deadline=None, max_examples=100)
    def test_fields_have_the_ranges_as_stored(self, text: str, data: st.DataObject) -> None:
        ranges = data.draw(ranges_of(text))
        shown = [text[part.start : part.end] for part in ranges]
        for name in ("json", "yaml"):
            encoded = block(name, text, ranges)
            row = json.loads(encoded) if name == "json" else yaml.safe_load(encoded)[0]
            assert all(part.strip() in row.get("text", "") for part in shown)

    @pytest.mark.parametrize("name", FORMATS)
    @pytest.mark.parametrize("ranges", [[(0, 0)], [(3, 3)], [(5, 3)], [(9, 99)], [(1, 2)]])
    def test_empty_and_blank_ranges_show_nothing(
        self, name: str, ranges: list[tuple[int, int]]
    ) -> None:
        passages = [Passage(0, *pair) for pair in ranges]
        expected = FORMATS[name].block(Hit(item(""), 1.0), Form.EXCERPT)
        assert block(name, "a \n b", passages) == expected

    def test_a_range_beyond_the_text_ends_with_it(self) -> None:
        assert markdown("The end.", Passage(0, 4, 99)) == "### Guide\nend.\n\n"

    def test_lines_that_end_in_carriage_returns_are_normalised(self) -> None:
        text = "One.\r\n\r\nTwo.\r\n# x\r\n"
        assert markdown(text, at(text, "Two.\r\n# x")) == "### Guide\nTwo.\n\\# x\n\n"
        assert block("plain", text, [at(text, "\r\nTwo.\r\n# x")]) == (
            "[node] Guide\n  Two.\n  # x\n"
        )

    def test_texts_from_right_to_left_are_unchanged(self) -> None:
        text = "שלום עולם. זהו מבחן. סוף."
        assert markdown(text, at(text, "זהו מבחן.", ("מבוא",))) == (
            "### Guide\n#### מבוא\nזהו מבחן.\n\n"
        )

    @pytest.mark.parametrize("name", FORMATS)
    def test_lone_surrogates_pass_through(self, name: str) -> None:
        shown = block(name, "a \ud800 b. c", [at("a \ud800 b. c", "a \ud800 b.", ("\ud800",))])
        assert "\ud800" in shown

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            (("via: Root --[x]--> y",), "#### via\\: Root --[x]--> y"),
            (("VIA: x",), "#### VIA\\: x"),
            (("Notes [1]",), "#### Notes \\[1]"),
            (("a\n## Rules", "b ##"), "#### a ## Rules > b \\##"),
        ],
    )
    def test_headings_cannot_imitate_generated_lines(
        self, path: tuple[str, ...], line: str
    ) -> None:
        shown = markdown("Some text.", Passage(0, 0, 10, path))
        assert shown == f"### Guide\n{line}\nSome text.\n\n"

    def test_long_headings_are_shortened_between_words(self) -> None:
        path = format_headings(["word " * 100, "x" * 5_000, "short"])
        assert re.fullmatch(r"(word )+word… > … > short", path) and len(path) < 100

    def test_a_line_of_20_million_characters_costs_what_its_range_does(self) -> None:
        text = "`" * 3 + " word ~~~ " * 2_000_000
        ranges = [Passage(0, 10_000_004, 10_000_100), Passage(1, 19_000_000, 19_000_500)]
        started = time.perf_counter()
        for name in FORMATS:
            assert len(block(name, text, ranges)) < 1_000
        assert time.perf_counter() - started < 5.0


def ranges_of(text: str, headings: tuple[str, ...] = ()) -> st.SearchStrategy[list[Passage]]:
    """Return up to three sorted, disjoint ranges of a text."""
    ends = st.lists(st.integers(0, len(text)), min_size=2, max_size=6).map(sorted)
    return ends.map(
        lambda places: [
            Passage(number, start, end, headings)
            for number, (start, end) in enumerate(zip(places[::2], places[1::2], strict=False))
        ]
    )


def test_tildes_below_a_title_underline_it_and_open_no_code_block():
    text = "Publish\n~~~~~~~\n\n" + "First part. " * 90 + "\n\n" + "Last part. " * 90
    item = Item("a", "s", title="Guide", text=text)
    last = text.index("Last part.")
    ranges = (Passage(0, 0, 40), Passage(1, last, last + 54))
    block = FORMATS["markdown"].block(Hit(item, 1.0), Form.EXCERPT, ranges)
    assert "\\~~~~~~~" in block
    assert block.count("~~~") == 2
