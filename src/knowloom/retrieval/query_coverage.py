"""What the items met on a walk have of the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import re2

from knowloom.model import Edge, Item, Key
from knowloom.text.synonyms import find_synonyms
from knowloom.text.words import extract_terms, idf

MAX_SCANNED = (
    20_000  # characters of a text in which words of the question, and names, are looked for
)
MAX_SCANNED_SYNONYMS = 4_000  # characters of a text in which synonyms, and names of others, are looked for: there are many, and most texts are short
MAX_QUERY_TERMS = 500  # words of a question that are looked for: sets of very many are slow to weigh, and a text of that length is no question
MIN_COVERAGE = 0.05  # so that an item without a word of the question is not lost; chosen on the two tuning sets (docs/walk.md)
MAX_CACHED_QUERY, CACHED_QUERIES = (
    300,
    256,
)  # characters of a question, and how many of them, that are remembered, about 20 KB each
MATCHER_MEMORY = (
    1 << 26
)  # bytes that looking for a very long question's words may take: RE2 gives up when it has too little

TermMatcher = Callable[
    [bytes], Sequence[int] | None
]  # the numbers of the words that a text holds, if any
CompiledQuery = tuple[
    list[tuple[str, int]], list[int], TermMatcher
]  # the question's words, the bits of all looked for, and what finds them


class QueryCoverage:
    """Which words of the question each item looked at has, as bits of a number. A word counts by how few of these items have it; half
    of that for one that means nearly the same."""

    def __init__(self, text: str) -> None:
        self._stems, self._bit, self._found = (
            _compile_cached(text) if len(text) <= MAX_CACHED_QUERY else _compile_query(text)
        )
        self._all = (1 << len(self._stems)) - 1  # the words themselves
        self.items: dict[Key, Item] = {}
        self._seen: dict[Key, int] = {}
        self._having: dict[int, int] = {}  # how many items have just these words of the question
        self._weights: _TermSetWeights | None = None  # none after more was looked at

    def look(self, items: Iterable[Item]) -> None:
        known, seen, having, found, bits, width = (
            self.items,
            self._seen,
            self._having,
            self._found,
            self._bit,
            len(self._stems),
        )
        for item in items:
            key = item.key
            if key in known:
                continue
            known[key] = item
            text, has = f" {item.title} {item.text[:MAX_SCANNED]}".lower(), 0
            for number in found(text[:MAX_SCANNED_SYNONYMS].encode()) or ():
                has |= bits[number]
            if len(text) > MAX_SCANNED_SYNONYMS:
                has |= sum([bit for stem, bit in self._stems if stem in text])
            own = has & self._all
            having[own] = having.get(own, 0) + 1
            seen[key] = (
                has | own << width
            )  # the lower half for the words of the question, the upper half for these and their synonyms
        self._weights = None

    def pulls(
        self, source: Key, links: Mapping[Key, tuple[float, Edge]], near: Mapping[Key, float]
    ) -> list[float]:
        """How much each link of an item draws of its worth: as it weighs, as the item at its other end is near to the question, and as that has
        of the question what the source has not."""
        lacking, seen, weights = ~self._seen.get(source, -1), self._seen, self._weighed()
        return [
            weight * near[there] * (MIN_COVERAGE + weights[seen.get(there, 0) & lacking])
            for there, (weight, _) in links.items()
        ]

    def same(self, one: Key, others: Iterable[Key]) -> list[float]:
        """How much of the question each of the others has as well, in its own words. What was not looked at is taken to have all of it."""
        every, seen, weights = self._all, self._seen, self._weighed()
        own = seen.get(one, every) & every
        return [2 * weights[own & seen.get(other, every)] for other in others]

    def _weighed(self) -> _TermSetWeights:
        if self._weights is None:
            holding = dict.fromkeys([bit for _, bit in self._stems], 0)
            for has, count in self._having.items():
                for bit in _bits(has):
                    holding[bit] += count
            told = {bit: idf(len(self._seen), count) for bit, count in holding.items()}
            total = sum(told.values()) or 1.0
            self._weights = _TermSetWeights(
                {
                    part: weight / total / 2
                    for bit, weight in told.items()
                    for part in (bit, bit << len(told))
                }
            )
        return self._weights


class _TermSetWeights(dict[int, float]):
    """What sets of words weigh, from what each word does; made as they are asked for."""

    def __missing__(self, words: int) -> float:
        self[words] = sum([self[bit] for bit in _bits(words)])
        return self[words]


def _bits(number: int) -> Iterator[int]:
    while number:
        bit = number & -number
        yield bit
        number ^= bit


def _compile_query(text: str) -> CompiledQuery:
    stems = list(dict.fromkeys(extract_terms(text)))[:MAX_QUERY_TERMS]
    small = set(
        extract_terms(" ".join([word for word in text.split() if word.islower()]))
    )  # names have no synonyms
    own = [(f" {stem}", 1 << place) for place, stem in enumerate(stems)]
    alike = [
        (f" {one}", bit << len(stems))
        for stem, bit in own
        if stem[1:] in small
        for one in find_synonyms(stem[1:])
    ]
    return (
        own,
        [bit for _, bit in (*own, *alike)],
        _compile_matcher([word for word, _ in (*own, *alike)]),
    )


_compile_cached = lru_cache(CACHED_QUERIES)(
    _compile_query
)  # a request may walk more than once, and people ask again


def _compile_matcher(words: Sequence[str]) -> TermMatcher:
    """What finds the numbers of the words that a text holds, all in one pass: twenty words one after the other take three times as long."""
    if not words:
        return lambda text: None
    options = re2.Options()
    options.literal, options.max_mem = True, MATCHER_MEMORY
    known = re2.Set.SearchSet(options)
    for word in words:
        known.Add(word)
    known.Compile()
    found: TermMatcher = known.Match
    return found
