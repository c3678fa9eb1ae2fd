"""What the items met on a walk have of the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import re2

from weft.model import Item, Key
from weft.stages.synonyms import synonyms
from weft.words import rarity, words

LONGEST = 20_000  # characters of a text in which words of the question, and names, are looked for
BEGINNING = 4_000  # characters of a text in which synonyms, and names of others, are looked for: there are many, and most texts are short
ASKED = 500  # words of a question that are looked for: sets of very many are slow to weigh, and a text of that length is no question
MEMORY = 1 << 26  # bytes that looking for a very long question's words may take: RE2 gives up when it has too little


class Sight:
    """Which words of the question each item looked at has, as bits of a number. A word counts by how few of these items have it; half
    of that for one that means nearly the same."""

    def __init__(self, text: str) -> None:
        stems = list(dict.fromkeys(words(text)))[:ASKED]
        small = set(words(" ".join([word for word in text.split() if word.islower()])))  # names have no synonyms
        self._stems = [(f" {stem}", 1 << place) for place, stem in enumerate(stems)]
        alike = [(f" {one}", bit << len(stems)) for stem, bit in self._stems if stem[1:] in small for one in synonyms(stem[1:])]
        self._bit = [bit for _, bit in (*self._stems, *alike)]  # by the number of a word
        self._found = _finder([word for word, _ in (*self._stems, *alike)])
        self._all = (1 << len(stems)) - 1  # the words themselves
        self.items: dict[Key, Item] = {}
        self._seen: dict[Key, int] = {}
        self._having: dict[int, int] = {}  # how many items have just these words of the question
        self._single: dict[int, float] = {}  # what each bit weighs
        self._weights: dict[int, float] = {}  # and sets of them; none after more was looked at

    def look(self, items: Iterable[Item]) -> None:
        for item in items:
            key = item.key
            if key not in self.items:
                self.items[key] = item
                self._seen[key] = self._bits(f" {item.title} {item.text[:LONGEST]}".lower())
        self._weights.clear()

    def _bits(self, text: str) -> int:
        """The lower half for the words of the question, the upper half for these and their synonyms."""
        seen = 0
        for number in self._found(text[:BEGINNING]):
            seen |= self._bit[number]
        if len(text) > BEGINNING:
            seen |= sum(bit for stem, bit in self._stems if stem in text)
        has = seen & self._all
        self._having[has] = self._having.get(has, 0) + 1
        return seen | has << len(self._stems)

    def new(self, source: Key, targets: Iterable[Key]) -> list[float]:
        """How much of the question each target has and the source has not."""
        lacking, seen, weights = ~self._seen.get(source, -1), self._seen, self._weights
        found = []
        for target in targets:
            new = seen.get(target, 0) & lacking
            found.append(weights[new] if new in weights else self._weigh(new))
        return found

    def same(self, one: Key, others: Iterable[Key]) -> list[float]:
        """How much of the question each of the others has as well, in its own words. What was not looked at is taken to have all of it."""
        every, seen, weights = self._all, self._seen, self._weights
        own = seen.get(one, every) & every
        found = []
        for other in others:
            both = own & seen.get(other, every)
            found.append(2 * (weights[both] if both in weights else self._weigh(both)))
        return found

    def _weigh(self, stems: int) -> float:
        if not self._weights:
            holding = {bit: sum([count for has, count in self._having.items() if has & bit]) for _, bit in self._stems}
            weights = {bit: rarity(len(self._seen), count) for bit, count in holding.items()}
            total = sum(weights.values()) or 1.0
            self._single = {part: weight / total / 2 for bit, weight in weights.items() for part in (bit, bit << len(weights))}
            self._weights.update(self._single)
        if stems not in self._weights:
            self._weights[stems] = sum(weight for bit, weight in self._single.items() if stems & bit)
        return self._weights[stems]


def _finder(words: Sequence[str]) -> Callable[[str], Sequence[int]]:
    """What finds the numbers of the words that a text holds, all in one pass: twenty words one after the other take three times as long."""
    if not words:
        return lambda text: ()
    options = re2.Options()
    options.literal, options.max_mem = True, MEMORY
    known = re2.Set.SearchSet(options)
    for word in words:
        known.Add(word)
    known.Compile()
    return lambda text: known.Match(text) or ()
