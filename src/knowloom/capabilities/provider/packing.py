"""Sections under one budget. Entries that stand on their own are chosen exactly; where a template makes the text of a whole section, the
choice starts from an estimate and is put right on the rendered bytes. The budget is never passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from knowloom.capabilities.provider.model import Entry, Unshown
from knowloom.context import knapsack
from knowloom.context.knapsack import Group, Offer, Option
from knowloom.context.packing import FORM_LEAST, FORM_VALUE, SCALE
from knowloom.errors import KnowloomError
from knowloom.model import Form, Problem
from knowloom.ports import TokenCounter

SHARPNESS = 6.0  # as of a recipe
ATTEMPTS = 64  # to bring back what an estimate left out

Blocks = tuple[str, ...]  # an entry's texts, the fullest first


@dataclass(frozen=True, slots=True)
class Section:
    """A section to be. `blocks` are the texts of each entry if they are simply put one after the other; else `whole` makes the text."""

    name: str
    entries: tuple[Entry, ...]
    blocks: tuple[Blocks, ...] = ()
    whole: Callable[[Sequence[Entry]], str] | None = None
    opening: str = ""
    between: str = "\n"
    cap: int | None = None

    def text(self, picks: Sequence[int]) -> str:
        """With the form picked of each entry, -1 for none; without any entry it is empty."""
        if all(pick < 0 for pick in picks):
            return ""
        if self.whole is not None:
            return self.whole(
                [entry for entry, pick in zip(self.entries, picks, strict=True) if pick >= 0]
            )
        return self.opening + self.between.join(
            blocks[pick] for blocks, pick in zip(self.blocks, picks, strict=True) if pick >= 0
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    texts: Mapping[str, str]
    tokens: int
    left_out: tuple[Unshown, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass
class Draft:
    """The choice while it is made. A section whose format fails is taken out, and why is kept."""

    sections: list[Section]
    counter: TokenCounter
    max_tokens: int | None
    joined: str | None = (
        None  # what stands between sections that become one text; None: each is counted for itself
    )
    picks: list[list[int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    costs: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, picks: Sequence[Sequence[int]]) -> None:
        self.picks, self.texts, self.costs = [], [], []
        for number, section in enumerate([*self.sections]):
            self.picks.append(list(picks[number]))
            self.texts.append("")
            self.costs.append(0)
            self.write(number, section)

    def write(self, number: int, section: Section) -> None:
        try:
            self.texts[number] = section.text(self.picks[number])
        except KnowloomError as error:
            self.problems.append(Problem(section.name, str(error), error.code))
            self.sections[number] = Section(section.name, ())
            self.picks[number], self.texts[number] = [], ""
        self.costs[number] = self.counter.count(self.texts[number])

    @property
    def text(self) -> str:
        return (self.joined or "").join(text for text in self.texts if text)

    @property
    def tokens(self) -> int:
        return sum(self.costs) if self.joined is None else self.counter.count(self.text)

    @property
    def fits(self) -> bool:
        capped = all(
            section.cap is None or cost <= section.cap
            for section, cost in zip(self.sections, self.costs, strict=True)
        )
        return capped and (self.max_tokens is None or self.tokens <= self.max_tokens)

    def pick(self, number: int, entry: int, form: int) -> None:
        self.picks[number][entry] = form
        self.write(number, self.sections[number])


def fit(
    sections: Sequence[Section],
    max_tokens: int | None,
    counter: TokenCounter,
    joined: str | None = None,
) -> Fitted:
    """The best entries whose text has at most `max_tokens` tokens, and in each section at most its cap."""
    draft = Draft(list(sections), counter, max_tokens, joined)
    draft.take([[0] * len(section.entries) for section in sections])
    if not draft.fits:
        costs = [
            _costs(section, text, counter)
            for section, text in zip(draft.sections, draft.texts, strict=True)
        ]
        draft.take(_chosen(draft, costs))
        _shrink(draft)
        _fill(draft)
    texts = {
        section.name: text
        for section, text in zip(draft.sections, draft.texts, strict=True)
        if text
    }
    return Fitted(texts, draft.tokens, tuple(_left_out(draft)), tuple(draft.problems))


def _costs(section: Section, text: str, counter: TokenCounter) -> list[tuple[int, ...]]:
    """The tokens of each entry in each form; where a template makes the text, each entry's part of it by length."""
    if section.whole is None:
        return [
            tuple(counter.count(block + section.between) for block in blocks)
            for blocks in section.blocks
        ]
    tokens, length = counter.count(text), sum(len(entry.line) for entry in section.entries)
    return [(max(1, tokens * len(entry.line) // max(1, length)),) for entry in section.entries]


def _chosen(draft: Draft, costs: Sequence[Sequence[tuple[int, ...]]]) -> list[list[int]]:
    """Every section is sure of an equal share if it can use it, so that a long profile leaves room for what answers the question."""
    budget = (
        sum(sum(sum(forms) for forms in section) for section in costs)
        if draft.max_tokens is None
        else draft.max_tokens
    )
    groups = []
    share = budget // max(1, len(draft.sections))
    for section, tokens in zip(draft.sections, costs, strict=True):
        offers = tuple(
            Offer(tuple(Option(cost, worth(entry, form)) for form, cost in enumerate(forms)))
            for entry, forms in zip(section.entries, tokens, strict=True)
        )
        heading = draft.counter.count(section.opening) + (
            draft.counter.count(draft.joined) if draft.joined else 0
        )
        most = budget if section.cap is None else min(budget, section.cap)
        groups.append(Group(offers, min(share, most), most, heading))
    options = iter(knapsack.choose(groups, budget).options)
    return [[next(options) for _ in section.entries] for section in draft.sections]


def worth(entry: Entry, form: int) -> int:
    """As the engine weighs items: how relevant, and how much of it is shown."""
    shown = (Form.WHOLE, Form.SUMMARY)[form]
    value = float(SCALE * entry.score**SHARPNESS * FORM_VALUE[shown])
    return max(FORM_LEAST[shown], round(value))


def _shrink(draft: Draft) -> None:
    """Drop what is worth least, until everything fits."""
    while not draft.fits:
        over = [
            number
            for number, section in enumerate(draft.sections)
            if section.cap is not None and draft.costs[number] > section.cap
        ]
        taken = [
            (worth(draft.sections[number].entries[entry], form), -number, -entry)
            for number, entry, form in _taken(draft, over)
        ]
        if not taken:
            return
        _, number, entry = min(taken)
        draft.pick(-number, -entry, -1)


def _taken(draft: Draft, numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """What is picked in these sections, or in all."""
    return [
        (number, entry, form)
        for number in numbers or range(len(draft.sections))
        for entry, form in enumerate(draft.picks[number])
        if form >= 0
    ]


def _fill(draft: Draft) -> None:
    """Bring back, the most valuable first, what fits after all."""
    absent = [
        (number, entry)
        for number, picks in enumerate(draft.picks)
        for entry, form in enumerate(picks)
        if form < 0
    ]
    absent.sort(key=lambda one: (-worth(draft.sections[one[0]].entries[one[1]], 0), one))
    for number, entry in absent[:ATTEMPTS]:
        if draft.sections[number].entries:
            draft.pick(number, entry, 0)
            if not draft.fits:
                draft.pick(number, entry, -1)


def _left_out(draft: Draft) -> list[Unshown]:
    return [
        Unshown(
            section.name,
            entry.kind,
            entry.id,
            entry.space,
            entry.score,
            draft.counter.count(entry.line),
        )
        for section, picks in zip(draft.sections, draft.picks, strict=True)
        for entry, form in zip(section.entries, picks, strict=True)
        if form < 0
    ]
