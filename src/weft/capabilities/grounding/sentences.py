"""Sentences of a text, with their places. Abbreviations, initials, decimals and list marks do not end or begin one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 2000  # characters
_SHORT = "mr mrs ms dr prof sr jr st vs etc e.g i.e cf approx ca fig vol inc ltd co corp dept est jan feb mar apr jun jul aug sep sept oct nov dec p pp al"
_ABBREVIATIONS = frozenset(_SHORT.split())
_LINE = re.compile(r"[^\n]+")
_MARK = re.compile(r"\s*(?:[-*+•]\s+|\d{1,3}[.)]\s+|#{1,6}\s+|>\s+)*")
_END = re.compile(
    r"[.!?][\"'”’)\]]*(?=\s)|[。！？]|(?<=[a-z]{3})\.(?=[A-Z][a-z ])"
)  # the last: a space was forgotten
_LAST_WORD = re.compile(r"([\w.]+)\.\W*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")


class Sentence(NamedTuple):
    text: str
    start: int
    end: int


def sentences(text: str) -> Iterator[Sentence]:
    """In order. Code between fences is no sentence; every line of a list is one of its own."""
    fenced = False
    for line in _LINE.finditer(text):
        if _FENCE.match(line.group()):
            fenced = not fenced
        elif not fenced:
            yield from _of_line(text, line.start(), line.end())


def _of_line(text: str, start: int, end: int) -> Iterator[Sentence]:
    mark = _MARK.match(text, start, end)
    start = mark.end() if mark else start
    for found in _END.finditer(text, start, end):
        if _ends(text, start, found):
            yield from _sentence(text, start, found.end())
            start = found.end()
    yield from _sentence(text, start, end)


def _sentence(text: str, start: int, end: int) -> Iterator[Sentence]:
    """What is longer than any sentence is cut at spaces: comparing it costs the square of its length."""
    while start < end:
        stop = end
        if end - start > LONGEST:
            space = text.rfind(" ", start + 1, start + LONGEST)
            stop = space if space > start else start + LONGEST
        said = text[start:stop]
        if said.strip():
            left = len(said) - len(said.lstrip())
            yield Sentence(said.strip(), start + left, start + left + len(said.strip()))
        start = stop


def _ends(text: str, start: int, found: re.Match[str]) -> bool:
    """A period behind an abbreviation or an initial does not end a sentence, nor does one before a small letter."""
    if not found.group().startswith("."):
        return True
    following = text[found.end() : found.end() + 20].lstrip()
    if following[:1].islower() or (
        following[:1].isdigit() and text[start : found.start()].lower().endswith(" no")
    ):
        return False
    word = _LAST_WORD.search(text[max(start, found.start() - 30) : found.start() + 1])
    if word is None:
        return True
    last = word[1].lower()
    return (
        last not in _ABBREVIATIONS
        and not (len(last) == 1 and last.isalpha() and word[1].isupper())
        and not re.fullmatch(r"(?:[a-z]\.)+[a-z]", last)
    )
