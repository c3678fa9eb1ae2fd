"""Search for items: the hits of one recipe, reranked if requested, and how far to trust them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowloom.context.confidence import LEADERS, calibration_name, estimate_confidence
from knowloom.context.notices import doubt, explain_emptiness, missing_types
from knowloom.model import Filter, Hit, Hits, Problem
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import SearchHits
from knowloom.retrieval.reranking import Reranking, rerank_search
from knowloom.retrieval.sources import RetrievalRequest, find_hits

PART = "hits"  # the part of the answer that its problems name


@dataclass(frozen=True, slots=True)
class Search:
    """A search on one snapshot. `floor` and `minimum` are bounds of the confidence: for a notice,
    and for returning anything."""

    request: RetrievalRequest
    recipe: Recipe
    only: Filter
    limit: int
    floor: float = 0.0
    minimum: float = 0.0
    reranking: Reranking | None = None


def search_items(search: Search) -> Hits:
    """Return the best items with the confidence, and the problems of the search."""
    request, recipe, reranking = search.request, search.recipe, search.reranking
    limit = search.limit if reranking is None else reranking.widen(search.limit)
    # The confidence depends neither on the limit nor on the minimum score.
    wide = replace(recipe, limit=max(limit, LEADERS), min_score=0.0)
    result = find_hits(request, wide, search.only)
    hits = [hit for hit in result.hits[:limit] if hit.score >= recipe.min_score]
    has_vector = request.vector is not None and not result.lacks("vectors")
    text, name = request.query.text, calibration_name(recipe.mode, has_vector)
    leaders = result.hits if hits else ()
    confidence = estimate_confidence(text, leaders, result.best_score, name)
    notices = [*result.problems, *_notices(search, hits, result, confidence)]
    if confidence < search.minimum:
        return Hits((), confidence, notices)
    if reranking is not None:
        hits, problem = rerank_search(hits, text, reranking, search.limit)
        notices += [problem] if problem is not None else []
    return Hits(hits, confidence, notices)


def _notices(
    search: Search, hits: Sequence[Hit], result: SearchHits, confidence: float
) -> list[Problem]:
    only, stores = search.only, search.request.stores
    notices = list(missing_types(PART, only.types, hits, only.spaces, stores))
    if hits:
        return notices + doubt(confidence, search.floor, search.minimum, PART)
    best, min_score = result.best_score, search.recipe.min_score
    return [*notices, explain_emptiness(PART, only, result.matched, best, min_score, stores)]
