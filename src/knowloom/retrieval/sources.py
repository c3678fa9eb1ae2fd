"""Sources of a recipe's candidates: one function per source, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knowloom.errors import Unavailable
from knowloom.model import LINK, Edge, Filter, Hit, Item, Key, Kind, Problem, Query
from knowloom.ports import Stores, Vector
from knowloom.recipes import Recipe, Source
from knowloom.retrieval.as_of import ErasedStates
from knowloom.retrieval.hybrid import SearchHits, search
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT, expand
from knowloom.retrieval.nodes import Node, NodeKey
from knowloom.retrieval.ranking import UNKNOWN_CONFIDENCE, with_score
from knowloom.retrieval.walk import walk, walk_search
from knowloom.retrieval.walk_seeds import names_in_query
from knowloom.text.normalisation import collapse_whitespace

NAME_CANDIDATES = 20  # best BM25 matches whose names are looked up in the query
GLOBAL_PROFILE = "global"  # the id of the profile that applies to every entity


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A query with its vector, one snapshot of the stores, and the hits of earlier recipes."""

    query: Query
    vector: Vector | None  # None: words only
    stores: Stores
    earlier_hits: tuple[Hit, ...] = ()
    pool: Mapping[NodeKey, float] = field(default_factory=dict)  # scores of every match so far
    initial: tuple[Problem, ...] = ()  # those of the spaces and of the query's vector
    failures: Mapping[str, Unavailable] = field(default_factory=dict)  # layers that failed so far
    erased: ErasedStates = field(default_factory=ErasedStates)  # left out by `as_of` so far

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the request up to now."""
        failed = [Problem.from_error(layer, error) for layer, error in self.failures.items()]
        return (*self.initial, *failed, *self.erased.notices())


@dataclass(frozen=True, slots=True)
class SourceResult:
    """Candidates of one recipe, with the counts for the statistics."""

    hits: tuple[Hit, ...] = ()
    searched: int = 0
    expanded: int = 0
    max_depth: int = 0
    pool: Mapping[NodeKey, float] = field(default_factory=dict)  # scores of all matches
    walk_scores: Mapping[NodeKey, float] = field(default_factory=dict)  # new scores of earlier hits
    best_score: float = 0.0  # of all matches of a search, hits or not
    matched: int = 0  # candidates of a search with a score above 0
    problems: tuple[Problem, ...] = ()  # layers that the candidates were gathered without


def gather(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """Return the candidates of a recipe that earlier recipes have not returned."""
    return SOURCES[recipe.source](request, recipe)


def recipe_filter(query: Query, recipe: Recipe) -> Filter:
    """Return the filter of the items that a recipe may return for a query."""
    return Filter(
        query.spaces,
        recipe.kinds,
        recipe.types,
        recipe.exclude_types,
        recipe.tags,
        created_to=query.as_of,
        valid_at=query.as_of or query.now,
        where=(*query.where, *recipe.where),
    )


def entity_keys(query: Query, stores: Stores) -> list[Key]:
    """Return the keys of the entity the query is about, in those spaces where it exists."""
    if query.entity is None or not query.spaces:
        return []
    keys = [(space, query.entity) for space in query.spaces]
    return stores.items.visible(keys, Filter(query.spaces, created_to=query.as_of))


def gather_search(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    result = find_hits(request, recipe, recipe_filter(request.query, recipe))
    hits = _drop_earlier(result.hits, request)
    return SourceResult(
        hits,
        result.considered,
        pool=result.pool,
        best_score=result.best_score,
        matched=result.matched,
        problems=result.problems,
    )


def find_hits(request: RetrievalRequest, recipe: Recipe, only: Filter) -> SearchHits:
    """Search in the mode of the recipe."""
    vector = None if recipe.mode == "bm25" else request.vector
    find = walk_search if recipe.mode == "walk" else search
    return find(request.query.text, vector, only, recipe, stores=request.stores)


def gather_neighbours(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """Expand from the best hits, the entity of the query, and the items that the query names."""
    if recipe.shared_limit:
        recipe = replace(recipe, limit=recipe.limit - len(request.earlier_hits))
        if recipe.limit <= 0:
            return SourceResult()
    stores, only = request.stores, recipe_filter(request.query, recipe)
    best = sorted(
        request.earlier_hits, key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space)
    )[: recipe.starts]
    named, problems = _gather_named(request, only, recipe) if recipe.named else ([], ())
    seeds = [hit.item.key for hit in best]
    seeds += entity_keys(request.query, stores)
    seeds += [hit.item.key for hit in named]
    result = expand(
        list(dict.fromkeys(seeds)),
        only,
        recipe,
        items=stores.items,
        graph=stores.graph,
        has_matches=bool(named),
    )
    seed_relevance = {hit.item.key: hit.relevance for hit in (*best, *named)}
    hits = [
        with_score(hit, hit.score, {**hit.signals, "start": seed_relevance.get(hit.path[0], 1.0)})
        for hit in result.hits
    ]
    new_hits = _drop_earlier([*named, *hits][: recipe.limit], request)
    reached, max_depth = result.reached, result.max_depth
    return SourceResult(new_hits, expanded=reached, max_depth=max_depth, problems=problems)


def _gather_named(
    request: RetrievalRequest, only: Filter, recipe: Recipe
) -> tuple[list[Hit], tuple[Problem, ...]]:
    """Return the items that the query mentions by name, or why they were not looked for.

    They score as if an edge led to them, and start with the relevance of their BM25 match.
    """
    text = request.query.text
    if not text or not request.stores.items.find(only, 1):
        return [], ()
    bm25 = replace(recipe, mode="bm25", limit=NAME_CANDIDATES, room=0, min_score=0.0)
    try:
        matches = search(text, None, only, bm25, stores=request.stores).hits
    except Unavailable as error:
        return [], (Problem.from_error("words", error),)
    nodes = [Node(hit.item.key, hit.item, hit.score) for hit in matches]
    scores = {
        key: round(max(names.values()) / (1 + recipe.near), 6)
        for key, names in names_in_query(text, nodes).items()
    }
    hits = []
    for hit in matches:
        key = hit.item.key
        if key in scores:
            signals = {**hit.signals, "start": min(1.0, hit.score / scores[key])}
            hits.append(Hit(hit.item, scores[key], signals, ("name",), (key,)))
    return hits, ()


def gather_walk(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """Walk from all earlier hits and from the entity of the query."""
    query, stores, earlier = request.query, request.stores, request.earlier_hits
    # Profiles are found by key and score 1: the best match bounds the score of every seed.
    highest = max((hit.score for hit in earlier if hit.found_by != ("key",)), default=1.0)
    seeds = [hit if hit.score <= highest else replace(hit, score=highest) for hit in earlier]
    earlier_keys = {hit.item.key for hit in earlier}
    seeds += [
        Hit(item, highest, {}, ("key",), (item.key,))
        for item in stores.items.get(entity_keys(query, stores))
        if item.key not in earlier_keys
    ]
    only = recipe_filter(query, recipe)
    result = walk(query.text, request.vector, seeds, request.pool, only, recipe, stores=stores)
    return SourceResult(
        _drop_earlier(result.hits, request),
        expanded=result.reached,
        max_depth=result.max_depth,
        walk_scores=result.scores,
    )


def gather_profiles(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """Return the profile of the query's entity, then the one that applies to all."""
    items = request.stores.items
    ids = [id for id in (request.query.entity, GLOBAL_PROFILE) if id is not None]
    keys = [(space, id) for id in ids for space in request.query.spaces]
    visible = items.visible(keys, recipe_filter(request.query, recipe))
    hits = [Hit(item, 1.0, {}, ("key",), (item.key,)) for item in items.get(visible)]
    return SourceResult(_drop_earlier(hits, request))


def gather_subjects(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """Return items about earlier hits: rules by an entity's type, all others by its id."""
    names = {request.query.entity, *(hit.item.id for hit in request.earlier_hits)}
    if Kind.RULE in recipe.kinds:
        names |= {hit.item.type for hit in request.earlier_hits}
    subjects = tuple(sorted(name for name in names if name))
    if not subjects:
        return SourceResult()
    only = replace(recipe_filter(request.query, recipe), subjects=subjects)
    hits = []
    for item in request.stores.items.find(only, recipe.limit):
        score = UNKNOWN_CONFIDENCE if item.confidence is None else item.confidence
        hits.append(Hit(item, score, {}, ("subject",), (item.key,)))
    return SourceResult(_drop_earlier(hits, request))


def gather_relationships(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """Return the best explicit edges between earlier hits, scored by weight and by the lesser
    end."""
    query, ends = request.query, {hit.item.key: hit for hit in request.earlier_hits}
    edges = request.stores.graph.edges_of(
        list(ends),
        query.spaces,
        recipe.edge_types,
        recipe.hub_cap,
        MIN_EDGE_WEIGHT,
        automatic=False,
    )
    hits = [
        _relationship_hit(edge, ends[edge.source_key], ends[edge.target_key])
        for edge in edges
        if edge.source_key in ends and edge.target_key in ends and edge.is_known_at(query.as_of)
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.item.id, hit.item.space))
    return SourceResult(tuple(hits[: recipe.limit]))


def _relationship_hit(edge: Edge, source: Hit, target: Hit) -> Hit:
    """Return an edge as a hit, whose item has the fields of the relationship as properties."""
    fields: dict[str, Any] = {"from": source.item.name, "type": edge.type, "to": target.item.name}
    start, type, end = map(collapse_whitespace, fields.values())
    if edge.properties:
        fields["properties"] = dict(edge.properties)
    title = f"{start} --[{type}]--> {end}"
    item = Item(edge.name, edge.space, type=edge.type, title=title, properties=fields)
    ends = min(source.relevance, target.relevance)
    signals = {"weight": edge.weight, "ends": ends}
    path = (edge.source_key, edge.target_key)
    return Hit(item, round(edge.weight * ends, 6), signals, LINK, path, edge)


def _drop_earlier(hits: Sequence[Hit], request: RetrievalRequest) -> tuple[Hit, ...]:
    earlier = {hit.item.key for hit in request.earlier_hits}
    return tuple(hit for hit in hits if hit.item.key not in earlier)


SOURCES: dict[Source, Callable[[RetrievalRequest, Recipe], SourceResult]] = {
    "search": gather_search,
    "neighbours": gather_neighbours,
    "walk": gather_walk,
    "profile": gather_profiles,
    "subjects": gather_subjects,
    "links": gather_relationships,
}
