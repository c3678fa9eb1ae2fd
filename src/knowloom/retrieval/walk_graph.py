"""The subgraph that a walk has read: edges, proximity to the query, and query coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowloom.model import AUTOMATIC, Filter, Item, Key
from knowloom.ports import Stores, Vector
from knowloom.recipes import Recipe
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT, read_edges
from knowloom.retrieval.nodes import MAX_WHOLE_NODE, Node, NodeKey, key_of, read_nodes
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.ranking import top_k
from knowloom.retrieval.walk_constants import (
    BRIDGE,
    DOCUMENT_DENSITY,
    FULL_EDGE_WEIGHT,
    FULLY_LINKED,
    MAX_EDGE_FACTOR,
    MIN_PROXIMITY,
    NAME_SHARES,
    REVERSE_FACTORS,
    SIMILARITY_TYPES,
)
from knowloom.retrieval.walk_passages import NO_EDGE, Adjacency, LongEnd, add_passage_edges
from knowloom.text.passages import count_passages


@dataclass(slots=True)
class WalkGraph:
    """Edges read so far, with the proximity and the query coverage of the nodes at their ends."""

    text: str
    vector: Vector | None
    only: Filter
    recipe: Recipe
    stores: Stores
    coverage: QueryCoverage
    adjacency: Adjacency = field(default_factory=dict)
    proximity: dict[NodeKey, float] = field(default_factory=dict)
    expanded: dict[NodeKey, None] = field(default_factory=dict)  # nodes whose edges were read
    density: float = 1.0  # of name edges, from 0 to 1: likeness counts as much
    name_texts: dict[NodeKey, str] = field(default_factory=dict)  # prepared for name search
    long_items: dict[Key, Item] = field(default_factory=dict)  # those of the nodes read so far
    best_passages: dict[Key, int] = field(default_factory=dict)  # of the nodes read so far
    # Similarity of each passage of the long items at the ends of edges.
    passages: dict[Key, Sequence[float]] = field(default_factory=dict)

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Scan the texts of nodes for query terms."""
        self.coverage.add(nodes)
        for node in nodes:
            if node.whole is not None and len(node.key) == 3:
                self.long_items[key_of(node.key)] = node.whole
                self.best_passages.setdefault(key_of(node.key), node.key[2])

    def read_edges(self, keys: Sequence[NodeKey]) -> None:
        """Read the edges of nodes in one store call, and the proximity of their neighbours."""
        unread = [key for key in keys if key not in self.expanded]
        if not unread:
            return
        self.expanded.update(dict.fromkeys(unread))
        adjacency = self._read_adjacency(unread)
        ends = list(dict.fromkeys([end for neighbours in adjacency.values() for end in neighbours]))
        visible = self._visible(ends)
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

    def _visible(self, nodes: Sequence[NodeKey]) -> list[NodeKey]:
        items = list(dict.fromkeys(map(key_of, nodes)))
        visible = self.stores.items.visible(items, self.only)
        if len(visible) == len(items):
            return list(nodes)
        allowed = frozenset(visible)
        return [node for node in nodes if key_of(node) in allowed]

    def _read_adjacency(self, nodes: Sequence[NodeKey]) -> Adjacency:
        """Read the edges of the nodes, as seen from any expanded node, heaviest per neighbour."""
        recipe, until = self.recipe, self.only.created_to
        adjacency: Adjacency = {key: {} for key in self.expanded}
        keys = list(dict.fromkeys(map(key_of, nodes)))
        limit = recipe.hub_cap * (MAX_EDGE_FACTOR if any(map(self.long_items.get, keys)) else 1)
        edges = [
            edge
            for edge in read_edges(
                keys,
                self.only,
                recipe.edge_types,
                limit,
                MIN_EDGE_WEIGHT,
                items=self.stores.items,
                graph=self.stores.graph,
            )
            if until is None or edge.is_known_at(until)
        ]
        self._measure_passages(
            [end for edge in edges for end in (edge.source_key, edge.target_key)]
        )
        if self.passages or self.long_items:
            size = self.stores.words.passage_size()
            add_passage_edges(adjacency, edges, self._long_ends(size), self.long_items, size)
            return adjacency
        for edge in edges:
            # The keys of both ends, without the cost of two property calls.
            space, weight = edge.space, edge.weight
            source, target = (space, edge.source), (edge.target_space or space, edge.target)
            if source == target:
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

    def _long_ends(self, size: int) -> dict[Key, LongEnd]:
        """Return the best passage of each long item, and the number of its passages.

        An item that was read counts as it was at the time of the query, when it may have been short
        or had another number of passages than the indexes have now.
        """
        ends = {
            key: (_find_best(scores), len(scores))
            for key, scores in self.passages.items()
            if len(scores) > MAX_WHOLE_NODE and key not in self.coverage.items
        }
        for key, item in self.long_items.items():
            ends[key] = (self.best_passages[key], count_passages(item.text, size))
        return ends

    def _measure_passages(self, keys: Sequence[Key]) -> None:
        """Score the passages of the long items among the keys, by vector or else by terms."""
        new = list(dict.fromkeys([key for key in keys if key not in self.passages]))
        if self.vector is not None:
            self.passages |= self.stores.vectors.score_vector_passages(self.vector, new)
        else:
            self.passages |= self.stores.words.score_text_passages(self.text, self.only, new)

    def measure_proximity(self, nodes: Sequence[NodeKey]) -> None:
        """Score new nodes by their vectors: 1 for all without a query vector, and MIN_PROXIMITY
        for nodes without a vector."""
        new = [node for node in nodes if node not in self.proximity]
        if not new:
            return
        if self.vector is None:
            self.proximity.update(dict.fromkeys(new, 1.0))
            return
        short = [node for node in new if len(node) == 2]
        cosines = self.stores.vectors.score_vectors(self.vector, short) if short else {}
        scores: dict[NodeKey, float] = {key: cosine for key, cosine in cosines.items()}
        if len(short) < len(new):
            self._measure_passages([key_of(node) for node in new if len(node) == 3])
            scores |= {
                node: of_item[node[2]]
                for node in new
                if len(node) == 3
                and (of_item := self.passages.get(key_of(node)))
                and node[2] < len(of_item)
            }
        self.proximity.update(dict.fromkeys(new, MIN_PROXIMITY))
        self.proximity.update(
            {node: score for node, score in scores.items() if score > MIN_PROXIMITY}
        )

    def read_neighbours(
        self, frontier: Sequence[NodeKey], ranks: Mapping[NodeKey, float], limit: int
    ) -> None:
        """Read the texts of the `limit` neighbours that will receive the most rank."""
        incoming: dict[NodeKey, float] = {}
        proximity, visited = self.proximity, self.coverage.items
        for key in frontier:
            rank = ranks[key]
            for end, (weight, _) in self.adjacency.get(key, {}).items():
                if end not in visited:
                    incoming[end] = incoming.get(end, 0.0) + rank * weight * proximity[end]
        self.add_nodes(read_nodes(top_k(incoming, incoming, limit), self.stores))

    def measure_density(self, seeds: Mapping[NodeKey, float], named: float) -> float:
        """Return the density of name edges around the seeds, as far as they are evidence.

        `named` is the specificity of the best name in the query. Documents count less.
        """
        documents = sum([share for key, share in seeds.items() if self._is_document(key)])
        factor = 1 - (1 - DOCUMENT_DENSITY) * min(documents, 1.0)  # shares sum to 1, rounded
        weights = [(share, *self._edge_weights(key)[:2]) for key, share in seeds.items()]
        density = name_edge_density(
            [(share, names / FULL_EDGE_WEIGHT) for share, names, _ in weights]
        )
        if not density or named >= 1.0:
            return density * factor
        by_name = sum([share * names for share, names, _ in weights])
        total = by_name + sum([share * likeness for share, _, likeness in weights])
        evidence = link_evidence(by_name / total if total else 0.0)
        if evidence < 1.0:
            evidence = max(evidence, named, self._explicit_share(seeds))
        return density * evidence * factor

    def _is_document(self, key: NodeKey) -> bool:
        """Return True for a node that was read and is part of a loaded document."""
        item = self.coverage.items.get(key)
        return item is not None and item.is_document

    def _explicit_share(self, seeds: Mapping[NodeKey, float]) -> float:
        """Return the share of the seeds, by mass, that have explicit edges to other items."""
        return sum(
            share
            for key, share in seeds.items()
            if any(
                edge.origin != AUTOMATIC
                and edge.type not in SIMILARITY_TYPES
                and edge.source_key != edge.target_key
                for _, edge in self.adjacency.get(key, {}).values()
            )
        )

    def outflow(self, key: NodeKey) -> float:
        """Return the share of an item's rank that its edges pass on: few and light ones pass
        on less."""
        names, likeness, bridges = self._edge_weights(key)
        return min(1.0, (names + self.density * (likeness + bridges)) / FULL_EDGE_WEIGHT)

    def _edge_weights(self, key: NodeKey) -> tuple[float, float, float]:
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


def _find_best(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=lambda number: (scores[number], -number))


def link_evidence(name_share: float) -> float:
    """Return how much links tell about a query that names no item, from 0 to 1.

    `name_share` is the weight of the edges by name relative to all edges of the seeds. Where most
    edges only say that two texts share a name or are alike, as among news or questions, an edge by
    name is a coincidence.
    """
    low, high = NAME_SHARES
    return min(1.0, max(0.0, (name_share - low) / (high - low)))


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
