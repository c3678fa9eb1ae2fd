"""Walk the graph outwards from what was found, best links first, one store call per hop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.model import Edge, Filter, Hit, Item, Key
from weft.ports import GraphStore, ItemStore
from weft.recipes import Recipe

ROUNDING = 1e-6  # scores are rounded to this: a link that makes an exact tie must not be lost to it
LIGHTEST = 5e-324  # the least number above 0: a weight of 0 forbids a link
FRONTIER_PER_HIT = 2  # a hop goes on from at most this many items per hit wanted


class Step(NamedTuple):
    """How an item was reached: the best link to it, and the way there. There are hundreds in a request, so it is a bare tuple."""

    score: float
    path: tuple[Key, ...]
    edge: Edge


@dataclass(frozen=True, slots=True)
class Expanded:
    hits: tuple[Hit, ...] = ()
    reached: int = 0
    max_depth: int = 0


def expand(starts: Sequence[Key], only: Filter, recipe: Recipe, *, items: ItemStore, graph: GraphStore, made: bool = True) -> Expanded:
    """The best `recipe.limit` items within `recipe.depth` links of the starts, the starts themselves left out. Without `made` only links
    that people gave are followed."""
    ways: dict[Key, tuple[Key, ...]] = {key: (key,) for key in starts}
    reached: dict[Key, Step] = {}
    frontier: Sequence[Key] = list(ways)
    hop = 0
    if not items.find(only, 1):  # no link can lead to what does not exist
        graph.edges_of([], only.spaces)  # asked all the same: a graph that is down must be told
        return Expanded()
    while frontier and hop < recipe.depth:
        hop += 1
        least = _least(reached, recipe, hop)
        if least > 1.0:
            break
        read = graph.edges_of(frontier, only.spaces, recipe.edge_types, recipe.hub_cap, max(least, LIGHTEST), None if made else False)
        if only.created_to is not None:
            read = [edge for edge in read if edge.known_at(only.created_to)]
        steps = _steps(read, ways, hop, recipe.near)
        allowed = items.visible(_ordered(steps, steps), only)
        reached.update({key: steps[key] for key in allowed})
        ways.update({key: steps[key].path for key in allowed})
        frontier = allowed[: FRONTIER_PER_HIT * recipe.limit]
    best = _best(reached, recipe)
    hits = tuple(_hit(item, reached) for item in items.get(best))
    return Expanded(hits, len(reached), max((len(step.path) - 1 for step in reached.values()), default=0))


def _least(reached: dict[Key, Step], recipe: Recipe, hop: int) -> float:
    """The least weight a link of the last hop must have to lead to a better item than the worst kept so far; above 1 no link
    can. Earlier hops follow all links, as a weak one may lead on to a strong one."""
    if hop < recipe.depth or len(reached) < recipe.limit:
        return 0.0
    worst = sorted((step.score for step in reached.values()), reverse=True)[recipe.limit - 1]
    return (worst - ROUNDING) * (hop + recipe.near)


def _steps(edges: Sequence[Edge], ways: dict[Key, tuple[Key, ...]], hop: int, near: int) -> dict[Key, Step]:
    """The best step to every item not reached before. Edges come heaviest first, so the first step to an item is its best."""
    steps: dict[Key, Step] = {}
    for edge in edges:
        space = edge.space
        source, target = (space, edge.source), (edge.target_space or space, edge.target)  # the keys, without the cost of two calls
        way, back = ways.get(source), ways.get(target)
        if way is not None and back is None and len(way) == hop and target not in steps:
            steps[target] = Step(round(edge.weight / (hop + near), 6), (*way, target), edge)
        elif back is not None and way is None and len(back) == hop and source not in steps:
            steps[source] = Step(round(edge.weight / (hop + near), 6), (*back, source), edge)
    return steps


def _ordered(keys: Iterable[Key], steps: dict[Key, Step]) -> list[Key]:
    return sorted(keys, key=lambda key: (-steps[key].score, key[1], key[0]))


def _best(reached: dict[Key, Step], recipe: Recipe) -> list[Key]:
    """The best `recipe.limit` items. Only what may be among them is put in order: hundreds were reached."""
    scores = sorted((step.score for step in reached.values()), reverse=True)
    least = max(recipe.min_score, scores[recipe.limit - 1]) if 0 < recipe.limit <= len(scores) else recipe.min_score
    return _ordered((key for key, step in reached.items() if step.score >= least), reached)[: recipe.limit]


def _hit(item: Item, reached: dict[Key, Step]) -> Hit:
    step = reached[item.key]
    links = tuple([reached[key].edge for key in step.path[1:]])
    return Hit(item, min(1.0, step.score), {"graph": step.score}, ("graph",), step.path, step.edge, links)
