"""Where a recipe's candidates come from: one function per source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowloom.context.packing import Part
from knowloom.formats.layout import link_line
from knowloom.formats.markdown_escape import one_line
from knowloom.model import LINK, Edge, Filter, Hit, Item, Key, Kind, Problem, Query
from knowloom.ports import GraphStore, Stores, Vector
from knowloom.recipes import Recipe, Source
from knowloom.retrieval.hybrid import search
from knowloom.retrieval.neighbours import LIGHTEST, expand
from knowloom.retrieval.ranking import UNKNOWN_CONFIDENCE, rescored
from knowloom.retrieval.walk import walk, walked_search
from knowloom.retrieval.walk_seeds import asked_for

CALLED = 20  # of what has most words of the question: among these the question may call some by their names
EVERYBODY = "global"  # the id of the profile that holds for every entity


@dataclass(frozen=True, slots=True)
class Gathered:
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


def allowed(query: Query, recipe: Recipe) -> Filter:
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


def gather(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    return SOURCES[recipe.source](request, recipe)


def by_search(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    vector = None if recipe.mode == "bm25" else request.vector
    find = walked_search if recipe.mode == "walk" else search
    result = find(
        request.query.text, vector, allowed(request.query, recipe), recipe, stores=request.stores
    )
    return Gathered(
        _new(result.hits, request.earlier_hits), searched=result.considered, pool=result.pool
    )


def by_link(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    best = sorted(
        request.earlier_hits, key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space)
    )[: recipe.starts]
    starts = [hit.item.key for hit in best]
    starts += about(request.query, request.stores)
    only = allowed(request.query, recipe)
    called = _called(request, only, recipe) if recipe.named else []
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
        rescored(hit, hit.score, {**hit.signals, "start": relevance.get(hit.path[0], 1.0)})
        for hit in result.hits
    ]
    return Gathered(
        _new([*called, *hits][: recipe.limit], request.earlier_hits),
        expanded=result.reached,
        max_depth=result.max_depth,
    )


def _called(request: RetrievalRequest, only: Filter, recipe: Recipe) -> list[Hit]:
    """What the question calls by its name, of what is allowed: as near as if a link led there, and worth what its words are."""
    text = request.query.text
    if not text or not request.stores.items.find(only, 1):
        return []
    likely = search(
        text,
        None,
        only,
        replace(recipe, mode="bm25", limit=CALLED, room=0, min_score=0.0),
        stores=request.stores,
    ).hits
    near = {
        key: round(max(names.values()) / (1 + recipe.near), 6)
        for key, names in asked_for(text, likely).items()
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


def about(query: Query, stores: Stores) -> list[Key]:
    """The entity the request is about, wherever it was known at its time."""
    keys = [] if query.entity is None else [(space, query.entity) for space in query.spaces]
    return (
        stores.items.visible(keys, Filter(query.spaces, created_to=query.as_of)) if keys else keys
    )


def by_walk(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    """What the links of everything found lead to, the way that the question leads; from what the request is about, too."""
    query = request.query
    known = {hit.item.key for hit in request.earlier_hits}
    most = max((hit.score for hit in request.earlier_hits if hit.found_by != ("key",)), default=1.0)
    entities = [
        Hit(item, most, {}, ("key",), (item.key,))
        for item in request.stores.items.get(about(request.query, request.stores))
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
        allowed(query, recipe),
        recipe,
        stores=request.stores,
    )
    return Gathered(
        _new(result.hits, request.earlier_hits),
        expanded=result.reached,
        max_depth=result.max_depth,
        worth=result.worth,
    )


def by_key(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    """The profile of the entity the agent works for, then the one that holds for all."""
    ids = [id for id in (request.query.entity, EVERYBODY) if id is not None]
    keys = [(space, id) for id in ids for space in request.query.spaces]
    seen = request.stores.items.visible(keys, allowed(request.query, recipe))
    return Gathered(
        _new(
            [Hit(item, 1.0, {}, ("key",), (item.key,)) for item in request.stores.items.get(seen)],
            request.earlier_hits,
        )
    )


def by_subject(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    """What is known about what was found: rules by an entity's type, everything else by its id."""
    about = {hit.item.type for hit in request.earlier_hits} if Kind.RULE in recipe.kinds else set()
    about |= {hit.item.id for hit in request.earlier_hits} | (
        {request.query.entity} if request.query.entity else set()
    )
    subjects = tuple(sorted(one for one in about if one))
    if not subjects:
        return Gathered()
    items = request.stores.items.find(
        replace(allowed(request.query, recipe), subjects=subjects), recipe.limit
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
    return Gathered(_new(hits, request.earlier_hits))


def by_links(request: RetrievalRequest, recipe: Recipe) -> Gathered:
    return Gathered(tuple(links(request.query, request.earlier_hits, recipe, request.stores.graph)))


def _new(hits: Sequence[Hit], found: Sequence[Hit]) -> tuple[Hit, ...]:
    seen = {hit.item.key for hit in found}
    return tuple(hit for hit in hits if hit.item.key not in seen)


SOURCES: dict[Source, Callable[[RetrievalRequest, Recipe], Gathered]] = {
    "search": by_search,
    "neighbours": by_link,
    "walk": by_walk,
    "profile": by_key,
    "subjects": by_subject,
    "links": by_links,
}

TOLERANCE = 0.01  # of the worth: where candidates need others, the very best set would cost many more tables


def links(query: Query, found: Sequence[Hit], recipe: Recipe, graph: GraphStore) -> list[Hit]:
    """The best `recipe.limit` links between these items that people gave, each worth its weight times the lesser of its ends."""
    ends = {hit.item.key: hit for hit in found}
    read = graph.edges_of(
        list(ends), query.spaces, recipe.edge_types, recipe.hub_cap, LIGHTEST, made=False
    )
    inside = [
        edge
        for edge in read
        if edge.source_key in ends and edge.target_key in ends and edge.known_at(query.as_of)
    ]
    hits = [_hit(edge, ends[edge.source_key], ends[edge.target_key]) for edge in inside]
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))[: recipe.limit]


def _hit(edge: Edge, source: Hit, target: Hit) -> Hit:
    said = {"from": source.item.name, "type": edge.type, "to": target.item.name}
    fields = said | ({"properties": dict(edge.properties)} if edge.properties else {})
    item = Item(
        edge.name, edge.space, type=edge.type, title=link_line(said, one_line), properties=fields
    )
    worth = min(source.relevance, target.relevance)
    return Hit(
        item,
        round(edge.weight * worth, 6),
        {"weight": edge.weight, "ends": worth},
        LINK,
        (edge.source_key, edge.target_key),
        edge,
    )


def needs(hits: Sequence[Hit], parts: Sequence[Part]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each link the numbers of its ends, counted through the parts before it."""
    numbers = {
        key: number
        for number, key in enumerate(hit.item.key for part in parts for hit in part.hits)
    }
    return tuple(tuple((numbers[key],) for key in dict.fromkeys(hit.path)) for hit in hits)


def tolerance(parts: Sequence[Part]) -> float:
    return TOLERANCE if any(part.needs for part in parts) else 0.0
