"""What a sentence says that can be checked: its numbers, its names, its other words, and whether it denies something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from knowloom.capabilities.grounding.numbers import Number, SpanIndex, extract_numbers
from knowloom.text.words import words

_TOKEN = re.compile(r"[^\W_](?:[\w.\-/’']*[^\W_])?")
_DENIES = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|cannot|without|\w+n['’]t)\b", re.I
)
_COMMON_WORDS = (
    "the a an this that these those it he she they we you i in on at by for from with to of as and or but if when while after before during since until "
    "there here his her its their our your my all some any each every both many most much more no not only also however although though because so then "
    "thus such other another one two first second last new old is are was were be been has have had do does did will would can could may might must "
    "should what which who whom whose where why how yes please sure according today currently later initially originally either within over under "
    "about into through between among overall finally additionally moreover furthermore instead therefore meanwhile"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_POLITE = frozenset(
    words(
        "i we you me happy to help hope helps glad let me know thank thanks please question further assist welcome feel free ask"
    )
)


@dataclass(frozen=True, slots=True)
class SentenceFacts:
    """`names` are words written large, in small letters; `stems` are all other telling words."""

    text: str
    numbers: tuple[Number, ...]
    names: tuple[str, ...]
    stems: frozenset[str]
    every: frozenset[str]  # stems of all words, those of names too
    denies: bool

    @property
    def empty(self) -> bool:
        return (
            not self.numbers and not self.names and (len(self.stems) < 2 or self.stems <= _POLITE)
        )


def extract_facts(text: str) -> SentenceFacts:
    found = tuple(extract_numbers(text))
    names = tuple(dict.fromkeys(_names(text, found)))
    rest = _without(text, found)
    every = frozenset(words(rest))
    own = frozenset(stem for name in names for stem in words(name))
    return SentenceFacts(text, found, names, every - own, every, bool(_DENIES.search(text)))


def _names(text: str, found: tuple[Number, ...]) -> list[str]:
    """Words written large or mixed with digits. The first word of a sentence is always written large: it is one only if another letter is."""
    spans = SpanIndex([(one.start, one.end) for one in found])
    names = []
    for place, token in enumerate(_TOKEN.finditer(text)):
        word = token.group()
        if word.lower() in _COMMON or spans.touch(token.start(), token.start() + 1):
            continue
        mixed = any(letter.isupper() or letter.isdigit() for letter in word[1:])
        if mixed or (place > 0 and word[0].isupper()):
            names.append(re.sub(r"['’]s$", "", word).lower())
    return names


def _without(text: str, found: tuple[Number, ...]) -> str:
    starts, ends = [one.start for one in found], [one.end for one in found]
    return " ".join(
        text[start:end] for start, end in zip([0, *ends], [*starts, len(text)], strict=True)
    )


MAX_SENTENCE = 2000  # characters
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


def split_sentences(text: str) -> Iterator[Sentence]:
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
        if end - start > MAX_SENTENCE:
            space = text.rfind(" ", start + 1, start + MAX_SENTENCE)
            stop = space if space > start else start + MAX_SENTENCE
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
