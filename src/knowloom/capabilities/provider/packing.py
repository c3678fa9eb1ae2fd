"""Packing of sections under one budget.

Entries that are rendered one by one are chosen exactly. Where a template renders a whole section,
the choice starts from an estimate and is corrected on the rendered text. The budget is never
exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from knowloom.capabilities.provider.model import Entry, Unshown
from knowloom.context import knapsack
from knowloom.context.knapsack import Offer, OfferGroup, Option
from knowloom.context.packing import MIN_FORM_VALUE, SCALE
from knowloom.context.renderings import FORM_WEIGHTS
from knowloom.errors import KnowloomError
from knowloom.model import Form, Problem
from knowloom.ports import TokenCounter

SHARPNESS = 6.0  # the default of a recipe
MAX_REFILLS = 64  # entries to try again after an estimate left them out
ABSENT = -1

Blocks = tuple[str, ...]  # the texts of an entry, longest first


@dataclass(frozen=True, slots=True)
class Section:
    """A section before packing.

    `blocks` are the texts of each entry if they are simply joined: whole, its excerpts, and its
    summary; otherwise `render` produces the text of the section from entries and excerpts.
    """

    name: str
    entries: tuple[Entry, ...]
    blocks: tuple[Blocks, ...] = ()
    render: Callable[[Sequence[Entry]], str] | None = None
    opening: str = ""
    separator: str = "\n"
    cap: int | None = None

    def text(self, picks: Sequence[int]) -> str:
        """Return the text with the picked form of each entry; empty if all are ABSENT."""
        if all(pick < 0 for pick in picks):
            return ""
        if self.render is not None:
            pairs = zip(self.entries, picks, strict=True)
            return self.render(
                [(entry, *entry.excerpts)[pick] for entry, pick in pairs if pick >= 0]
            )
        return self.opening + self.separator.join(
            blocks[pick] for blocks, pick in zip(self.blocks, picks, strict=True) if pick >= 0
        )


@dataclass(frozen=True, slots=True)
class PackedSections:
    """The text of each section, their tokens, and the entries that did not fit."""

    texts: Mapping[str, str]
    tokens: int
    left_out: tuple[Unshown, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass
class Draft:
    """The choice in progress. A section whose format fails is emptied and reported."""

    sections: list[Section]
    counter: TokenCounter
    max_tokens: int | None
    delimiter: str | None = None  # joins sections into one text; None: count each by itself
    picks: list[list[int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    costs: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def pick_all(self, picks: Sequence[Sequence[int]]) -> None:
        self.picks, self.texts, self.costs = [], [], []
        for number, section in enumerate([*self.sections]):
            self.picks.append(list(picks[number]))
            self.texts.append("")
            self.costs.append(0)
            self._render(number, section)

    def pick(self, number: int, entry: int, form: int) -> None:
        self.picks[number][entry] = form
        self._render(number, self.sections[number])

    def _render(self, number: int, section: Section) -> None:
        try:
            self.texts[number] = section.text(self.picks[number])
        except KnowloomError as error:
            self.problems.append(Problem.from_error(section.name, error))
            self.sections[number] = Section(section.name, ())
            self.picks[number], self.texts[number] = [], ""
        self.costs[number] = self.counter.count(self.texts[number])

    @property
    def tokens(self) -> int:
        if self.delimiter is None:
            return sum(self.costs)
        return self.counter.count(self.delimiter.join(text for text in self.texts if text))

    @property
    def fits(self) -> bool:
        pairs = zip(self.sections, self.costs, strict=True)
        within_caps = all(section.cap is None or cost <= section.cap for section, cost in pairs)
        return within_caps and (self.max_tokens is None or self.tokens <= self.max_tokens)


def pack_sections(
    sections: Sequence[Section],
    max_tokens: int | None,
    counter: TokenCounter,
    delimiter: str | None = None,
) -> PackedSections:
    """Choose the best entries whose text fits `max_tokens` and the cap of each section."""
    draft = Draft(list(sections), counter, max_tokens, delimiter)
    draft.pick_all([[0] * len(section.entries) for section in sections])
    if not draft.fits:
        costs = [
            _estimate_costs(section, text, counter)
            for section, text in zip(draft.sections, draft.texts, strict=True)
        ]
        draft.pick_all(_choose_forms(draft, costs))
        _drop_until_it_fits(draft)
        _refill(draft)
    pairs = zip(draft.sections, draft.texts, strict=True)
    texts = {section.name: text for section, text in pairs if text}
    return PackedSections(texts, draft.tokens, tuple(_left_out(draft)), tuple(draft.problems))


def _estimate_costs(section: Section, text: str, counter: TokenCounter) -> list[tuple[int, ...]]:
    """Return the tokens of each entry per form; of a rendered section, shares by length."""
    if section.render is None:
        return [
            tuple(counter.count(block + section.separator) for block in blocks)
            for blocks in section.blocks
        ]
    tokens, length = counter.count(text), sum(len(entry.line) for entry in section.entries)
    return [
        tuple(
            max(1, tokens * len(form.line) // max(1, length)) for form in (entry, *entry.excerpts)
        )
        for entry in section.entries
    ]


def _choose_forms(draft: Draft, costs: Sequence[Sequence[tuple[int, ...]]]) -> list[list[int]]:
    """Guarantee each section an equal share, so that a long profile leaves room for the rest."""
    budget = draft.max_tokens
    if budget is None:
        budget = sum(sum(sum(forms) for forms in section) for section in costs)
    share = budget // max(1, len(draft.sections))
    groups = []
    for section, tokens in zip(draft.sections, costs, strict=True):
        offers = tuple(
            Offer(tuple(Option(cost, entry_value(entry, form)) for form, cost in enumerate(forms)))
            for entry, forms in zip(section.entries, tokens, strict=True)
        )
        overhead = draft.counter.count(section.opening)
        if draft.delimiter:
            overhead += draft.counter.count(draft.delimiter)
        ceiling = budget if section.cap is None else min(budget, section.cap)
        groups.append(OfferGroup(offers, min(share, ceiling), ceiling, overhead))
    options = iter(knapsack.choose(groups, budget).options)
    return [[next(options) for _ in section.entries] for section in draft.sections]


def entry_value(entry: Entry, form: int) -> int:
    """Return the value of an entry as the engine values items: relevance times form.

    The forms are the whole entry, its excerpts, and its summary.
    """
    value = float(entry.score**SHARPNESS)
    if 0 < form <= len(entry.excerpts):
        shown, value = Form.EXCERPT, entry.excerpts[form - 1].worth
    elif form:
        shown, value = Form.SUMMARY, value * FORM_WEIGHTS[Form.SUMMARY]
    else:
        shown, value = Form.WHOLE, max([value, *(excerpt.worth for excerpt in entry.excerpts)])
    return max(MIN_FORM_VALUE[shown], round(SCALE * value))


def _drop_until_it_fits(draft: Draft) -> None:
    """Drop the least valuable entries, first in sections over their cap."""
    while not draft.fits:
        over_cap = [
            number
            for number, section in enumerate(draft.sections)
            if section.cap is not None and draft.costs[number] > section.cap
        ]
        candidates = [
            (entry_value(draft.sections[number].entries[entry], form), -number, -entry)
            for number in over_cap or range(len(draft.sections))
            for entry, form in enumerate(draft.picks[number])
            if form >= 0
        ]
        if not candidates:
            return
        _, number, entry = min(candidates)
        draft.pick(-number, -entry, ABSENT)


def _refill(draft: Draft) -> None:
    """Add back absent entries that fit after all, most valuable first."""
    absent = [
        (number, entry)
        for number, picks in enumerate(draft.picks)
        for entry, form in enumerate(picks)
        if form < 0
    ]
    absent.sort(key=lambda at: (-entry_value(draft.sections[at[0]].entries[at[1]], 0), at))
    for number, entry in absent[:MAX_REFILLS]:
        if draft.sections[number].entries:
            _pick_longest(draft, number, entry)


def _pick_longest(draft: Draft, number: int, entry: int) -> None:
    """Show an absent entry whole, or by the longest excerpt that fits, if any does."""
    for form in range(1 + len(draft.sections[number].entries[entry].excerpts)):
        draft.pick(number, entry, form)
        if draft.fits or not draft.sections[number].entries:
            return
    draft.pick(number, entry, ABSENT)


def _left_out(draft: Draft) -> list[Unshown]:
    count = draft.counter.count
    return [
        Unshown(section.name, e.kind, e.id, e.space, e.score, count(e.line))
        for section, picks in zip(draft.sections, draft.picks, strict=True)
        for e, form in zip(section.entries, picks, strict=True)
        if form < 0
    ]
