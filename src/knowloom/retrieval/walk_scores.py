"""Scores of walked items, on the scale of the search scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from knowloom.construction import round_scores
from knowloom.model import Item
from knowloom.retrieval.nodes import Node, NodeKey, tie_break
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.ranking import top_k
from knowloom.retrieval.walk_constants import (
    MAX_REWARDED,
    MAX_SERIES_ITEMS,
    NEW_TERM_REWARD,
    REPETITION_PENALTY,
    SEARCH_TIEBREAK,
    SERIES_PENALTY,
)
from knowloom.retrieval.walk_graph import WalkGraph

_NUMBER = re.compile(r"\d[\d–/-]*")  # of a season, a year or a volume


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
    if graph.density:
        scores = penalise_series(scores, graph.coverage.items, graph.text, graph.density)
        scores = reward_new_terms(scores, graph.coverage, graph.density)
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


def penalise_series(
    scores: Mapping[NodeKey, float], items: Mapping[NodeKey, Item], query: str, density: float
) -> dict[NodeKey, float]:
    """Lower the score of an item whose title differs from that of a better one only in numbers.

    One season of a series stands for the others, unless the query has the number. Items with equal
    titles are parts of one text, and stay.
    """
    lowered = dict(scores)
    factor = 1 - SERIES_PENALTY * density
    series: dict[str, str] = {}  # the first title by the title without numbers
    for key in top_k(scores, scores, MAX_SERIES_ITEMS):
        title = items[key].title.lower() if key in items else ""
        numbers = _NUMBER.findall(title)
        if not numbers or any([number in query for number in numbers]):
            continue
        if series.setdefault(_NUMBER.sub("#", title), title) != title:
            lowered[key] = round(scores[key] * factor, 6)
    return lowered


def reward_new_terms(
    scores: Mapping[NodeKey, float], coverage: QueryCoverage, density: float
) -> dict[NodeKey, float]:
    """Raise the best items that cover query terms which all items before them lack.

    A question about two things is answered by items about either: the second side follows the first
    one. The best item stays, and no item rises above those chosen before it.
    """
    best, *others = top_k(scores, scores, MAX_REWARDED)
    rewarded, rate, weigh = dict(scores), NEW_TERM_REWARD * density, coverage.weigh
    missing, bound = ~coverage.terms_of(best), scores[best]
    terms = {key: coverage.terms_of(key) for key in others}
    while others:
        values = [scores[key] * (1 + rate * weigh(terms[key] & missing)) for key in others]
        # Of equals the first one: they are in the order of their scores.
        place = values.index(max(values))
        choice = others.pop(place)
        bound = rewarded[choice] = round(min(bound, values[place]), 6)
        missing &= ~terms[choice]
    lower = [key for key, score in scores.items() if score > bound and key not in terms]
    rewarded.update((key, bound) for key in lower if key != best)
    return rewarded
