"""Packing of ranked memories: the best set whose text, template included, fits the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from knowloom.capabilities.memory import templates
from knowloom.capabilities.memory.link_marks import add_links
from knowloom.capabilities.memory.model import ContextPreview, Omitted, SearchResult
from knowloom.capabilities.memory.ranking import relative_values
from knowloom.capabilities.memory.templates import MemoryTemplate
from knowloom.context.packing import PackingResult, SectionCandidates, pack
from knowloom.formats.layout import Layout, assemble
from knowloom.model import Chosen, Form, Hit, Item, Key, Passage
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


def _oldest_first(candidate: MemoryCandidate) -> tuple[float, str]:
    memory = candidate.result.memory
    return (memory.created_at.timestamp() if memory.created_at else 0.0, memory.id)


ORDERS: Mapping[str, Callable[[MemoryCandidate], tuple[float, str]]] = {
    "rank": lambda _: (0.0, ""),  # stable: as ranked, after the pinned ones
    "time": _oldest_first,
}


def merge_candidates(
    pinned: Sequence[SearchResult], results: Sequence[SearchResult]
) -> list[MemoryCandidate]:
    """Return each memory once: pinned ones, then the others by value.

    A related memory is worth at most as much as the result it belongs to, and is linked to it.
    """
    ranked: list[MemoryCandidate] = []
    for result, value in zip(results, relative_values(results), strict=True):
        ranked.append(MemoryCandidate(result, value))
        for related in result.relationships:
            proximity = related.relationship.weight / (related.depth + 1)
            rank = round((result.rank or 0.0) * proximity, 6)
            neighbour = SearchResult(
                related.memory,
                round(proximity, 6),
                rank,
                links=(related.relationship,),
                hit=related.hit,
            )
            ranked.append(MemoryCandidate(neighbour, value * proximity))
    ranked.sort(key=lambda candidate: -candidate.value)  # stable: ties keep the ranker's order
    similar = {result.memory.id: replace(result, rank=1.0) for result in results}
    first = [MemoryCandidate(similar.get(result.memory.id, result), 1.0) for result in pinned]
    unique: dict[Key, MemoryCandidate] = {}
    for candidate in [*first, *ranked]:
        unique.setdefault(candidate.key, candidate)
    return list(unique.values())


def pack_memories(
    candidates: Sequence[MemoryCandidate],
    template: MemoryTemplate,
    budget: int | None,
    counter: TokenCounter,
    include_metadata: bool,
    include_links: bool,
    query: str = "",
) -> ContextPreview:
    """Return the best context within the budget; long memories are shown by excerpts."""
    candidates = sorted(candidates, key=ORDERS[template.order])
    results = {candidate.key: candidate.result for candidate in candidates}
    layout = templates.template_layout(template, results, include_metadata)
    section = SectionCandidates(RECIPE, tuple(candidate.hit for candidate in candidates))
    packed = pack([section], budget, layout, counter, query=query)
    chosen = [choice for fragment in packed.fragments for choice in fragment.chosen]
    shown = {choice.hit.item.key for choice in chosen}
    text, tokens = packed.text, packed.tokens
    if budget is not None:
        text, tokens = _refill(packed, candidates, shown, layout, budget, counter)
    if include_links:
        blocks = _list_blocks(chosen, candidates, shown)

        def render(links: Mapping[Key, Sequence[str]]) -> str:
            marked = templates.template_layout(template, results, include_metadata, links)
            return assemble(marked, [(SECTION, [marked.block(*block) for block in blocks])])

        in_order = [results[hit.item.key] for hit, _, _ in blocks]
        text, tokens = add_links((text, tokens), in_order, render, budget, counter)
    included = tuple(candidate.result for candidate in candidates if candidate.key in shown)
    omitted = _list_omitted(packed, results, shown)
    return ContextPreview(
        text,
        tokens,
        included,
        bool(omitted) or any(choice.form is not Form.WHOLE for choice in chosen),
        template.name,
        (),
        tuple(result.memory.id for result in included),
        {result.memory.id: result.rank or 0.0 for result in included},
        round(100 * tokens / budget, 2) if budget else 0.0,
        omitted,
    )


def _list_blocks(
    chosen: Sequence[Chosen], candidates: Sequence[MemoryCandidate], shown: Set[Key]
) -> list[tuple[Hit, Form, tuple[Passage, ...]]]:
    """Return the arguments of the layout's block for each memory, in the order of the text."""
    forms = {choice.hit.item.key: (choice.form, choice.passages) for choice in chosen}
    return [
        (candidate.hit, *forms.get(candidate.key, (Form.WHOLE, ())))
        for candidate in candidates
        if candidate.key in shown
    ]


def _list_omitted(
    packed: PackingResult, results: Mapping[Key, SearchResult], shown: Set[Key]
) -> tuple[Omitted, ...]:
    return tuple(
        Omitted(
            left_out.hit.item.id,
            results[left_out.hit.item.key].rank or 0.0,
            left_out.tokens,
            left_out.reason,
        )
        for left_out in packed.left_out
        if left_out.hit.item.key not in shown
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
