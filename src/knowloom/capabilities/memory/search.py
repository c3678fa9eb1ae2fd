"""From a question to ranked memories: one path for text and for vectors, and the links that lead on from what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.capabilities.memory.model import PINNED, RelatedMemory, Remembered, SearchResult
from knowloom.capabilities.memory.options import SearchOptions
from knowloom.capabilities.memory.ranking import Ranker, ranked
from knowloom.model import Hit, Key
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import search
from knowloom.retrieval.neighbours import expand
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.tracing import span

MOST_RELATED = 200  # memories that links may lead to in one request
MOST_PINNED = 100


def found(
    asked: RetrievalRequest, options: SearchOptions, recipe: Recipe, rankers: Mapping[str, Ranker]
) -> list[SearchResult]:
    """The most similar memories, in the ranker's order. Similarity decides what is found, ranking in which order it comes."""
    query = asked.query
    vector = None if recipe.mode == "bm25" else asked.vector
    with span("search"):
        hits = search(
            query.text,
            vector,
            options.allowed(query.spaces[0], query.now),
            recipe,
            stores=asked.stores,
        ).hits
    with span("rank"):
        results = [
            SearchResult(Remembered.of(hit.item, query.as_of), hit.score, hit=hit) for hit in hits
        ]
        results = ranked(results, options.ranker, replace(options.ranking, now=query.now), rankers)
    if options.include_relationships and options.relationship_depth:
        with span("links"):
            results = related(asked, options, results)
    return results


def related(
    asked: RetrievalRequest, options: SearchOptions, results: Sequence[SearchResult]
) -> list[SearchResult]:
    """The results with what links lead to from each. A memory comes once, where the best way to it begins, and never beside itself."""
    recipe = Recipe(
        "related",
        "neighbours",
        edge_types=options.relationship_types,
        depth=options.relationship_depth,
        limit=MOST_RELATED,
    )
    starts = [one.hit.item.key for one in results if one.hit is not None]
    only = options.reachable(asked.query.spaces[0], asked.query.now)
    reached = expand(
        starts, only, recipe, items=asked.stores.items, graph=asked.stores.graph, made=False
    )
    ways: dict[Key, list[RelatedMemory]] = {}
    for hit in reached.hits:
        if hit.edge is not None:
            ways.setdefault(hit.path[0], []).append(
                RelatedMemory(Remembered.of(hit.item, asked.query.as_of), hit.edge, hit.distance)
            )
    return [
        replace(one, relationships=tuple(ways.get((one.memory.workspace, one.memory.id), ())))
        for one in results
    ]


def pinned(asked: RetrievalRequest, options: SearchOptions) -> list[SearchResult]:
    """The memories that every context begins with, the newest first. The dates and types of a search do not leave them out."""
    only = replace(options.reachable(asked.query.spaces[0], asked.query.now), tags=(PINNED,))
    items = sorted(
        asked.stores.items.find(only, MOST_PINNED),
        key=lambda item: (-(item.created_at.timestamp() if item.created_at else 0.0), item.id),
    )
    return [
        SearchResult(
            Remembered.of(item, asked.query.as_of),
            0.0,
            1.0,
            hit=Hit(item, 0.0, {}, ("key",), (item.key,)),
        )
        for item in items
    ]
