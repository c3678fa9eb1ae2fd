"""Find the explicit edges between the entities of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter

from knowloom.capabilities.graph.entities import HUB_CAP, Neighbours
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.model import AUTOMATIC, Edge, Hit, Item, Key
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.tracing import span

# Edges between two hubs may be hidden behind heavier ones; these many are read by key.
PROBED_HUBS, PROBED_TYPES = 8, 12
_source, _target = attrgetter("source"), attrgetter("target")


def find_relationships(
    request: RetrievalRequest, entities: Sequence[Hit], options: GraphOptions, near: Neighbours
) -> list[Hit]:
    """Return the edges between these entities, best first: an edge scores as its weight times the
    lower score of its ends."""
    if not entities or not options.include_relationships or not options.max_relationships:
        return []
    scores = {hit.item.key: hit.score for hit in entities}
    with span("links"):
        edges = _select_inner(_read_edges(request, scores, near), scores)
        unique = {edge.key: edge for edge in edges if edge.is_known_at(request.query.as_of)}
    hits = [_edge_hit(edge, scores) for edge in unique.values()]
    return sorted(hits, key=lambda hit: (-hit.score, hit.edge.key if hit.edge else ()))


def _read_edges(
    request: RetrievalRequest, scores: Mapping[Key, float], near: Neighbours
) -> list[Edge]:
    """Return the edges of the entities; those of seeds without too many were read before."""
    complete = _complete_seeds(near).intersection(scores)
    keys = [key for key in scores if key not in complete]
    edges: list[Edge] = []
    if keys:
        edges = request.stores.graph.edges_of(
            keys, request.query.spaces, (), HUB_CAP, MIN_EDGE_WEIGHT, automatic=False
        )
    hidden = _read_between_hubs(request, near, complete, edges, keys)
    return [*near.edges, *edges, *hidden]


def _select_inner(edges: Sequence[Edge], scores: Mapping[Key, float]) -> list[Edge]:
    """Return the explicit edges with both ends among the entities; weight 0 forbids an edge."""
    # Ids are compared first, as building keys is slow and nearly all edges lead elsewhere.
    ids = {id for _, id in scores}
    inside = [
        edge
        for edge in edges
        if edge.source in ids
        and edge.target in ids
        and edge.origin != AUTOMATIC
        and edge.weight > 0
    ]
    return [edge for edge in inside if edge.source_key in scores and edge.target_key in scores]


def _edge_hit(edge: Edge, scores: Mapping[Key, float]) -> Hit:
    score = round(min(scores[edge.source_key], scores[edge.target_key]) * edge.weight, 6)
    return Hit(Item("", edge.space), score, edge=edge)


def _complete_seeds(near: Neighbours) -> set[Key]:
    """Return the seeds with fewer edges than were requested: all of theirs have been read."""
    outgoing, incoming = Counter(map(_source, near.edges)), Counter(map(_target, near.edges))
    return {key for key in near.seeds if outgoing[key[1]] < HUB_CAP and incoming[key[1]] < HUB_CAP}


def _read_between_hubs(
    request: RetrievalRequest,
    near: Neighbours,
    complete: set[Key],
    edges: Sequence[Edge],
    keys: Sequence[Key],
) -> list[Edge]:
    """Return edges between two entities that both have more edges than were read. `edges` are
    those read for `keys`."""
    outgoing = Counter(edge.source_key for edge in edges)
    incoming = Counter(edge.target_key for edge in edges)
    sources = [key for key in keys if outgoing[key] >= HUB_CAP][:PROBED_HUBS]
    targets = [key for key in keys if incoming[key] >= HUB_CAP][:PROBED_HUBS]
    if not sources or not targets:
        return []
    touching = [
        edge
        for edge in near.edges
        if edge.origin != AUTOMATIC and (edge.source_key in complete or edge.target_key in complete)
    ]
    types = sorted({edge.type for edge in (*touching, *edges)})[:PROBED_TYPES]
    return request.stores.graph.get_edges(
        [(source, target, type) for source in sources for target in targets for type in types]
    )
