"""Choose what goes into the text: render every candidate in every form, count the bytes, take the best set that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from knowloom.caching import TwoGenerationCache
from knowloom.construction import fast_constructor
from knowloom.context import knapsack
from knowloom.context.knapsack import Choice, Offer, OfferGroup, Option
from knowloom.formats.fields import available_forms
from knowloom.formats.layout import Layout, assemble
from knowloom.model import Chosen, Form, Fragment, Hit, LeftOut
from knowloom.ports import TokenCounter
from knowloom.recipes import Recipe

SCALE = 10**12  # values are whole numbers, so that equal is equal on every machine
MIN_FORM_VALUE = {
    Form.WHOLE: 3,
    Form.SUMMARY: 2,
    Form.POINTER: 1,
}  # of the least relevant item, too: more of it is always worth more
FORM_WEIGHTS = {Form.WHOLE: 1.0, Form.SUMMARY: 0.35, Form.POINTER: 0.05}
# Share of the optimum that may be missed where candidates need others: exact solutions take many
# more tables.
TOLERANCE = 0.01
MAX_ATTEMPTS = 12  # of fitting again with a smaller budget, when parts counted one by one came to less than the whole


@dataclass(frozen=True, slots=True)
class SectionCandidates:
    """The ranked candidates of one recipe."""

    recipe: Recipe
    hits: tuple[Hit, ...]
    needs: tuple[
        tuple[tuple[int, ...], ...], ...
    ] = ()  # per hit: of each tuple of hits (counted through all parts) one must be in


@dataclass(frozen=True, slots=True)
class Rendering:
    """One candidate in one form, ready to be glued in, and what it costs there."""

    form: Form
    text: str
    tokens: int


def relationship_needs(
    hits: Sequence[Hit], sections: Sequence[SectionCandidates]
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return, per relationship, the numbers of its ends, counted through the sections before it."""
    keys = (hit.item.key for section in sections for hit in section.hits)
    numbers = {key: number for number, key in enumerate(keys)}
    return tuple(tuple((numbers[key],) for key in dict.fromkeys(hit.path)) for hit in hits)


def tolerance_of(sections: Sequence[SectionCandidates]) -> float:
    return TOLERANCE if any(section.needs for section in sections) else 0.0


Renderings = list[list[tuple[Rendering, ...]]]  # by part and by hit

_made, _chosen, _left_out, _offer_of = (
    fast_constructor(Rendering),
    fast_constructor(Chosen),
    fast_constructor(LeftOut),
    fast_constructor(Offer),
)
_option: Callable[[tuple[int, int]], Option] = partial(tuple.__new__, Option)

CACHED_RENDERINGS = 16_384  # items, about 1 KB each
MAX_CACHED_CHARACTERS = 5_000  # characters
MAX_ADDITIVE_CHARACTERS = (
    100_000  # characters; longer texts may be bounded where blocks are counted
)
_cache: TwoGenerationCache[tuple[object, ...], tuple[Rendering, ...]] = TwoGenerationCache(
    "renderings", CACHED_RENDERINGS
)


@dataclass(frozen=True, slots=True)
class PackingResult:
    text: str
    tokens: int
    fragments: tuple[Fragment, ...]
    left_out: tuple[LeftOut, ...]
    gap: float  # 0: no better set fits


def pack(
    parts: Sequence[SectionCandidates],
    max_tokens: int | None,
    layout: Layout,
    counter: TokenCounter,
    tolerance: float = 0.0,
) -> PackingResult:
    """The best set of candidates whose rendered text has at most `max_tokens` tokens; without a limit, all of them whole. Where
    candidates need others, a set within `tolerance` of the best is enough."""
    offered = [
        [_renderings(hit, part.recipe, layout, counter) for hit in part.hits] for part in parts
    ]
    overheads = [_overhead(part, layout, counter) for part in parts]
    if max_tokens is None:
        choice = Choice(tuple(0 for hits in offered for _ in hits), 0, 0)
        return _build_result(parts, offered, overheads, choice, layout, counter, 0)
    room = budget = max(0, max_tokens - counter.count(layout.start) - counter.count(layout.end))
    for _ in range(MAX_ATTEMPTS):
        choice = knapsack.choose(_groups(parts, offered, overheads, budget), budget, tolerance)
        result = _build_result(parts, offered, overheads, choice, layout, counter, room)
        if result.tokens <= max_tokens:
            return result
        budget = max(0, budget - (result.tokens - max_tokens))
    return _build_result(
        parts,
        offered,
        overheads,
        Choice((-1,) * len(choice.options), 0, choice.bound),
        layout,
        counter,
        room,
    )


def _renderings(
    hit: Hit, recipe: Recipe, layout: Layout, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """The forms a candidate may take. The same items come back in request after request: they are remembered by all they show."""
    between, item = layout.separators.get(recipe.name, layout.separator), hit.item
    properties = repr(item.properties) if item.properties else ""
    if (
        not layout.is_cacheable
        or len(item.title) + len(item.text) + len(item.summary) + len(properties)
        > MAX_CACHED_CHARACTERS
    ):
        return _render_forms(hit, recipe, layout, between, counter)
    shown = (
        layout.name,
        between,
        counter,
        recipe.forms,
        item.id,
        item.kind,
        item.type,
        item.title,
        item.text,
        item.summary,
        item.tags,
        properties,
        hit.via,
    )
    found = _cache.get(shown)
    if found is None:
        found = _render_forms(hit, recipe, layout, between, counter)
        _cache.put(shown, found)
    return found


def _render_forms(
    hit: Hit, recipe: Recipe, layout: Layout, between: str, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """The fullest form first; a form that saves nothing is not offered."""
    found: list[Rendering] = []
    for form in available_forms(hit.item):
        if form is Form.WHOLE or form in recipe.forms:
            text = layout.block(hit, form)
            tokens = counter.count(text + between)
            if not found or tokens < found[-1].tokens:
                found.append(_made(form, text, tokens))
    return tuple(found)


def _overhead(part: SectionCandidates, layout: Layout, counter: TokenCounter) -> int:
    """What a part costs before its first block."""
    return counter.count(layout.opening(part.recipe.name)) + counter.count(
        layout.closing + layout.section_separator
    )


def _groups(
    parts: Sequence[SectionCandidates], offered: Renderings, overheads: Sequence[int], budget: int
) -> list[OfferGroup]:
    shares = max(1.0, sum(part.recipe.share for part in parts))
    return [
        OfferGroup(
            tuple(
                _offer(hit, renderings, part, number)
                for number, (hit, renderings) in enumerate(zip(part.hits, hits, strict=True))
            ),
            guaranteed=int(budget * part.recipe.share / shares),
            cap=int(budget * part.recipe.most),
            overhead=overhead,
        )
        for part, hits, overhead in zip(parts, offered, overheads, strict=True)
    ]


def _offer(
    hit: Hit, renderings: tuple[Rendering, ...], part: SectionCandidates, number: int
) -> Offer:
    worth = SCALE * hit.relevance**part.recipe.sharpness
    options = [
        _option((one.tokens, max(MIN_FORM_VALUE[one.form], round(worth * FORM_WEIGHTS[one.form]))))
        for one in renderings
    ]
    return _offer_of(tuple(options), part.needs[number] if part.needs else ())


def _build_result(
    parts: Sequence[SectionCandidates],
    offered: Renderings,
    overheads: Sequence[int],
    choice: Choice,
    layout: Layout,
    counter: TokenCounter,
    room: int,
) -> PackingResult:
    fragments: list[Fragment] = []
    left_out: list[LeftOut] = []
    picks = iter(choice.options)
    for part, hits, overhead in zip(parts, offered, overheads, strict=True):
        chosen: list[Chosen] = []
        name, most = part.recipe.name, int(room * part.recipe.most)
        for hit, renderings, pick in zip(part.hits, hits, picks, strict=False):
            if pick >= 0:
                one = renderings[pick]
                chosen.append(_chosen(hit, one.form, one.tokens, one.text))
            else:
                left_out.append(
                    _left_out(
                        hit, name, _reason(renderings, overhead, most), renderings[0].tokens, ""
                    )
                )
        text = assemble(layout, [(name, [one.text for one in chosen])])
        tokens = sum(one.tokens for one in chosen) + (overhead if chosen else 0)
        fragments.append(Fragment(name, tuple(chosen), tokens, text))
    text = assemble(
        layout, [(fragment.name, [one.text for one in fragment.chosen]) for fragment in fragments]
    )
    return PackingResult(
        text,
        _count_tokens(text, fragments, layout, counter),
        tuple(fragments),
        tuple(left_out),
        choice.gap,
    )


def _count_tokens(
    text: str, fragments: Sequence[Fragment], layout: Layout, counter: TokenCounter
) -> int:
    """Of the whole text. Where every block is a run of lines that can be counted by itself, nearly all of it has been: only the last one
    is counted again, as it ends where the text ends."""
    shown = [fragment for fragment in fragments if fragment.chosen]
    lines = [
        part
        for fragment in shown
        for part in (layout.opening(fragment.name), *(one.text for one in fragment.chosen))
    ]
    if not (
        lines
        and layout.is_concatenation
        and counter.additive
        and len(text) <= MAX_ADDITIVE_CHARACTERS
        and all(map(_is_countable_alone, lines))
    ):
        return counter.count(text)
    last = shown[-1].chosen[-1]
    ending = last.tokens if layout.final_newline else counter.count(last.text.rstrip("\n"))
    return sum(fragment.tokens for fragment in shown) - last.tokens + ending


def _is_countable_alone(text: str) -> bool:
    """Whether no token goes on from a line before to this, or from this to a line that is like it."""
    return text[-1:] == "\n" and text[0] != "/" and not text[0].isspace()


def _reason(renderings: tuple[Rendering, ...], overhead: int, most: int) -> str:
    least = renderings[-1].tokens + overhead
    if least > most:
        return f"too large: its shortest form needs {least} tokens, the limit is {most}"
    return f"outweighed: its {renderings[0].tokens} tokens are worth more spent on others"
