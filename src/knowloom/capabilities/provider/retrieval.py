"""Retrieval of the three layers: profiles by key, pieces by search, relations by traversal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from knowloom.capabilities.provider.model import Relation, Retrieval
from knowloom.capabilities.provider.options import ProviderRequest
from knowloom.engine import Engine
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Edge, EdgeKey, Filter, Hit, Item, ItemCondition, Key, Kind, Problem
from knowloom.ports import Stores
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import add_passages
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT, read_edges
from knowloom.retrieval.sources import GLOBAL_PROFILE

PIECE_KINDS = (Kind.NODE, Kind.MEMORY, Kind.CLAIM, Kind.RULE)
HUB_CAP = 30  # edges followed per item and direction, heaviest first


@dataclass(frozen=True, slots=True)
class LayerResult:
    """The result of one layer, and the digests of the spaces it was read from."""

    metadata: tuple[Item, ...] = ()
    global_metadata: tuple[Item, ...] = ()
    pieces: tuple[Hit, ...] = ()
    relations: tuple[Relation, ...] = ()
    problems: tuple[Problem, ...] = ()
    state: tuple[tuple[str, str], ...] = ()
    confidence: float | None = None


def retrieve_layers(kb: Engine, request: ProviderRequest) -> Retrieval:
    """Query all layers in parallel; if a write interfered, again in one snapshot."""
    results: list[LayerResult] = []
    if not kb.reader.is_restricted:  # digests, which show writes, are hidden otherwise
        with ThreadPoolExecutor(len(LAYERS), "knowloom-provider") as threads:
            results = list(threads.map(lambda name: _query_layer(name, kb, request), LAYERS))
    if not results or len({result.state for result in results if result.state}) > 1:
        with kb.reader.snapshot():
            results = [_query_layer(name, kb, request) for name in LAYERS]
    return Retrieval(
        request.query,
        request.entity_id,
        tuple(item for result in results for item in result.metadata),
        tuple(item for result in results for item in result.global_metadata),
        merge_hits([hit for result in results for hit in result.pieces]),
        tuple(relation for result in results for relation in result.relations),
        tuple(dict.fromkeys(problem for result in results for problem in result.problems)),
        max((c for result in results if (c := result.confidence) is not None), default=None),
    )


def merge_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return each item once, with its best score and all signals, by (-score, id, space)."""
    best: dict[Key, Hit] = {}
    for hit in hits:
        other = best.get(hit.item.key)
        if other is not None:
            high, low = (other, hit) if other.score >= hit.score else (hit, other)
            found_by = tuple(sorted({*high.found_by, *low.found_by}))
            hit = replace(high, signals={**low.signals, **high.signals}, found_by=found_by)
        best[hit.item.key] = hit
    return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.item.id, hit.item.space)))


def _query_layer(name: str, kb: Engine, request: ProviderRequest) -> LayerResult:
    """Return the result of a layer; if its store is down, an empty result with the problem."""
    try:
        with kb.reader.snapshot() as stores, stores.tolerate() as failures:
            state = tuple((info.name, info.digest) for info in stores.items.spaces(request.spaces))
            result = LAYERS[name](kb, request, stores)
            missing = [Problem.from_error(layer, error) for layer, error in failures.items()]
            return replace(result, state=state, problems=(*result.problems, *missing))
    except (Unavailable, Conflict) as error:
        return LayerResult(problems=(Problem.from_error(name, error),))


def _query_metadata(_: Engine, request: ProviderRequest, stores: Stores) -> LayerResult:
    def profiles(id: str) -> tuple[Item, ...]:
        keys = [(space, id) for space in request.spaces]
        return tuple(stores.items.get(stores.items.visible(keys, request.filter(Kind.PROFILE))))

    entity = request.entity_id
    if entity is None:
        return LayerResult(global_metadata=profiles(GLOBAL_PROFILE))
    keys = [(space, entity) for space in request.spaces]
    problems: tuple[Problem, ...] = ()
    if not stores.items.visible(keys, replace(request.filter(), where=())):
        reason = f"entity {entity!r} not found in {', '.join(request.spaces)}; "
        reason += "only global metadata is used"
        problems = (Problem("metadata", reason, "unknown_entity"),)
    metadata = () if entity == GLOBAL_PROFILE else profiles(entity)
    return LayerResult(metadata, profiles(GLOBAL_PROFILE), problems=problems)


def _query_pieces(kb: Engine, request: ProviderRequest, _: Stores) -> LayerResult:
    """Return the best `top_k` pieces of the entity or of no entity."""
    if not request.query.strip():
        reason = "the query is empty and there is no entity: only global metadata is used"
        notice = Problem("pieces", reason, "no_results")
        return LayerResult(problems=() if request.entity_id else (notice,))
    options = request.options
    subjects = ItemCondition("$subject", "$in", (None, "", request.entity_id))
    recipe = Recipe(
        "pieces",
        kinds=PIECE_KINDS,
        types=options.types,
        tags=options.tags,
        where=() if options.scope == "all" else (subjects,),
        limit=options.top_k,
        mode=options.mode,
        min_score=options.min_score,
        required=True,
    )
    context = kb.context(
        request.query,
        spaces=request.spaces,
        recipe=[recipe],
        max_tokens=None,
        now=request.now,
        as_of=options.as_of,
        where=options.where,
    )
    return LayerResult(
        pieces=context.hits, problems=context.degraded, confidence=context.confidence
    )


def _query_graph(_: Engine, request: ProviderRequest, stores: Stores) -> LayerResult:
    options = request.options
    if request.entity_id is None or not options.graph_traversal_depth:
        return LayerResult()
    seeds = [(space, request.entity_id) for space in request.spaces]
    relations = traverse(
        seeds,
        request.filter(),
        options.graph_traversal_depth,
        options.graph_limit,
        options.edge_types,
        stores,
    )
    visible = request.filter(*PIECE_KINDS)
    relations, pieces = resolve_pieces(relations, visible, stores)
    recipe = Recipe("pieces", mode="bm25")
    pieces = add_passages(pieces, request.query, None, visible, recipe, stores=stores)
    return LayerResult(pieces=pieces, relations=relations)


LAYERS: dict[str, Callable[[Engine, ProviderRequest, Stores], LayerResult]] = {
    "metadata": _query_metadata,
    "pieces": _query_pieces,
    "graph": _query_graph,
}


def traverse(
    seeds: Sequence[Key],
    visible: Filter,
    depth: int,
    limit: int,
    edge_types: Sequence[str],
    stores: Stores,
) -> tuple[Relation, ...]:
    """Return the best `limit` explicit edges within `depth` hops, by (type, target, source).

    Both endpoints must be visible. An edge at hop n scores weight / n.
    """
    reached: dict[EdgeKey, tuple[Edge, int]] = {}
    visited = set(stores.items.visible(list(seeds), replace(visible, where=())))
    frontier = sorted(visited)
    for hop in range(1, depth + 1):
        selection = (edge_types, HUB_CAP, MIN_EDGE_WEIGHT, False)
        read = read_edges(frontier, visible, *selection, items=stores.items, graph=stores.graph)
        edges = [e for e in read if e.key not in reached and e.is_known_at(visible.created_to)]
        ends = [end for edge in edges for end in (edge.source_key, edge.target_key)]
        next_items = stores.items.visible(
            list(dict.fromkeys(end for end in ends if end not in visited)), visible
        )
        visited.update(next_items)
        for edge in edges:
            if edge.source_key in visited and edge.target_key in visited:
                reached[edge.key] = (edge, hop)
        frontier = next_items[:limit]  # in edge order, heaviest first
        if not frontier:
            break
    return _best_relations(list(reached.values()), limit, stores)


def _best_relations(
    edges: list[tuple[Edge, int]], limit: int, stores: Stores
) -> tuple[Relation, ...]:
    edges.sort(key=lambda at: (-_edge_score(*at), at[0].type, at[0].key))
    best = edges[:limit]
    keys = {end for edge, _ in best for end in (edge.source_key, edge.target_key)}
    items = {item.key: item for item in stores.items.get(sorted(keys))}
    relations = [
        Relation(edge, hop, _edge_score(edge, hop), items[edge.source_key], items[edge.target_key])
        for edge, hop in best
    ]
    return tuple(
        sorted(relations, key=lambda r: (r.type, r.edge.target, r.edge.source, r.edge.key))
    )


def resolve_pieces(
    relations: Sequence[Relation], visible: Filter, stores: Stores
) -> tuple[tuple[Relation, ...], tuple[Hit, ...]]:
    """Return the relations with the keys of their visible pieces, and these pieces as hits."""
    keys = {
        relation.edge.key: (relation.edge.space, relation.edge.item_id)
        for relation in relations
        if relation.edge.item_id is not None
    }
    items = stores.items.get(stores.items.visible(sorted(set(keys.values())), visible))
    pieces = {item.key: item for item in items}
    resolved = tuple(
        replace(relation, piece=key if (key := keys.get(relation.edge.key)) in pieces else None)
        for relation in relations
    )
    explained = [relation for relation in resolved if relation.piece is not None]
    explained.sort(key=lambda relation: (-relation.score, relation.type, relation.edge.key))
    return resolved, tuple(_piece_hit(relation, pieces) for relation in explained)


def _piece_hit(relation: Relation, pieces: dict[Key, Item]) -> Hit:
    assert relation.piece is not None
    edge, score = relation.edge, relation.score
    ends = (edge.source_key, edge.target_key)
    return Hit(pieces[relation.piece], score, {"graph": score}, ("graph",), ends, edge, (edge,))


def _edge_score(edge: Edge, hop: int) -> float:
    return round(edge.weight / hop, 6)
