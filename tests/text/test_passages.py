"""Passages and their parts: the promises of the segmenter, for real and for hostile texts."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowloom import caching
from knowloom.model import Item, Passage
from knowloom.text.passages import (
    SHORT_SECTION,
    STRETCH,
    count_passages,
    embedding_texts,
    heading_path,
    outer_heading_path,
    split_parts,
    split_passages,
)

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
ACCENTED = "cafe\u0301s"
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Dr. A. Smith paid 3.14 euros, e.g. for tea!",
    "La réunion a lieu à Genève; qui vient?",
    "Der Termin ist am 3. Mai, vgl. Abb. 2.",
    "这是一个没有空格的句子。它继续下去",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "हिन्दी में लिखा हुआ वाक्य।",
    f"{FAMILY}{FAMILY} {ACCENTED} \U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd",
)
PARAGRAPHS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=8).map(" ".join)
BLOCKS = st.one_of(
    PARAGRAPHS,
    st.integers(1, 4).map(lambda level: "#" * level + " Heading"),
    st.sampled_from(("Title\n=====", "Part\n----", "====\nTop\n====", "== Section")),
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5).map(
        lambda items: "\n".join(f"- {item}" for item in items)
    ),
    st.integers(1, 6).map(
        lambda rows: "\n".join(["| a | b |", "|---|---|"] + ["| c | d |"] * rows)
    ),
    st.integers(1, 30).map(lambda lines: "```python\n" + "x = compute(1)\n\n" * lines + "```"),
    st.integers(1, 200).map(lambda length: "w" * length),
    st.sampled_from(("\n\n\n", "   ", "\t\ttabbed", "\ud83d\ude00\ud83d", "a/b+c=" * 30)),
)
DOCUMENTS = st.lists(BLOCKS, max_size=12).map("\n\n".join)
TEXTS = st.one_of(
    DOCUMENTS, st.text(st.characters(), max_size=400), st.text("a \n#`=-.", max_size=300)
)
SIZES = st.integers(20, 200)


def visible(text: str) -> str:
    return "".join(text.split())


def is_unspaced(character: str) -> bool:
    names = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
    return unicodedata.name(character, "").startswith(names)


def is_extending(character: str) -> bool:
    return unicodedata.category(character).startswith("M") or character == "\u200d"


def check_cuts(text: str, passages: tuple[Passage, ...]) -> None:
    assert [passage.number for passage in passages] == list(range(len(passages)))
    for left, right in pairwise(passages):
        assert left.end <= right.start
        if left.end < right.start:
            assert text[left.end : right.start].isspace()
            continue
        before, after = text[left.end - 1], text[right.start]
        is_inside_word = (before.isalnum() or before == "_") and (after.isalnum() or after == "_")
        assert not is_inside_word or (is_unspaced(before) and is_unspaced(after)), before + after
        assert not is_extending(after) and before != "\u200d"
        assert not ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")


def check_lengths(text: str, passages: tuple[Passage, ...], size: int) -> None:
    """Check that a passage is too long only where no word ends in its second three quarters."""
    for passage in passages:
        if passage.end - passage.start > int(STRETCH * size):
            first = passage.start + int(SHORT_SECTION * size)
            part = text[first : passage.start + int(STRETCH * size)]
            assert not [place for place in range(1, len(part)) if is_break(part, place)]


def is_break(text: str, place: int) -> bool:
    return text[place - 1].isspace() and not is_extending(text[place])


@settings(max_examples=400, deadline=None)
@given(TEXTS, SIZES)
@example("x\n" + "\u0301" * 200, 20)
@example("# A\n" + "\n" * 100 + "text", 20)
def test_passages_hold_each_visible_character_once_and_cut_no_word(text: str, size: int) -> None:
    passages = split_passages(text, size)
    assert passages
    assert visible("".join(text[p.start : p.end] for p in passages)) == visible(text)
    check_cuts(text, passages)
    check_lengths(text, passages, size)
    assert count_passages(text, size) == len(passages)


@settings(max_examples=200, deadline=None)
@given(TEXTS, SIZES)
def test_parts_hold_each_visible_character_of_their_passage_once(text: str, size: int) -> None:
    for passage in split_passages(text, 2 * size):
        parts = split_parts(text, passage.start, passage.end, size)
        shown = "".join(text[part.start : part.end] for part in parts)
        assert visible(shown) == visible(text[passage.start : passage.end])
        assert passage.start <= parts[0].start and parts[-1].end <= passage.end
        check_cuts(text, parts)
        check_lengths(text, parts, size)


@given(TEXTS, SIZES)
def test_a_text_of_five_quarters_of_the_size_is_one_passage(text: str, size: int) -> None:
    text = text[: int(STRETCH * size)]
    assert split_passages(text, size) == (Passage(0, 0, len(text)),)


@settings(deadline=None)
@given(DOCUMENTS, SIZES)
def test_passages_do_not_depend_on_caches(text: str, size: int) -> None:
    before = split_passages(text, size), split_parts(text, 0, len(text), size)
    caching.clear()
    assert (split_passages(text, size), split_parts(text, 0, len(text), size)) == before


CODE = {
    "fenced": "```\n{}\n```",
    "tildes": "~~~ python\n{}\n~~~",
    "nested fence": "````\n```\n{}\n````",
    "indented": "    {}",
    "tabbed": "\t{}",
    "literal block": "Run::\n\n   {}",
    "directive": ".. code-block:: python\n   :linenos:\n\n   {}",
}


@pytest.mark.parametrize("style", CODE)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_code_block_that_fits_is_never_cut(style: str, data: st.DataObject) -> None:
    before = data.draw(st.lists(st.sampled_from(SENTENCES[:4]), max_size=12).map(" ".join))
    after = data.draw(st.lists(st.sampled_from(SENTENCES[:4]), max_size=12).map("\n".join))
    count = data.draw(st.integers(1, 12))
    template = CODE[style]
    indent = template.rpartition("\n")[2].partition("{")[0] if "{}\n" not in template else ""
    lines = [f"{indent}call({number})" for number in range(count)]
    code = template.format("\n\n".join(lines).removeprefix(indent))
    text = f"{before}\n\n{code}\n\n{after}"
    size = max(60, len(code))
    code = code.removeprefix("Run::\n\n")  # a paragraph, which is not part of its block
    start = text.index(code)
    assert any(
        passage.start <= start + len(code) - len(code.lstrip()) and start + len(code) <= passage.end
        for passage in split_passages(text, size)
    )


def test_a_long_code_block_is_cut_between_its_lines() -> None:
    body = "\n".join(f"value_{number} = compute( {number} )  # Yes. No" for number in range(200))
    text = f"Intro.\n\n```\n{body}\n```\n"
    passages = split_passages(text)
    assert len(passages) > 5
    assert all(text[passage.start - 1] == "\n" for passage in passages[1:])


def test_a_long_code_block_is_cut_at_blank_lines_if_possible() -> None:
    function = "def f():\n" + "    call(1)\n" * 30
    text = "```\n" + "\n".join([function] * 12) + "```\n"
    passages = split_passages(text)
    assert len(passages) > 3
    assert all(text[passage.start :].startswith("def f") for passage in passages[1:])


@pytest.mark.parametrize(
    "heading",
    ["# Title", "Title\n===", "Title\n-----", "=====\nTitle\n=====", "== Title", "Title\n~~~~~~"],
)
def test_a_heading_begins_a_passage(heading: str) -> None:
    prose = "Some words of a sentence here. " * 20
    text = f"{prose}\n\n{heading}\n\n{prose}"
    passages = split_passages(text)
    assert [text[passage.start :][: len(heading)] for passage in passages[1:]] == [heading]
    assert passages[1].headings == ("Title",) and passages[1].inner == 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), min_size=1, max_size=12),
    st.integers(60, 200),
)
def test_a_heading_is_not_the_last_line_before_its_text(
    sections: list[tuple[int, int]], size: int
) -> None:
    text = "".join(
        "#" * level + f" {number}\n\n" + "Words of the text. " * sentences + "\n\n"
        for number, (level, sentences) in enumerate(sections)
    )
    passages = split_passages(text, size)
    for left, right in pairwise(passages):
        last_line = text[left.start : left.end].rpartition("\n")[2]
        assert not last_line.startswith("#") or text[right.start] == "#"


def test_a_heading_stays_with_a_word_that_is_too_long() -> None:
    text = "## A heading of the text\n\n" + "w" * 1_200 + " and more words" * 20
    first = split_passages(text)[0]
    assert text[first.start : first.end].startswith("## A heading of the text\n\nwww")


def path_at(text: str, position: int) -> list[str]:
    """The headings above a position, read line by line."""
    path: dict[int, str] = {}
    for line in text[:position].splitlines():
        if line.startswith("#"):
            level = line.index(" ")
            path = {depth: title for depth, title in path.items() if depth < level}
            path[level] = line[level + 1 :]
    return [path[level] for level in sorted(path)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), min_size=1, max_size=12), SIZES)
def test_heading_paths_hold_for_all_of_a_passage(
    sections: list[tuple[int, int]], size: int
) -> None:
    text = "".join(
        "#" * level + f" {number}\n\n" + "Words of the text. " * sentences + "\n\n"
        for number, (level, sentences) in enumerate(sections)
    )
    for passage in split_passages(text, size):
        if passage.end - passage.start == len(text):
            continue
        shown = text[passage.start : passage.end]
        written = [line.split(" ", 1)[1] for line in shown.splitlines() if line.startswith("#")]
        outer = list(passage.outer_headings)
        assert path_at(text, passage.start)[: len(outer)] == outer
        assert path_at(text, passage.end)[: len(passage.headings)] == list(passage.headings)
        assert written[: passage.inner] == list(passage.headings[len(outer) :])


def test_headings_without_a_text_are_shown_with_the_section_below() -> None:
    prose = "Some words of a sentence here. " * 30
    text = f"# Guide\n\n## Install\n\n{prose}\n\n## Use\n\n### Start\n\n{prose}"
    passages = split_passages(text)
    assert [(passage.headings, passage.inner) for passage in passages] == [
        (("Guide", "Install"), 2),
        (("Guide", "Use", "Start"), 2),
    ]
    assert passages[1].outer_headings == ("Guide",)


def test_a_short_section_joins_the_next_one_below_their_common_heading() -> None:
    prose = "Some words of a sentence here. "
    text = f"# T\n\n{prose * 30}\n\n## A\n\n{prose}\n\n## B\n\n{prose * 20}"
    passages = split_passages(text)
    assert [(passage.headings, passage.inner) for passage in passages] == [(("T",), 1), (("T",), 0)]
    assert text[passages[1].start :].startswith("## A")


def test_parts_have_the_headings_of_their_own_section() -> None:
    prose = "Some words of a sentence here. "
    text = f"# T\n\n{prose * 30}\n\n## A\n\n{prose}\n\n## B\n\n{prose * 20}"
    last = split_passages(text)[1]
    parts = split_parts(text, last.start, last.end)
    assert parts[-1].headings == ("T", "B") and parts[-1].inner == 0


def test_later_passages_of_a_section_have_its_headings_outside() -> None:
    text = "# T\n\n## A\n\n" + "Some words of a sentence here. " * 100
    first, *others = split_passages(text)
    assert (first.headings, first.inner) == (("T", "A"), 2)
    assert {(passage.headings, passage.inner) for passage in others} == {(("T", "A"), 0)}


def test_passages_of_prose_have_an_even_length() -> None:
    text = "Some words of a sentence here. " * 300
    lengths = [passage.end - passage.start for passage in split_passages(text)]
    assert min(lengths) > 700 and max(lengths) < 900


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("It was written by Dr.", "Smith"),
        ("It was written by J.", "Smith"),
        ("This is shown in Fig.", "Two"),
        ("Der Termin ist am 3.", "Mai"),
        ("She moved to the U.S.", "Senate"),
        ("Many things, e.g.", "Tea"),
    ],
)
def test_no_sentence_ends_after_an_abbreviation(before: str, after: str) -> None:
    text = f"{before} {after} and others. " * 200
    assert all(text[p.start :].startswith(before) for p in split_passages(text))


def test_lists_and_tables_are_cut_between_items_and_rows() -> None:
    item = "some words of a list item without an end and a few more of them"
    bullets = "\n".join(f"- {item}\n  {item}" for _ in range(40))
    assert all(bullets[p.start] == "-" for p in split_passages(bullets))
    rows = "\n".join(f"| {item} | {number} |" for number in range(60))
    assert all(rows[p.start] == "|" for p in split_passages(rows))


@pytest.mark.parametrize("length", range(20, 30))
def test_a_lead_in_stays_with_its_list(length: int) -> None:
    prose = "Some words of a sentence here. " * length
    bullets = "\n".join(f"- an item of the list with the number {number}" for number in range(30))
    text = f"{prose}\n\nValid values are:\n\n{bullets}"
    assert not [passage for passage in split_passages(text) if text[passage.end - 1] == ":"]


@pytest.mark.parametrize("stop", ["。", "।", "؟", "።"])
def test_sentences_of_other_scripts_end_at_their_own_marks(stop: str) -> None:
    text = ("abc def ghi" * 5 + stop + " ") * 60
    assert all(text[passage.end - 1] == stop for passage in split_passages(text))


def test_the_embedded_text_has_the_title_and_the_headings_above_the_passage() -> None:
    prose = "Some words of a sentence here. " * 40
    item = Item("a", "s", title="Guide", text=f"# Guide\n\n## Install\n\n{prose}")
    first, second = embedding_texts(item)
    assert first.startswith("Guide\n# Guide\n\n## Install\n\nSome")
    assert second.startswith("Guide\nInstall\nSome")
    passage = split_passages(item.text)[1]
    assert heading_path(item, passage) == outer_heading_path(item, passage) == ("Install",)


def test_the_embedded_text_of_a_short_item_is_that_of_the_item() -> None:
    short = Item("a", "s", title="T", text="x" * 1_000)
    assert embedding_texts(short) == [short.embeddable]
    custom = Item("a", "s", title="T", text="x y " * 1_000, embedding_text="other")
    assert embedding_texts(custom) == ["other"]
