"""Scores of conversation turns: a share of a better neighbour's score, and less for questions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.capabilities.memory.conversion import NEXT, TURN
from knowloom.construction import round_scores
from knowloom.model import Edge, Hit, Key
from knowloom.retrieval.sources import RetrievalRequest

# A turn belongs to an exchange: it rises by this share of the distance to a better neighbour.
NEIGHBOUR_SHARE = 0.4
# A question resembles a query most, but its answer is in another turn.
QUESTION_DISCOUNT = 0.2
MAX_SUCCESSORS = 4  # turns that follow a turn, or precede it: a conversation may branch

_SENTENCE = re.compile(r"[^.!?。！？؟]+(?P<end>[.!?。！？؟]*)")
_QUESTION_MARKS = "?？؟"


def score_turns(request: RetrievalRequest, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with the scores of turns as parts of their conversations."""
    turns = [hit.item.key for hit in hits if hit.item.type == TURN]
    if not turns:
        return list(hits)
    query, scores = request.query, {hit.item.key: hit.score for hit in hits}
    edges = request.stores.graph.edges_of(
        turns, query.spaces, (NEXT,), MAX_SUCCESSORS, automatic=False
    )
    if query.as_of is not None:
        edges = [edge for edge in edges if edge.is_known_at(query.as_of)]
    raised = _raise_by_neighbours(scores, edges)
    adjusted = [raised[hit.item.key] * _answer_factor(hit) for hit in hits]
    return [
        replace(hit, score=score) for hit, score in zip(hits, round_scores(adjusted), strict=True)
    ]


def question_share(text: str) -> float:
    """Return the share of a text, by characters, that is in sentences with a question mark."""
    asking = total = 0
    for sentence in _SENTENCE.finditer(text):
        length = len(sentence[0].strip())
        total += length
        if any(mark in sentence["end"] for mark in _QUESTION_MARKS):
            asking += length
    return asking / total if total else 0.0


def _raise_by_neighbours(scores: Mapping[Key, float], edges: Sequence[Edge]) -> dict[Key, float]:
    best: dict[Key, float] = {}  # the highest score among the neighbours of a turn
    for edge in edges:
        ends = (edge.source_key, edge.target_key)
        for turn, neighbour in (ends, ends[::-1]):
            best[turn] = max(best.get(turn, 0.0), scores.get(neighbour, 0.0))
    return {
        key: score + NEIGHBOUR_SHARE * max(0.0, best.get(key, 0.0) - score)
        for key, score in scores.items()
    }


def _answer_factor(hit: Hit) -> float:
    item = hit.item
    return 1 - QUESTION_DISCOUNT * question_share(item.text) if item.type == TURN else 1.0
