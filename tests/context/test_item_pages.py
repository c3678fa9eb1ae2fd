"""Pages of items: they tile the text, respect the budget and never cut a word."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowloom.context.item_pages import ItemPage, Pagination, paginate
from knowloom.model import Item
from knowloom.text.passages import split_passages
from knowloom.tokens import get_counter
from text_strategies import any_text

COUNTER = get_counter("gpt-4")
SIZE = 800
SENTENCE = "The harbor master inspects every parcel before it is shipped to the customer. "
GUIDE = "".join(f"## Part {number}\n\n{SENTENCE * 20}\n\n" for number in range(6))
LONG_WORD = "x1" * 3000

words = st.sampled_from(
    ["a", "refund", "Übergröße", "汉字测试", "1,000.50", "x" * 60, "🦊", "don't"]
)
spaces = st.sampled_from([" ", "\n", "\n\n", "\n- ", ". ", "  \t", "\r\n", "\n\n## Part\n\n"])
texts = st.lists(st.tuples(words, spaces).map("".join), max_size=400).map("".join)


def cut(text: str, max_tokens: int | None, **fields: object) -> list[ItemPage]:
    item = Item("a", "s", text=text, **fields)  # type: ignore[arg-type]
    return all_pages(paginate(item, SIZE, COUNTER, max_tokens))


def all_pages(pages: Pagination) -> list[ItemPage]:
    return [pages.build_page(number + 1) for number in range(len(pages.ranges))]


@settings(max_examples=60, deadline=None)
@given(texts | any_text, st.integers(1, 300))
@example(" " * 3000 + "a" + "\n" * 3000, 20)
@example("word", 1)
def test_pages_tile_the_text_within_the_budget(text: str, max_tokens: int) -> None:
    pages = cut(text, max_tokens)
    assert [page.start for page in pages] == [0, *(page.end for page in pages[:-1])]
    assert pages[-1].end == len(text)
    assert all(COUNTER.count(page.text) == page.tokens <= max_tokens for page in pages)
    for page in pages:
        assert page.text == ("" if page.note else text[page.start : page.end])
        assert [page.page, page.pages] == [pages.index(page) + 1, len(pages)]


@settings(max_examples=60, deadline=None)
@given(texts, st.integers(1, 300))
def test_no_word_is_cut(text: str, max_tokens: int) -> None:
    for page in cut(text, max_tokens)[1:]:
        seam = text[page.start - 1 : page.start + 1]
        assert not re.fullmatch(r"\w\w", seam) or re.fullmatch("[汉字测试]+", seam), page


def test_pages_consist_of_whole_passages() -> None:
    starts = {passage.start for passage in split_passages(GUIDE, SIZE)}
    pages = cut(GUIDE, 500)
    assert len(pages) > 3 and not any(page.is_cut for page in pages)
    assert {page.start for page in pages[1:]} < starts


def test_pages_are_as_long_as_possible() -> None:
    passages = split_passages(GUIDE, SIZE)
    for page in cut(GUIDE, 500)[:-1]:
        following = passages[page.passages[-1] + 1]
        end = next((p.start for p in passages if p.start > following.start), len(GUIDE))
        assert COUNTER.count(GUIDE[page.start : end]) > 500


class Surcharge:
    """A counter of words that adds a number for each text, or for each ten words of it."""

    name, additive = "words", False

    def __init__(self, per_text: int = 0, per_ten_words: int = 0) -> None:
        self.per_text, self.per_ten_words = per_text, per_ten_words

    def count(self, text: str) -> int:
        words = len(text.split())
        return words + self.per_text * bool(words) + words // 10 * self.per_ten_words


def test_pages_fit_if_a_text_has_more_tokens_than_its_parts() -> None:
    counter = Surcharge(per_ten_words=5)
    text = "\n\n".join(["one two three four five six seven"] * 400)
    assert counter.count("x " * 14) > 2 * counter.count("x " * 7)
    pages = all_pages(paginate(Item("a", "s", text=text), 30, counter, 100))
    assert all(counter.count(page.text) == page.tokens <= 100 for page in pages)
    assert "".join(page.text for page in pages) == text


def test_pages_are_filled_if_a_text_has_fewer_tokens_than_its_parts() -> None:
    counter = Surcharge(per_text=20)
    text = "\n\n".join(["one two three four five six seven"] * 400)
    pages = all_pages(paginate(Item("a", "s", text=text), 30, counter, 300))
    assert all(280 - 7 < page.tokens <= 300 for page in pages[:-1])


def test_a_passage_longer_than_the_budget_is_cut_at_sentences() -> None:
    pages = cut(SENTENCE * 30, 60)
    assert all(page.is_cut for page in pages)
    assert all(re.fullmatch(f"({re.escape(SENTENCE)})+", page.text) for page in pages)
    assert min(page.tokens for page in pages[:-1]) > 30  # they are filled


def test_marks_inside_a_word_are_the_last_place_to_cut_at() -> None:
    for max_tokens in range(9, 14):
        pages = cut("state-of-the-art harbor rules " * 40, max_tokens)
        assert all(page.text.endswith(" ") for page in pages)
    assert "".join(page.text for page in cut("a-" * 50, 9)) == "a-" * 50


def test_the_first_page_has_the_fields_and_counts_them() -> None:
    fields = {"summary": "In short", "tags": ("x", "y"), "properties": {"size": 3}}
    first, *others = cut(GUIDE, 400, **fields)
    assert (first.summary, first.tags, first.properties) == ("In short", ("x", "y"), {"size": 3})
    lines = "summary: In short\ntags: x, y\nsize: 3\n"
    assert first.tokens == COUNTER.count(lines) + COUNTER.count(first.text) <= 400
    assert not any(page.summary or page.tags or page.properties for page in others)


def test_reserved_properties_are_not_shown() -> None:
    (page,) = cut("", 50, properties={"knowloom:since": "x", "size": 3})
    assert page.properties == {"size": 3}


def test_fields_that_do_not_fit_are_left_out_with_a_note() -> None:
    (page,) = cut("Alpha.", 20, tags=("x",), properties={"table": "cell " * 100})
    assert (page.text, page.tags, page.properties) == ("Alpha.", ("x",), {})
    assert re.fullmatch(r"properties left out: 1\d\d tokens", page.note)


def test_a_passage_that_fits_a_page_is_not_cut_to_fit_beside_the_fields() -> None:
    first, second = cut(SENTENCE * 5, 80, summary="word " * 40)
    assert (first.text, first.passages, second.text) == ("", (), SENTENCE * 5)


def test_a_word_longer_than_the_budget_is_left_out_with_a_note() -> None:
    text = f"Alpha beta. {LONG_WORD} gamma delta."
    pages = cut(text, 50)
    assert "".join(page.text for page in pages).split() == text.replace(LONG_WORD, "").split()
    (hidden,) = [page for page in pages if page.note]
    needed = COUNTER.count(LONG_WORD)
    assert hidden.note.startswith("6,000 characters without a break left out: max_tokens=")
    assert str(hidden.note).endswith(f"max_tokens={needed} shows them")
    assert LONG_WORD in cut(text, needed)[1].text


def test_the_headings_of_a_page_are_those_of_its_first_passage() -> None:
    text = f"# Guide\n\n{GUIDE}"
    for page in cut(text, 500, title="Guide"):  # the title is not repeated
        above = re.findall(r"Part \d", text[: page.start + 20])
        assert page.headings == (above[-1],)


@pytest.mark.parametrize("max_tokens", [20, 500, None])
def test_every_passage_is_on_the_page_that_it_opens(max_tokens: int | None) -> None:
    item = Item("a", "s", text=GUIDE, summary="In short")
    pages = paginate(item, SIZE, COUNTER, max_tokens)
    for passage in pages.passages:
        page = pages.build_page(pages.find_page(passage.number))
        assert passage.number in page.passages
        assert page.start <= passage.start < page.end


@pytest.mark.parametrize("max_tokens", [1, None])
def test_an_item_without_text_has_one_page(max_tokens: int | None) -> None:
    item = Item("a", "s", title="Empty")
    pages = paginate(item, SIZE, COUNTER, max_tokens)
    (page,) = all_pages(pages)
    assert (page.text, page.tokens, page.next, pages.find_page(0)) == ("", 0, None, 1)


def test_no_limit_is_one_page() -> None:
    (page,) = cut(GUIDE, None)
    assert (page.text, page.tokens) == (GUIDE, COUNTER.count(GUIDE))


def test_a_counter_that_is_not_exact_is_respected_too() -> None:
    bound = get_counter("some-other-model", strict=True)
    pages = all_pages(paginate(Item("a", "s", text=GUIDE), SIZE, bound, 900))
    assert all(len(page.text.encode()) == page.tokens <= 900 for page in pages)
    assert "".join(page.text for page in pages) == GUIDE


def test_a_page_prints_with_its_place_and_headings() -> None:
    first, *_ = cut(GUIDE, 300, title="Guide", summary="In short")
    assert str(first) == (
        f"Guide (s/a), page 1 of {first.pages}; continued on page 2\nPart 0\nsummary: In short\n\n"
        f"{first.text}"
    )
    assert str(cut("", 9, title="A\nB")[0]) == "A B (s/a), page 1 of 1"
