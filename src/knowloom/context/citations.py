"""Citations: the source of each block of a context, and their numbers in the order of the text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from knowloom.context.renderings import Rendering
from knowloom.formats.layout import Layout, assemble
from knowloom.formats.runs import format_headings
from knowloom.model import (
    LINES,
    LINK,
    PLACES,
    Chosen,
    Citation,
    Form,
    Fragment,
    Hit,
    Item,
    Kind,
    Passage,
)
from knowloom.ports import TokenCounter
from knowloom.text.normalisation import collapse_whitespace
from knowloom.text.passages import heading_path
from knowloom.text.structure import find_structure

SOURCES = "sources"  # the name of the list, shown as a section
WIDEST_NUMBER = 999  # counted for a block before its number is settled
MAX_SOURCE = 200  # characters of a name or address
MAX_PLACE = 80  # characters of a page or message
MAX_SECTIONS = 3  # beyond these, sections without a common heading are not named
MAX_LINE_RANGES = 4  # beyond these, only the first and the last line are named

_URL_SCHEMES = ("https://", "http://")
_URL_FIELDS = ("url", "source_url", "permalink", "link", "href")
_PLACE_FIELDS = {"page": ("page", "page_number", "page_label"), "message": ("message_id",)}


def is_cited(hit: Hit, form: Form) -> bool:
    """Return True for blocks that say something of an item: not for names and relationships."""
    item = hit.item
    if form is Form.POINTER or hit.found_by == LINK:
        return False
    return bool(item.text.strip() or item.summary.strip() or item.shown_properties)


def add_citation_costs(
    renderings: Sequence[Rendering], hit: Hit, layout: Layout, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """Return the renderings with the tokens of a number and a source added to each cited one."""
    if not any(is_cited(hit, rendering.form) for rendering in renderings):
        return tuple(renderings)
    cost = count_citation(hit, layout, counter)
    return tuple(
        replace(rendering, tokens=rendering.tokens + cost)
        if is_cited(hit, rendering.form)
        else rendering
        for rendering in renderings
    )


def count_citation(hit: Hit, layout: Layout, counter: TokenCounter) -> int:
    """Return the tokens that the number and the source of a block take, whatever the number."""
    source = source_of(hit.item, [passage.passage for passage in hit.passages[:1]])
    block = layout.block(hit, Form.POINTER)
    marked = _mark(layout, block, WIDEST_NUMBER, source)
    line = _line(layout, WIDEST_NUMBER, source)
    return counter.count(marked) - counter.count(block) + counter.count(line)


def cite_fragments(
    fragments: Sequence[Fragment], layout: Layout, counter: TokenCounter, first: int = 1
) -> tuple[list[Fragment], tuple[Citation, ...]]:
    """Return the fragments with numbers or sources in their blocks, and the citations.

    `first` is the number of the first citation.
    """
    citations: list[Citation] = []
    cited: list[Fragment] = []
    for fragment in fragments:
        separator = layout.separators.get(fragment.name, layout.separator)
        blocks: list[Chosen] = []
        for block in fragment.chosen:
            if is_cited(block.hit, block.form):
                citation = _cite(block, first + len(citations))
                citations.append(citation)
                text = _mark(layout, block.text, citation.number, citation.source)
                block = replace(block, text=text, tokens=counter.count(text + separator))
            blocks.append(block)
        added = sum(block.tokens for block in blocks) - sum(b.tokens for b in fragment.chosen)
        text = assemble(layout, [(fragment.name, [block.text for block in blocks])])
        tokens = fragment.tokens + added
        cited.append(replace(fragment, chosen=tuple(blocks), tokens=tokens, text=text))
    return cited, tuple(citations)


def sources_fragment(
    citations: Sequence[Citation], layout: Layout, counter: TokenCounter
) -> tuple[Fragment, ...]:
    """Return the list of sources as the last fragment; none where blocks have a `source`."""
    lines = list_sources(citations, layout)
    if not lines:
        return ()
    text = assemble(layout, [(SOURCES, lines)])
    return (Fragment(SOURCES, (), counter.count(text), text),)


def citation_heading(layout: Layout) -> str:
    """Return the heading of the list of sources; "" where blocks have a `source`."""
    return "" if layout.source_line is None else layout.opening(SOURCES)


def list_sources(citations: Sequence[Citation], layout: Layout) -> list[str]:
    """Return the lines of the list of sources; none where blocks have a `source`."""
    lines = (_line(layout, citation.number, citation.source) for citation in citations)
    return [line for line in lines if line]


def source_of(item: Item, passages: Sequence[Passage] = ()) -> str:
    """Return the place of an item, or of ranges of it: "docs/install.md, lines 12-30 (Linux)"."""
    headings = _name_sections(item, passages)
    places = ", ".join([*_names(item), *_places(item.properties), *_lines(item, passages)])
    return f"{places} ({headings})" if headings else places


def url_of(item: Item) -> str:
    """Return the address of an item, "" if it has none."""
    values = (item.source, *(item.properties.get(name) for name in _URL_FIELDS))
    texts = (value.strip() for value in values if isinstance(value, str))
    return next((text for text in texts if text.lower().startswith(_URL_SCHEMES)), "")


def _mark(layout: Layout, block: str, number: int, source: str) -> str:
    return block if layout.cite is None else layout.cite(block, number, source)


def _line(layout: Layout, number: int, source: str) -> str:
    return "" if layout.source_line is None else layout.source_line(number, source)


def _cite(block: Chosen, number: int) -> Citation:
    item, passages = block.hit.item, block.passages
    source = source_of(item, passages)
    return Citation(number, item.space, item.id, item.title, source, url_of(item), passages)


def _names(item: Item) -> list[str]:
    """Return the file or address of an item, else its conversation, else its id and space."""
    source, url = _shorten(item.source or "", MAX_SOURCE), _shorten(url_of(item), MAX_SOURCE)
    names = [name for name in dict.fromkeys((source, url)) if name]
    if names:
        return names
    id = _shorten(item.id, MAX_SOURCE)
    if item.kind is Kind.MEMORY and item.subject:
        return [f"conversation {_shorten(item.subject, MAX_SOURCE)}", f"memory {id}"]
    return [id, f"space {_shorten(item.space, MAX_SOURCE)}"]


def _places(properties: Mapping[str, object]) -> Iterator[str]:
    """Yield the page and the message of an item that has them as properties."""
    for place, names in _PLACE_FIELDS.items():
        for name in names:
            value = properties.get(name)
            if isinstance(value, int | str) and not isinstance(value, bool) and str(value).strip():
                yield f"{place} {_shorten(str(value), MAX_PLACE)}"
                break


def _lines(item: Item, passages: Sequence[Passage]) -> Iterator[str]:
    """Yield the lines of an item that was cut from a file, or those of its ranges."""
    if PLACES in item.properties:
        yield from _mapped_places(item, passages)
        return
    lines = item.properties.get(LINES)
    if not isinstance(lines, list | tuple) or len(lines) != 2:
        return
    first, last = lines
    if type(first) is not int or type(last) is not int or not 1 <= first <= last:
        return
    ranges = [_line_range(item.text, passage, first, last) for passage in passages]
    yield _format_ranges("line", ranges or [(first, last)])


def _mapped_places(item: Item, passages: Sequence[Passage]) -> Iterator[str]:
    """Yield the places of an item whose text is not that of its file, or those of its ranges."""
    units = item.properties[PLACES]
    for unit, places in units.items() if isinstance(units, Mapping) else ():
        if not isinstance(places, list | tuple) or not places:
            continue
        starts = [line for line, _ in places]
        ranges = []
        for passage in passages or (Passage(0, 0, len(item.text)),):
            first = item.text.count("\n", 0, passage.start)
            last = first + item.text[passage.start : passage.end].rstrip().count("\n")
            numbers = [places[max(0, bisect_right(starts, line) - 1)][1] for line in (first, last)]
            ranges.append((min(numbers), max(numbers)))
        yield _format_ranges(str(unit), ranges)


def _format_ranges(unit: str, ranges: Sequence[tuple[int, int]]) -> str:
    """Return ranges such as "lines 3-9, 12"."""
    merged = _merge(ranges)
    if len(merged) > MAX_LINE_RANGES:
        merged = [(merged[0][0], merged[-1][1])]
    numbers = ", ".join(f"{start}-{end}" if end > start else f"{start}" for start, end in merged)
    return f"{unit}s {numbers}" if "-" in numbers or len(merged) > 1 else f"{unit} {numbers}"


def _line_range(text: str, passage: Passage, first: int, last: int) -> tuple[int, int]:
    """Return the lines of a range; text that was added behind the last line has that line."""
    before = text.count("\n", 0, passage.start)
    inside = text[passage.start : passage.end].rstrip().count("\n")
    return min(first + before, last), min(first + before + inside, last)


def _merge(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that overlap or follow each other."""
    merged = [ranges[0]]
    for start, end in ranges[1:]:
        if start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _name_sections(item: Item, passages: Sequence[Passage]) -> str:
    """Return the headings that all ranges are below, else the sections if they are few."""
    paths = [
        heading_path(item, part)
        for passage in passages
        for part in (passage, *_sections_inside(item.text, passage))
    ]
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    if common := [level[0] for level in levels]:
        return format_headings(common)
    sections = list(dict.fromkeys(format_headings(path) for path in paths))
    return "; ".join(sections) if all(sections) and len(sections) <= MAX_SECTIONS else ""


def _sections_inside(text: str, passage: Passage) -> Iterator[Passage]:
    """Yield the sections that begin behind the start of a range."""
    if not passage.headings:
        return  # nothing is above all of it anyway
    sections = find_structure(text).sections
    first = bisect_right(sections, passage.start, key=lambda section: section.start)
    for section in takewhile(lambda section: section.start < passage.end, sections[first:]):
        yield Passage(0, section.start, section.end, section.headings)


def _shorten(text: str, length: int) -> str:
    line = collapse_whitespace(text[: 2 * length])
    return line if len(line) <= length else f"{line[: length - 1]}…"
