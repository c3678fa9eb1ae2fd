"""The rule `similar`: link items that are among each other's nearest by their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowloom.linking.nearest_rules import UNLIMITED
from knowloom.linking.ports import LinkStore
from knowloom.model import AUTOMATIC, Edge, EdgeKey

MIN_SIMILARITY = 0.85  # cosine; the number of edges is bounded without it


@dataclass(frozen=True, slots=True)
class SimilarRule:
    """Two items with similar vectors, each among the nearest of the other."""

    type: str = "similar"
    version: int = 2


@dataclass(frozen=True, slots=True)
class SimilarUpdate:
    """Changes of the edges of one space, and the lists of nearest items to store with them."""

    edges: tuple[Edge, ...] = ()
    deleted: tuple[EdgeKey, ...] = ()
    lists: Mapping[int, bytes] = field(default_factory=dict)


def update_similar(
    store: LinkStore, space: str, rule: SimilarRule, page: Sequence[str]
) -> SimilarUpdate:
    """Compute the edges of the items of a page, and of others whose nearest items they change."""
    nearest = store.nearest_items(space, page, MIN_SIMILARITY)
    keys = [(space, id) for id in nearest.ids]
    touching = store.edges_of(keys, [space], [rule.type], UNLIMITED)
    pairs = {(min(id, other), max(id, other)): cosine for id, other, cosine in nearest.pairs}
    stored: dict[EdgeKey, Edge] = {}
    for edge in touching:
        if edge.origin == AUTOMATIC:
            stored[edge.key] = edge
        else:
            pairs.pop((min(edge.source, edge.target), max(edge.source, edge.target)), None)
    edges = [
        Edge(source, target, rule.type, weight, space, origin=AUTOMATIC)
        for (source, target), weight in pairs.items()
    ]
    current = {edge.key for edge in edges}
    return SimilarUpdate(
        tuple(edge for edge in edges if stored.get(edge.key) != edge),
        tuple(key for key in stored if key not in current),
        nearest.lists,
    )
