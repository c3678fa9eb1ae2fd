"""Terms of passages: the title and the headings above a passage count once."""

from __future__ import annotations

from collections import Counter

import pytest

from knowloom.model import Item
from knowloom.text.passages import split_passages
from knowloom.text.words import (
    count_passage_terms,
    count_terms,
    extract_all_terms,
    extract_terms,
    fold_words,
)

PROSE = "Some words of a sentence here. " * 40


def test_a_short_item_has_the_terms_of_the_item() -> None:
    item = Item("a", "s", title="Guide", text="# Install\n\nRun it.", summary="Short", tags=("t",))
    assert count_passage_terms(item, 800) == [count_terms(item)]
    assert count_terms(item)["guid"] == 2


def test_the_title_and_each_heading_count_once_in_a_passage() -> None:
    item = Item("a", "s", title="Guide", text=f"# Guide\n\nHello.\n\n## Install\n\n{PROSE}")
    first, *others = count_passage_terms(item, 800)
    assert len(others) == 2
    assert first["guid"] == 2  # the title, and the heading that repeats it
    assert [terms["guid"] for terms in others] == [1, 1]
    assert [terms["instal"] for terms in (first, *others)] == [0, 1, 1]


def test_only_the_first_passage_has_the_terms_of_the_metadata() -> None:
    item = Item(
        "a", "s", text=PROSE, summary="summarised", tags=("tagged",), properties={"k": "valued"}
    )
    first, second = count_passage_terms(item, 800)
    assert first["summaris"] == first["tag"] == first["valu"] == 1
    assert not second.keys() & {"summaris", "tag", "valu"}


def test_the_terms_of_all_passages_are_those_of_the_text() -> None:
    item = Item("a", "s", text=f"# A\n\n{PROSE}\n\n# B\n\n日本語のテキスト。{PROSE}")
    frequencies = count_passage_terms(item, 800)
    assert len(frequencies) == len(split_passages(item.text))
    terms = Counter(extract_terms(item.text))
    in_order = sum(frequencies, Counter())
    assert {term: in_order[term] for term in ("some", "sentenc", "日本")} == {
        term: terms[term] for term in ("some", "sentenc", "日本")
    }


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ignoreHttpErrors", ["ignorehttperror", "ignor", "http", "error"]),
        ("HTTPServer.parseHTML()", ["httpserver", "http", "server", "parsehtml", "pars", "html"]),
        ("utf8Text", ["utf8text", "utf8", "text"]),
        ("max_body_size", ["max", "bodi", "size"]),
        ("the iPhone", ["the", "iphon", "phone"]),
        ("URLs and APIs", ["url", "and", "api"]),
        ("URLS IN CAPITALS", ["url", "in", "capit"]),
        ("Title Case", ["titl", "case"]),
        ("größeÄndern", ["grosseandern"]),
    ],
)
def test_the_parts_of_a_name_in_camel_case_are_terms(text: str, terms: list[str]) -> None:
    assert extract_all_terms(text) == terms


def test_folded_words_follow_a_space() -> None:
    folded = fold_words("(Café) `ignoreHttpErrors` max_size don't")
    assert folded.split() == ["cafe", "ignore", "http", "errors", "max", "size", "don't"]
