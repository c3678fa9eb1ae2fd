"""Passages: the parts of a long text that are indexed, embedded and shown on their own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from knowloom.caching import TwoGenerationCache
from knowloom.model import Item, Passage
from knowloom.text.breaks import find_break
from knowloom.text.structure import Structure, TextSection, find_structure

SEGMENTER = "passages-1"  # part of every digest, and stored with an index
PASSAGE_SIZE = 800  # characters (docs/decisions/024-passages.md)
MIN_PASSAGE_SIZE, MAX_PASSAGE_SIZE = 200, 8_000
STRETCH = 1.25  # a passage may be this much longer, so that texts are cut into even parts
SHORT_SECTION = 0.25  # sections below this share of the size join the next one
MAX_PASSAGES = 4_096  # of one text: a longer one is cut into longer passages
PART_SIZE = 240  # characters of the parts of a passage, which excerpts are made of
CACHED_CHARACTERS = 48_000_000  # texts whose passages are cached
CACHED_PARTS = 200_000

_VISIBLE = re.compile(r"\S")

Unit = tuple[int, int, int]  # start, body and end of sections that are cut together

_passages: TwoGenerationCache[tuple[str, int], tuple[Passage, ...]] = TwoGenerationCache(
    "passages", CACHED_CHARACTERS, lambda passages: passages[-1].end
)
_parts: TwoGenerationCache[tuple[str, int, int, int], tuple[Passage, ...]] = TwoGenerationCache(
    "passage_parts", CACHED_PARTS, len
)


def split_passages(text: str, size: int = PASSAGE_SIZE) -> tuple[Passage, ...]:
    """Return the passages of a text, in order; they hold every visible character once.

    A text of up to STRETCH times the size is one passage. Cuts are at headings, paragraphs, list
    items, code blocks, sentences or words, never inside a word.
    """
    if len(text) <= STRETCH * size:
        return (Passage(0, 0, len(text)),)
    passages = _passages.get((text, size))
    if passages is None:
        size_of_parts = max(size, -(-len(text) // (MAX_PASSAGES // 2)))
        passages = _split(text, 0, len(text), size_of_parts)
        _passages.put((text, size), passages)
    return passages


def count_passages(text: str, size: int = PASSAGE_SIZE) -> int:
    return 1 if len(text) <= STRETCH * size else len(split_passages(text, size))


def split_parts(text: str, start: int, end: int, size: int = PART_SIZE) -> tuple[Passage, ...]:
    """Return the parts of a passage, in order: sentences, list items, table rows or code.

    The offsets are those of the text; the parts are numbered from 0 and have their own headings.
    """
    key = (text, start, end, size)
    parts = _parts.get(key)
    if parts is None:
        parts = _split(text, start, end, size)
        _parts.put(key, parts)
    return parts


def embedding_texts(item: Item, size: int = PASSAGE_SIZE) -> list[str]:
    """Return the text to embed for each passage: title, headings above it, and the passage.

    An item with a text of its own for embedding has one for all passages.
    """
    passages = split_passages(item.text, size)
    if len(passages) == 1 or item.embedding_text is not None:
        return [item.embeddable]
    return [
        "\n".join(part for part in (item.title, _outer_path(item, passage), text) if part)
        for passage in passages
        for text in [item.text[passage.start : passage.end]]
    ]


def heading_path(item: Item, passage: Passage) -> tuple[str, ...]:
    """Return the headings of a passage, without a first one that repeats the title."""
    return _without_title(item, passage.headings)


def outer_heading_path(item: Item, passage: Passage) -> tuple[str, ...]:
    """Return the headings before a passage, without a first one that repeats the title."""
    return _without_title(item, passage.outer_headings)


def _without_title(item: Item, headings: tuple[str, ...]) -> tuple[str, ...]:
    return headings[1:] if headings and headings[0] == item.title else headings


def locate_headings(text: str, passages: Sequence[Passage]) -> list[tuple[int, str]]:
    """Return each heading of a text with the number of the passage below it, in order."""
    starts = [passage.start for passage in passages]
    return [
        (max(0, bisect_right(starts, section.body) - 1), section.headings[-1])
        for section in find_structure(text).sections
        if section.titled and section.headings
    ]


def _split(text: str, start: int, end: int, size: int) -> tuple[Passage, ...]:
    """Cut a range of a text into passages of about `size`, or longer ones if they are too many."""
    structure = find_structure(text)
    sections = _sections_between(structure, start, end)
    while True:
        units = _join_short(_attach_headings(sections, size), size)
        ranges = [part for unit in units for part in _cut(text, unit, structure.code, size)]
        if len(ranges) <= MAX_PASSAGES:
            break
        size *= 2
    if not ranges:  # nothing but white space
        return (Passage(0, start, end),)
    return tuple(_describe(ranges, sections))


def _sections_between(structure: Structure, start: int, end: int) -> list[TextSection]:
    """Return the sections of a range, the first and the last one cut to it."""
    sections = structure.sections
    first = max(0, bisect_right(sections, start, key=lambda section: section.start) - 1)
    last = bisect_right(sections, end - 1, key=lambda section: section.start)
    return [
        section
        if start <= section.start and section.end <= end
        else TextSection(
            max(start, section.start),
            min(end, max(start, section.body)),
            min(end, section.end),
            section.headings,
            section.titled and start <= section.start,
        )
        for section in sections[first:last]
        if section.end > start
    ]


def _attach_headings(sections: Iterable[TextSection], size: int) -> Iterator[Unit]:
    """Attach each heading without a text to the section after it, up to a short one."""
    start = -1  # of the headings that wait for a text
    for section in sections:
        if start >= 0 and section.body - start > SHORT_SECTION * size - 2:
            yield start, start, section.start
            start = -1
        if start < 0:
            start = section.start
        if section.body < section.end:
            yield start, section.body, section.end
            start = -1
    if start >= 0:
        yield start, start, section.end


def _join_short(units: Iterable[Unit], size: int) -> Iterator[Unit]:
    """Join each short unit with those after it, as long as they fit into one passage."""
    pending: Unit | None = None
    for unit in units:
        if pending is None:
            pending = unit
        elif (
            pending[2] - pending[0] < SHORT_SECTION * size
            and unit[2] - pending[0] <= STRETCH * size
        ):
            pending = (pending[0], pending[1], unit[2])
        else:
            yield pending
            pending = unit
    if pending is not None:
        yield pending


def _cut(
    text: str, unit: Unit, code: Sequence[tuple[int, int]], size: int
) -> Iterator[tuple[int, int]]:
    """Cut a unit into ranges of even length, without the white space around them."""
    start, body, end = unit
    end = start + len(text[start:end].rstrip())
    longest = int(STRETCH * size)
    if body - start > SHORT_SECTION * size - 2:
        body = start  # too long to be shown with the text below it
    while end - start > longest:
        target = (end - start) // max(-(-(end - start) // longest), round((end - start) / size))
        lowest = max(start, body) + 1
        cut = find_break(text, start, lowest, start + longest, target, code, size)
        if cut >= end:
            break
        yield start, start + len(text[start:cut].rstrip())
        match = _VISIBLE.search(text, cut, end)
        start = match.start() if match else end
    if start < end:
        yield start, end


def _describe(
    ranges: Sequence[tuple[int, int]], sections: Sequence[TextSection]
) -> Iterator[Passage]:
    """Return the ranges as passages, with the headings of the sections that they show."""
    place = 0
    for number, (start, end) in enumerate(ranges):
        while place + 1 < len(sections) and sections[place + 1].start <= start:
            place += 1
        last = place
        while last + 1 < len(sections) and sections[last + 1].start < end:
            last += 1
        yield Passage(number, start, end, *_read_path(start, sections[place : last + 1]))


def _read_path(start: int, sections: Sequence[TextSection]) -> tuple[tuple[str, ...], int]:
    """Return the headings that hold for all of a passage, and the number that it begins with."""
    first, *others = sections
    headings = first.headings
    inner = int(first.titled and start == first.start)
    is_bare = inner > 0 and first.body == first.end  # so far, only headings were shown
    for section in others:
        if is_bare and section.headings[: len(headings)] == headings:
            inner += len(section.headings) - len(headings)
            headings = section.headings
            is_bare = section.body == section.end
            continue
        shared = _count_shared(headings, section.headings)
        inner = max(0, inner - (len(headings) - shared))
        headings, is_bare = headings[:shared], False
        if not headings:
            break
    return headings, inner


def _count_shared(left: Sequence[str], right: Sequence[str]) -> int:
    count = 0
    for first, second in zip(left, right, strict=False):
        if first != second:
            break
        count += 1
    return count


def _outer_path(item: Item, passage: Passage) -> str:
    return " > ".join(outer_heading_path(item, passage))
