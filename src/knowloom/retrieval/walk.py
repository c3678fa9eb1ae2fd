"""Walk from the hits of a search along edges: personalised PageRank, local and towards the query.

Rank starts at the seeds, which are the best hits, and flows along edges, most of it to neighbours
that are close to the query and cover the query terms that the item before lacks. An answer that
needs two or three pieces of knowledge is found piece by piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.errors import Unavailable
from knowloom.model import Filter, Hit, Problem
from knowloom.ports import Stores, Vector
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import SearchHits, search
from knowloom.retrieval.nodes import NodeKey, hit_nodes, tie_break
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.ranking import top_k, with_score
from knowloom.retrieval.walk_bridges import add_bridges, score_full_names, texts_of
from knowloom.retrieval.walk_constants import (
    ITEMS_READ_PER_HOP,
    MAX_HITS_READ,
    MAX_QUERY_NAMES,
)
from knowloom.retrieval.walk_graph import WalkGraph
from knowloom.retrieval.walk_results import Step, WalkResult, apply_scores, build_result
from knowloom.retrieval.walk_scores import score_items
from knowloom.retrieval.walk_seeds import (
    boost_by_names,
    discount_common_names,
    names_in_query,
    weigh_seeds,
)
from knowloom.text.mentions import capitalised_spans


def walk(
    text: str,
    vector: Vector | None,
    hits: Sequence[Hit],
    pool: Mapping[NodeKey, float],
    only: Filter,
    recipe: Recipe,
    *,
    stores: Stores,
) -> WalkResult:
    """Return up to `recipe.limit` items within `recipe.depth` edges of the hits.

    `pool` has the scores of search matches beyond the hits. The result is empty if the seeds have
    no edges.
    """
    nodes = list(hit_nodes(hits))
    best = sorted(nodes, key=lambda node: (-node.score, tie_break(node.key)))[:MAX_HITS_READ]
    names = names_in_query(text, best)
    seeds = weigh_seeds(best, names, recipe.walk)
    if not seeds or not recipe.depth:
        return WalkResult()
    passable = replace(only, kinds=())  # a walk may pass through items that it must not return
    graph = WalkGraph(text, vector, passable, recipe, stores, QueryCoverage(text))
    graph.add_nodes(best)
    graph.read_edges(list(seeds))
    if not graph.adjacency:
        return WalkResult()
    named = max([value for of_node in names.values() for value in of_node.values()], default=0.0)
    if names:
        names = discount_common_names(names, graph.adjacency, texts_of(graph))
    graph.density = graph.measure_density(seeds, named)
    seed_nodes = [node for node in best if node.key in seeds]
    if query_names := capitalised_spans(text)[:MAX_QUERY_NAMES]:
        name_scores = score_full_names(query_names, texts_of(graph))
        seed_nodes = boost_by_names(seed_nodes, name_scores, graph.density)
    seeds = weigh_seeds(seed_nodes, names, recipe.walk)
    add_bridges(graph, seeds, nodes, pool)
    graph.density = graph.measure_density(seeds, named)
    ranks, steps = _push_ranks(graph, seeds)
    search_nodes = {node.key for node in nodes}
    reached = [key for key in steps if key not in search_nodes]
    scores = score_items(ranks, nodes, reached, pool, graph)
    return build_result(scores, steps, hits, only, graph)


def walk_search(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, *, stores: Stores
) -> SearchHits:
    """Search and walk as one ranking: each item is scored by the walk, if the graph works."""
    limit = max(MAX_HITS_READ, recipe.limit)
    wide = replace(recipe, mode="hybrid", limit=limit, min_score=0.0, room=0)
    result = search(text, vector, only, wide, stores=stores)
    deep, problems = replace(recipe, depth=recipe.depth or 2), result.problems
    vector = None if result.lacks("vectors") else vector
    try:
        walked = walk(text, vector, result.hits, result.pool, only, deep, stores=stores)
    except Unavailable as error:
        walked, problems = WalkResult(), (*problems, Problem.from_error("graph", error))
    hits = [*apply_scores(result.hits, walked.scores, stores), *walked.hits]
    hits = [
        with_score(hit, hit.signals["walk"], hit.signals) if "walk" in hit.signals else hit
        for hit in hits
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.item.id, hit.item.space))
    good = tuple(hit for hit in hits if hit.score >= recipe.min_score)
    best_score = hits[0].score if hits else 0.0
    matched = len([hit for hit in hits if hit.score > 0])
    counts = (result.considered, result.pool, best_score, matched)
    return SearchHits(good[: recipe.limit], *counts, problems)


def _push_ranks(
    graph: WalkGraph, seeds: Mapping[NodeKey, float]
) -> tuple[dict[NodeKey, float], dict[NodeKey, Step]]:
    """Return the rank of every node reached, and the step that brought the most rank when the node
    was first reached."""
    ranks: dict[NodeKey, float] = dict(seeds)
    steps: dict[NodeKey, Step] = {}
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
        new_steps: dict[NodeKey, Step] = {}
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
