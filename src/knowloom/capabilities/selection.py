"""Formatting and packing of any items, without a store: the parts of a context by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knowloom import tokens, validation
from knowloom.context.packing import SectionCandidates, pack
from knowloom.errors import Invalid
from knowloom.formats.layout import get_layout
from knowloom.model import Chosen, Form, Hit, Item, LeftOut, Problem
from knowloom.options import validate_budget
from knowloom.recipes import Recipe

MAX_ITEMS = 10_000
SECTION = "items"


@dataclass(frozen=True, slots=True)
class Selection:
    """The best items within a budget: their text, in the order of the input, and the rest."""

    text: str
    tokens: int
    chosen: tuple[Chosen, ...]
    left_out: tuple[LeftOut, ...]
    token_counter: str
    degraded: tuple[Problem, ...] = ()  # a notice if the tokens are estimated

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(choice.hit.item for choice in self.chosen)


def select_within_budget(
    items: Iterable[Item | Hit],
    max_tokens: int | None,
    *,
    format: str = "markdown",
    section: str = SECTION,
    model: str = "gpt-4",
    strict: bool = False,
    query: str = "",
    shorten: bool = True,
) -> Selection:
    """Return the items worth most whose text has at most `max_tokens` tokens; None: all of them.

    A hit is worth its score, an item 1; the best hit is shown if it fits. With `shorten`, an item
    that does not fit whole may be shown by the parts of its text that cover the query, by its
    summary or by its name.
    """
    hits = _to_hits(items)
    forms = tuple(Form) if validation.validate_bool("shorten", shorten) else (Form.WHOLE,)
    name = validation.validate_name("section", section)
    model = tokens.strict_model(model, validation.validate_bool("strict", strict))
    counter = tokens.get_counter(model)
    budget = validate_budget(max_tokens)
    recipe = Recipe(name, forms=forms, sharpness=1.0)
    candidates = SectionCandidates(recipe, hits, may_repeat=budget is None)
    layout = get_layout(validation.validate_name("format", format))
    packed = pack([candidates], budget, layout, counter, query=validation.validate_query(query))
    chosen = tuple(choice for fragment in packed.fragments for choice in fragment.chosen)
    notices = tokens.estimate_notices(model)
    return Selection(packed.text, packed.tokens, chosen, packed.left_out, counter.name, notices)


def format_items(
    items: Iterable[Item | Hit], format: str = "markdown", *, section: str = SECTION
) -> str:
    """Return the text of whole items in a format, as a context shows them under one section."""
    return select_within_budget(items, None, format=format, section=section).text


def _to_hits(items: Iterable[Item | Hit]) -> tuple[Hit, ...]:
    """Return a hit for each item; raise Invalid for other values and for the same item twice."""
    values = validation.validate_iterable("items", items)
    hits = []
    for value in values:
        hit = Hit(validation.validate_item(value), 1.0) if isinstance(value, Item) else value
        if not isinstance(hit, Hit):
            raise Invalid(f"items must be Item or Hit values, got {type(value).__name__}")
        validation.validate_fraction(f"the score of {hit.item.id!r}", hit.score)
        hits.append(hit)
        if len(hits) > MAX_ITEMS:
            raise Invalid(f"items must be at most {MAX_ITEMS:,}")
    keys = validation.find_duplicates(hit.item.key for hit in hits)
    if keys:
        raise Invalid(f"items must differ, got {keys[0]!r} twice")
    return tuple(hits)
