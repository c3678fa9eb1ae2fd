"""Scores of walked items, on the scale of the search scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from knowloom.construction import round_scores
from knowloom.retrieval.nodes import Node, NodeKey, tie_break
from knowloom.retrieval.walk_constants import REPETITION_PENALTY, SEARCH_TIEBREAK
from knowloom.retrieval.walk_graph import WalkGraph


def score_items(
    ranks: Mapping[NodeKey, float],
    nodes: Sequence[Node],
    reached: Sequence[NodeKey],
    pool: Mapping[NodeKey, float],
    graph: WalkGraph,
) -> dict[NodeKey, float]:
    """Return the scores of the nodes of the hits and of the nodes reached.

    A hit that gains nothing by edges stays at its distance from the best hit, and falls further
    behind the more of the best hit it repeats.
    """
    search_scores = {node.key: node.score for node in nodes}
    top_score, top_rank = max(search_scores.values()), max(ranks.values())
    search_scores |= {key: pool.get(key, 0.0) for key in reached}
    power = 1 / graph.recipe.walk.sharpness
    relative_ranks = [
        ranks.get(key, 0.0) / top_rank + SEARCH_TIEBREAK * score
        for key, score in search_scores.items()
    ]
    values = round_scores(
        [top_score * rank**power if rank < 1.0 else top_score for rank in relative_ranks]
    )
    values = penalise_repetition(list(search_scores), values, graph.coverage.overlap, graph.density)
    scores = dict(zip(search_scores, values, strict=True))
    # The walk is a weak signal where few items are linked by names: blend in the search score.
    share = min(1.0, 2 * graph.density)
    if share < 1.0:
        scores = {
            key: round(share * score + (1 - share) * search_scores[key], 6)
            for key, score in scores.items()
        }
    return scores


def penalise_repetition(
    keys: Sequence[NodeKey],
    scores: Sequence[float],
    overlap: Callable[[NodeKey, Iterable[NodeKey]], list[float]],
    density: float,
) -> list[float]:
    """Lower the score of each item by the part of the query it shares with the best item.

    Nothing changes where the best item covers the whole query, nor where no names are linked. The
    scores are those of the keys, in their order.
    """
    highest = max(scores)
    best = min(
        [key for key, score in zip(keys, scores, strict=True) if score == highest],
        key=tie_break,
    )
    rate = REPETITION_PENALTY * density * (1 - overlap(best, [best])[0]) ** 2
    if not rate:
        return list(scores)
    lowered = round_scores(
        [
            score * (1 - rate * shared)
            for score, shared in zip(scores, overlap(best, keys), strict=True)
        ]
    )
    lowered[keys.index(best)] = highest
    return lowered
