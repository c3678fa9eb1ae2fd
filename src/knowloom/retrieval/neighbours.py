"""Weighted breadth-first expansion: heaviest edges first, one store call per hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowloom.construction import fast_constructor
from knowloom.model import Edge, EdgeKey, Filter, Hit, Item, Key
from knowloom.ports import GraphStore, ItemStore
from knowloom.recipes import Recipe
from knowloom.retrieval.ranking import top_k

SCORE_STEP = 1e-6  # scores are rounded to this: an edge that gives an exact tie must not be lost
MIN_EDGE_WEIGHT = 5e-324  # the smallest number above 0: a weight of 0 forbids an edge
WIDENING = 4  # times as many edges if too few of them lead to items that the filter allows
FRONTIER_PER_HIT = 2  # items that a hop continues from, per requested hit

_new_hit = fast_constructor(Hit)


@dataclass(frozen=True, slots=True)
class ExpansionResult:
    """Items reached along edges, best first."""

    hits: tuple[Hit, ...] = ()
    reached: int = 0
    max_depth: int = 0
    seed_edges: tuple[Edge, ...] = ()  # the edges of the seeds, as read


def expand(
    seeds: Sequence[Key],
    only: Filter,
    recipe: Recipe,
    *,
    items: ItemStore,
    graph: GraphStore,
    automatic: bool | None = None,
    has_matches: bool = False,
) -> ExpansionResult:
    """Return the best `recipe.limit` items within `recipe.depth` edges of the seeds, without them.

    With `automatic=False` only explicit edges are followed. Pass `has_matches=True` if an item is
    known to pass the filter, which is checked first otherwise.
    """
    hops = dict.fromkeys(seeds, 0)  # distance of each item from the seeds
    scores: dict[Key, float] = {}
    best_edges: dict[Key, Edge] = {}
    seed_edges: tuple[Edge, ...] | None = None
    frontier: Sequence[Key] = list(hops)
    if not has_matches and not items.find(only, 1):
        graph.edges_of([], only.spaces)  # raises if the graph is unavailable
        return ExpansionResult()
    for hop in range(1, recipe.depth + 1):
        min_weight = _min_useful_weight(scores, recipe, hop)
        if not frontier or min_weight > 1.0:
            break
        min_weight = max(min_weight, MIN_EDGE_WEIGHT)
        selection = (recipe.edge_types, recipe.hub_cap, min_weight, automatic)
        edges = read_edges(frontier, only, *selection, items=items, graph=graph)
        seed_edges = tuple(edges) if seed_edges is None else seed_edges
        if only.created_to is not None:
            edges = [edge for edge in edges if edge.is_known_at(only.created_to)]
        steps = _best_steps(edges, hops, hop)
        visible = items.visible(list(steps), only)
        scores.update({key: round(steps[key].weight / (hop + recipe.near), 6) for key in visible})
        best_edges.update({key: steps[key] for key in visible})
        hops.update(dict.fromkeys(visible, hop))
        frontier = top_k(visible, scores, FRONTIER_PER_HIT * recipe.limit)
    good = [key for key, score in scores.items() if score >= recipe.min_score]
    best = items.get(top_k(good, scores, recipe.limit))
    hits = tuple([_build_hit(item, scores, best_edges, hops) for item in best])
    max_depth = max((hops[key] for key in scores), default=0)
    return ExpansionResult(hits, len(scores), max_depth, seed_edges or ())


def read_edges(
    keys: Sequence[Key],
    only: Filter,
    types: Sequence[str],
    limit: int,
    min_weight: float,
    automatic: bool | None = None,
    *,
    items: ItemStore,
    graph: GraphStore,
) -> list[Edge]:
    """Return the edges of the keys, as `edges_of` does.

    If the filter has conditions, only edges to items that fulfil them count towards the limit.
    """
    if not only.where:
        return graph.edges_of(keys, only.spaces, types, limit, min_weight, automatic)
    fulfilled = Filter(only.spaces, where=only.where)
    checked: dict[Key, bool] = {}
    selected: dict[EdgeKey, Edge] = {}
    pending, size = list(keys), limit
    while pending:
        edges = graph.edges_of(pending, only.spaces, types, size, min_weight, automatic)
        ends = {end for edge in edges for end in (edge.source_key, edge.target_key)}
        new = sorted(ends.difference(checked))
        checked |= dict.fromkeys(new, False) | dict.fromkeys(items.visible(new, fulfilled), True)
        incomplete = []
        for key, (outgoing, incoming) in _split_by_key(edges, pending).items():
            for side, end in ((outgoing, "target_key"), (incoming, "source_key")):
                allowed = [edge for edge in side[:size] if checked[getattr(edge, end)]][:limit]
                selected |= {edge.key: edge for edge in allowed}
                if len(allowed) < limit and len(side) >= size:
                    incomplete.append(key)
        pending, size = list(dict.fromkeys(incomplete)), size * WIDENING
    return sorted(selected.values(), key=_heaviest_first)


def _split_by_key(
    edges: Sequence[Edge], keys: Sequence[Key]
) -> dict[Key, tuple[list[Edge], list[Edge]]]:
    """Return the outgoing and the incoming edges of each key, in their order."""
    sides: dict[Key, tuple[list[Edge], list[Edge]]] = {key: ([], []) for key in keys}
    for edge in edges:
        if edge.source_key in sides:
            sides[edge.source_key][0].append(edge)
        if edge.target_key in sides:
            sides[edge.target_key][1].append(edge)
    return sides


def _heaviest_first(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)


def _min_useful_weight(scores: Mapping[Key, float], recipe: Recipe, hop: int) -> float:
    """Return the weight above which an edge of the last hop can improve the current top k.

    Above 1 no edge can. Earlier hops follow all edges, as a light one may lead to a heavy one.
    """
    if hop < recipe.depth or len(scores) < recipe.limit:
        return 0.0
    worst = sorted(scores.values(), reverse=True)[recipe.limit - 1]
    return (worst - SCORE_STEP) * (hop + recipe.near)


def _best_steps(edges: Sequence[Edge], hops: Mapping[Key, int], hop: int) -> dict[Key, Edge]:
    """Return the heaviest edge to every item not reached before; edges come heaviest first."""
    steps: dict[Key, Edge] = {}
    previous = hop - 1
    for edge in edges:
        # The keys of both ends, without the cost of two property calls.
        space = edge.space
        source, target = (space, edge.source), (edge.target_space or space, edge.target)
        if target not in hops:
            if target not in steps and hops.get(source) == previous:
                steps[target] = edge
        elif source not in hops and source not in steps and hops[target] == previous:
            steps[source] = edge
    return steps


def _build_hit(
    item: Item,
    scores: Mapping[Key, float],
    best_edges: Mapping[Key, Edge],
    hops: Mapping[Key, int],
) -> Hit:
    score = scores[item.key]
    path, edges = [item.key], []
    while hops[path[-1]]:
        edge = best_edges[path[-1]]
        edges.append(edge)
        path.append(edge.source_key if edge.target_key == path[-1] else edge.target_key)
    signals, chain = {"graph": score}, tuple(edges[::-1])
    return _new_hit(
        item, min(1.0, score), signals, ("graph",), tuple(path[::-1]), edges[0], chain, "", ()
    )
