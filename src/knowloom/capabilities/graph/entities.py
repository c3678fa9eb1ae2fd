"""Find and rank the entities of a request, and expand them by edges. One read per step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from knowloom.capabilities.graph.documents import QueryText
from knowloom.capabilities.graph.options import GraphOptions, resolve_ranker
from knowloom.capabilities.graph.rankers import EntityScore, RankingRequest
from knowloom.construction import fast_constructor
from knowloom.errors import Invalid
from knowloom.model import Edge, Hit, Key, Kind
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import SearchHits, search
from knowloom.retrieval.neighbours import expand
from knowloom.retrieval.ranking import with_score
from knowloom.retrieval.sources import RetrievalRequest, recipe_filter
from knowloom.tracing import span

OVERFETCH = 3  # search candidates per entity, as the ranker may order them differently
SPARE_NEIGHBOURS = 10  # beyond max_entities, as the ranker may prefer them
HUB_CAP = 30  # edges followed per entity and direction, heaviest first


@dataclass(frozen=True, slots=True)
class EntityHit:
    """A candidate entity and the terms it matched; `raw` orders those with scores cut at 1."""

    hit: Hit
    matched_terms: tuple[str, ...] = ()
    raw: float = 0.0

    @property
    def order(self) -> tuple[float, float, str, str]:
        """The sort key: best first."""
        return (-self.hit.score, -self.raw, self.hit.item.id, self.hit.item.space)


_entity_hit = fast_constructor(EntityHit)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Entities that edges lead to, best first, with the edges of the seeds read on the way."""

    entities: tuple[EntityHit, ...] = ()
    reached: int = 0
    depth: int = 0
    seeds: tuple[Key, ...] = ()
    edges: tuple[Edge, ...] = ()


def entity_recipe(options: GraphOptions) -> Recipe:
    """Return the recipe that searches for entities."""
    return Recipe(
        "entities",
        kinds=(Kind.ENTITY,),
        types=options.entity_types or (),
        exclude_types=options.exclude_entity_types,
        mode=options.mode,
        limit=max(1, OVERFETCH * options.max_entities),
        depth=options.relationship_depth,
        hub_cap=HUB_CAP,
    )


def search_entities(
    request: RetrievalRequest, text: QueryText, options: GraphOptions
) -> tuple[list[EntityHit], SearchHits]:
    """Return the entities a text is about, best first, and the result of the search."""
    if not options.max_entities:
        return [], SearchHits()
    recipe = entity_recipe(options)
    vector = None if options.mode == "bm25" else request.vector
    with span("search"):
        result = search(
            text.query,
            vector,
            recipe_filter(request.query, recipe),
            recipe,
            stores=request.stores,
        )
    with span("rank"):
        ranked = rank_entities(request, text, options, result.hits)
        return _sort_relevant(ranked, options), result


def rank_entities(
    request: RetrievalRequest, text: QueryText, options: GraphOptions, hits: Sequence[Hit]
) -> list[EntityHit]:
    """Return the hits in their order with the ranker's scores; search scores become signals."""
    if not hits:
        return []
    ranker = resolve_ranker(options)
    semantic = None
    if request.vector is not None and getattr(ranker, "uses_vectors", True):
        keys = [hit.item.key for hit in hits]
        semantic = request.stores.vectors.score_vectors(request.vector, keys)
    scores = ranker.rank(
        RankingRequest(
            text.passages, text.text, request.query.now, options.preferred_types, semantic
        ),
        hits,
    )
    if len(scores) != len(hits):
        raise Invalid(
            f"a ranker must return one score per entity, got {len(scores)} for {len(hits)}"
        )
    return [
        _entity_hit(_apply_score(hit, score), score.matched_terms, score.raw)
        for hit, score in zip(hits, scores, strict=True)
    ]


def _apply_score(hit: Hit, score: EntityScore) -> Hit:
    if not 0 <= score.score <= 1:
        raise Invalid(
            f"a ranker's score must be from 0 to 1, got {score.score!r} for {hit.item.id!r}"
        )
    return with_score(hit, score.score, {**hit.signals, "match": hit.score, **score.signals})


def _sort_relevant(entities: Iterable[EntityHit], options: GraphOptions) -> list[EntityHit]:
    threshold = options.min_relevance_score
    relevant = [
        entity for entity in entities if entity.hit.score >= threshold and entity.hit.score > 0
    ]
    return sorted(relevant, key=lambda entity: entity.order)


def expand_neighbours(
    request: RetrievalRequest, seeds: Sequence[EntityHit], text: QueryText, options: GraphOptions
) -> Neighbours:
    """Return the neighbours of the seeds. A neighbour scores as its seed times the weight of the
    path, or by its own relevance, whichever is higher."""
    if not seeds or not options.relationship_depth:
        return Neighbours()
    seed_scores = {seed.hit.item.key: seed.hit.score for seed in seeds}
    with span("neighbours"):
        recipe = replace(entity_recipe(options), limit=options.max_entities + SPARE_NEIGHBOURS)
        expansion = expand(
            list(seed_scores),
            recipe_filter(request.query, recipe),
            recipe,
            items=request.stores.items,
            graph=request.stores.graph,
            has_matches=True,
        )
    if text.text:
        ranked = rank_entities(request, text, options, expansion.hits)
    else:
        ranked = [EntityHit(with_score(hit, 0.0, hit.signals)) for hit in expansion.hits]
    entities = [
        _apply_path(entity, path, seed_scores[path.path[0]])
        for entity, path in zip(ranked, expansion.hits, strict=True)
    ]
    return Neighbours(
        tuple(_sort_relevant(entities, options)),
        expansion.reached,
        expansion.max_depth,
        tuple(seed_scores),
        expansion.seed_edges,
    )


def _apply_path(entity: EntityHit, path: Hit, seed_score: float) -> EntityHit:
    path_score = round(seed_score * path.score, 6)
    signals = {**entity.hit.signals, "graph": path.score, "link_start": seed_score}
    signals.pop("match", None)
    hit = with_score(entity.hit, max(entity.hit.score, path_score), signals)
    return _entity_hit(hit, entity.matched_terms, max(entity.raw, path_score))
