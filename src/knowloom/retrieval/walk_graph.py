"""The subgraph that a walk has read: edges, proximity to the query, and query coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowloom.model import Edge, Filter, Key
from knowloom.ports import Stores, Vector
from knowloom.recipes import Recipe
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.ranking import top_k
from knowloom.retrieval.walk_constants import (
    BRIDGE,
    FULL_EDGE_WEIGHT,
    FULLY_LINKED,
    MIN_PROXIMITY,
    REVERSE_FACTORS,
    SIMILARITY_TYPES,
)

# By item and by neighbour: the weight in this direction, and the edge.
Adjacency = dict[Key, dict[Key, tuple[float, Edge]]]
NO_EDGE = (0.0,)


@dataclass(slots=True)
class WalkGraph:
    """Edges read so far, with the proximity and the query coverage of the items at their ends."""

    text: str
    vector: Vector | None
    only: Filter
    recipe: Recipe
    stores: Stores
    coverage: QueryCoverage
    adjacency: Adjacency = field(default_factory=dict)
    proximity: dict[Key, float] = field(default_factory=dict)
    expanded: dict[Key, None] = field(default_factory=dict)  # items whose edges were read
    density: float = 1.0  # of name edges, from 0 to 1: likeness counts as much
    name_texts: dict[Key, str] = field(default_factory=dict)  # prepared for name search

    def read_edges(self, keys: Sequence[Key]) -> None:
        """Read the edges of items in one store call, and the proximity of their neighbours."""
        unread = [key for key in keys if key not in self.expanded]
        if not unread:
            return
        self.expanded.update(dict.fromkeys(unread))
        adjacency = self._read_adjacency(unread)
        ends = list(dict.fromkeys([end for neighbours in adjacency.values() for end in neighbours]))
        visible = self.stores.items.visible(ends, self.only)
        if len(visible) < len(ends):
            allowed = frozenset(visible)
            adjacency = {
                key: {end: step for end, step in neighbours.items() if end in allowed}
                for key, neighbours in adjacency.items()
            }
        for key, neighbours in adjacency.items():
            if neighbours:
                self.adjacency.setdefault(key, {}).update(neighbours)
        self.measure_proximity(visible)

    def _read_adjacency(self, keys: Sequence[Key]) -> Adjacency:
        """Read the edges of the keys, as seen from any expanded item, heaviest per neighbour."""
        recipe, until = self.recipe, self.only.created_to
        adjacency: Adjacency = {key: {} for key in self.expanded}
        for edge in self.stores.graph.edges_of(
            keys, self.only.spaces, recipe.edge_types, recipe.hub_cap, MIN_EDGE_WEIGHT
        ):
            # The keys of both ends, without the cost of two property calls.
            space, weight = edge.space, edge.weight
            source, target = (space, edge.source), (edge.target_space or space, edge.target)
            if source == target or (until is not None and not edge.is_known_at(until)):
                continue
            neighbours = adjacency.get(source)
            if neighbours is not None and weight > neighbours.get(target, NO_EDGE)[0]:
                neighbours[target] = (weight, edge)
            neighbours = adjacency.get(target)
            if neighbours is not None:
                weight *= REVERSE_FACTORS.get(edge.type, 1.0)
                if weight > neighbours.get(source, NO_EDGE)[0]:
                    neighbours[source] = (weight, edge)
        return adjacency

    def measure_proximity(self, keys: Sequence[Key]) -> None:
        """Score new items by their vectors: 1 for all without a query vector, and MIN_PROXIMITY
        for items without a vector."""
        if new := [key for key in keys if key not in self.proximity]:
            scores = (
                dict.fromkeys(new, 1.0)
                if self.vector is None
                else self.stores.vectors.score_vectors(self.vector, new)
            )
            self.proximity.update(dict.fromkeys(new, MIN_PROXIMITY))
            self.proximity.update(
                {key: score for key, score in scores.items() if score > MIN_PROXIMITY}
            )

    def read_neighbours(
        self, frontier: Sequence[Key], ranks: Mapping[Key, float], limit: int
    ) -> None:
        """Read the texts of the `limit` neighbours that will receive the most rank."""
        incoming: dict[Key, float] = {}
        proximity, visited = self.proximity, self.coverage.items
        for key in frontier:
            rank = ranks[key]
            for end, (weight, _) in self.adjacency.get(key, {}).items():
                if end not in visited:
                    incoming[end] = incoming.get(end, 0.0) + rank * weight * proximity[end]
        self.coverage.add(self.stores.items.get(top_k(incoming, incoming, limit)))

    def measure_density(self, seeds: Mapping[Key, float]) -> float:
        return name_edge_density(
            [(share, self._edge_weights(key)[0] / FULL_EDGE_WEIGHT) for key, share in seeds.items()]
        )

    def outflow(self, key: Key) -> float:
        """Return the share of an item's rank that its edges pass on: few and light ones pass
        on less."""
        names, likeness, bridges = self._edge_weights(key)
        return min(1.0, (names + self.density * (likeness + bridges)) / FULL_EDGE_WEIGHT)

    def _edge_weights(self, key: Key) -> tuple[float, float, float]:
        """Return the total weight of an item's name edges, the total of its likeness edges, and
        the largest weight of its bridges."""
        names = likeness = bridges = 0.0
        for weight, edge in self.adjacency.get(key, {}).values():
            if edge.type not in SIMILARITY_TYPES:
                names += weight
            elif edge.type != BRIDGE:
                likeness += weight
            elif weight > bridges:
                bridges = weight
        return names, likeness, bridges


def name_edge_density(seeds: Sequence[tuple[float, float]]) -> float:
    """Return how densely knowledge is linked by names, from 0 to 1.

    Each seed is its share of the restart distribution and the weight of its name edges, relative to
    FULL_EDGE_WEIGHT. The larger of the plain and the weighted mean counts: items that only resemble
    each other repeat the answer instead of completing it.
    """
    weights = [(share, min(1.0, weight)) for share, weight in seeds]
    mean = sum(weight for _, weight in weights) / len(weights) if weights else 0.0
    weighted = sum(share * weight for share, weight in weights)
    return min(1.0, max(mean, weighted) / FULLY_LINKED)
