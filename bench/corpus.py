"""A generated corpus of any size: items, vectors and edges from a seeded generator."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import knowloom
from knowloom.embedders.minilm import FILES

SPACE = "one"
DIMENSIONS = 384
EDGES_PER_ITEM = 5
TYPES = "faq playbook permission_rule concept schema_index schema_field example note".split()
Floats = npt.NDArray[np.float32]


class GeneratedCorpus:
    """Words by Zipf's law, vectors in clusters, edges that favour hubs.

    The same seed gives the same corpus.
    """

    def __init__(self, size: int, seed: int = 7) -> None:
        self.size = size
        self._random = np.random.default_rng(seed)
        # The tokenizer lists real words, the frequent ones first.
        vocabulary = json.loads((FILES / "tokenizer.json").read_text())["model"]["vocab"]
        self._words = [word for word in vocabulary if word.isalpha() and len(word) > 2]
        weights = 1 / np.arange(1, len(self._words) + 1) ** 1.05
        self._cumulative = np.cumsum(weights / weights.sum())
        self._centres = _normalise(self._normal(max(50, size // 500)))

    def _normal(self, count: int) -> Floats:
        return self._random.standard_normal((count, DIMENSIONS), dtype=np.float32)

    def text(self, length: int) -> str:
        """Return the next text of `length` words."""
        positions = np.searchsorted(self._cumulative, self._random.random(length))
        return " ".join(self._words[int(position)] for position in positions)

    def texts(self, count: int, length: int) -> list[str]:
        """Return the next `count` texts of `length` words each."""
        return [self.text(length) for _ in range(count)]

    def vectors(self, count: int) -> Floats:
        """Return the next `count` unit vectors, each near the centre of a cluster."""
        centres = self._centres[self._random.integers(0, len(self._centres), count)]
        return _normalise(centres + 0.055 * self._normal(count))

    def batches(self, batch_size: int) -> Iterator[tuple[list[knowloom.Item], Floats]]:
        """Yield the items in batches, each with its vectors."""
        for start in range(0, self.size, batch_size):
            numbers = range(start, min(start + batch_size, self.size))
            items = [self._item(number) for number in numbers]
            yield items, self.vectors(len(items))

    def _item(self, number: int) -> knowloom.Item:
        return knowloom.Item(
            f"n{number}",
            SPACE,
            type=TYPES[number % len(TYPES)],
            title=self.text(4),
            text=self.text(45),
            summary=self.text(9),
        )

    def edges(self) -> Iterator[list[knowloom.Edge]]:
        """Yield the edges in batches, without duplicates inside a batch."""
        for start in range(0, self.size * EDGES_PER_ITEM, 20_000):
            count = min(20_000, self.size * EDGES_PER_ITEM - start)
            sources = self._random.integers(0, self.size, count).tolist()
            targets = (self.size * self._random.random(count) ** 2.2).astype(np.int64).tolist()
            weights = np.round(self._random.random(count) * 0.9 + 0.1, 3).tolist()
            weight_by_pair = {
                (source, target): weight
                for source, target, weight in zip(sources, targets, weights, strict=True)
            }
            yield [
                knowloom.Edge(f"n{source}", f"n{target}", weight=weight, space=SPACE)
                for (source, target), weight in weight_by_pair.items()
            ]


def _normalise(vectors: Floats) -> Floats:
    units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units.astype(np.float32)
