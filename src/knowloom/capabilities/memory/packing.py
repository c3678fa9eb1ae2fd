"""Packing of ranked memories: the best set whose text, template included, fits the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowloom.capabilities.memory import templates
from knowloom.capabilities.memory.model import ContextPreview, Omitted, SearchResult
from knowloom.capabilities.memory.ranking import relative_values
from knowloom.capabilities.memory.templates import MemoryTemplate
from knowloom.context.packing import PackingResult, SectionCandidates, pack
from knowloom.formats.layout import Layout, assemble
from knowloom.model import Form, Hit, Item, Key
from knowloom.ports import TokenCounter
from knowloom.recipes import Recipe

SECTION = "memories"
RECIPE = Recipe(SECTION, forms=(Form.WHOLE, Form.EXCERPT))
SEAM_TOKENS = 8  # tokens that a memory may save where its text meets that of a neighbour
MAX_REFILLS = 200


@dataclass(frozen=True, slots=True)
class MemoryCandidate:
    """A result and its value in [0, 1] relative to the others."""

    result: SearchResult
    value: float

    @property
    def key(self) -> Key:
        return (self.result.memory.workspace, self.result.memory.id)

    @property
    def hit(self) -> Hit:
        """A hit with the identity and the passages of the memory; the template renders it."""
        memory, hit = self.result.memory, self.result.hit
        item = Item(memory.id, memory.workspace, text=memory.content)
        passages = hit.passages if hit is not None and hit.item.text == memory.content else ()
        return Hit(item, self.value, passages=passages)


def merge_candidates(
    pinned: Sequence[SearchResult], results: Sequence[SearchResult]
) -> list[MemoryCandidate]:
    """Return each memory once: pinned ones, then the others by value.

    A related memory is worth at most as much as the result it belongs to.
    """
    ranked: list[MemoryCandidate] = []
    for result, value in zip(results, relative_values(results), strict=True):
        ranked.append(MemoryCandidate(result, value))
        for related in result.relationships:
            proximity = related.relationship.weight / (related.depth + 1)
            rank = round((result.rank or 0.0) * proximity, 6)
            neighbour = SearchResult(related.memory, round(proximity, 6), rank, hit=related.hit)
            ranked.append(MemoryCandidate(neighbour, value * proximity))
    ranked.sort(key=lambda candidate: -candidate.value)  # stable: ties keep the ranker's order
    unique: dict[Key, MemoryCandidate] = {}
    for candidate in [*(MemoryCandidate(result, 1.0) for result in pinned), *ranked]:
        unique.setdefault(candidate.key, candidate)
    return list(unique.values())


def pack_memories(
    candidates: Sequence[MemoryCandidate],
    template: MemoryTemplate,
    budget: int | None,
    counter: TokenCounter,
    include_metadata: bool,
    query: str = "",
) -> ContextPreview:
    """Return the best context within the budget, with its memories and omissions.

    A long memory is shown by the excerpts that cover the query best.
    """
    results = {candidate.key: candidate.result for candidate in candidates}
    layout = templates.template_layout(template, results, include_metadata)
    hits = tuple(candidate.hit for candidate in candidates)
    packed = pack([SectionCandidates(RECIPE, hits)], budget, layout, counter, query=query)
    chosen = [choice for fragment in packed.fragments for choice in fragment.chosen]
    shown = {choice.hit.item.key for choice in chosen}
    text, tokens = packed.text, packed.tokens
    if budget is not None:
        text, tokens = _refill(packed, candidates, shown, layout, budget, counter)
    included = [candidate.result for candidate in candidates if candidate.key in shown]
    omitted = [
        Omitted(
            left_out.hit.item.id,
            results[left_out.hit.item.key].rank or 0.0,
            left_out.tokens,
            left_out.reason,
        )
        for left_out in packed.left_out
        if left_out.hit.item.key not in shown
    ]
    return ContextPreview(
        text,
        tokens,
        tuple(included),
        bool(omitted) or any(choice.form is not Form.WHOLE for choice in chosen),
        template.name,
        tuple(result.memory.id for result in included),
        {result.memory.id: result.rank or 0.0 for result in included},
        round(100 * tokens / budget, 2) if budget else 0.0,
        tuple(omitted),
    )


def _refill(
    packed: PackingResult,
    candidates: Sequence[MemoryCandidate],
    shown: set[Key],
    layout: Layout,
    budget: int,
    counter: TokenCounter,
) -> tuple[str, int]:
    """Add memories that fit after all; `shown` grows.

    Each memory was counted with a separator, but the last one has none, and joined texts may need
    fewer tokens.
    """
    text, tokens = packed.text, packed.tokens
    chosen = {
        choice.hit.item.key: choice.text
        for fragment in packed.fragments
        for choice in fragment.chosen
    }
    blocks = {
        candidate.key: chosen.get(candidate.key) or layout.block(candidate.hit, Form.WHOLE)
        for candidate in candidates
    }
    left_out = sorted(packed.left_out, key=lambda entry: (-entry.hit.score, entry.hit.item.id))
    for entry in left_out[:MAX_REFILLS]:
        overhead = 0 if shown else counter.count(layout.start + layout.end)
        if entry.tokens + overhead > budget - tokens + SEAM_TOKENS:
            continue
        keys = shown | {entry.hit.item.key}
        longer = assemble(layout, [(SECTION, [blocks[key] for key in blocks if key in keys])])
        if (count := counter.count(longer)) <= budget:
            shown.add(entry.hit.item.key)
            text, tokens = longer, count
    return text, tokens
