"""Results of a walk: the items that only the walk reached, and new scores of the search hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowloom.construction import fast_constructor
from knowloom.model import Edge, Filter, Hit, Item, Key
from knowloom.ports import Stores
from knowloom.retrieval.nodes import NodeKey, key_of, scored_passages
from knowloom.retrieval.ranking import top_k, with_score
from knowloom.retrieval.walk_graph import WalkGraph

_new_hit = fast_constructor(Hit)

Step = tuple[float, NodeKey, Edge]  # rank received, the node it came from, and the edge


@dataclass(frozen=True, slots=True)
class WalkResult:
    """Items reached along edges, best first, and the scores of all nodes walked or found."""

    hits: tuple[Hit, ...] = ()
    scores: Mapping[NodeKey, float] = field(default_factory=dict)
    reached: int = 0
    max_depth: int = 0


def build_result(
    scores: Mapping[NodeKey, float],
    steps: Mapping[NodeKey, Step],
    hits: Sequence[Hit],
    only: Filter,
    graph: WalkGraph,
) -> WalkResult:
    """Return the best items that only the walk reached, each by the best of its nodes."""
    hit_keys = {hit.item.key for hit in hits}
    nodes_of: dict[Key, list[NodeKey]] = {}
    for node in steps:
        if (key := key_of(node)) not in hit_keys:
            nodes_of.setdefault(key, []).append(node)
    best_nodes = {key: top_k(nodes, scores, 1)[0] for key, nodes in nodes_of.items()}
    item_scores = {key: scores[node] for key, node in best_nodes.items()}
    best = _select_visible(list(nodes_of), item_scores, only, graph.recipe.limit, graph.stores)
    items = _read_items(best, graph)
    walked = []
    for key in best:
        if key in items:
            hit = _build_hit(items[key], best_nodes[key], item_scores[key], steps, graph)
            if key in graph.passages:
                hit = _with_reached_passages(hit, nodes_of[key], scores, graph)
            walked.append(hit)
    return WalkResult(tuple(walked), scores, len(nodes_of), _max_depth(best_nodes, steps))


def _read_items(keys: Sequence[Key], graph: WalkGraph) -> dict[Key, Item]:
    """Return whole items; those that the walk has read are not read again."""
    items: dict[Key, Item] = dict(graph.long_items)
    for key in keys:
        if key in graph.coverage.items:
            items[key] = graph.coverage.items[key]
    unread = graph.stores.items.get([key for key in keys if key not in items])
    return {**items, **{item.key: item for item in unread}}


def _build_hit(
    item: Item, node: NodeKey, walk_score: float, steps: Mapping[NodeKey, Step], graph: WalkGraph
) -> Hit:
    nodes = _path(node, steps)
    # Steps between passages of an item are not part of the path between items.
    path = tuple(dict.fromkeys([key_of(step) for step in nodes]))
    steps_taken = [steps[end][2] for end in nodes[1:]]
    edges = tuple([edge for edge in steps_taken if edge.source_key != edge.target_key])
    score = round(edges[-1].weight / (len(edges) + graph.recipe.near), 6)
    signals = {"graph": score, "walk": walk_score}
    return _new_hit(item, min(1.0, score), signals, ("graph",), path, edges[-1], edges, "", ())


def _with_reached_passages(
    hit: Hit, nodes: Sequence[NodeKey], scores: Mapping[NodeKey, float], graph: WalkGraph
) -> Hit:
    """Add the passages that edges lead to, and the one nearest to the query.

    Evidence at the second hop rarely resembles the query.
    """
    similarity = graph.passages[hit.item.key]
    by_number = {node[2]: scores[node] for node in nodes if len(node) == 3}
    linked, highest = list(by_number), max(scores[node] for node in nodes)
    if not linked:  # the item is one node
        by_number = {
            number: highest * cosine / (max(similarity) or 1.0)
            for number, cosine in enumerate(similarity)
        }
    nearest = max(range(len(similarity)), key=lambda number: (similarity[number], -number))
    by_number.setdefault(nearest, highest)
    passages = scored_passages(hit.item, by_number, graph.stores, linked)
    return replace(hit, passages=passages)


def apply_scores(
    hits: Sequence[Hit], scores: Mapping[NodeKey, float], stores: Stores
) -> tuple[Hit, ...]:
    """Add the scores of a walk, which knows where the hits lead, to their signals."""
    long: dict[Key, dict[int, float]] = {}
    for node, score in scores.items():
        if len(node) == 3:
            long.setdefault(key_of(node), {})[node[2]] = score
    scored = []
    for hit in hits:
        key = hit.item.key
        if hit.passages and key in long:
            earlier = {entry.passage.number for entry in hit.passages}
            linked = [number for number in long[key] if number not in earlier]
            passages = scored_passages(hit.item, long[key], stores, linked)
            hit = replace(hit, passages=passages) if passages else hit
            hit = with_score(hit, hit.score, {**hit.signals, "walk": max(long[key].values())})
        elif key in scores:
            hit = with_score(hit, hit.score, {**hit.signals, "walk": scores[key]})
        scored.append(hit)
    return tuple(scored)


def _select_visible(
    reached: Sequence[Key], scores: Mapping[Key, float], only: Filter, limit: int, stores: Stores
) -> list[Key]:
    """Return the best items that pass the filter. Nearly all do, so the best are checked first."""
    likely = top_k(reached, scores, 2 * limit)
    visible = stores.items.visible(likely, only)
    if len(visible) < limit and len(likely) < len(reached):
        visible = top_k(stores.items.visible(reached, only), scores, limit)
    return visible[:limit]


def _max_depth(best_nodes: Mapping[Key, NodeKey], steps: Mapping[NodeKey, Step]) -> int:
    """Return the number of edges to the farthest item. Many items share their last source."""
    sources = {steps[node][1] for node in best_nodes.values()}
    return max([len({*map(key_of, _path(source, steps))}) for source in sources], default=0)


def _path(node: NodeKey, steps: Mapping[NodeKey, Step]) -> tuple[NodeKey, ...]:
    path: tuple[NodeKey, ...] = (node,)
    while path[0] in steps:
        path = (steps[path[0]][1], *path)
    return path
