"""Excerpts: the parts of long items that are worth showing, and excerpts that grow by them.

A passage is narrowed to the parts that cover the query. A part is worth at most as much as its
passage, and less the fewer query terms it covers. The best passage of an item is narrowed less, as
the answer often stands beside the words of the question, and so is a passage that an edge leads to,
as evidence at the second hop rarely resembles the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from knowloom.model import Hit, Passage, ScoredPassage
from knowloom.retrieval.query_coverage import cover_query
from knowloom.text.normalisation import collapse_whitespace
from knowloom.text.passages import PART_SIZE, PASSAGE_SIZE, STRETCH, split_parts, split_passages

MIN_NARROWED = 0.6  # relevance of a part without a query term, as a share of its passage's
MIN_NARROWED_BEST = 0.85  # the same for the best passage of an item
MIN_NARROWED_LINKED = 0.85  # and for a passage that an edge leads to
MAX_PASSAGES = 12  # of one item
CHARACTERS_PER_TOKEN = 4
SURPLUS = 3  # parts are considered until they would fill the budget this many times
PART_OVERHEAD = 12  # characters that a part takes beside its text
# Numbers of parts of the excerpts of an item that are offered.
EXCERPT_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 36, 48)


@dataclass(frozen=True, slots=True)
class Part:
    """A range of the text of a hit, and its value."""

    hit: int  # the number of the hit
    range: Passage
    value: float

    @property
    def density(self) -> float:
        return self.value / (self.range.end - self.range.start + PART_OVERHEAD)


def is_long(hit: Hit) -> bool:
    """Return True if the text of a hit has several passages."""
    return bool(hit.passages) or len(hit.item.text) > STRETCH * PASSAGE_SIZE


def select_parts(
    hits: Sequence[Hit], sharpness: Sequence[float], query: str, max_tokens: int
) -> dict[int, list[Part]]:
    """Return the parts of the long hits, by number of the hit, densest first.

    Parts beyond SURPLUS times the budget are left out, and parts that repeat a denser one.
    """
    parts = _value_parts(hits, sharpness, query)
    parts.sort(key=lambda part: (-part.density, part.hit, part.range.start))
    selected: dict[int, list[Part]] = {}
    room, seen = SURPLUS * CHARACTERS_PER_TOKEN * max_tokens, set()
    for part in parts:
        if room <= 0:
            break
        text = collapse_whitespace(hits[part.hit].item.text[part.range.start : part.range.end])
        if text not in seen:
            seen.add(text)
            selected.setdefault(part.hit, []).append(part)
            room -= len(text)
    return selected


def _value_parts(hits: Sequence[Hit], sharpness: Sequence[float], query: str) -> list[Part]:
    """Return all parts of the long hits: relevance to the power of the recipe's sharpness."""
    ranges = [
        (number, scored, floor, part)
        for number, hit in enumerate(hits)
        if is_long(hit)
        for scored, floor in _passages_of(hit)
        for part in split_parts(hit.item.text, scored.passage.start, scored.passage.end)
    ]
    texts = [hits[number].item.text[part.start : part.end] for number, _, _, part in ranges]
    coverage = cover_query(query, texts)
    highest = max(coverage, default=0.0) or 1.0
    parts = []
    for (number, scored, floor, part), covered in zip(ranges, coverage, strict=True):
        relevance = scored.score * (floor + (1 - floor) * covered / highest)
        value = relevance ** sharpness[number] * (part.end - part.start) / PART_SIZE
        parts.append(Part(number, replace(part, number=scored.passage.number), value))
    return parts


def _passages_of(hit: Hit) -> Iterator[tuple[ScoredPassage, float]]:
    """Yield the best passages of a hit, on the scale of its relevance, and how far they narrow."""
    relevance = hit.relevance
    if not hit.passages:
        for passage in split_passages(hit.item.text)[:MAX_PASSAGES]:
            yield ScoredPassage(passage, relevance), MIN_NARROWED
        return
    highest = max(scored.score for scored in hit.passages) or 1.0
    for scored in hit.passages[:MAX_PASSAGES]:
        floor = MIN_NARROWED_BEST if scored.score == highest else MIN_NARROWED
        if scored.linked:
            floor = MIN_NARROWED_LINKED
        yield replace(scored, score=relevance * scored.score / highest), floor


def grow_excerpts(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Return excerpts of one part, of two, and so on, the largest first."""
    sizes = [*(size for size in EXCERPT_SIZES if size < len(parts)), len(parts)]
    return [tuple(parts[:size]) for size in sizes[::-1] if size]


def merge_ranges(text: str, ranges: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the ranges in the order of the text, with those joined that only blanks separate."""
    merged: list[Passage] = []
    for part in sorted(ranges, key=lambda part: part.start):
        if merged and not text[merged[-1].end : part.start].strip():
            merged[-1] = replace(merged[-1], end=part.end)
        else:
            merged.append(part)
    return tuple(merged)
