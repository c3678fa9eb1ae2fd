"""Text and vector search in memory, by exhaustive scoring."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from knowloom.errors import Conflict
from knowloom.model import Filter, IndexResult, Item, Key
from knowloom.ports import Vector
from knowloom.stores.memory.item_store import MemoryItems, synchronized
from knowloom.text import words


class MemoryIndexes(MemoryItems):
    """A TextIndex and VectorIndex over the items."""

    # text

    @synchronized
    def rebuild_words(self, items: Iterable[Item]) -> None:
        stored = [item for item in items if self._item(item.key) is not None]
        for space in self._spaces.values():
            for id in list(space.terms):
                space.unindex(id)
        for item in stored:
            self._spaces[item.space].index(item)

    @synchronized
    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        scores = {
            key: score
            for key, score in self._score_text(text, only.spaces).items()
            if self._is_allowed(key, only)
        }
        others = {key: scores[key] for key in also if key in scores}
        return IndexResult(_top_k(scores, limit), len(scores), others)

    def _score_text(self, text: str, names: Sequence[str]) -> dict[Key, float]:
        """Return the BM25 score of each item with a term of the text, divided by the maximum."""
        terms = list(dict.fromkeys(words.extract_terms(text)))
        spaces = {name: self._spaces[name] for name in names if name in self._spaces}
        documents = sum(len(space.items) for space in spaces.values())
        if not terms or not documents:
            return {}
        mean_length = sum(space.length for space in spaces.values()) / documents
        maximum = 0.0
        scores: dict[Key, float] = {}
        for term in terms:
            postings = [
                (name, space, space.postings.get(term, {})) for name, space in spaces.items()
            ]
            idf = words.idf(documents, sum(len(counts) for _, _, counts in postings))
            maximum += idf
            for name, space, counts in postings:
                for id, count in counts.items():
                    length = space.terms[id].total()
                    norm = words.K1 * (1 - words.B + words.B * length / mean_length)
                    gain = idf * count / (count + norm)
                    scores[name, id] = scores.get((name, id), 0.0) + gain
        return {key: round(score / maximum, 6) for key, score in scores.items()}

    # vectors

    @synchronized
    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if not vectors:
            return
        self._check_vectors(vectors, fingerprint)
        stored = {key: vector.copy() for key, vector in vectors.items() if self._item(key)}
        self._vectors.update(stored)
        self._fingerprint = fingerprint
        for key in vectors:
            self._mark_unchanged(key)

    def _check_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if self._vectors and fingerprint != self._fingerprint:
            raise Conflict(
                f"the stored vectors are from {self._fingerprint!r}, not from {fingerprint!r}: "
                "run reindex",
                "reindex_required",
            )
        sizes = {len(vector) for vector in [*vectors.values(), *list(self._vectors.values())[:1]]}
        if len(sizes) > 1:
            raise Conflict(
                f"vectors must all have the same dimensions, got {sorted(sizes)}",
                "reindex_required",
            )

    @synchronized
    def forget_vectors(self) -> None:
        for key in self._vectors:
            self._mark_unchanged(key)
        self._vectors.clear()

    @synchronized
    def fingerprint(self) -> str:
        return self._fingerprint if self._vectors else ""

    @synchronized
    def dimensions(self) -> int:
        return len(next(iter(self._vectors.values()), ()))

    @synchronized
    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        items = self.find(Filter(tuple(spaces)), len(self._vectors) + limit)
        return [item.key for item in items if item.key not in self._vectors][:limit]

    @synchronized
    def count_missing(self, spaces: Sequence[str]) -> int:
        items = self._allowed(Filter(tuple(spaces)))
        return sum(item.key not in self._vectors for item in items)

    @synchronized
    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        allowed = [key for key in self._vectors if self._is_allowed(key, only)]
        return IndexResult(_top_k(self.score_vectors(vector, allowed), limit), len(allowed))

    @synchronized
    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return {
            key: cosine_similarity(self._vectors[key], vector)
            for key in keys
            if key in self._vectors
        }


def cosine_similarity(vector: Vector, other: Vector) -> float:
    """Return the cosine of two unit vectors, negative ones as 0, rounded to make ties equal."""
    return round(max(0.0, min(1.0, float(vector @ other))), 6)


def _top_k(scores: Mapping[Key, float], limit: int) -> tuple[tuple[Key, float], ...]:
    best = heapq.nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0][::-1]))
    return tuple(best)
