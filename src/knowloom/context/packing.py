"""Pack candidates into a token budget: render every form, count it, and choose the best set."""

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

SCALE = 10**12  # values are integers, so that ties are ties on every machine
# Even of the least relevant item, a longer form is worth more.
MIN_FORM_VALUE = {Form.WHOLE: 3, Form.SUMMARY: 2, Form.POINTER: 1}
FORM_WEIGHTS = {Form.WHOLE: 1.0, Form.SUMMARY: 0.35, Form.POINTER: 0.05}
# Share of the optimum that may be missed where candidates need others: exact solutions take many
# more tables.
TOLERANCE = 0.01
# Attempts with smaller budgets, where the whole text has more tokens than its pieces.
MAX_ATTEMPTS = 12
CACHED_RENDERINGS = 16_384  # items, about 1 KB each
MAX_CACHED_CHARACTERS = 5_000  # of one item
MAX_ADDITIVE_CHARACTERS = 100_000  # counters may estimate the tokens of longer texts

ItemNeeds = tuple[tuple[int, ...], ...]  # of each tuple of hits, one must be included


@dataclass(frozen=True, slots=True)
class SectionCandidates:
    """The ranked candidates of one recipe, which become one section of the context."""

    recipe: Recipe
    hits: tuple[Hit, ...]
    needs: tuple[ItemNeeds, ...] = ()  # by hit; hits are numbered through all sections


@dataclass(frozen=True, slots=True)
class PackingResult:
    """The packed text, its fragments, and the candidates left out with the reasons."""

    text: str
    tokens: int
    fragments: tuple[Fragment, ...]
    left_out: tuple[LeftOut, ...]
    gap: float  # 0 if no better set fits


@dataclass(frozen=True, slots=True)
class Rendering:
    """One candidate in one form, and its tokens in the document."""

    form: Form
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class _Section:
    """The candidates of a section with their renderings, fullest form first."""

    candidates: SectionCandidates
    renderings: list[tuple[Rendering, ...]]  # by hit
    overhead: int  # tokens of the section before its first block


_cache: TwoGenerationCache[tuple[object, ...], tuple[Rendering, ...]] = TwoGenerationCache(
    "renderings", CACHED_RENDERINGS
)
_new_rendering, _new_offer = fast_constructor(Rendering), fast_constructor(Offer)
_new_chosen, _new_left_out = fast_constructor(Chosen), fast_constructor(LeftOut)
_new_option: Callable[[tuple[int, int]], Option] = partial(tuple.__new__, Option)


def pack(
    candidates: Sequence[SectionCandidates],
    max_tokens: int | None,
    layout: Layout,
    counter: TokenCounter,
    tolerance: float = 0.0,
) -> PackingResult:
    """Return the best set of candidates whose text has at most `max_tokens` tokens.

    Without a limit, all of them are included whole. Where candidates need others, a set within
    `tolerance` of the optimum is enough.
    """
    sections = [
        _Section(
            section,
            [_render(hit, section.recipe, layout, counter) for hit in section.hits],
            _count_overhead(section, layout, counter),
        )
        for section in candidates
    ]
    if max_tokens is None:
        all_whole = Choice(tuple(0 for section in candidates for _ in section.hits), 0, 0)
        return _build_result(sections, all_whole, layout, counter, 0)
    room = budget = max(0, max_tokens - counter.count(layout.start) - counter.count(layout.end))
    for _ in range(MAX_ATTEMPTS):
        choice = knapsack.choose(_build_groups(sections, budget), budget, tolerance)
        result = _build_result(sections, choice, layout, counter, room)
        if result.tokens <= max_tokens:
            return result
        budget = max(0, budget - (result.tokens - max_tokens))
    nothing = Choice((-1,) * len(choice.options), 0, choice.bound)
    return _build_result(sections, nothing, layout, counter, room)


def relationship_needs(
    hits: Sequence[Hit], sections: Sequence[SectionCandidates]
) -> tuple[ItemNeeds, ...]:
    """Return, by relationship, the numbers of its ends among the hits of earlier sections."""
    keys = (hit.item.key for section in sections for hit in section.hits)
    numbers = {key: number for number, key in enumerate(keys)}
    return tuple(tuple((numbers[key],) for key in dict.fromkeys(hit.path)) for hit in hits)


def tolerance_of(sections: Sequence[SectionCandidates]) -> float:
    """Return the tolerance for `pack`: 0 unless candidates need others."""
    return TOLERANCE if any(section.needs for section in sections) else 0.0


def _render(
    hit: Hit, recipe: Recipe, layout: Layout, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """Return the renderings of a candidate, cached by everything they show.

    The same items recur in request after request.
    """
    separator, item = layout.separators.get(recipe.name, layout.separator), hit.item
    properties = repr(item.properties) if item.properties else ""
    length = len(item.title) + len(item.text) + len(item.summary) + len(properties)
    if not layout.is_cacheable or length > MAX_CACHED_CHARACTERS:
        return _render_forms(hit, recipe, layout, separator, counter)
    key = (
        layout.name,
        separator,
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
    renderings = _cache.get(key)
    if renderings is None:
        renderings = _render_forms(hit, recipe, layout, separator, counter)
        _cache.put(key, renderings)
    return renderings


def _render_forms(
    hit: Hit, recipe: Recipe, layout: Layout, separator: str, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """Render each form, fullest first, and drop forms that save no tokens."""
    renderings: list[Rendering] = []
    for form in available_forms(hit.item):
        if form is Form.WHOLE or form in recipe.forms:
            text = layout.block(hit, form)
            tokens = counter.count(text + separator)
            if not renderings or tokens < renderings[-1].tokens:
                renderings.append(_new_rendering(form, text, tokens))
    return tuple(renderings)


def _count_overhead(section: SectionCandidates, layout: Layout, counter: TokenCounter) -> int:
    """Return the tokens of a section's opening, closing and separator."""
    opening = counter.count(layout.opening(section.recipe.name))
    return opening + counter.count(layout.closing + layout.section_separator)


def _build_groups(sections: Sequence[_Section], budget: int) -> list[OfferGroup]:
    shares = max(1.0, sum(section.candidates.recipe.share for section in sections))
    groups = []
    for section in sections:
        recipe = section.candidates.recipe
        groups.append(
            OfferGroup(
                _build_offers(section),
                guaranteed=int(budget * recipe.share / shares),
                cap=int(budget * recipe.max_share),
                overhead=section.overhead,
            )
        )
    return groups


def _build_offers(section: _Section) -> tuple[Offer, ...]:
    """Return the candidates of a section as offers, valued by relevance and form."""
    candidates, sharpness = section.candidates, section.candidates.recipe.sharpness
    needs = candidates.needs or ((),) * len(candidates.hits)
    offers = []
    for hit, renderings, item_needs in zip(candidates.hits, section.renderings, needs, strict=True):
        value = SCALE * hit.relevance**sharpness
        options = []
        for rendering in renderings:
            form_value = round(value * FORM_WEIGHTS[rendering.form])
            min_value = MIN_FORM_VALUE[rendering.form]
            options.append(_new_option((rendering.tokens, max(min_value, form_value))))
        offers.append(_new_offer(tuple(options), item_needs))
    return tuple(offers)


def _build_result(
    sections: Sequence[_Section],
    choice: Choice,
    layout: Layout,
    counter: TokenCounter,
    room: int,
) -> PackingResult:
    fragments: list[Fragment] = []
    left_out: list[LeftOut] = []
    picks = iter(choice.options)
    for section in sections:
        recipe, overhead = section.candidates.recipe, section.overhead
        name, cap = recipe.name, int(room * recipe.max_share)
        chosen: list[Chosen] = []
        for hit, renderings, pick in zip(
            section.candidates.hits, section.renderings, picks, strict=False
        ):
            if pick >= 0:
                rendering = renderings[pick]
                form, tokens = rendering.form, rendering.tokens
                chosen.append(_new_chosen(hit, form, tokens, rendering.text, ()))
            else:
                reason = _explain_omission(renderings, overhead, cap)
                left_out.append(_new_left_out(hit, name, reason, renderings[0].tokens, ""))
        text = assemble(layout, [(name, [block.text for block in chosen])])
        tokens = sum(block.tokens for block in chosen) + (overhead if chosen else 0)
        fragments.append(Fragment(name, tuple(chosen), tokens, text))
    text = assemble(
        layout,
        [(fragment.name, [block.text for block in fragment.chosen]) for fragment in fragments],
    )
    tokens = _count_tokens(text, fragments, layout, counter)
    return PackingResult(text, tokens, tuple(fragments), tuple(left_out), choice.gap)


def _count_tokens(
    text: str, fragments: Sequence[Fragment], layout: Layout, counter: TokenCounter
) -> int:
    """Return the tokens of the whole text.

    Where every block can be counted alone, the counts are added up: only the last block is counted
    again, as it ends where the text ends.
    """
    shown = [fragment for fragment in fragments if fragment.chosen]
    pieces = [
        piece
        for fragment in shown
        for piece in (layout.opening(fragment.name), *(block.text for block in fragment.chosen))
    ]
    is_additive = (
        pieces
        and layout.is_concatenation
        and counter.additive
        and len(text) <= MAX_ADDITIVE_CHARACTERS
        and all(map(_is_countable_alone, pieces))
    )
    if not is_additive:
        return counter.count(text)
    last = shown[-1].chosen[-1]
    ending = last.tokens if layout.final_newline else counter.count(last.text.rstrip("\n"))
    return sum(fragment.tokens for fragment in shown) - last.tokens + ending


def _is_countable_alone(text: str) -> bool:
    """Return True if no token can span the line break before or after the text."""
    return text[-1:] == "\n" and text[0] != "/" and not text[0].isspace()


def _explain_omission(renderings: tuple[Rendering, ...], overhead: int, cap: int) -> str:
    shortest = renderings[-1].tokens + overhead
    if shortest > cap:
        return f"too large: its shortest form needs {shortest} tokens, the limit is {cap}"
    return f"outweighed: its {renderings[0].tokens} tokens are worth more spent on others"
