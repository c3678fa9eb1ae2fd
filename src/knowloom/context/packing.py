"""Pack candidates into a token budget: render every form, count it, and choose the best set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from knowloom.construction import fast_constructor
from knowloom.context import knapsack
from knowloom.context.citations import (
    add_citation_costs,
    citation_heading,
    cite_fragments,
)
from knowloom.context.excerpts import Part, is_long, select_parts
from knowloom.context.knapsack import Choice, Offer, OfferGroup, Option
from knowloom.context.renderings import Rendering, finish, render_forms, render_long
from knowloom.context.repetition import find_repetitions
from knowloom.context.whole_text import assemble_text
from knowloom.formats.layout import Layout, assemble
from knowloom.model import Chosen, Citation, Form, Fragment, Hit, LeftOut
from knowloom.ports import TokenCounter
from knowloom.recipes import Recipe

SCALE = 10**12  # values are integers, so that ties are ties on every machine
# Even of the least relevant item, a longer form is worth more.
MIN_FORM_VALUE = {Form.WHOLE: 4, Form.EXCERPT: 3, Form.SUMMARY: 2, Form.POINTER: 1}
# Share of the optimum that may be missed where candidates need others: exact solutions take many
# more tables.
TOLERANCE = 0.01
# Attempts with smaller budgets, where the whole text has more tokens than its pieces.
MAX_ATTEMPTS = 12
MAX_REFILLS = 2  # attempts with larger ones, where excerpts have fewer tokens than estimated
MIN_REFILL = 40  # tokens
MAX_CHARACTERS_PER_TOKEN = 8  # texts above this many do not fit a budget
SEE_ALSO = "see_also"  # the last section: pointers to the best candidates that are not shown
MAX_POINTERS = 5

ItemNeeds = tuple[tuple[int, ...], ...]  # of each tuple of hits, one must be included


@dataclass(frozen=True, slots=True)
class SectionCandidates:
    """The ranked candidates of one recipe, which become one section of the context."""

    recipe: Recipe
    hits: tuple[Hit, ...]
    needs: tuple[ItemNeeds, ...] = ()  # by hit; hits are numbered through all sections
    problem: str = ""  # what is missing among the hits, and why
    may_repeat: bool = False  # True: near-duplicates are shown as well


@dataclass(frozen=True, slots=True)
class PackingResult:
    """The packed text, its fragments, and the candidates left out with the reasons."""

    text: str
    tokens: int
    fragments: tuple[Fragment, ...]
    left_out: tuple[LeftOut, ...]
    gap: float  # 0 if no better set fits
    citations: tuple[Citation, ...] = ()
    pointed: tuple[LeftOut, ...] = ()  # candidates shown by name only, and why


@dataclass(frozen=True, slots=True)
class _Section:
    """The candidates of a section with their renderings, fullest form first."""

    candidates: SectionCandidates
    renderings: list[tuple[Rendering, ...]]  # by hit; none for one that repeats another
    parts: list[Sequence[Part]]  # by hit, of long items
    overhead: int  # tokens of the section before its first block


@dataclass(frozen=True, slots=True)
class _Document:
    """Everything that does not depend on the choice."""

    sections: list[_Section]
    layout: Layout
    counter: TokenCounter
    repetitions: dict[int, int]  # numbers of hits that repeat another, and of that one
    has_needs: bool  # True if candidates need others
    first_citation: int  # 0 for none

    @property
    def hits(self) -> list[Hit]:
        return [hit for section in self.sections for hit in section.candidates.hits]

    @property
    def renderings(self) -> list[tuple[Rendering, ...]]:
        return [renderings for section in self.sections for renderings in section.renderings]


_new_offer = fast_constructor(Offer)
_new_chosen, _new_left_out = fast_constructor(Chosen), fast_constructor(LeftOut)
_new_option: Callable[[tuple[int, int]], Option] = partial(tuple.__new__, Option)


def pack(
    candidates: Sequence[SectionCandidates],
    max_tokens: int | None,
    layout: Layout,
    counter: TokenCounter,
    tolerance: float = 0.0,
    query: str = "",
    citations: int = 0,
) -> PackingResult:
    """Return the best set of candidates whose text has at most `max_tokens` tokens.

    Without a limit, all of them are included whole. Where candidates need others, a set within
    `tolerance` of the optimum is enough. Long items are narrowed to the parts that cover the query.
    `citations` is the number of the first one, 0 for none.
    """
    document = _prepare(candidates, max_tokens, layout, counter, query, citations)
    if max_tokens is None:
        picks = tuple(0 if forms else -1 for s in document.sections for forms in s.renderings)
        return _build_result(document, Choice(picks, 0, 0), 0)
    frame = layout.start + layout.end + (citation_heading(layout) if citations else "")
    room = budget = max(0, max_tokens - counter.count(frame))
    for _ in range(MAX_ATTEMPTS):
        choice = _choose(document, budget, room, tolerance)
        result = _build_result(document, choice, room)
        overrun = max(result.tokens - max_tokens, _overrun(document, result, room))
        if overrun <= 0:
            result = _refill(document, result, room, budget, max_tokens)
            return _add_pointers(document, result, max_tokens)
        budget = max(0, min(budget, room) - overrun)
    nothing = Choice((-1,) * len(choice.options), 0, choice.bound)
    return _build_result(document, nothing, room)


def _prepare(
    candidates: Sequence[SectionCandidates],
    max_tokens: int | None,
    layout: Layout,
    counter: TokenCounter,
    query: str,
    citations: int,
) -> _Document:
    """Render the candidates, without those that repeat another.

    Pointers compete with other forms only where candidates need others.
    """
    hits = [hit for section in candidates for hit in section.hits]
    has_needs = any(section.needs for section in candidates)
    repetitions: dict[int, int] = {}
    parts: dict[int, list[Part]] = {}
    whole = 0
    if max_tokens is not None:
        sharpness = [section.recipe.sharpness for section in candidates for _ in section.hits]
        parts = select_parts(hits, sharpness, query, max_tokens)
        may_repeat = [section.may_repeat for section in candidates for _ in section.hits]
        repetitions = {} if has_needs else find_repetitions(hits, query, may_repeat)
        whole = _max_whole(hits, max_tokens)
    sections, numbers = [], iter(range(len(hits)))
    for section in candidates:
        recipe = section.recipe
        renderings: list[tuple[Rendering, ...]] = []
        parts_by_hit: list[Sequence[Part]] = []
        for hit, number in zip(section.hits, numbers, strict=False):
            parts_by_hit.append(parts.get(number, ()))
            if number in repetitions:
                renderings.append(())
            elif max_tokens is None or not is_long(hit) or Form.EXCERPT not in recipe.forms:
                renderings.append(render_forms(hit, recipe, layout, counter))
            else:
                forms = render_long(hit, parts_by_hit[-1], recipe, layout, counter, whole)
                renderings.append(forms)
        if citations:
            renderings = [
                add_citation_costs(forms, hit, layout, counter)
                for forms, hit in zip(renderings, section.hits, strict=True)
            ]
        overhead = _count_overhead(recipe.name, layout, counter)
        sections.append(_Section(section, renderings, parts_by_hit, overhead))
    return _Document(sections, layout, counter, repetitions, has_needs, citations)


def _max_whole(hits: Sequence[Hit], max_tokens: int) -> int:
    """Return up to which length items are offered whole: any, if all of them could fit."""
    lengths = [len(hit.item.text) for hit in hits]
    fits = sum(lengths) <= MAX_CHARACTERS_PER_TOKEN * max_tokens
    return max(lengths, default=0) if fits else max_tokens


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


def _count_overhead(name: str, layout: Layout, counter: TokenCounter) -> int:
    """Return the tokens of a section's opening, closing and separator."""
    opening = counter.count(layout.opening(name))
    closing = layout.closings.get(name, layout.closing)
    return opening + counter.count(closing + layout.section_separator)


def _choose(document: _Document, budget: int, room: int, tolerance: float) -> Choice:
    """Return the best choice that shows text of the most relevant hit, if any of it fits.

    The budget may exceed the room where estimated tokens do; shares and caps are parts of the room.
    """
    groups = _build_groups(document, min(budget, room))
    choice = knapsack.choose(groups, budget, tolerance)
    best = _best_number(document)
    if document.has_needs or best is None or choice.options[best] >= 0:
        return choice
    bonus = choice.bound + 1  # more than all others together
    forced, number = [], 0
    for group in groups:
        offers = list(group.offers)
        if 0 <= best - number < len(offers):
            offer = offers[best - number]
            options = [_new_option((tokens, value + bonus)) for tokens, value in offer.options]
            offers[best - number] = _new_offer(tuple(options), offer.needs)
        forced.append(replace(group, offers=tuple(offers)))
        number += len(offers)
    retry = knapsack.choose(forced, budget, tolerance)
    if retry.options[best] < 0:  # not even its shortest text fits
        return choice
    return Choice(retry.options, retry.value - bonus, retry.bound - bonus)


def _best_number(document: _Document) -> int | None:
    """Return the number of the most relevant hit that has text, None without any."""
    numbers = [
        number
        for number, renderings in enumerate(document.renderings)
        if any(rendering.form is not Form.POINTER for rendering in renderings)
    ]
    hits = document.hits
    return max(numbers, key=lambda number: (hits[number].relevance, -number), default=None)


def _build_groups(document: _Document, budget: int) -> list[OfferGroup]:
    recipes = [section.candidates.recipe for section in document.sections]
    shares = max(1.0, sum(recipe.share for recipe in recipes))
    return [
        OfferGroup(
            _build_offers(section, document.has_needs),
            guaranteed=int(budget * recipe.share / shares),
            cap=int(budget * recipe.max_share),
            overhead=section.overhead,
        )
        for section, recipe in zip(document.sections, recipes, strict=True)
    ]


def _build_offers(section: _Section, has_needs: bool) -> tuple[Offer, ...]:
    """Return the candidates of a section as offers, valued by relevance and form."""
    candidates, sharpness = section.candidates, section.candidates.recipe.sharpness
    needs = candidates.needs or ((),) * len(candidates.hits)
    offers = []
    for hit, renderings, parts, item_needs in zip(
        candidates.hits, section.renderings, section.parts, needs, strict=True
    ):
        value = SCALE * hit.relevance**sharpness
        options = []
        for rendering in renderings:
            if rendering.form is not Form.POINTER or has_needs:
                form_value = round(rendering.worth(value, parts, SCALE))
                min_value = MIN_FORM_VALUE[rendering.form]
                options.append(_new_option((rendering.tokens, max(min_value, form_value))))
        offers.append(_new_offer(tuple(options), item_needs))
    return tuple(offers)


def _overrun(document: _Document, result: PackingResult, room: int) -> int:
    """Return the tokens that a section has beyond its cap, as excerpts were only estimated."""
    recipes = [section.candidates.recipe for section in document.sections]
    return max(
        (
            fragment.tokens - int(room * recipe.max_share)
            for fragment, recipe in zip(result.fragments, recipes, strict=False)
            if recipe.max_share < 1
        ),
        default=0,
    )


def _refill(
    document: _Document, result: PackingResult, room: int, budget: int, max_tokens: int
) -> PackingResult:
    """Use the tokens that excerpts were estimated to take and do not."""
    for _ in range(MAX_REFILLS):
        spare = max_tokens - result.tokens
        forms = {block.form for fragment in result.fragments for block in fragment.chosen}
        if spare < MIN_REFILL or Form.EXCERPT not in forms:
            break
        budget += spare
        fuller = _build_result(document, _choose(document, budget, room, 0.0), room)
        fits = fuller.tokens <= max_tokens and _overrun(document, fuller, room) <= 0
        if not fits or fuller.tokens <= result.tokens:
            break
        result = fuller
    return result


def _add_pointers(document: _Document, result: PackingResult, max_tokens: int) -> PackingResult:
    """Append a section of pointers to the best candidates that are not shown, as far as it fits."""
    layout, counter = document.layout, document.counter
    names = {section.candidates.recipe.name for section in document.sections}
    if document.has_needs or SEE_ALSO in names:
        return result
    pointers = {
        hit.item.key: rendering
        for hit, renderings in zip(document.hits, document.renderings, strict=True)
        for rendering in renderings
        if rendering.form is Form.POINTER
    }
    left = [entry for entry in result.left_out if entry.hit.item.key in pointers]
    left.sort(key=lambda entry: (-entry.hit.relevance, *entry.hit.item.key[::-1]))
    spare = max_tokens - result.tokens - _count_overhead(SEE_ALSO, layout, counter)
    chosen: list[Chosen] = []
    for entry in left[:MAX_POINTERS]:
        rendering = pointers[entry.hit.item.key]
        if rendering.tokens <= spare:
            spare -= rendering.tokens
            chosen.append(Chosen(entry.hit, Form.POINTER, rendering.tokens, rendering.text))
    while chosen:
        fragment = _build_fragment(SEE_ALSO, chosen, layout, counter)
        fragments = (*result.fragments, fragment)
        text, tokens = assemble_text(fragments, result.citations, layout, counter)
        if tokens <= max_tokens:
            shown = {block.hit.item.key for block in chosen}
            left_out = tuple(e for e in result.left_out if e.hit.item.key not in shown)
            pointed = tuple(e for e in result.left_out if e.hit.item.key in shown)
            result = replace(result, text=text, tokens=tokens, fragments=fragments)
            return replace(result, left_out=left_out, pointed=pointed)
        chosen.pop()
    return result


def _build_result(document: _Document, choice: Choice, room: int) -> PackingResult:
    layout, counter = document.layout, document.counter
    fragments: list[Fragment] = []
    left_out: list[LeftOut] = []
    picks = iter(enumerate(choice.options))
    for section in document.sections:
        recipe = section.candidates.recipe
        chosen: list[Chosen] = []
        for hit, renderings, (number, pick) in zip(
            section.candidates.hits, section.renderings, picks, strict=False
        ):
            if pick >= 0:
                block, ranges = finish(renderings[pick], hit, recipe, layout, counter)
                chosen.append(_new_chosen(hit, block.form, block.tokens, block.text, ranges))
            else:
                reason = _explain_omission(document, section, number, renderings, room)
                tokens = renderings[0].tokens if renderings else 0
                left_out.append(_new_left_out(hit, recipe.name, reason, tokens, ""))
        fragments.append(_build_fragment(recipe.name, chosen, layout, counter, section.overhead))
    citations: tuple[Citation, ...] = ()
    if document.first_citation:
        fragments, citations = cite_fragments(fragments, layout, counter, document.first_citation)
    text, tokens = assemble_text(fragments, citations, layout, counter)
    gap = choice.gap
    return PackingResult(text, tokens, tuple(fragments), tuple(left_out), gap, citations)


def _build_fragment(
    name: str, chosen: Sequence[Chosen], layout: Layout, counter: TokenCounter, overhead: int = -1
) -> Fragment:
    if overhead < 0:
        overhead = _count_overhead(name, layout, counter)
    text = assemble(layout, [(name, [block.text for block in chosen])])
    tokens = sum(block.tokens for block in chosen) + (overhead if chosen else 0)
    return Fragment(name, tuple(chosen), tokens, text)


def _explain_omission(
    document: _Document,
    section: _Section,
    number: int,
    renderings: tuple[Rendering, ...],
    room: int,
) -> str:
    if number in document.repetitions:
        original = document.hits[document.repetitions[number]].item
        return f"repeats {original.name!r}, which is more relevant"
    texts = [form for form in renderings if document.has_needs or form.form is not Form.POINTER]
    if not texts:
        return "outweighed: other items cover the query better"
    cap = int(room * section.candidates.recipe.max_share)
    shortest = texts[-1].tokens + section.overhead
    if shortest > cap:
        return f"too large: its shortest form needs {shortest} tokens, the limit is {cap}"
    return f"outweighed: its {renderings[0].tokens} tokens are worth more spent on others"
