"""Retrieval of memories: similar ones, related ones by edges, and pinned ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.capabilities.memory.model import PINNED, RelatedMemory, Remembered, SearchResult
from knowloom.capabilities.memory.options import MemorySearchOptions
from knowloom.capabilities.memory.ranking import Ranker, rank_results
from knowloom.model import Hit, Item, Key
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import add_passages, search
from knowloom.retrieval.neighbours import expand
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.tracing import span

MAX_RELATED = 200  # related memories per request
MAX_PINNED = 100


def search_memories(
    request: RetrievalRequest,
    options: MemorySearchOptions,
    recipe: Recipe,
    rankers: Mapping[str, Ranker],
) -> list[SearchResult]:
    """Return the most similar memories in the ranker's order.

    Similarity decides which memories are returned, the ranker in which order.
    """
    query = request.query
    vector = None if recipe.mode == "bm25" else request.vector
    visible = options.search_filter(query.spaces[0], query.now)
    with span("search"):
        hits = search(query.text, vector, visible, recipe, stores=request.stores).hits
    with span("rank"):
        results = [
            SearchResult(Remembered.from_item(hit.item, query.as_of), hit.score, hit=hit)
            for hit in hits
        ]
        ranking = replace(options.ranking, now=query.now)
        results = rank_results(results, options.ranker, ranking, rankers)
    if options.include_relationships and options.relationship_depth:
        with span("links"):
            results = _add_related(request, options, results)
    return results


def _add_related(
    request: RetrievalRequest, options: MemorySearchOptions, results: Sequence[SearchResult]
) -> list[SearchResult]:
    """Attach related memories to the results.

    A memory is attached once, to the result with the best path to it, and never to itself.
    """
    query, stores = request.query, request.stores
    recipe = Recipe(
        "related",
        "neighbours",
        edge_types=options.relationship_types,
        depth=options.relationship_depth,
        limit=MAX_RELATED,
    )
    seeds = [result.hit.item.key for result in results if result.hit is not None]
    visible = options.relationship_filter(query.spaces[0], query.now)
    expansion = expand(
        seeds, visible, recipe, items=stores.items, graph=stores.graph, automatic=False
    )
    related: dict[Key, list[RelatedMemory]] = {}
    hits = add_passages(expansion.hits, query.text, request.vector, visible, recipe, stores=stores)
    for hit in hits:
        if hit.edge is not None:
            memory = Remembered.from_item(hit.item, query.as_of)
            related.setdefault(hit.path[0], []).append(
                RelatedMemory(memory, hit.edge, hit.distance, hit)
            )
    return [
        replace(
            result,
            relationships=tuple(related.get((result.memory.workspace, result.memory.id), ())),
        )
        for result in results
    ]


def find_pinned(request: RetrievalRequest, options: MemorySearchOptions) -> list[SearchResult]:
    """Return the pinned memories, newest first, regardless of the filters of the search."""
    query = request.query
    visible = options.relationship_filter(query.spaces[0], query.now)
    items = request.stores.items.find(replace(visible, tags=(PINNED,)), MAX_PINNED)
    pinned = [
        Hit(item, 0.0, {}, ("key",), (item.key,)) for item in sorted(items, key=_newest_first)
    ]
    vector, recipe = request.vector, Recipe("pinned", mode=options.mode)
    hits = add_passages(pinned, query.text, vector, visible, recipe, stores=request.stores)
    return [
        SearchResult(Remembered.from_item(hit.item, query.as_of), 0.0, 1.0, hit=hit) for hit in hits
    ]


def _newest_first(item: Item) -> tuple[float, str]:
    return (-(item.created_at.timestamp() if item.created_at else 0.0), item.id)
