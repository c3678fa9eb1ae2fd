"""Text and vector search in memory, by exhaustive scoring."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from knowloom.construction import round_scores
from knowloom.errors import Conflict
from knowloom.model import Filter, Item, Key
from knowloom.ports import IndexResult, Vector
from knowloom.stores.memory.item_store import MemoryItems, synchronized
from knowloom.text import words
from knowloom.text.passages import split_passages
from knowloom.text.query_terms import weigh_terms
from knowloom.vectors.signs import check_unit_length


class MemoryIndexes(MemoryItems):
    """A TextIndex and VectorIndex over the items."""

    @synchronized
    def passage_size(self) -> int:
        return self._passage_size

    @synchronized
    def resegment(self, passage_size: int) -> None:
        if passage_size == self._passage_size:
            return
        before, self._passage_size = self._passage_size, passage_size
        for space in self._spaces.values():
            for item in space.items.values():
                space.unindex(item.id)
                space.index(item, passage_size)
                if split_passages(item.text, before) != split_passages(item.text, passage_size):
                    self._vectors.pop(item.key, None)
                    self._mark_unchanged(item.key)

    # text

    @synchronized
    def rebuild_words(self, items: Iterable[Item]) -> None:
        stored = [item for item in items if self._item(item.key) is not None]
        for space in self._spaces.values():
            for id in space.items:
                space.unindex(id)
        for item in stored:
            space = self._spaces[item.space]
            space.index(space.items[item.id], self._passage_size)

    @synchronized
    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        scores: dict[Key, float] = {}
        for (key, _), score in self._score_text(text, only.spaces).items():
            if self._is_allowed(key, only):
                scores[key] = max(score, scores.get(key, 0.0))
        others = {key: scores[key] for key in also if key in scores}
        return IndexResult(_top_k(scores, limit), len(scores), others)

    @synchronized
    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        scores = self._score_text(text, only.spaces)
        return {
            key: tuple(scores.get((key, number), 0.0) for number in range(self._count(key)))
            for key in keys
            if self._is_allowed(key, only) and self._count(key) > 1
        }

    def _count(self, key: Key) -> int:
        """Return the number of passages of an item, 0 if it is missing."""
        return self._space(key[0]).sizes.get(key[1], 0)

    def _score_text(self, text: str, names: Sequence[str]) -> dict[tuple[Key, int], float]:
        """Return the BM25 score of each passage with a term of the text, divided by the maximum.

        A passage of several has a share of the score of its item.
        """
        terms = weigh_terms(text)
        spaces = {name: self._spaces[name] for name in names if name in self._spaces}
        documents = sum(sum(space.sizes.values()) for space in spaces.values())
        length = sum(space.length for space in spaces.values())
        if not terms or not length:
            return {}
        mean_length = length / documents
        mean_item_length = length / sum(len(space.sizes) for space in spaces.values())
        maximum = 0.0
        scores: dict[tuple[Key, int], float] = {}
        item_scores: dict[Key, float] = {}  # of items with several passages
        for term, weight in terms.items():
            postings = {name: space.postings.get(term, {}) for name, space in spaces.items()}
            full_idf = words.idf(documents, sum(map(len, postings.values())))
            maximum += max(1.0, weight) * full_idf
            idf = weight * full_idf
            totals: Counter[Key] = Counter()
            for name, counts in postings.items():
                for (id, number), count in counts.items():
                    key = name, id
                    norm = length_norm(spaces[name].terms[id, number].total() / mean_length)
                    gain = idf * count / (count + norm)
                    scores[key, number] = scores.get((key, number), 0.0) + gain
                    if self._count(key) > 1:
                        totals[key] += count
            for key, count in totals.items():
                norm = length_norm(self._count_words(key) / mean_item_length)
                item_scores[key] = item_scores.get(key, 0.0) + idf * count / (count + norm)
        for key, number in scores:
            if key in item_scores:
                scores[key, number] *= 1 - words.ITEM_SHARE
                scores[key, number] += words.ITEM_SHARE * item_scores[key]
        rounded = round_scores([score / maximum for score in scores.values()])
        return dict(zip(scores, rounded, strict=True))

    def _count_words(self, key: Key) -> int:
        """Return the number of words in all passages of an item."""
        terms = self._space(key[0]).terms
        return sum(terms[key[1], number].total() for number in range(self._count(key)))

    # vectors

    @synchronized
    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if not vectors:
            return
        check_unit_length(vectors)
        self._check_vectors(vectors, fingerprint)
        for key, vector in vectors.items():
            if vector.ndim == 1 and self._item(key):
                self._vectors[key] = np.tile(_round_vector(vector), (self._count(key), 1))
            elif self._item(key) and len(vector) == self._count(key):
                self._vectors[key] = _round_vector(vector)
            else:
                continue
            self._mark_unchanged(key)
        self._fingerprint = fingerprint

    def _check_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if self._vectors and fingerprint != self._fingerprint:
            raise Conflict(
                f"the stored vectors are from {self._fingerprint!r}, not from {fingerprint!r}: "
                "run reindex",
                "reindex_required",
            )
        stored = list(self._vectors.values())[:1]
        sizes = {vector.shape[-1] for vector in [*vectors.values(), *stored]}
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
        self._calibrations.clear()

    @synchronized
    def calibration(self, fingerprint: str) -> bytes:
        return self._calibrations.get(fingerprint, b"")

    @synchronized
    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        self._calibrations.setdefault(fingerprint, data)

    @synchronized
    def fingerprint(self) -> str:
        return self._fingerprint if self._vectors else ""

    @synchronized
    def dimensions(self) -> int:
        return next((vectors.shape[1] for vectors in self._vectors.values()), 0)

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
    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        return {key: self._vectors[key].copy() for key in keys if key in self._vectors}

    @synchronized
    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return {
            key: max(cosine_similarity(stored, vector) for stored in self._vectors[key])
            for key in keys
            if key in self._vectors
        }

    @synchronized
    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return {
            key: tuple(cosine_similarity(stored, vector) for stored in self._vectors[key])
            for key in keys
            if key in self._vectors and self._count(key) > 1
        }


def length_norm(relative_length: float) -> float:
    """Return BM25's normalisation of a length that is divided by the mean."""
    return words.K1 * (1 - words.B + words.B * relative_length)


def cosine_similarity(vector: Vector, other: Vector) -> float:
    """Return the cosine of two unit vectors, negative ones as 0, rounded to make ties equal."""
    exact = np.vecdot(vector.astype(np.float64), other)
    return round_scores([max(0.0, min(1.0, float(exact)))])[0]


def _round_vector(vector: Vector) -> Vector:
    """Return the vector as other stores keep it, in 16-bit floats: their scores are the same."""
    return vector.astype(np.float16).astype(np.float32)


def _top_k(scores: Mapping[Key, float], limit: int) -> tuple[tuple[Key, float], ...]:
    best = heapq.nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0][::-1]))
    return tuple(best)
