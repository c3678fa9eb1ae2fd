"""Search results: passages and hits with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from knowloom.model.item import Edge, Item, Key
from knowloom.model.problem import Problem


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of an item's text, and its headings; the last `inner` ones are written in it."""

    number: int
    start: int
    end: int
    headings: tuple[str, ...] = ()
    inner: int = 0

    @property
    def outer_headings(self) -> tuple[str, ...]:
        """The headings that are written before the passage."""
        return self.headings[: len(self.headings) - self.inner]


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage of a hit and its relevance to the query, on the scale of the hit's score."""

    passage: Passage
    score: float
    linked: bool = False  # True if the edge that led to the item points to this passage


@dataclass(frozen=True, slots=True)
class Hit:
    """An item with its score, the numbers behind it, the searches that found it and its path."""

    item: Item
    score: float
    signals: Mapping[str, float] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()  # "bm25", "vector", "graph", "key", "name", "subject", "link"
    path: tuple[Key, ...] = ()
    edge: Edge | None = None  # the last edge of the path
    links: tuple[Edge, ...] = ()  # all edges of the path, in order
    via: str = ""  # the path in words, by titles, if requested
    passages: tuple[ScoredPassage, ...] = ()  # of an item with several, best first

    @property
    def passage(self) -> Passage:
        """The passage that matched best; of a short item its whole text."""
        if self.passages:
            return self.passages[0].passage
        return Passage(0, 0, len(self.item.text))

    @property
    def relevance(self) -> float:
        """The blended score of a reranker, or that of a walk, else the score.

        Of an edge's target it is at most that of the start.
        """
        if "blended" in self.signals:
            return self.signals["blended"]
        if "walk" in self.signals:
            return self.signals["walk"]
        return self.score * self.signals.get("start", 1.0)

    @property
    def distance(self) -> int:
        """The number of edges between this item and the search hit that the path starts from."""
        return max(0, len(self.path) - 1)

    @property
    def match_source(self) -> str:
        """The search that found it; `hybrid` if text and vector search both did."""
        return "hybrid" if len(self.found_by) > 1 else "".join(self.found_by)


class Hits(list[Hit]):
    """The hits of a search, best first: a list that also says how far they can be trusted.

    `confidence` is the estimated share of such answers whose evidence is stored; `degraded` has the
    problems of the search.
    """

    __slots__ = ("confidence", "degraded")

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        confidence: float = 0.0,
        degraded: Iterable[Problem] = (),
    ) -> None:
        super().__init__(hits)
        self.confidence = confidence
        self.degraded = tuple(degraded)
