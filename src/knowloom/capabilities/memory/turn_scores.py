"""Scores of conversation turns: a share of a better neighbour's score, and less for questions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.capabilities.memory.conversion import NEXT, TURN
from knowloom.construction import round_scores
from knowloom.model import Edge, Hit, Key

# A turn belongs to an exchange: it rises by this share of the distance to a better neighbour.
NEIGHBOUR_SHARE = 0.4
# A question resembles a query most, but its answer is in another turn.
QUESTION_DISCOUNT = 0.2

_SENTENCE = re.compile(r"[^.!?。！？؟]+(?P<end>[.!?。！？؟]*)")
_QUESTION_MARKS = "?？؟"


def score_turns(hits: Sequence[Hit], edges: Sequence[Edge]) -> list[Hit]:
    """Return the hits with the scores of turns as parts of their conversations.

    `edges` are the explicit edges of the hits.
    """
    if not any(hit.item.type == TURN for hit in hits):
        return list(hits)
    raised = _raise_by_neighbours({hit.item.key: hit.score for hit in hits}, edges)
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
        if edge.type != NEXT:
            continue
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
