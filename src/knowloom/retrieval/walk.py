"""Walk from the hits of a search along edges: personalised PageRank, local and towards the query.

Rank starts at the seeds, which are the best hits, and flows along edges, most of it to neighbours
that are close to the query and cover the query terms that the item before lacks. An answer that
needs two or three pieces of knowledge is found piece by piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowloom.construction import fast_constructor
from knowloom.model import Edge, Filter, Hit, Key
from knowloom.ports import Stores, Vector
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import SearchHits, search
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.ranking import top_k, with_score
from knowloom.retrieval.walk_bridges import add_bridges, score_full_names, texts_of
from knowloom.retrieval.walk_constants import (
    ITEMS_READ_PER_HOP,
    MAX_HITS_READ,
    MAX_QUERY_NAMES,
)
from knowloom.retrieval.walk_graph import WalkGraph
from knowloom.retrieval.walk_scores import score_items
from knowloom.retrieval.walk_seeds import (
    boost_by_names,
    discount_common_names,
    names_in_query,
    weigh_seeds,
)
from knowloom.text.mentions import capitalised_spans

_new_hit = fast_constructor(Hit)

Step = tuple[float, Key, Edge]  # rank received, the item it came from, and the edge it came along


@dataclass(frozen=True, slots=True)
class WalkResult:
    """Items reached along edges, best first, and the scores of all items walked or found."""

    hits: tuple[Hit, ...] = ()
    scores: Mapping[Key, float] = field(default_factory=dict)
    reached: int = 0
    max_depth: int = 0


def walk(
    text: str,
    vector: Vector | None,
    hits: Sequence[Hit],
    pool: Mapping[Key, float],
    only: Filter,
    recipe: Recipe,
    *,
    stores: Stores,
) -> WalkResult:
    """Return up to `recipe.limit` items within `recipe.depth` edges of the hits.

    `pool` has the scores of search matches beyond the hits. The result is empty if the seeds have
    no edges.
    """
    best = sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))[:MAX_HITS_READ]
    names = names_in_query(text, best)
    seeds = weigh_seeds(best, names, recipe.walk)
    if not seeds or not recipe.depth:
        return WalkResult()
    passable = replace(only, kinds=())  # a walk may pass through items that it must not return
    graph = WalkGraph(text, vector, passable, recipe, stores, QueryCoverage(text))
    graph.coverage.add(hit.item for hit in best)
    graph.read_edges(list(seeds))
    if not graph.adjacency:
        return WalkResult()
    graph.density = graph.measure_density(seeds)
    seed_hits = [hit for hit in best if hit.item.key in seeds]
    if query_names := capitalised_spans(text)[:MAX_QUERY_NAMES]:
        name_scores = score_full_names(query_names, texts_of(graph))
        seed_hits = boost_by_names(seed_hits, name_scores, graph.density)
    seeds = weigh_seeds(seed_hits, discount_common_names(names, graph.adjacency), recipe.walk)
    add_bridges(graph, seeds, hits, pool)
    graph.density = graph.measure_density(seeds)
    ranks, steps = _push_ranks(graph, seeds)
    return _build_result(ranks, steps, hits, pool, only, graph)


def walk_search(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, *, stores: Stores
) -> SearchHits:
    """Search and walk as one ranking: each item is scored by the walk."""
    limit = max(MAX_HITS_READ, recipe.limit)
    wide = replace(recipe, mode="hybrid", limit=limit, min_score=0.0, room=0)
    result = search(text, vector, only, wide, stores=stores)
    deep = replace(recipe, depth=recipe.depth or 2)
    walked = walk(text, vector, result.hits, result.pool, only, deep, stores=stores)
    hits = []
    for hit in result.hits:
        score = walked.scores.get(hit.item.key)
        if score is not None:
            hit = with_score(hit, score, {**hit.signals, "walk": score})
        hits.append(hit)
    hits += [with_score(hit, hit.relevance, hit.signals) for hit in walked.hits]
    hits.sort(key=lambda hit: (-hit.score, hit.item.id, hit.item.space))
    good = tuple(hit for hit in hits if hit.score >= recipe.min_score)
    return SearchHits(good[: recipe.limit], result.considered, result.pool)


def _push_ranks(
    graph: WalkGraph, seeds: Mapping[Key, float]
) -> tuple[dict[Key, float], dict[Key, Step]]:
    """Return the rank of every item reached, and the step that brought the most rank when the item
    was first reached."""
    ranks: dict[Key, float] = dict(seeds)
    steps: dict[Key, Step] = {}
    reached = set(seeds)
    walk = graph.recipe.walk
    damping = walk.onward
    for hop in range(graph.recipe.depth):
        frontier = top_k(ranks, ranks, walk.starts)
        graph.read_edges(frontier)
        graph.read_neighbours(
            frontier, ranks, ITEMS_READ_PER_HOP[min(hop, len(ITEMS_READ_PER_HOP) - 1)]
        )
        outflow = {key: graph.outflow(key) for key in frontier}
        # Restart at the seeds; an item with few or light edges retains part of its rank.
        previous, ranks = ranks, {key: (1 - damping) * share for key, share in seeds.items()}
        for key in frontier:
            ranks[key] = ranks.get(key, 0.0) + damping * (previous[key] * (1 - outflow[key]))
        new_steps: dict[Key, Step] = {}
        for key in frontier:
            neighbours, pushed = graph.adjacency.get(key, {}), previous[key] * outflow[key]
            weights = graph.coverage.transition_weights(key, neighbours, graph.proximity)
            total = sum(weights)
            for (end, (_, edge)), weight in zip(neighbours.items(), weights, strict=True):
                flow = pushed * weight / total
                ranks[end] = ranks.get(end, 0.0) + damping * flow
                if end not in reached and (end not in new_steps or new_steps[end][0] < flow):
                    new_steps[end] = (flow, key, edge)
        steps |= new_steps
        reached.update(new_steps)
    return ranks, steps


def _build_result(
    ranks: Mapping[Key, float],
    steps: Mapping[Key, Step],
    hits: Sequence[Hit],
    pool: Mapping[Key, float],
    only: Filter,
    graph: WalkGraph,
) -> WalkResult:
    """Score all items, and return the best of those that only the walk reached."""
    recipe, stores, items = graph.recipe, graph.stores, graph.coverage.items
    hit_keys = {hit.item.key for hit in hits}
    reached = [key for key in steps if key not in hit_keys]
    scores = score_items(ranks, hits, reached, pool, graph)
    best = _select_visible(reached, scores, only, recipe.limit, stores)
    unread = stores.items.get([key for key in best if key not in items])
    items = {**items, **{item.key: item for item in unread}}
    walked = []
    for key in best:
        if key in items:
            path = _path(key, steps)
            edges = tuple([steps[end][2] for end in path[1:]])
            score = round(edges[-1].weight / (len(edges) + recipe.near), 6)
            signals = {"graph": score, "walk": scores[key]}
            walked.append(
                _new_hit(
                    items[key], min(1.0, score), signals, ("graph",), path, edges[-1], edges, "", ()
                )
            )
    return WalkResult(tuple(walked), scores, len(reached), _max_depth(reached, steps))


def _select_visible(
    reached: Sequence[Key], scores: Mapping[Key, float], only: Filter, limit: int, stores: Stores
) -> list[Key]:
    """Return the best items that pass the filter. Nearly all do, so the best are checked first."""
    likely = top_k(reached, scores, 2 * limit)
    visible = stores.items.visible(likely, only)
    if len(visible) < limit and len(likely) < len(reached):
        visible = top_k(stores.items.visible(reached, only), scores, limit)
    return visible[:limit]


def _max_depth(reached: Sequence[Key], steps: Mapping[Key, Step]) -> int:
    """Return the number of edges to the farthest item. Many items share their last source."""
    sources = {steps[key][1] for key in reached}
    return max([len(_path(source, steps)) for source in sources], default=0)


def _path(key: Key, steps: Mapping[Key, Step]) -> tuple[Key, ...]:
    path: tuple[Key, ...] = (key,)
    while path[0] in steps:
        path = (steps[path[0]][1], *path)
    return path
