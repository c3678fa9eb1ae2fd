"""Hostile texts: bounded numbers of passages, no cut inside a unit, and linear cost."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from knowloom.model import Passage
from knowloom.text.passages import MAX_PASSAGES, split_passages

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"


def test_no_text_has_more_than_the_maximum_of_passages() -> None:
    text = "".join(f"## {number}\n\nword word\n\n" for number in range(20_000))
    assert len(split_passages(text, 20)) <= MAX_PASSAGES
    assert len(split_passages("word " * 50_000, 20)) <= MAX_PASSAGES


@pytest.mark.parametrize("text", [" " * 5_000, "\n" * 5_000, "\t \r\n" * 2_000])
def test_a_text_without_visible_characters_is_one_passage(text: str) -> None:
    assert split_passages(text) == (Passage(0, 0, len(text)),)


@pytest.mark.parametrize("unit", ["a", "\u0301", "e\u0301", "हिन्दी", "\U0001f1e9\U0001f1ea"])
def test_a_word_is_never_cut_however_long(unit: str) -> None:
    assert len(split_passages(unit * 5_000)) == 1


@pytest.mark.parametrize("unit", [FAMILY, "\ud83d\ude00", "\ud83d", "中", "`", "a+"])
def test_a_run_of_other_characters_is_cut_between_them(unit: str) -> None:
    passages = split_passages(unit * 5_000)
    assert len(passages) > 5
    assert all(passage.start % len(unit) == 0 for passage in passages)


HOSTILE = (
    "a",
    "\n",
    " ",
    "x = 1\n",
    "    x = 1\n",
    "# x\n",
    "```\n",
    "`",
    "中文",
    "ภาษา",
    "\ud83d",
    FAMILY,
    ".",
    ". ",
    "T\n===\n",
    "x::\n\n  y\n",
    "::\n",
    "- a\n",
    "| a |\n",
    "1. x\n\n    y\n\n",
    "---\n",
    "\n    x",
)


def count_calls(text: str) -> int:
    """The calls of Python functions and of C functions that splitting a text takes."""
    calls = count()
    sys.setprofile(lambda frame, event, argument: next(calls))
    try:
        split_passages(text)
    finally:
        sys.setprofile(None)
    return next(calls)


@pytest.mark.parametrize("unit", HOSTILE)
def test_the_number_of_calls_grows_with_the_length_at_worst(unit: str) -> None:
    text = unit * (4_000 // len(unit))
    split_passages(text[: -len(unit)])  # the first text of its kind may fill caches
    assert count_calls(text * 4) < 5 * count_calls(text) + 500
