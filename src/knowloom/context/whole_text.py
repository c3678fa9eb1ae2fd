"""The whole text of a context with its list of sources, and its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from knowloom.context.citations import SOURCES, list_sources
from knowloom.formats.layout import Layout, assemble
from knowloom.model import Citation, Fragment
from knowloom.ports import TokenCounter

MAX_ADDITIVE_CHARACTERS = 100_000  # counters may estimate the tokens of longer texts


def assemble_text(
    fragments: Sequence[Fragment],
    citations: Sequence[Citation],
    layout: Layout,
    counter: TokenCounter,
) -> tuple[str, int]:
    """Return the text of all fragments and their sources, and its tokens."""
    sections = [(part.name, [block.text for block in part.chosen]) for part in fragments]
    sources = list_sources(citations, layout)
    text = assemble(layout, [*sections, (SOURCES, sources)])
    if sources or not _is_additive(text, fragments, layout, counter):
        return text, counter.count(text)
    return text, _sum_tokens(fragments, layout, counter)


def _is_additive(
    text: str, fragments: Sequence[Fragment], layout: Layout, counter: TokenCounter
) -> bool:
    """Return True if every block can be counted alone, and the counts added up."""
    pieces = [
        piece
        for fragment in fragments
        if fragment.chosen
        for piece in (layout.opening(fragment.name), *(block.text for block in fragment.chosen))
    ]
    return (
        bool(pieces)
        and layout.is_concatenation
        and _has_only(pieces, text, layout)
        and counter.additive
        and len(text) <= MAX_ADDITIVE_CHARACTERS
        and all(map(_is_countable_alone, pieces))
    )


def _has_only(pieces: Sequence[str], text: str, layout: Layout) -> bool:
    """Return True if no blank line was added between the pieces."""
    end = "" if layout.final_newline else "\n"
    removed = len(pieces[-1]) - len(pieces[-1].rstrip(end)) if end else 0
    return sum(map(len, pieces)) - removed == len(text)


def _sum_tokens(fragments: Sequence[Fragment], layout: Layout, counter: TokenCounter) -> int:
    """Add up the tokens; only the last block is counted again, as it ends where the text ends."""
    shown = [fragment for fragment in fragments if fragment.chosen]
    last = shown[-1].chosen[-1]
    ending = last.tokens if layout.final_newline else counter.count(last.text.rstrip("\n"))
    return sum(fragment.tokens for fragment in shown) - last.tokens + ending


def _is_countable_alone(text: str) -> bool:
    """Return True if no token can span the line break before or after the text."""
    return text[-1:] == "\n" and text[0] != "/" and not text[0].isspace()
