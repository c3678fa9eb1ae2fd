"""The user's own text, shown byte for byte: its pieces, and the fence around it in Markdown."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from knowloom.capabilities.assembler.model import TEXT, Piece
from knowloom.formats.layout import Layout, get_layout
from knowloom.formats.markdown_escape import escape_body, has_structure
from knowloom.model import RESERVED_PREFIX, Form, Hit, Passage
from knowloom.text.passages import PART_SIZE, PASSAGE_SIZE, STRETCH
from knowloom.text.structure import find_structure

# Characters of the pieces a long text is cut into, at sentences: as short as a single passage.
PIECE_LENGTH = int(STRETCH * PASSAGE_SIZE)
# The property of a piece that is shown as it is: the white space after it.
VERBATIM = f"{RESERVED_PREFIX}verbatim"

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_WHITE_SPACE = re.compile(r"\s+")
_FENCES = (re.compile("`+"), re.compile("~+"))
_SHORTEST_FENCE = 3


def split_verbatim(text: str, max_tokens: int | None = None) -> Iterator[Piece]:
    """Split a text into paragraphs, long ones at sentences; earlier pieces score higher.

    A heading stays with the paragraph below it, and a short code block is one piece. The smaller
    the budget, the shorter the pieces. Joined, they are the text from its first line that is not
    blank.
    """
    length = PIECE_LENGTH
    if max_tokens is not None:
        length = min(length, max(PART_SIZE, max_tokens))
    ranges = _find_paragraphs(text)
    cuts = [cut for start, end in ranges for cut in _cut(text, start, end, length)]
    starts = list(_join_blocks(text, cuts, length))
    for number, (start, end) in enumerate(pairwise([*starts, len(text)])):
        yield Piece(text[start:end], 0.5 - 0.2 * number / len(starts), verbatim=True)


def is_verbatim(hit: Hit) -> bool:
    return VERBATIM in hit.item.properties


def assembly_layout(name: str, hits: Mapping[str, Sequence[Hit]]) -> Layout:
    """Return the layout of a format for the hits of each section.

    In Markdown, bare texts are written without a heading, and verbatim ones as they are: in a
    fence if they have headings or other structure, which would be mistaken for that of the answer.
    """
    layout = get_layout(name)
    if name != "markdown":
        return layout
    fences = {
        section: _choose_fence(pieces)
        for section, pieces in hits.items()
        if pieces and all(map(is_verbatim, pieces))
    }

    def opening(section: str) -> str:
        fence = fences.get(section)
        return layout.opening(section) + (f"{fence}\n" if fence else "")

    def block(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
        item = hit.item
        if form is Form.WHOLE and is_verbatim(hit):
            return f"{item.text}{item.properties[VERBATIM]}"
        if form is Form.WHOLE and is_bare(hit):
            return f"{escape_body(item.text.strip())}\n\n"
        return layout.block(hit, form, passages)

    return replace(
        layout,
        name="assembled markdown",
        opening=opening,
        block=block,
        closings={
            section: f"\n{fence}\n\n" if fence else "\n\n" for section, fence in fences.items()
        },
        verbatim=frozenset(fences),
    )


def is_bare(hit: Hit) -> bool:
    return hit.item.type == TEXT and not hit.item.title


def _choose_fence(hits: Sequence[Hit]) -> str:
    """Return a fence longer than any in the texts; "" if they need none."""
    texts = [hit.item.text for hit in hits]
    lines = (text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
    if not any(map(has_structure, lines)):
        return ""
    longest = [
        max((len(run) for text in texts for run in fence.findall(text)), default=0)
        for fence in _FENCES
    ]
    length = max(_SHORTEST_FENCE, min(longest) + 1)
    return ("`" if longest[0] <= longest[1] or longest[0] < _SHORTEST_FENCE else "~") * length


def _find_paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ends of paragraphs; each starts with its indent."""
    visible = len(text) - len(text.lstrip())
    start = text.rfind("\n", 0, visible) + 1
    for match in _BLANK_LINES.finditer(text, visible):
        yield start, match.start()
        start = text.rfind("\n", match.start(), match.end()) + 1
    if text[start:].strip():
        yield start, len(text)


def _join_blocks(text: str, starts: Sequence[int], length: int) -> Iterator[int]:
    """Yield the starts of pieces that are neither inside a code block nor right below a heading,
    unless the piece before would become too long."""
    structure = find_structure(text)
    bodies = {section.body for section in structure.sections if section.titled}
    last = -1
    for start, end in pairwise([*starts, len(text)]):
        place = bisect_right(structure.code, (start,)) - 1
        block = structure.code[place] if place >= 0 else (0, 0)
        is_inside = block[0] < start < block[1]
        visible = start + len(text[start:end]) - len(text[start:end].lstrip())
        if not (is_inside or visible in bodies) or end - last > length or last < 0:
            last = start
            yield start


def _cut(text: str, start: int, end: int, length: int) -> Iterator[int]:
    """Yield the starts of the pieces of a paragraph, none of which begins inside a word."""
    yield start
    while end - start > length:
        limit = start + length
        cuts = [match.end() for match in _SENTENCE_END.finditer(text, start + 1, limit)]
        cuts = cuts or [match.end() for match in _WHITE_SPACE.finditer(text, start + 1, limit)]
        start = cuts[-1] if cuts else _next_word(text, limit, end)
        if start < end:
            yield start


def _next_word(text: str, position: int, end: int) -> int:
    space = _WHITE_SPACE.search(text, position, end)
    return space.end() if space else end
