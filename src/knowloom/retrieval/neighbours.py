"""Walk the graph outwards from what was found, best links first, one store call per hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowloom.construction import fast_constructor
from knowloom.model import Edge, Filter, Hit, Item, Key
from knowloom.ports import GraphStore, ItemStore
from knowloom.recipes import Recipe
from knowloom.retrieval.ranking import top_k

ROUNDING = 1e-6  # scores are rounded to this: a link that makes an exact tie must not be lost to it
MIN_EDGE_WEIGHT = 5e-324  # the least number above 0: a weight of 0 forbids a link
FRONTIER_PER_HIT = 2  # a hop goes on from at most this many items per hit wanted
_new_hit = fast_constructor(Hit)


@dataclass(frozen=True, slots=True)
class Expansion:
    hits: tuple[Hit, ...] = ()
    reached: int = 0
    max_depth: int = 0
    first: tuple[Edge, ...] = ()  # the links of the starts, as they were read


def expand(
    starts: Sequence[Key],
    only: Filter,
    recipe: Recipe,
    *,
    items: ItemStore,
    graph: GraphStore,
    made: bool = True,
    sure: bool = False,
) -> Expansion:
    """The best `recipe.limit` items within `recipe.depth` links of the starts, the starts themselves left out. Without `made` only links
    that people gave are followed. `sure`: something passes the filter; else that is asked first."""
    hops = dict.fromkeys(starts, 0)  # links between a start and each item known so far
    scores: dict[Key, float] = {}
    by: dict[Key, Edge] = {}  # the best link to each item reached
    first: tuple[Edge, ...] | None = None
    frontier: Sequence[Key] = list(hops)
    hop = 0
    if not sure and not items.find(only, 1):  # no link can lead to what does not exist
        graph.edges_of([], only.spaces)  # asked all the same: a graph that is down must be told
        return Expansion()
    while frontier and hop < recipe.depth:
        hop += 1
        least = _min_useful_weight(scores, recipe, hop)
        if least > 1.0:
            break
        read = graph.edges_of(
            frontier,
            only.spaces,
            recipe.edge_types,
            recipe.hub_cap,
            max(least, MIN_EDGE_WEIGHT),
            None if made else False,
        )
        first = tuple(read) if first is None else first
        if only.created_to is not None:
            read = [edge for edge in read if edge.known_at(only.created_to)]
        steps = _best_steps(read, hops, hop)
        allowed = items.visible(list(steps), only)
        scores.update({key: round(steps[key].weight / (hop + recipe.near), 6) for key in allowed})
        by.update({key: steps[key] for key in allowed})
        hops.update(dict.fromkeys(allowed, hop))
        frontier = top_k(allowed, scores, FRONTIER_PER_HIT * recipe.limit)
    best = top_k(
        [key for key, score in scores.items() if score >= recipe.min_score], scores, recipe.limit
    )
    hits = tuple([_build_hit(item, scores, by, hops) for item in items.get(best)])
    return Expansion(hits, len(scores), max((hops[key] for key in scores), default=0), first or ())


def _min_useful_weight(scores: Mapping[Key, float], recipe: Recipe, hop: int) -> float:
    """The least weight a link of the last hop must have to lead to a better item than the worst kept so far; above 1 no link
    can. Earlier hops follow all links, as a weak one may lead on to a strong one."""
    if hop < recipe.depth or len(scores) < recipe.limit:
        return 0.0
    worst = sorted(scores.values(), reverse=True)[recipe.limit - 1]
    return (worst - ROUNDING) * (hop + recipe.near)


def _best_steps(edges: Sequence[Edge], hops: Mapping[Key, int], hop: int) -> dict[Key, Edge]:
    """The best link to every item not reached before. Edges come heaviest first, so the first link to an item is its best."""
    steps: dict[Key, Edge] = {}
    before = hop - 1
    for edge in edges:
        space = edge.space
        source, target = (
            (space, edge.source),
            (edge.target_space or space, edge.target),
        )  # the keys, without the cost of two calls
        if target not in hops:
            if target not in steps and hops.get(source) == before:
                steps[target] = edge
        elif source not in hops and source not in steps and hops[target] == before:
            steps[source] = edge
    return steps


def _build_hit(
    item: Item, scores: Mapping[Key, float], by: Mapping[Key, Edge], hops: Mapping[Key, int]
) -> Hit:
    score = scores[item.key]
    path, links = [item.key], []
    while hops[path[-1]]:
        edge = by[path[-1]]
        links.append(edge)
        path.append(edge.source_key if edge.target_key == path[-1] else edge.target_key)
    return _new_hit(
        item,
        min(1.0, score),
        {"graph": score},
        ("graph",),
        tuple(path[::-1]),
        links[0],
        tuple(links[::-1]),
        "",
    )
