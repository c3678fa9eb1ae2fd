"""Passages: the parts of a long text that are indexed, embedded and shown on their own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from knowloom.caching import TwoGenerationCache
from knowloom.model import Item, Passage

SEGMENTER = "passages-1"  # part of every digest, and stored with an index
PASSAGE_SIZE = 800  # characters; docs/decisions has the measurement
MIN_PASSAGE_SIZE, MAX_PASSAGE_SIZE = 200, 8_000
PART_SIZE = 240  # characters of the parts that excerpts are narrowed to
STRETCH = 1.25  # a passage may be this much longer, so that texts are cut into even parts
SHORT_SECTION = 0.25  # sections below this share of the size join the next one
MAX_PASSAGES = 4_096  # of one text: a longer one is cut into longer passages
PART_SIZE = 240  # characters of the parts of a passage, which excerpts are made of
CACHED_CHARACTERS = 40_000_000  # texts whose passages are cached
CACHED_PARTS = 65_536  # parts of passages

_STRUCTURE = re.compile(
    r"^[ ]{0,3}(?:(?P<fence>`{3,}|~{3,})|(?P<level>\#{1,6})[ \t]+(?P<title>\S.*)"
    r"|(?P<under>=+|-+|~+|\^+|\"+|\*+|\.\.\.\.*)[ \t]*$)",
    re.M,
)
_TRAILING_MARKS = re.compile(r"[ \t]+#+[ \t]*$")
_WORD_CHARACTER = re.compile(r"\w")
# Break points inside a section, strongest first. Each matches up to the position of the break.
_BREAKS = (
    (1.0, re.compile(r"\n[ \t]*\n\s*")),
    (0.7, re.compile(r"\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t])")),
    (0.5, re.compile(r"[.!?\u2026][\"')\]\u201d\u2019*_]*\s+|[\u3002\uff01\uff1f]+\s*")),
    (0.4, re.compile(r"\n")),
    (0.0, re.compile(r"\s+")),
)
_CODE_PENALTY = 2.0  # a code block is cut only if it is longer than a passage
# Scripts without spaces between words: a break may be before each of their letters.
_UNSPACED = re.compile(
    "(?<=[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff])"
    "(?=[\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0ec0-\u0ec4\u1000-\u102a"
    "\u1780-\u17b3\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading and the text below it, up to the next heading."""

    start: int
    end: int
    headings: tuple[str, ...]
    inner: int  # 1 if it starts with its own heading


_cache: TwoGenerationCache[tuple[str, int], tuple[Passage, ...]] = TwoGenerationCache(
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
    passages = _cache.get((text, size))
    if passages is None:
        passages = tuple(_split(text, max(size, -(-len(text) // (MAX_PASSAGES // 2)))))
        _cache.put((text, size), passages)
    return passages


def count_passages(text: str, size: int = PASSAGE_SIZE) -> int:
    return 1 if len(text) <= STRETCH * size else len(split_passages(text, size))


def split_parts(text: str, start: int, end: int, size: int = PART_SIZE) -> tuple[Passage, ...]:
    """Return the parts of a passage, in order: sentences, list items, table rows or code.

    The offsets are those of the text; the parts are numbered from 0.
    """
    key = (text, start, end, size)
    parts = _parts.get(key)
    if parts is None:
        parts = tuple(
            replace(part, start=start + part.start, end=start + part.end)
            for part in split_passages(text[start:end], size)
        )
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
        "\n".join(part for part in (item.title, _path(item, passage), text) if part)
        for passage in passages
        for text in [item.text[passage.start : passage.end]]
    ]


def heading_path(item: Item, passage: Passage) -> tuple[str, ...]:
    """Return the headings of a passage, without a first one that repeats the title."""
    headings = passage.headings
    return headings[1:] if headings and headings[0] == item.title else headings


def _path(item: Item, passage: Passage) -> str:
    outer = passage.outer_headings
    return " > ".join(outer[1:] if outer and outer[0] == item.title else outer)


def _split(text: str, size: int) -> Iterator[Passage]:
    sections, code = _find_sections(text)
    parts = [
        (start, end, section)
        for section in _join_short(sections, size)
        for start, end in _cut(text, section, code, size)
    ]
    number = 0
    for start, end, section in parts:
        start, end = _trim(text, start, end)
        if start < end:
            inner = section.inner if start <= section.start else 0
            yield Passage(number, start, end, section.headings, inner)
            number += 1


def _find_sections(text: str) -> tuple[list[_Section], list[tuple[int, int]]]:
    """Return the sections of a text and the ranges of its code blocks."""
    sections: list[_Section] = []
    code: list[tuple[int, int]] = []
    path: list[tuple[int, str]] = []  # level and title of each enclosing heading
    under_levels: list[str] = []  # underline characters, in the order of their levels
    fence, fence_start, start, inner = "", 0, 0, 0
    for match in _STRUCTURE.finditer(text):
        if mark := match["fence"]:
            if not fence:
                fence, fence_start = mark, match.start()
            elif mark[0] == fence[0] and len(mark) >= len(fence):
                code.append((fence_start, match.end()))
                fence = ""
            continue
        if fence:
            continue
        heading = _read_heading(text, match, under_levels)
        if heading is None:
            continue
        position, level, title = heading
        if position > start:
            sections.append(_Section(start, position, tuple(name for _, name in path), inner))
        path = [entry for entry in path if entry[0] < level] + [(level, title)]
        start, inner = position, 1
    if fence:
        code.append((fence_start, len(text)))
    sections.append(_Section(start, len(text), tuple(name for _, name in path), inner))
    return sections, code


def _read_heading(
    text: str, match: re.Match[str], under_levels: list[str]
) -> tuple[int, int, str] | None:
    """Return the position, level and title of a heading, or None for a line that is none."""
    start = match.start()
    if match["level"]:
        # A comment in unfenced code starts like a heading, but seldom after a blank line.
        before = (
            text[:start].rstrip(" \t") if start < 80 else text[start - 80 : start].rstrip(" \t")
        )
        if before and not before.endswith("\n\n") and not _is_heading_line(before):
            return None
        return start, len(match["level"]), _TRAILING_MARKS.sub("", match["title"]).strip()
    above = text.rfind("\n", 0, max(0, start - 1)) + 1
    title = text[above : max(above, start - 1)].strip()
    before = text[max(0, above - 80) : above]
    underline = match["under"]
    is_free = (
        not before
        or before.endswith("\n\n")
        or set(before.split("\n")[-2:-1][0].strip() if before.count("\n") > 1 else "")
        == {underline[0]}
    )
    if (
        not title
        or len(title) > len(underline) + 2
        or not is_free
        or not _WORD_CHARACTER.search(title)
    ):
        return None
    mark = underline[0]
    if mark not in under_levels:
        under_levels.append(mark)
    return above, under_levels.index(mark) + 1, title


def _is_heading_line(before: str) -> bool:
    lines = before.rstrip("\n").rsplit("\n", 1)
    return lines[-1].lstrip().startswith("#")


def _join_short(sections: Sequence[_Section], size: int) -> Iterator[_Section]:
    """Join each short section with those after it, as long as they fit into one passage."""
    pending: _Section | None = None
    for section in sections:
        if pending is None:
            pending = section
        elif (
            pending.end - pending.start < SHORT_SECTION * size
            and section.end - pending.start <= STRETCH * size
        ):
            pending = _Section(pending.start, section.end, pending.headings, pending.inner)
        else:
            yield pending
            pending = section
    if pending is not None:
        yield pending


def _cut(
    text: str, section: _Section, code: Sequence[tuple[int, int]], size: int
) -> Iterator[tuple[int, int]]:
    """Cut a section into parts of even length at the best break points."""
    start, end = section.start, section.end
    longest = int(STRETCH * size)
    while end - start > longest:
        target = (end - start) / -(-(end - start) // longest)
        cut = _best_break(text, start, min(end, start + longest), target, code)
        if cut is None:
            cut = _next_word_end(text, start + longest, end)
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _best_break(
    text: str, start: int, limit: int, target: float, code: Sequence[tuple[int, int]]
) -> int | None:
    """Return the best position to cut at, None if the text has no break in the window."""
    best, best_score = None, float("-inf")
    first = start + int(target / 4)
    for weight, pattern in (*_BREAKS, (0.1, _UNSPACED)):
        if best is not None and weight < best_score:
            break  # no position of a weaker kind can be better
        for match in pattern.finditer(text, first, limit):
            position = match.end()
            score = weight - abs(position - start - target) / target
            if _is_inside(position, code):
                score -= _CODE_PENALTY
            if score > best_score and position < limit:
                best, best_score = position, score
    return best


def _is_inside(position: int, ranges: Sequence[tuple[int, int]]) -> bool:
    place = bisect_right(ranges, (position,)) - 1
    return place >= 0 and ranges[place][0] < position < ranges[place][1]


def _next_word_end(text: str, position: int, end: int) -> int:
    match = re.compile(r"\s").search(text, position, end)
    return match.end() if match else end


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))
