"""From ranked memories to a context: the best set whose text, with the template's own, stays within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowloom.capabilities.memory import templates
from knowloom.capabilities.memory.model import ContextPreview, Omitted, SearchResult
from knowloom.capabilities.memory.ranking import worths
from knowloom.capabilities.memory.templates import MemoryTemplate
from knowloom.context.packing import Fitted, Part, fit
from knowloom.formats.layout import Layout, assemble
from knowloom.model import Form, Hit, Item, Key
from knowloom.ports import TokenCounter
from knowloom.recipes import Recipe

NAME = "memories"
RECIPE = Recipe(NAME, forms=(Form.WHOLE,))
SEAM = 8  # tokens that a memory may need less in its place than alone, where words of two memories meet
MOST_TRIES = 200  # of taking one more in


@dataclass(frozen=True, slots=True)
class Candidate:
    """A result and what it is worth beside the others, from 0 to 1."""

    result: SearchResult
    worth: float

    @property
    def key(self) -> Key:
        return (self.result.memory.workspace, self.result.memory.id)


def candidates(pinned: Sequence[SearchResult], results: Sequence[SearchResult]) -> list[Candidate]:
    """What may be shown, each memory once: pinned ones, then the rest by worth. What a link leads to is worth no more than its start."""
    found = [Candidate(one, 1.0) for one in pinned]
    rest: list[Candidate] = []
    for one, worth in zip(results, worths(results), strict=True):
        rest.append(Candidate(one, worth))
        for related in one.relationships:
            near = related.relationship.weight / (related.depth + 1)
            rank = round((one.rank or 0.0) * near, 6)
            rest.append(Candidate(SearchResult(related.memory, round(near, 6), rank), worth * near))
    rest.sort(key=lambda one: -one.worth)  # stable: the ranker's order holds among equals
    unique: dict[Key, Candidate] = {}
    for candidate in [*found, *rest]:
        unique.setdefault(candidate.key, candidate)
    return list(unique.values())


def context(
    given: Sequence[Candidate],
    template: MemoryTemplate,
    budget: int | None,
    counter: TokenCounter,
    include_metadata: bool,
) -> ContextPreview:
    """The context, and what it is made of."""
    layout = templates.layout(template, {one.key: one.result for one in given}, include_metadata)
    hits = tuple(Hit(_stand_in(one), one.worth) for one in given)
    fitted = fit([Part(RECIPE, hits)], budget, layout, counter)
    shown = {hit.item.key for fragment in fitted.fragments for hit in fragment.hits}
    text, tokens = fitted.text, fitted.tokens
    if budget is not None:
        text, tokens = _more(fitted, given, shown, layout, budget, counter)
    inside = [one.result for one in given if one.key in shown]
    left_out = [one for one in fitted.left_out if one.hit.item.key not in shown]
    ranks = {one.key: one.result.rank or 0.0 for one in given}
    return ContextPreview(
        text,
        tokens,
        tuple(inside),
        bool(left_out),
        template.name,
        tuple(one.memory.id for one in inside),
        {one.memory.id: one.rank or 0.0 for one in inside},
        round(100 * tokens / budget, 2) if budget else 0.0,
        tuple(
            Omitted(one.hit.item.id, ranks[one.hit.item.key], one.tokens, one.reason)
            for one in left_out
        ),
    )


def _more(
    fitted: Fitted,
    given: Sequence[Candidate],
    shown: set[Key],
    layout: Layout,
    budget: int,
    counter: TokenCounter,
) -> tuple[str, int]:
    """Take in what fits after all. Memories are weighed one by one with a separator each, and the last has none; together they may be
    a little shorter. `shown` grows."""
    text, tokens = fitted.text, fitted.tokens
    blocks = {one.key: layout.block(Hit(_stand_in(one), one.worth), Form.WHOLE) for one in given}
    for one in sorted(fitted.left_out, key=lambda one: (-one.hit.score, one.hit.item.id))[
        :MOST_TRIES
    ]:
        own = counter.count(layout.start + layout.end) if not shown else 0
        if one.tokens + own <= budget - tokens + SEAM:
            tried = assemble(
                layout,
                [
                    (
                        NAME,
                        [blocks[key] for key in blocks if key in shown or key == one.hit.item.key],
                    )
                ],
            )
            if (count := counter.count(tried)) <= budget:
                shown.add(one.hit.item.key)
                text, tokens = tried, count
    return text, tokens


def _stand_in(one: Candidate) -> Item:
    """What the fitting stage needs of a memory: its name. The text is the template's business."""
    return Item(one.result.memory.id, one.result.memory.workspace, text=one.result.memory.content)
