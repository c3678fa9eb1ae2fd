"""Runs of an excerpt: the ranges of an item's text that a format writes, under their headings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from knowloom.caching import TwoGenerationCache
from knowloom.formats.fields import is_underline
from knowloom.model import Hit, Item, Passage
from knowloom.text.normalisation import collapse_whitespace
from knowloom.text.passages import heading_path, outer_heading_path

ELLIPSIS = "[…]"  # between two runs
HEADING_SEPARATOR = " > "
MAX_HEADING = 80  # characters of a heading in a path
MAX_INDENT = 80  # characters: deeper indents are not restored
MAX_TABLE = 20_000  # characters of a table above a range, in which its header is searched
HEADER_ROWS = 2  # of a table: the names of the columns and the line below them
MAX_TABLE_HEADER = 400  # characters: longer ones are not repeated
MAX_FENCE_MARKS = 100_000  # examined in a text
CACHED_FENCES = 200_000

_NOT_SPACE = re.compile(r"\S")
_FENCE_MARK = re.compile(r"`{3,}|~{3,}")
_FENCE_PREFIX = re.compile(r"[ \t]*+(?:(?:>|(?:[-*+]|\d{1,9}[.)])[ \t])[ \t]*+)*+\Z")


class Run(NamedTuple):
    """Consecutive text of an item, and the headings above it if they are news to the reader."""

    headings: str
    text: str
    fence: str = ""  # the line that opens the code block which the text begins in
    table: str = ""  # the header of the table whose rows the text begins with


class Fence(NamedTuple):
    """A code block, from the start of its first line up to the end of its last one."""

    start: int
    end: int
    opening: str


_cache: TwoGenerationCache[tuple[int, int], tuple[Fence, ...]] = TwoGenerationCache(
    "code fences", CACHED_FENCES, lambda fences: len(fences) + 1
)


def excerpt_runs(hit: Hit, passages: Sequence[Passage]) -> list[Run]:
    """Return the ranges as runs; only white space is between the ranges of one run.

    Without ranges the run is the passage that matched best.
    """
    item = hit.item
    runs: list[Run] = []
    last_path: tuple[str, ...] = ()
    for group in _group_adjacent(item.text, passages or (hit.passage,)):
        start, end = _include_indent(item.text, group[0].start), min(group[-1].end, len(item.text))
        path = _path_above(item, group[0])
        headings = format_headings(path) if path != last_path else ""
        fence = find_fence(item.text, start)
        table = "" if fence else find_table_header(item.text, start)
        if any(table == run.table or table in run.text for run in runs):
            table = ""
        runs.append(Run(headings, item.text[start:end], fence.opening if fence else "", table))
        last_path = heading_path(item, group[-1])
    return runs


def format_headings(path: Sequence[str]) -> str:
    """Return the headings on one line, from the outermost one, with long ones shortened."""
    names = (_shorten(collapse_whitespace(heading)) for heading in path)
    return HEADING_SEPARATOR.join(name for name in names if name)


def join_runs(runs: Sequence[Run]) -> str:
    return f"\n{ELLIPSIS}\n".join(run.text for run in runs)


def find_fence(text: str, position: int) -> Fence | None:
    """Return the fenced code block around a position, None outside of code."""
    fences = _fences_of(text)
    place = bisect_right(fences, position, key=lambda fence: fence.start) - 1
    if place < 0 or not fences[place].start < position < fences[place].end:
        return None
    return fences[place]


def find_table_header(text: str, position: int) -> str:
    """Return the header of the table that a position is inside of, "" elsewhere."""
    line = text.rfind("\n", 0, position) + 1
    if text[line:position].strip() or not text.startswith("|", position):
        return ""
    rows: list[str] = []
    for row in reversed(text[max(0, line - MAX_TABLE) : line].split("\n")[:-1]):
        if not row.startswith("|"):
            break
        rows.append(row)
    header = "\n".join(rows[: -HEADER_ROWS - 1 : -1])
    is_header = len(rows) >= HEADER_ROWS and not rows[-HEADER_ROWS].strip("|-: \t")
    return header if is_header and len(header) <= MAX_TABLE_HEADER else ""


def _group_adjacent(text: str, passages: Sequence[Passage]) -> list[list[Passage]]:
    """Group the ranges that only white space separates; empty and blank ones are dropped."""
    groups: list[list[Passage]] = []
    for passage in passages:
        if passage.start >= passage.end or not _has_text(text, passage.start, passage.end):
            continue
        if groups and not _has_text(text, groups[-1][-1].end, passage.start):
            groups[-1].append(passage)
        else:
            groups.append([passage])
    return groups


def _has_text(text: str, start: int, end: int) -> bool:
    return _NOT_SPACE.search(text, start, end) is not None


def _include_indent(text: str, start: int) -> int:
    """Return the start of the line if nothing but its indent is before the position.

    The first line of code or of a nested list would otherwise stand further left than the rest.
    """
    line = text.rfind("\n", max(0, start - MAX_INDENT), start) + 1
    indent = text[line:start] if start - line <= MAX_INDENT else "deeper"
    return start if indent.strip(" \t") else line


def _path_above(item: Item, passage: Passage) -> tuple[str, ...]:
    """Return the headings that the range itself does not begin with."""
    outer = len(passage.outer_headings)
    inner = passage.headings[outer : outer + 1]
    if inner and _begins_with(item.text, passage, inner[0]):
        return outer_heading_path(item, passage)
    return heading_path(item, passage)


def _begins_with(text: str, passage: Passage, heading: str) -> bool:
    """Return True if the first line, or the second one below an overline, is the heading."""
    limit = min(passage.end, passage.start + 2 * len(heading) + MAX_INDENT)
    lines = (line.strip() for line in text[passage.start : limit].split("\n", 2)[:2])
    return any(
        name.startswith(heading) and not name[len(heading) :].strip(" \t#")
        for line in lines
        for name in (line, line.lstrip("#").lstrip())
    )


def _shorten(heading: str) -> str:
    if len(heading) <= MAX_HEADING:
        return heading
    words, _, _ = heading[: MAX_HEADING + 1].rpartition(" ")
    return f"{words}…"


def _fences_of(text: str) -> tuple[Fence, ...]:
    if "```" not in text and "~~~" not in text:
        return ()
    key = (len(text), hash(text))  # the text as a key would stay in memory
    fences = _cache.get(key)
    if fences is None:
        fences = tuple(_find_fences(text))
        _cache.put(key, fences)
    return fences


def _find_fences(text: str) -> Iterator[Fence]:
    """Yield the fenced code blocks, also those in lists and quotes; an open one ends the text."""
    mark, start, opening = "", 0, ""
    for match in islice(_FENCE_MARK.finditer(text), MAX_FENCE_MARKS):
        line = text.rfind("\n", max(0, match.start() - MAX_INDENT), match.start()) + 1
        prefix = text[line : match.start()] if match.start() - line <= MAX_INDENT else "deeper"
        if not _FENCE_PREFIX.match(prefix):
            continue
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        if not mark:
            is_inline_code = match[0][0] == "`" and text.find("`", match.end(), end) >= 0
            if not is_inline_code and not is_underline(text, line, end):
                info = text[match.end() : min(end, match.end() + MAX_INDENT)].strip()
                mark, start, opening = match[0], line, f"{prefix}{match[0]}{info}"
        elif match[0].startswith(mark) and not _has_text(text, match.end(), end):
            yield Fence(start, end, opening)
            mark = ""
    if mark:
        yield Fence(start, len(text), opening)
