"""A long text in portions that a language model can take in: parted at headings, else at paragraphs, code blocks kept whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")


def portions(text: str, limit: int) -> list[str]:
    """As few as possible, none longer than `limit` characters unless one code block or one line is. A heading begins a portion where
    the one before is at least half full. Nothing but blank lines between portions is lost."""
    found: list[str] = []
    for block in _blocks(text):
        full = found and len(found[-1]) + len(block) > limit
        if not found or full or (_HEADING.match(block) and len(found[-1]) > limit // 2):
            found.extend(_pieces(block, limit))
        else:
            found[-1] += block
    return [portion.strip("\n") for portion in found if portion.strip()]


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs with the blank lines behind them; a heading begins one, a fenced code block is in one."""
    block, fence, blank = "", "", False
    for line in text.splitlines(keepends=True):
        if block and not fence and line.strip() and (blank or _HEADING.match(line)):
            yield block
            block = ""
        block += line
        blank = not line.strip()
        fence = _fenced(line, fence)
    if block:
        yield block


def _fenced(line: str, fence: str) -> str:
    """The marks of the code block that is open behind the line; "" outside of code."""
    found = _FENCE.match(line)
    if not fence:
        return found[1] if found else ""
    closes = found and found[1].startswith(fence) and not line[found.end() :].strip()
    return "" if closes else fence


def _pieces(block: str, limit: int) -> Iterator[str]:
    """A block that is too long, parted between its lines; code stays whole."""
    if len(block) <= limit or any(_FENCE.match(line) for line in block.splitlines()):
        yield block
        return
    piece = ""
    for line in block.splitlines(keepends=True):
        if piece and len(piece) + len(line) > limit:
            yield piece
            piece = ""
        piece += line
    yield piece
