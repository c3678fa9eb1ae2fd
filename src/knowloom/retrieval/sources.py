"""Where a recipe's candidates come from: one function per source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knowloom.model import LINK, Edge, Filter, Hit, Item, Key, Kind, Problem, Query
from knowloom.ports import GraphStore, Stores, Vector
from knowloom.recipes import Recipe, Source
from knowloom.retrieval.hybrid import search
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT, expand
from knowloom.retrieval.ranking import UNKNOWN_CONFIDENCE, with_score
from knowloom.retrieval.walk import walk, walk_search
from knowloom.retrieval.walk_seeds import names_in_query
from knowloom.text.normalisation import collapse_whitespace

NAME_CANDIDATES = 20  # of what has most words of the question: among these the question may call some by their names
GLOBAL_PROFILE = "global"  # the id of the profile that holds for every entity


@dataclass(frozen=True, slots=True)
class SourceResult:
    """Candidates of one recipe, and what was counted on the way."""

    hits: tuple[Hit, ...] = ()
    searched: int = 0
    expanded: int = 0
    max_depth: int = 0
    pool: Mapping[Key, float] = field(
        default_factory=dict
    )  # scores of what was found, candidates or not
    worth: Mapping[Key, float] = field(
        default_factory=dict
    )  # what a walk found earlier candidates to be worth


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A query with its vector, one snapshot of the stores, and the hits of earlier recipes."""

    query: Query
    vector: Vector | None  # None: words only
    stores: Stores
    earlier_hits: tuple[Hit, ...] = ()
    pool: Mapping[Key, float] = field(default_factory=dict)  # scores of every match so far
    problems: tuple[Problem, ...] = ()  # raised while the query was embedded


def recipe_filter(query: Query, recipe: Recipe) -> Filter:
    """The items a recipe may see in a request."""
    return Filter(
        query.spaces,
        recipe.kinds,
        recipe.types,
        recipe.exclude_types,
        recipe.tags,
        created_to=query.as_of,
        valid_at=query.as_of or query.now,
    )


def gather(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    return SOURCES[recipe.source](request, recipe)


def search_hits(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    vector = None if recipe.mode == "bm25" else request.vector
    find = walk_search if recipe.mode == "walk" else search
    result = find(
        request.query.text,
        vector,
        recipe_filter(request.query, recipe),
        recipe,
        stores=request.stores,
    )
    return SourceResult(
        _new(result.hits, request.earlier_hits), searched=result.considered, pool=result.pool
    )


def neighbour_hits(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    best = sorted(
        request.earlier_hits, key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space)
    )[: recipe.starts]
    starts = [hit.item.key for hit in best]
    starts += entity_keys(request.query, request.stores)
    only = recipe_filter(request.query, recipe)
    called = _named_hits(request, only, recipe) if recipe.named else []
    starts += [hit.item.key for hit in called]
    result = expand(
        list(dict.fromkeys(starts)),
        only,
        recipe,
        items=request.stores.items,
        graph=request.stores.graph,
        sure=bool(called),
    )
    relevance = {hit.item.key: hit.relevance for hit in (*best, *called)}  # where a path begins
    hits = [
        with_score(hit, hit.score, {**hit.signals, "start": relevance.get(hit.path[0], 1.0)})
        for hit in result.hits
    ]
    return SourceResult(
        _new([*called, *hits][: recipe.limit], request.earlier_hits),
        expanded=result.reached,
        max_depth=result.max_depth,
    )


def _named_hits(request: RetrievalRequest, only: Filter, recipe: Recipe) -> list[Hit]:
    """What the question calls by its name, of what is allowed: as near as if a link led there, and worth what its words are."""
    text = request.query.text
    if not text or not request.stores.items.find(only, 1):
        return []
    likely = search(
        text,
        None,
        only,
        replace(recipe, mode="bm25", limit=NAME_CANDIDATES, room=0, min_score=0.0),
        stores=request.stores,
    ).hits
    near = {
        key: round(max(names.values()) / (1 + recipe.near), 6)
        for key, names in names_in_query(text, likely).items()
    }
    return [
        Hit(
            hit.item,
            near[key],
            {**hit.signals, "start": min(1.0, hit.score / near[key])},
            ("name",),
            (key,),
        )
        for hit in likely
        if (key := hit.item.key) in near
    ]


def entity_keys(query: Query, stores: Stores) -> list[Key]:
    """The entity the request is about, wherever it was known at its time."""
    keys = [] if query.entity is None else [(space, query.entity) for space in query.spaces]
    return (
        stores.items.visible(keys, Filter(query.spaces, created_to=query.as_of)) if keys else keys
    )


def walk_hits(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """What the links of everything found lead to, the way that the question leads; from what the request is about, too."""
    query = request.query
    known = {hit.item.key for hit in request.earlier_hits}
    most = max((hit.score for hit in request.earlier_hits if hit.found_by != ("key",)), default=1.0)
    entities = [
        Hit(item, most, {}, ("key",), (item.key,))
        for item in request.stores.items.get(entity_keys(request.query, request.stores))
        if item.key not in known
    ]
    starts = [
        *(hit if hit.score <= most else replace(hit, score=most) for hit in request.earlier_hits),
        *entities,
    ]
    result = walk(
        query.text,
        request.vector,
        starts,
        request.pool,
        recipe_filter(query, recipe),
        recipe,
        stores=request.stores,
    )
    return SourceResult(
        _new(result.hits, request.earlier_hits),
        expanded=result.reached,
        max_depth=result.max_depth,
        worth=result.worth,
    )


def profile_hits(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """The profile of the entity the agent works for, then the one that holds for all."""
    ids = [id for id in (request.query.entity, GLOBAL_PROFILE) if id is not None]
    keys = [(space, id) for id in ids for space in request.query.spaces]
    seen = request.stores.items.visible(keys, recipe_filter(request.query, recipe))
    return SourceResult(
        _new(
            [Hit(item, 1.0, {}, ("key",), (item.key,)) for item in request.stores.items.get(seen)],
            request.earlier_hits,
        )
    )


def subject_hits(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    """What is known about what was found: rules by an entity's type, everything else by its id."""
    about = {hit.item.type for hit in request.earlier_hits} if Kind.RULE in recipe.kinds else set()
    about |= {hit.item.id for hit in request.earlier_hits} | (
        {request.query.entity} if request.query.entity else set()
    )
    subjects = tuple(sorted(one for one in about if one))
    if not subjects:
        return SourceResult()
    items = request.stores.items.find(
        replace(recipe_filter(request.query, recipe), subjects=subjects), recipe.limit
    )
    hits = [
        Hit(
            item,
            UNKNOWN_CONFIDENCE if item.confidence is None else item.confidence,
            {},
            ("subject",),
            (item.key,),
        )
        for item in items
    ]
    return SourceResult(_new(hits, request.earlier_hits))


def relationship_hits(request: RetrievalRequest, recipe: Recipe) -> SourceResult:
    return SourceResult(
        tuple(_relationships(request.query, request.earlier_hits, recipe, request.stores.graph))
    )


def _new(hits: Sequence[Hit], found: Sequence[Hit]) -> tuple[Hit, ...]:
    seen = {hit.item.key for hit in found}
    return tuple(hit for hit in hits if hit.item.key not in seen)


SOURCES: dict[Source, Callable[[RetrievalRequest, Recipe], SourceResult]] = {
    "search": search_hits,
    "neighbours": neighbour_hits,
    "walk": walk_hits,
    "profile": profile_hits,
    "subjects": subject_hits,
    "links": relationship_hits,
}


def _relationships(
    query: Query, found: Sequence[Hit], recipe: Recipe, graph: GraphStore
) -> list[Hit]:
    """The best `recipe.limit` links between these items that people gave, each worth its weight times the lesser of its ends."""
    ends = {hit.item.key: hit for hit in found}
    read = graph.edges_of(
        list(ends), query.spaces, recipe.edge_types, recipe.hub_cap, MIN_EDGE_WEIGHT, made=False
    )
    inside = [
        edge
        for edge in read
        if edge.source_key in ends and edge.target_key in ends and edge.known_at(query.as_of)
    ]
    hits = [
        _relationship_hit(edge, ends[edge.source_key], ends[edge.target_key]) for edge in inside
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))[: recipe.limit]


def _relationship_hit(edge: Edge, source: Hit, target: Hit) -> Hit:
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
