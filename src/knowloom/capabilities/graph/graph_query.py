"""A graph request on one snapshot, and how it is answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowloom import tokens
from knowloom.capabilities.graph.documents import QueryText
from knowloom.capabilities.graph.entities import (
    EntityHit,
    Neighbours,
    entity_recipe,
    expand_neighbours,
    search_entities,
)
from knowloom.capabilities.graph.formats import ENTITIES
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.graph.neighbourhood import gather
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.capabilities.graph.packing import BEYOND, build_answer
from knowloom.construction import fast_constructor
from knowloom.context import pipeline
from knowloom.context.confidence import calibration_name, estimate_confidence
from knowloom.context.notices import explain_emptiness, missing_types
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Hit, Item, Kind, LeftOut, Problem, Stats
from knowloom.retrieval.hybrid import SearchHits, add_passages
from knowloom.retrieval.sources import RetrievalRequest, recipe_filter

RENDERER = 2  # raised whenever the same candidates would be written differently
_left_out = fast_constructor(LeftOut)


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A request on one snapshot; `query` is None if entities were requested by id."""

    retrieval: RetrievalRequest
    text: QueryText
    query: str | None
    options: GraphOptions
    timings: Mapping[str, float]
    left_out: tuple[LeftOut, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)  # requested entities


def answer_by_search(graph_query: GraphQuery) -> GraphAnswer:
    """Answer with the entities that the text is about."""
    try:
        entities, result = search_entities(
            graph_query.retrieval, graph_query.text, graph_query.options
        )
    except Unavailable as error:
        return _unavailable_answer(graph_query, error)
    stats = Stats(searched=result.considered, matched=result.matched, timings=graph_query.timings)
    answer = _answer(graph_query, entities, graph_query.left_out, stats, result.problems)
    if not graph_query.options.max_entities:
        return answer
    request, text = graph_query.retrieval, graph_query.text.query
    hits = result.hits if entities else ()
    name = calibration_name(graph_query.options.mode, request.vector is not None)
    confidence = estimate_confidence(text, hits, result.best_score, name)
    notices = _notices(graph_query, result, bool(entities))
    return replace(answer, confidence=confidence, degraded=(*answer.degraded, *notices))


def _notices(graph_query: GraphQuery, result: SearchHits, has_entities: bool) -> Iterator[Problem]:
    """Yield notices on types that do not exist, and on a search that found nothing."""
    request, recipe = graph_query.retrieval, entity_recipe(graph_query.options)
    spaces, stores = request.query.spaces, request.stores
    yield from missing_types(ENTITIES, recipe.types, result.hits, spaces, stores)
    if has_entities:
        return
    threshold, only = graph_query.options.min_relevance_score, recipe_filter(request.query, recipe)
    notice = explain_emptiness(ENTITIES, only, len(result.hits), 0.0, threshold, stores)
    yield replace(notice, reason=notice.reason.replace("min_score", "min_relevance_score"))


def answer_by_id(graph_query: GraphQuery) -> GraphAnswer:
    """Answer with the entities named in `scores`."""
    request, scores = graph_query.retrieval, graph_query.scores
    keys = [(space, id) for id in scores for space in request.query.spaces]
    try:
        items = request.stores.items.get(keys)
    except Unavailable as error:
        return _unavailable_answer(graph_query, error)
    filter = recipe_filter(request.query, entity_recipe(graph_query.options))
    stored = {item.id for item in items}
    missing = [
        LeftOut(Hit(Item(id, "", Kind.ENTITY), 0.0), ENTITIES, "no such entity is stored")
        for id in scores
        if id not in stored
    ]
    refused = [
        LeftOut(Hit(item, 0.0), ENTITIES, f"not shown: {filter.rejection_reason(item)}")
        for item in items
        if not filter.allows(item)
    ]
    entities = [
        EntityHit(Hit(item, score, {"given": score}, ("key",), (item.key,)))
        for item in items
        if filter.allows(item)
        for score in [scores[item.id]]
    ]
    left_out = (*graph_query.left_out, *missing, *refused)
    return _answer(graph_query, entities, left_out, Stats(timings=graph_query.timings))


def _unavailable_answer(graph_query: GraphQuery, error: Unavailable) -> GraphAnswer:
    problem = Problem.from_error(ENTITIES, error)
    return GraphAnswer(
        "",
        0,
        graph_query.query,
        left_out=graph_query.left_out,
        degraded=(*graph_query.retrieval.problems, problem),
    )


def _answer(
    graph_query: GraphQuery,
    candidates: Sequence[EntityHit],
    left_out: Sequence[LeftOut],
    stats: Stats,
    search_problems: Sequence[Problem] = (),
) -> GraphAnswer:
    """Expand the candidates, gather what is stored about the best entities, and pack it."""
    request, options = graph_query.retrieval, graph_query.options
    seeds = list(candidates[: options.max_entities])
    near, problems = _expand(graph_query, seeds)
    seed_keys = {seed.hit.item.key for seed in seeds}
    neighbours = [entity for entity in near.entities if entity.hit.item.key not in seed_keys]
    entities = [*seeds, *neighbours]
    if graph_query.query is not None:
        entities.sort(key=lambda entity: entity.order)
    entities, more_problems = _add_passages(graph_query, entities[: options.max_entities])
    chosen_keys = {entity.hit.item.key for entity in entities}
    reason = f"{BEYOND} the best {options.max_entities} entities"
    beyond = [
        _left_out(entity.hit, ENTITIES, reason, 0, "")
        for entity in [*candidates, *neighbours]
        if entity.hit.item.key not in chosen_keys
    ]
    answer = build_answer(
        gather(request, entities, options, near),
        graph_query.query,
        options,
        [*left_out, *beyond],
        (*request.problems, *search_problems, *problems, *more_problems),
        replace(stats, expanded=near.reached, max_depth=near.depth),
    )
    return replace(answer, digest=compute_digest(graph_query, answer.degraded))


def _add_passages(
    graph_query: GraphQuery, entities: list[EntityHit]
) -> tuple[list[EntityHit], tuple[Problem, ...]]:
    """Score the passages of long entities that were reached by edges or by id.

    If the index is unavailable, their first passages count, and the problem is returned.
    """
    request, recipe = graph_query.retrieval, entity_recipe(graph_query.options)
    hits = [entity.hit for entity in entities]
    text, only = graph_query.text.query, recipe_filter(request.query, recipe)
    try:
        scored = add_passages(hits, text, request.vector, only, recipe, stores=request.stores)
    except (Unavailable, Conflict) as error:
        return entities, (Problem.from_error("passages", error),)
    pairs = zip(entities, scored, strict=True)
    return [replace(e, hit=hit) if hit is not e.hit else e for e, hit in pairs], ()


def _expand(
    graph_query: GraphQuery, seeds: Sequence[EntityHit]
) -> tuple[Neighbours, tuple[Problem, ...]]:
    """Return the neighbours of the seeds; if the graph is unavailable, none and a problem."""
    if not graph_query.options.include_relationships:
        return Neighbours(), ()
    try:
        near = expand_neighbours(
            graph_query.retrieval, seeds, graph_query.text, graph_query.options
        )
    except (Unavailable, Conflict) as error:
        return Neighbours(), (Problem.from_error("neighbours", error),)
    return near, ()


def compute_digest(graph_query: GraphQuery, problems: Sequence[Problem]) -> str:
    """Return a digest of everything an answer depends on: equal digests, equal bytes.

    A custom ranker counts by its `repr`; without one, digests are comparable in one process only.
    """
    request, options = graph_query.retrieval, graph_query.options
    counter = tokens.get_counter(options.model, options.strict)
    knowledge = pipeline.compute_digest(
        request.query, (), request.vector, request.stores, counter, problems
    )
    left_out = [
        (left.hit.item.id, left.hit.item.title, left.reason) for left in graph_query.left_out
    ]
    scores = list(graph_query.scores.items())
    inputs = (RENDERER, knowledge, options, graph_query.text, scores, left_out)
    return hashlib.sha256(repr(inputs).encode()).hexdigest()
