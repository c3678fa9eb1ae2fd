"""Split a text into sentences and extract the checkable facts of each: numbers, names, stems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from knowloom.capabilities.grounding.numbers import Number, SpanIndex, extract_numbers
from knowloom.text.words import extract_terms

MAX_SENTENCE = 2000  # characters

_TOKEN = re.compile(r"[^\W_](?:[\w.\-/’']*[^\W_])?")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|cannot|without|\w+n['’]t)\b", re.I
)
_COMMON_WORDS = """
the a an this that these those it he she they we you i in on at by for from with to of as and or but
if when while after before during since until there here his her its their our your my all some any
each every both many most much more no not only also however although though because so then thus
such other another one two first second last new old is are was were be been has have had do does
did will would can could may might must should what which who whom whose where why how yes please
sure according today currently later initially originally either within over under about into
through between among overall finally additionally moreover furthermore instead therefore meanwhile
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_COURTESY_WORDS = """
i we you me happy to help hope helps glad let me know thank thanks please question further assist
welcome feel free ask
"""
_COURTESY = frozenset(extract_terms(_COURTESY_WORDS))
_ABBREVIATION_WORDS = """
mr mrs ms dr prof sr jr st vs etc e.g i.e cf approx ca fig vol inc ltd co corp dept est jan feb mar
apr jun jul aug sep sept oct nov dec p pp al
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_WORDS.split())
_LINE = re.compile(r"[^\n]+")
_MARK = re.compile(r"\s*(?:[-*+•]\s+|\d{1,3}[.)]\s+|#{1,6}\s+|>\s+)*")
# The last alternative matches a period whose following space was forgotten.
_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s)|[。！？]|(?<=[a-z]{3})\.(?=[A-Z][a-z ])")
_LAST_WORD = re.compile(r"([\w.]+)\.\W*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class SentenceFacts:
    """The facts of a sentence: `names` in lower case, `stems` of the words outside of names."""

    text: str
    numbers: tuple[Number, ...]
    names: tuple[str, ...]
    stems: frozenset[str]
    all_stems: frozenset[str]  # with those of names
    is_negated: bool

    @property
    def is_empty(self) -> bool:
        """True if the sentence says nothing that can be checked."""
        if self.numbers or self.names:
            return False
        return len(self.stems) < 2 or self.stems <= _COURTESY


class Sentence(NamedTuple):
    """A sentence and its position in the text."""

    text: str
    start: int
    end: int


def extract_facts(text: str) -> SentenceFacts:
    """Extract the facts of a sentence."""
    numbers = tuple(extract_numbers(text))
    names = tuple(dict.fromkeys(_find_names(text, numbers)))
    all_stems = frozenset(extract_terms(_remove_numbers(text, numbers)))
    name_stems = frozenset(stem for name in names for stem in extract_terms(name))
    is_negated = bool(_NEGATION.search(text))
    return SentenceFacts(text, numbers, names, all_stems - name_stems, all_stems, is_negated)


def _find_names(text: str, numbers: tuple[Number, ...]) -> list[str]:
    """Return capitalised words and words with inner capitals or digits, in lower case. The first
    word of a sentence is always capitalised, so it needs another capital or a digit."""
    spans = SpanIndex([(number.start, number.end) for number in numbers])
    names = []
    for position, token in enumerate(_TOKEN.finditer(text)):
        word = token.group()
        if word.lower() in _COMMON or spans.overlaps(token.start(), token.start() + 1):
            continue
        is_mixed = any(letter.isupper() or letter.isdigit() for letter in word[1:])
        if is_mixed or (position > 0 and word[0].isupper()):
            names.append(re.sub(r"['’]s$", "", word).lower())
    return names


def _remove_numbers(text: str, numbers: tuple[Number, ...]) -> str:
    starts, ends = [number.start for number in numbers], [number.end for number in numbers]
    return " ".join(
        text[start:end] for start, end in zip([0, *ends], [*starts, len(text)], strict=True)
    )


def split_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences in order; skip fenced code, and end a sentence at each line break."""
    is_fenced = False
    for line in _LINE.finditer(text):
        if _FENCE.match(line.group()):
            is_fenced = not is_fenced
        elif not is_fenced:
            yield from _split_line(text, line.start(), line.end())


def _split_line(text: str, start: int, end: int) -> Iterator[Sentence]:
    mark = _MARK.match(text, start, end)
    start = mark.end() if mark else start
    for match in _END.finditer(text, start, end):
        if _ends_sentence(text, start, match):
            yield from _cut_sentence(text, start, match.end())
            start = match.end()
    yield from _cut_sentence(text, start, end)


def _cut_sentence(text: str, start: int, end: int) -> Iterator[Sentence]:
    """Cut overlong sentences at spaces: the cost of comparing one is quadratic in its length."""
    while start < end:
        stop = end
        if end - start > MAX_SENTENCE:
            space = text.rfind(" ", start + 1, start + MAX_SENTENCE)
            stop = space if space > start else start + MAX_SENTENCE
        part = text[start:stop]
        stripped = part.strip()
        if stripped:
            first = start + len(part) - len(part.lstrip())
            yield Sentence(stripped, first, first + len(stripped))
        start = stop


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Return False for a period after an abbreviation or initial, or before a small letter."""
    if not match.group().startswith("."):
        return True
    following = text[match.end() : match.end() + 20].lstrip()
    if following[:1].islower():
        return False
    if following[:1].isdigit() and text[start : match.start()].lower().endswith(" no"):
        return False
    word = _LAST_WORD.search(text[max(start, match.start() - 30) : match.start() + 1])
    if word is None:
        return True
    last = word[1].lower()
    is_initial = len(last) == 1 and last.isalpha() and word[1].isupper()
    is_dotted = re.fullmatch(r"(?:[a-z]\.)+[a-z]", last) is not None
    return not (last in _ABBREVIATIONS or is_initial or is_dotted)
