"""Pages of an item: its text in parts that fit a token budget, to be read one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from knowloom.caching import TwoGenerationCache
from knowloom.formats.fields import format_value
from knowloom.model import Item, Kind, Passage, Problem
from knowloom.ports import TokenCounter
from knowloom.text.normalisation import collapse_whitespace
from knowloom.text.passages import heading_path, split_passages

CACHED_RANGES = 100_000
FIRST_UNSPACED = "\u0e00"  # scripts without spaces between words begin with Thai
CHARACTERS_PER_TOKEN = 20_000  # of the budget, at most: it bounds the number of pages


class _Range(NamedTuple):
    """A part of a text and its tokens; a word that is too long for the budget is not shown."""

    start: int
    end: int
    tokens: int
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of an item: `text` is the item's text from `start` up to `end`.

    The ranges of the pages follow each other without a gap. Summary, tags and properties are on
    the first page. They count towards `tokens`; the name and the headings do not.
    """

    space: str
    id: str
    kind: Kind
    type: str
    title: str
    source: str | None
    text: str
    tokens: int
    page: int
    pages: int
    start: int
    end: int
    headings: tuple[str, ...] = ()  # above the first passage of the page
    passages: tuple[int, ...] = ()  # numbers of the passages that the page shows, at least in part
    is_cut: bool = False  # True if it begins or ends inside a passage
    note: str = ""  # the part that is left out because it does not fit into the budget
    summary: str = ""
    tags: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    numbered: bool = False  # the id was an integer, as in Item
    degraded: tuple[Problem, ...] = ()  # a notice if the tokens are estimated

    @property
    def next(self) -> int | None:
        """The number of the next page; None on the last one."""
        return self.page + 1 if self.page < self.pages else None

    def __str__(self) -> str:
        """Return the page for a prompt: its place, headings, fields and text."""
        name = collapse_whitespace(self.title) or self.id
        following = f"; continued on page {self.next}" if self.next else ""
        lines = [f"{name} ({self.space}/{self.id}), page {self.page} of {self.pages}{following}"]
        if self.headings:
            lines.append(" > ".join(map(collapse_whitespace, self.headings)))
        lines += _format_fields(self.summary, self.tags, self.properties).values()
        if self.note:
            lines.append(f"({self.note})")
        head = "\n".join(line.rstrip("\n") for line in lines)
        return f"{head}\n\n{self.text}" if self.text else head


@dataclass(frozen=True, slots=True)
class Pagination:
    """An item cut into pages of a budget. The item, the budget and the counter decide the cuts."""

    item: Item
    passages: tuple[Passage, ...]
    ranges: tuple[_Range, ...]
    fields: Mapping[str, int]  # tokens of those that the first page shows, by name
    note: str  # about the fields that it does not show

    def find_page(self, passage: int) -> int:
        """Return the number of the page where a passage begins."""
        position = self.passages[passage].start
        ends = [part.end for part in self.ranges]
        return min(bisect_right(ends, position) + 1, len(ends))

    def build_page(self, number: int) -> ItemPage:
        item, part = self.item, self.ranges[number - 1]
        shown = self._overlapping(part)
        fields = self.fields if number == 1 else {}
        return ItemPage(
            item.space,
            item.id,
            item.kind,
            item.type,
            item.title,
            item.source,
            item.text[part.start : part.end] if part.is_shown else "",
            (part.tokens if part.is_shown else 0) + sum(fields.values()),
            number,
            len(self.ranges),
            part.start,
            part.end,
            heading_path(item, shown[0]) if shown else (),
            tuple(passage.number for passage in shown),
            any(p.start < cut < p.end for p in shown for cut in (part.start, part.end)),
            _join_notes(self.note if number == 1 else "", _describe_hidden(part)),
            item.summary if "summary" in fields else "",
            item.tags if "tags" in fields else (),
            item.shown_properties if "properties" in fields else {},
            item.numbered,
        )

    def _overlapping(self, part: _Range) -> list[Passage]:
        first = bisect_right(self.passages, part.start, key=lambda passage: passage.end)
        last = bisect_right(self.passages, part.end - 1, key=lambda passage: passage.start)
        return list(self.passages[first:last])


_cache: TwoGenerationCache[tuple[object, ...], tuple[_Range, ...]] = TwoGenerationCache(
    "page ranges of items", CACHED_RANGES, len
)


def minimum_budget(item: Item) -> int:
    """Return the smallest budget, in tokens, that a text of this length may be cut to."""
    return 1 + len(item.text) // CHARACTERS_PER_TOKEN


def paginate(
    item: Item, passage_size: int, counter: TokenCounter, max_tokens: int | None
) -> Pagination:
    """Cut an item into pages of whole passages; None is a page without a limit.

    A passage that is longer than the budget is cut at its parts, sentences or words. A single word
    that is longer is not shown, and the page has a note about it.
    """
    fields, note = _select_fields(item, counter, max_tokens)
    passages = split_passages(item.text, passage_size)
    if max_tokens is None:
        ranges: tuple[_Range, ...] = (_Range(0, len(item.text), counter.count(item.text)),)
        return Pagination(item, passages, ranges, fields, note)
    reserved = sum(fields.values())
    # The text itself as a key would stay in memory.
    key = (len(item.text), hash(item.text), passage_size, counter, max_tokens, reserved)
    cached = _cache.get(key)
    if cached is None:
        cutter = _Cutter(item.text, counter, max_tokens)
        cached = tuple(cutter.group(cutter.cut(passages), max_tokens - reserved))
        _cache.put(key, cached)
    return Pagination(item, passages, cached, fields, note)


def _select_fields(
    item: Item, counter: TokenCounter, max_tokens: int | None
) -> tuple[dict[str, int], str]:
    """Return the tokens of the fields that fit into the first page, and a note about the others."""
    shown: dict[str, int] = {}
    notes = []
    for name, text in _format_fields(item.summary, item.tags, item.shown_properties).items():
        tokens = counter.count(text)
        if max_tokens is None or sum(shown.values()) + tokens <= max_tokens:
            shown[name] = tokens
        else:
            notes.append(f"{name} left out: {tokens:,} tokens")
    return shown, "; ".join(notes)


def _format_fields(
    summary: str, tags: Sequence[str], properties: Mapping[str, Any]
) -> dict[str, str]:
    lines = (f"{name}: {format_value(value)}\n" for name, value in properties.items())
    texts = {
        "summary": f"summary: {summary.strip()}\n" if summary.strip() else "",
        "tags": f"tags: {', '.join(tags)}\n" if tags else "",
        "properties": "".join(lines),
    }
    return {name: text for name, text in texts.items() if text}


def _describe_hidden(part: _Range) -> str:
    if part.is_shown:
        return ""
    size = f"{part.end - part.start:,} characters without a break"
    return f"{size} left out: max_tokens={part.tokens} shows them"


def _join_notes(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts one text for one budget. Parts include the white space behind them."""

    text: str
    counter: TokenCounter
    max_tokens: int

    def cut(self, passages: Sequence[Passage]) -> Iterator[_Range]:
        """Yield the passages, or the parts of those that are longer than the budget."""
        starts = [0, *(passage.start for passage in passages[1:]), len(self.text)]
        for start, end in pairwise(starts):
            yield from self._cut_part(start, end)

    def _cut_part(self, start: int, end: int) -> Iterator[_Range]:
        tokens = self._count(start, end)
        if tokens <= self.max_tokens:
            yield _Range(start, end, tokens)
            return
        cuts = self._find_cuts(start, end, tokens)
        if not cuts:
            yield _Range(start, end, tokens, is_shown=False)
            return
        for part in pairwise((start, *cuts, end)):
            yield from self._cut_part(*part)

    def _find_cuts(self, start: int, end: int, tokens: int) -> list[int]:
        """Return positions to cut at, none inside a word; empty for a single word."""
        part = self.text[start:end]
        visible = part.strip()
        if not visible:
            step = max(1, len(part) // 8)
            return list(range(start + step, end, step))
        size = max(1, len(part) * self.max_tokens // tokens // 4)
        while len(passages := split_passages(part, size)) == 1 and size > 1:
            size //= 2
        cuts = [start + passage.start for passage in passages[1:]]
        if cuts or visible == part:
            return [cut for cut in cuts if self._is_clean(cut)] or cuts
        first = start + part.index(visible)
        return [cut for cut in (first, first + len(visible)) if start < cut < end]

    def _is_clean(self, cut: int) -> bool:
        """Return False between a mark of punctuation and a word, as inside "self-made"."""
        seam = self.text[cut - 1 : cut + 1]
        return any(char.isspace() or char >= FIRST_UNSPACED for char in seam)

    def group(self, parts: Iterator[_Range], room: int) -> Iterator[_Range]:
        """Join parts to pages as long as they fit; `room` is the budget of the first page."""
        pieces = list(parts)
        sums = list(accumulate((piece.tokens for piece in pieces), initial=0))
        first = 0
        while True:
            last, tokens = self._fill(pieces, sums, first, room)
            start = pieces[first].start if first < len(pieces) else len(self.text)
            if last > first or room < self.max_tokens:
                yield _Range(start, pieces[last - 1].end if last > first else start, tokens)
            elif first < len(pieces):
                yield pieces[first]
                last += 1
            first, room = last, self.max_tokens
            if first >= len(pieces):
                return

    def _fill(
        self, pieces: Sequence[_Range], sums: Sequence[int], first: int, room: int
    ) -> tuple[int, int]:
        """Return the end of the longest run of shown pieces that fits, and its tokens.

        The sum of the pieces' tokens is only close to those of the run.
        """
        last = max(first, bisect_right(sums, sums[first] + room) - 1)
        last = next((n for n in range(first, last) if not pieces[n].is_shown), last)
        tokens = self._count_run(pieces, first, last)
        while tokens > room:
            last -= 1
            tokens = self._count_run(pieces, first, last)
        step = 1
        while step:
            ahead = last + step
            is_shown = ahead <= len(pieces) and all(p.is_shown for p in pieces[last:ahead])
            if is_shown and (longer := self._count_run(pieces, first, ahead)) <= room:
                last, tokens, step = ahead, longer, step * 2
            else:
                step //= 2
        return last, tokens

    def _count_run(self, pieces: Sequence[_Range], first: int, last: int) -> int:
        return self._count(pieces[first].start, pieces[last - 1].end) if last > first else 0

    def _count(self, start: int, end: int) -> int:
        return self.counter.count(self.text[start:end])
