"""Split a long text into chunks for a language model, at headings, else at paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")


def split_chunks(text: str, limit: int) -> list[str]:
    """Return as few chunks as possible; only blank lines between them are dropped.

    None is longer than `limit` characters unless one code block or one line is. A heading begins a
    chunk if the one before is at least half full.
    """
    chunks: list[str] = []
    for block in _split_blocks(text):
        is_full = chunks and len(chunks[-1]) + len(block) > limit
        if not chunks or is_full or (_HEADING.match(block) and len(chunks[-1]) > limit // 2):
            chunks.extend(_split_long_block(block, limit))
        else:
            chunks[-1] += block
    return [chunk.strip("\n") for chunk in chunks if chunk.strip()]


def _split_blocks(text: str) -> Iterator[str]:
    """Yield paragraphs with the blank lines behind them; headings begin one, code stays in one."""
    block, fence, is_blank = "", "", False
    for line in text.splitlines(keepends=True):
        if block and not fence and line.strip() and (is_blank or _HEADING.match(line)):
            yield block
            block = ""
        block += line
        is_blank = not line.strip()
        fence = _open_fence(line, fence)
    if block:
        yield block


def _open_fence(line: str, fence: str) -> str:
    """Return the fence of the code block that is open after the line, "" outside of code."""
    match = _FENCE.match(line)
    if not fence:
        return match[1] if match else ""
    is_closing = match and match[1].startswith(fence) and not line[match.end() :].strip()
    return "" if is_closing else fence


def _split_long_block(block: str, limit: int) -> Iterator[str]:
    """Yield a block in pieces of whole lines; code stays in one piece."""
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
