"""Rerank the best hits: a model scores their best passages, and its scores are blended in.

A cross-encoder knows whether a passage answers the question, and nothing of the edges between
items. The second item of an answer often does not resemble the question: it counts at least part of
the score of the item that leads to it, and the score of the walk keeps its weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowloom.errors import Unavailable
from knowloom.model import Hit, Key, Problem
from knowloom.ports import Reranker
from knowloom.retrieval.ranking import with_score
from knowloom.text.passages import outer_heading_path

LIMIT = 30  # hits that are scored
MAX_LIMIT = 200
# These two are from docs/decisions/030-rerankers.md.
WEIGHT = 0.3  # of the reranker's score; the rest is the weight of the relevance before
INHERITED = 0.6  # of the score of an item, for the items that its edges lead to
SIGNAL, BLENDED = "rerank", "blended"
FAILED = "rerank"  # the code of the problem


@dataclass(frozen=True, slots=True)
class Reranking:
    """A reranker and how it is used; `known_scores` are those of one request, by text."""

    reranker: Reranker
    limit: int = LIMIT
    weight: float = WEIGHT
    known_scores: dict[str, float] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[object, ...]:
        """Everything that its results depend on, for digests."""
        return (self.reranker.fingerprint, self.limit, self.weight, INHERITED)

    def begin(self) -> Reranking:
        """Return the value for a new request."""
        return replace(self, known_scores={})

    def widen(self, limit: int) -> int:
        """Return the limit of a search whose hits are reranked."""
        return max(limit, self.limit)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the reranker's score of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known_scores]
        if new:
            scores = self.reranker.rerank(query, new)
            self.known_scores.update(zip(new, scores, strict=True))
        return [self.known_scores[text] for text in texts]


def rerank_hits(
    hits: Sequence[Hit], query: str, reranking: Reranking
) -> tuple[tuple[Hit, ...], Problem | None]:
    """Return the hits, in their order, with blended relevance; unchanged if the reranker fails."""
    ordered = sorted(hits, key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space))
    best = ordered[: reranking.limit]
    if not best or not query.strip():
        return tuple(hits), None
    try:
        scores = reranking.score(query, [rerank_text(hit) for hit in best])
    except Unavailable as error:
        return tuple(hits), Problem("rerank", f"{error}: the order is that of the search", FAILED)
    by_key = {hit.item.key: score for hit, score in zip(best, scores, strict=True)}
    scored = tuple([_with_rerank(hit, by_key.get(hit.item.key)) for hit in hits])
    blended = blend(best, by_key, reranking.weight)
    if not blended:
        return scored, None
    factor = 1 - reranking.weight  # hits that were not scored do not pass those that were
    return tuple(
        [
            _with_relevance(hit, blended.get(hit.item.key, round(hit.relevance * factor, 6)))
            for hit in scored
        ]
    ), None


def rerank_search(
    hits: Sequence[Hit], query: str, reranking: Reranking, limit: int
) -> tuple[list[Hit], Problem | None]:
    """Return the best hits of a search, best first, with the blended score as their score."""
    reranked, problem = rerank_hits(hits, query, reranking)
    scored = [
        hit if BLENDED not in hit.signals else with_score(hit, hit.signals[BLENDED], hit.signals)
        for hit in reranked
    ]
    if any(BLENDED in hit.signals for hit in scored):
        scored.sort(key=lambda hit: (-hit.score, hit.item.id, hit.item.space))
    return scored[:limit], problem


def rerank_text(hit: Hit) -> str:
    """Return the best passage of a hit, below its title and the headings above it."""
    item, passage = hit.item, hit.passage
    text = item.text[passage.start : passage.end] or item.summary or ""
    path = " > ".join(outer_heading_path(item, passage))
    return "\n".join(part for part in (item.title, path, text) if part)


def blend(hits: Sequence[Hit], scores: Mapping[Key, float], weight: float) -> dict[Key, float]:
    """Return the relevance of hits, each relative to the largest, blended with their scores.

    The best keeps the scale of the relevance before, which packing and other hits share. Empty if
    nothing is relevant or the reranker tells nothing apart.
    """
    highest = max(hit.relevance for hit in hits)
    inherited = {hit.item.key: _inherit(hit, scores) for hit in hits}
    top, bottom = max(inherited.values()), min(scores.values())
    if highest <= 0 or top <= bottom:
        return {}
    values = {
        hit.item.key: (1 - weight) * hit.relevance / highest
        + weight * inherited[hit.item.key] / top
        for hit in hits
    }
    best = max(values.values())
    return {key: round(highest * value / best, 6) for key, value in values.items()}


def _inherit(hit: Hit, scores: Mapping[Key, float]) -> float:
    """Return the score of a hit, at least a part of that of the items on the path to it."""
    score, share = scores[hit.item.key], 1.0
    for key in reversed(hit.path[:-1]):
        share *= INHERITED
        score = max(score, share * scores.get(key, 0.0))
    return score


def _with_rerank(hit: Hit, score: float | None) -> Hit:
    if score is None:
        return hit
    return with_score(hit, hit.score, {**hit.signals, SIGNAL: round(score, 6)})


def _with_relevance(hit: Hit, relevance: float) -> Hit:
    signals, before = {**hit.signals, BLENDED: relevance}, hit.relevance
    if hit.passages and before > 0:
        factor = relevance / before
        passages = tuple(
            replace(entry, score=min(1.0, round(entry.score * factor, 6))) for entry in hit.passages
        )
        hit = replace(hit, passages=passages)
    return with_score(hit, hit.score, signals)
