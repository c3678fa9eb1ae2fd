"""Retrieval of memories: similar ones, links between them, related ones, and pinned ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from knowloom.capabilities.memory.model import PINNED, RelatedMemory, Remembered, SearchResult
from knowloom.capabilities.memory.options import MemoryContextOptions, MemorySearchOptions
from knowloom.capabilities.memory.ranking import Ranker, rank_results
from knowloom.capabilities.memory.turn_scores import score_turns
from knowloom.context.notices import explain_emptiness
from knowloom.errors import EmbeddingError, Unavailable
from knowloom.model import Edge, Filter, Hit, Item, Key, Problem
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import SearchHits, add_passages, search
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT, expand
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.retrieval_settings import MAX_LIMIT
from knowloom.tracing import span

log = logging.getLogger(__name__)

MAX_RELATED = 200  # related memories per request
MAX_PINNED = 100
# Turns among the best so many may rise into the results: more change no ranking.
OVERSAMPLING = 4
MIN_CANDIDATES = 40
EDGES_PER_MEMORY = 100  # in each direction


@dataclass(frozen=True, slots=True)
class ContextCandidates:
    """The memories of a context before packing, and what they were found without."""

    pinned: Sequence[SearchResult] = ()
    results: Sequence[SearchResult] = ()
    problems: Sequence[Problem] = ()


def find_candidates(
    request: RetrievalRequest | None,
    options: MemoryContextOptions,
    recipe: Recipe,
    rankers: Mapping[str, Ranker],
) -> ContextCandidates:
    """Return the pinned memories and the search results; none without a request."""
    if request is None:
        return ContextCandidates()
    results, problems = search_memories(request, options, recipe, rankers)
    pinned = find_pinned(request, options) if options.pinned else []
    if pinned:
        linked = link_results(request, options, [*pinned, *results])
        pinned, results = linked[: len(pinned)], linked[len(pinned) :]
    return ContextCandidates(pinned, results, (*request.problems, *problems))


def search_memories(
    request: RetrievalRequest,
    options: MemorySearchOptions,
    recipe: Recipe,
    rankers: Mapping[str, Ranker],
) -> tuple[list[SearchResult], list[Problem]]:
    """Return the most similar memories in the ranker's order, and what they were found without.

    Similarity decides which memories are returned, the ranker in which order.
    """
    with span("search"):
        result = _search_similar(request, options, recipe)
    candidates = result.hits
    for problem in result.problems:
        log.warning("memory: searched without the %s: %s", problem.part, problem.reason)
    with span("links"):
        keys = [hit.item.key for hit in candidates]
        edges, graph_problems = _read_edges(request, keys)
    problems = [*result.problems, *graph_problems]
    query = request.query
    with span("rank"):
        results = [
            SearchResult(Remembered.from_item(hit.item, query.as_of), hit.score, hit=hit)
            for hit in _best_hits(score_turns(candidates, edges), options)
        ]
        problems += [] if results else [_explain_emptiness(request, options, result)]
        ranking = replace(options.ranking, now=query.now)
        results = rank_results(results, options.ranker, ranking, rankers)
        results = _attach_links(results, edges, options)
    if options.include_relationships and options.relationship_depth and not graph_problems:
        with span("relationships"):
            results = _add_related(request, options, results)
    return results, problems


def _search_similar(
    request: RetrievalRequest, options: MemorySearchOptions, recipe: Recipe
) -> SearchHits:
    """Return the most similar memories: more than the limit, as turns may rise among them."""
    query = request.query
    vector = None if recipe.mode == "bm25" else request.vector
    visible = options.search_filter(query.spaces[0], query.now)
    if options.limit is not None:
        depth = max(MIN_CANDIDATES, OVERSAMPLING * options.limit)
        recipe = replace(recipe, limit=min(MAX_LIMIT, depth))
    result = search(query.text, vector, visible, recipe, stores=request.stores)
    if not result.hits and vector is None and recipe.mode != "bm25":
        _check_embedded(request, visible)
    return result


def _explain_emptiness(
    request: RetrievalRequest, options: MemorySearchOptions, result: SearchHits
) -> Problem:
    visible = options.search_filter(request.query.spaces[0], request.query.now)
    best = result.best_score
    excluded = result.matched * (best < options.min_score)
    stores = request.stores
    return explain_emptiness("memories", visible, excluded, best, options.min_score, stores)


def _best_hits(hits: Sequence[Hit], options: MemorySearchOptions) -> list[Hit]:
    """Return the hits within the limit and the minimum; at equal scores the newest first."""
    good = [hit for hit in hits if hit.score >= options.min_score]
    return sorted(good, key=lambda hit: (-hit.score, *_newest_first(hit.item)))[: options.limit]


def _check_embedded(request: RetrievalRequest, visible: Filter) -> None:
    """Raise EmbeddingError if memories were not found because none of them is embedded."""
    is_pending = any(problem.code == "vectors_pending" for problem in request.problems)
    if is_pending and request.stores.items.find(visible, 1):
        raise EmbeddingError(
            f"no memory of workspace {visible.spaces[0]!r} is embedded yet, and none matches by "
            "words: embed them, or use mode 'bm25'"
        )


def link_results(
    request: RetrievalRequest, options: MemorySearchOptions, results: Sequence[SearchResult]
) -> list[SearchResult]:
    """Attach to each result its explicit edges to other results, heaviest first."""
    keys = [(result.memory.workspace, result.memory.id) for result in results]
    return _attach_links(results, _read_edges(request, keys)[0], options)


def _read_edges(request: RetrievalRequest, keys: Sequence[Key]) -> tuple[list[Edge], list[Problem]]:
    """Return the explicit edges of memories, heaviest first; none if the graph has failed.

    Memories are found by words and vectors, for which the graph is not needed.
    """
    if not keys:
        return [], []
    query, graph = request.query, request.stores.graph
    try:
        edges = graph.edges_of(
            list(dict.fromkeys(keys)),
            query.spaces,
            limit=EDGES_PER_MEMORY,
            min_weight=MIN_EDGE_WEIGHT,
            automatic=False,
        )
    except Unavailable as error:
        log.warning("memory: links and neighbouring turns are not considered: %s", error)
        return [], [Problem.from_error("graph", error)]
    as_of = query.as_of
    return edges if as_of is None else [edge for edge in edges if edge.is_known_at(as_of)], []


def _attach_links(
    results: Sequence[SearchResult], edges: Sequence[Edge], options: MemorySearchOptions
) -> list[SearchResult]:
    types = options.relationship_types
    keys = {(result.memory.workspace, result.memory.id) for result in results}
    links: dict[Key, list[Edge]] = {}
    for edge in edges:
        ends = {edge.source_key, edge.target_key}
        if len(ends) == 2 and ends <= keys and (not types or edge.type in types):
            for key in ends:
                links.setdefault(key, []).append(edge)
    if not links:
        return list(results)
    return [
        replace(result, links=tuple(links.get((result.memory.workspace, result.memory.id), ())))
        for result in results
    ]


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
    for hit in _score_passages(request, expansion.hits, visible, recipe):
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
    recipe = Recipe("pinned", mode=options.mode)
    hits = _score_passages(request, pinned, visible, recipe)
    return [
        SearchResult(Remembered.from_item(hit.item, query.as_of), 0.0, 1.0, hit=hit) for hit in hits
    ]


def _score_passages(
    request: RetrievalRequest, hits: Sequence[Hit], visible: Filter, recipe: Recipe
) -> Sequence[Hit]:
    """Score the passages of long memories; if an index has failed, their first ones count."""
    text, vector = request.query.text, request.vector
    try:
        return add_passages(hits, text, vector, visible, recipe, stores=request.stores)
    except Unavailable as error:
        log.warning("memory: passages are not compared with the query: %s", error)
        return hits


def _newest_first(item: Item) -> tuple[float, str]:
    return (-(item.created_at.timestamp() if item.created_at else 0.0), item.id)
