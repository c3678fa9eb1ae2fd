"""What the items met on a walk have of the question."""

from __future__ import annotations

from collections.abc import Iterable

from weft.model import Item, Key
from weft.words import rarity, words

LONGEST = 20_000  # characters of a text that are looked at


class Sight:
    """Which words of the question each item looked at has, as bits of a number. A word counts by how few of these items have it."""

    def __init__(self, text: str) -> None:
        self._stems = [(f" {word}", 1 << place) for place, word in enumerate(dict.fromkeys(words(text)))]
        self._all = (1 << len(self._stems)) - 1
        self.items: dict[Key, Item] = {}
        self._seen: dict[Key, int] = {}
        self._holding = dict.fromkeys((bit for _, bit in self._stems), 0)  # how many items have each word
        self._weights: dict[int, float] = {}  # of sets of words

    def look(self, items: Iterable[Item]) -> None:
        for item in items:
            key, text = item.key, f" {item.title} {item.text[:LONGEST]}".lower()
            if key in self.items:
                continue
            self.items[key] = item
            held = [bit for stem, bit in self._stems if stem in text]
            for bit in held:
                self._holding[bit] += 1
            self._seen[key] = sum(held)
        weights = {bit: rarity(len(self._seen), holding) for bit, holding in self._holding.items()}
        total = sum(weights.values()) or 1.0
        self._weights = {bit: weight / total for bit, weight in weights.items()}

    def new(self, source: Key, targets: Iterable[Key]) -> list[float]:
        """How much of the question each target has and the source has not."""
        lacking, seen, weights = ~self._seen.get(source, -1), self._seen, self._weights
        found = []
        for target in targets:
            new = seen.get(target, 0) & lacking
            found.append(weights[new] if new in weights else self._weigh(new))
        return found

    def same(self, one: Key, other: Key) -> float:
        """How much of the question both have. What was not looked at is taken to have all of it."""
        both = self._seen.get(one, self._all) & self._seen.get(other, self._all)
        return self._weights[both] if both in self._weights else self._weigh(both)

    def _weigh(self, stems: int) -> float:
        if stems not in self._weights:
            self._weights[stems] = sum(self._weights[bit] for _, bit in self._stems if stems & bit)
        return self._weights[stems]
