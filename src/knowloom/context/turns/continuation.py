"""Pack the candidates of a turn: without what was shown before, or behind an earlier text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from knowloom.context.packing import PackingResult, SectionCandidates, pack, tolerance_of
from knowloom.context.turns.shown import index_shown, renumber, split_candidates, was_shown
from knowloom.context.whole_text import assemble_text
from knowloom.formats.layout import Layout, assemble
from knowloom.model import (
    SHOWN_BEFORE,
    Chosen,
    Earlier,
    Form,
    Fragment,
    Hit,
    Key,
    LeftOut,
    Problem,
    Query,
    Shown,
)
from knowloom.ports import TokenCounter

MAX_POINTERS = 5  # to items that were shown before
POINTER_SHARE = 0.1  # of the budget
MAX_ATTEMPTS = 4
# Between an earlier text and its continuation; a YAML stream may have several documents.
JOINTS = {"yaml": "---\n"}
DEFAULT_JOINT = "\n\n"
SHOWN_REASON = "shown before, and unchanged"
ANEW = Problem("after", "the earlier text does not fit the budget: begun anew", "prefix_dropped")


@dataclass(frozen=True, slots=True)
class PackedTurn:
    """The packed text of a turn; `prefix` characters of it are the earlier text."""

    packed: PackingResult
    prefix: int = 0
    problems: tuple[Problem, ...] = ()


def pack_turn(
    query: Query,
    sections: Sequence[SectionCandidates],
    counter: TokenCounter,
    layout: Layout,
) -> PackedTurn:
    """Return the text of a query: the best set of new candidates that fits its budget.

    A query with an earlier text keeps it as the beginning, byte for byte, and adds what a context
    of `new_tokens` made anew would show beside it. If that does not fit, the text begins anew.
    """
    problems: tuple[Problem, ...] = ()
    if query.after is not None:
        packed = _continue_text(query, query.after, sections, layout, counter)
        if packed is not None:
            return PackedTurn(packed, len(query.after.text))
        problems = (ANEW,)
    budget = _smaller(query.max_tokens, query.new_tokens)
    if not query.seen:
        return PackedTurn(_pack(query, sections, budget, layout, counter), 0, problems)
    return PackedTurn(_pack_unseen(query, sections, budget, layout, counter), 0, problems)


def _pack(
    query: Query,
    sections: Sequence[SectionCandidates],
    budget: int | None,
    layout: Layout,
    counter: TokenCounter,
    cited: int = 0,
) -> PackingResult:
    number = cited + 1 if query.citations else 0
    tolerance = tolerance_of(sections)
    return pack(sections, budget, layout, counter, tolerance, query.text, number)


def _smaller(first: int | None, second: int | None) -> int | None:
    return min((limit for limit in (first, second) if limit is not None), default=None)


# Without what was shown before


def _pack_unseen(
    query: Query,
    sections: Sequence[SectionCandidates],
    budget: int | None,
    layout: Layout,
    counter: TokenCounter,
) -> PackingResult:
    """Pack the new candidates, and point to the best of those that were shown before."""
    split = split_candidates(sections, index_shown(query.seen))
    pointers = _choose_pointers(split.shown, budget, layout, counter)
    reserve = _build_fragment(pointers, layout, counter).tokens
    room = budget if budget is None else max(0, budget - reserve)
    packed = _pack(query, split.new, room, layout, counter)
    while pointers:
        fragment = _build_fragment(pointers, layout, counter)
        fragments = (*packed.fragments, fragment)
        text, tokens = assemble_text(fragments, packed.citations, layout, counter)
        if budget is None or tokens <= budget:
            packed = replace(packed, text=text, tokens=tokens, fragments=fragments)
            break
        pointers = pointers[:-1]
    return _leave_out(packed, split.shown, {block.hit.item.key for block in pointers})


def _choose_pointers(
    shown: Sequence[tuple[str, Hit]], budget: int | None, layout: Layout, counter: TokenCounter
) -> list[Chosen]:
    """Return the names of the best candidates that were shown, within their share of the budget."""
    separator = layout.separators.get(SHOWN_BEFORE, layout.separator)
    best = sorted((hit for _, hit in shown), key=lambda hit: (-hit.relevance, *hit.item.key[::-1]))
    chosen: list[Chosen] = []
    for hit in best[:MAX_POINTERS]:
        text = layout.block(hit, Form.POINTER)
        chosen.append(Chosen(hit, Form.POINTER, counter.count(text + separator), text))
    while chosen and budget is not None:
        if _build_fragment(chosen, layout, counter).tokens <= POINTER_SHARE * budget:
            break
        chosen.pop()
    return chosen


def _build_fragment(chosen: Sequence[Chosen], layout: Layout, counter: TokenCounter) -> Fragment:
    if not chosen:
        return Fragment(SHOWN_BEFORE)
    text = assemble(layout, [(SHOWN_BEFORE, [block.text for block in chosen])])
    closing = layout.closings.get(SHOWN_BEFORE, layout.closing) + layout.section_separator
    overhead = counter.count(layout.opening(SHOWN_BEFORE)) + counter.count(closing)
    tokens = overhead + sum(block.tokens for block in chosen)
    return Fragment(SHOWN_BEFORE, tuple(chosen), tokens, text)


def _leave_out(
    packed: PackingResult, shown: Sequence[tuple[str, Hit]], pointed: set[Key]
) -> PackingResult:
    """Report the candidates that were shown before and are not pointed to."""
    left_out = [
        LeftOut(hit, section, SHOWN_REASON) for section, hit in shown if hit.item.key not in pointed
    ]
    return replace(packed, left_out=(*packed.left_out, *left_out))


# Behind an earlier text


def _continue_text(
    query: Query,
    earlier: Earlier,
    sections: Sequence[SectionCandidates],
    layout: Layout,
    counter: TokenCounter,
) -> PackingResult | None:
    """Return the earlier text with what is new, None if the new does not fit behind it."""
    limit, joint = query.max_tokens, JOINTS.get(layout.name, DEFAULT_JOINT) * bool(earlier.text)
    if limit is not None and counter.count(earlier.text) > limit:
        return None
    room = None if limit is None else max(0, limit - counter.count(earlier.text + joint))
    size = room if query.new_tokens is None else query.new_tokens
    anew = _pack(query, sections, _smaller(size, limit), layout, counter, earlier.cited)
    seen = index_shown((*query.seen, *earlier.shown))
    split = split_candidates(sections, seen)
    new = _keep_chosen(split.new, anew, seen)
    for _ in range(MAX_ATTEMPTS):
        packed = _pack(query, new, _smaller(room, size), layout, counter, earlier.cited)
        text = earlier.text + (joint + packed.text if packed.text else "")
        tokens = counter.count(text)
        if limit is None or tokens <= limit:
            break
        room = max(0, (room or 0) - (tokens - limit))
    else:
        return None
    if _is_incomplete(new, packed) or _misses_best(split.new, anew):
        return None
    packed = replace(packed, text=text, tokens=tokens, left_out=anew.left_out, gap=anew.gap)
    return _leave_out(packed, split.shown, set())


def _keep_chosen(
    sections: Sequence[SectionCandidates], anew: PackingResult, seen: Mapping[Key, Shown]
) -> list[SectionCandidates]:
    """Return the candidates of which a context made anew shows text that was not shown."""
    chosen = {
        (fragment.name, block.hit.item.key)
        for fragment in anew.fragments
        for block in fragment.chosen
        if block.form is not Form.POINTER and not was_shown(block, seen)
    }
    numbers: list[int | None] = []
    hits, count = [], 0
    for section in sections:
        selectors = [(section.recipe.name, hit.item.key) in chosen for hit in section.hits]
        for is_chosen in selectors:
            numbers.append(count if is_chosen else None)
            count += is_chosen
        hits.append(tuple(compress(section.hits, selectors)))
    return renumber(sections, hits, numbers)


def _is_incomplete(new: Sequence[SectionCandidates], packed: PackingResult) -> bool:
    """Return True if one of the candidates is not shown."""
    shown = {block.hit.item.key for fragment in packed.fragments for block in fragment.chosen}
    return any(hit.item.key not in shown for section in new for hit in section.hits)


def _misses_best(unseen: Sequence[SectionCandidates], anew: PackingResult) -> bool:
    """Return True if the most relevant candidate is new and even its shortest text does not fit."""
    chosen = [block.hit for fragment in anew.fragments for block in fragment.chosen]
    omitted = [entry.hit for entry in anew.left_out if entry.tokens]
    if not chosen and not omitted:
        return False
    best = max((*chosen, *omitted), key=lambda hit: (hit.relevance, hit.item.key)).item.key
    is_unseen = any(hit.item.key == best for section in unseen for hit in section.hits)
    shown = {hit.item.key for hit in chosen}
    return is_unseen and best not in shown
