"""Track which query terms each visited item covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import re2

from knowloom.caching import cached
from knowloom.model import Edge, Item
from knowloom.retrieval.nodes import Node, NodeKey
from knowloom.retrieval.walk_constants import (
    MAX_QUERY_TERMS,
    MAX_SCANNED,
    MAX_SCANNED_SYNONYMS,
    MIN_COVERAGE,
)
from knowloom.text.synonyms import find_synonyms
from knowloom.text.words import extract_terms, fold_words, idf

CACHED_QUERIES = 256  # compiled queries, about 20 KB each
MAX_CACHED_QUERY = 300  # characters
MATCHER_MEMORY = 1 << 26  # bytes: RE2 gives up on a very long query with less

TermMatcher = Callable[[bytes], Sequence[int] | None]  # the numbers of the terms in a text
# The query terms with their bits, the bit of every matched term or synonym, and the matcher.
CompiledQuery = tuple[list[tuple[str, int]], list[int], TermMatcher]


class QueryCoverage:
    """The query terms of each visited item, as bit sets.

    A term weighs its inverse document frequency among the visited items; a synonym half of it.
    """

    def __init__(self, text: str) -> None:
        compile_query = _compile_cached if len(text) <= MAX_CACHED_QUERY else _compile_query
        self._terms, self._bits, self._match = compile_query(text)
        self._all_terms = (1 << len(self._terms)) - 1
        self.items: dict[NodeKey, Item] = {}
        # Lower half: the query terms. Upper half: the query terms and their synonyms.
        self._covered: dict[NodeKey, int] = {}
        self._set_counts: dict[int, int] = {}  # items per set of query terms
        self._weights: _TermSetWeights | None = None  # None after items were added

    def add(self, nodes: Iterable[Node]) -> None:
        """Scan the texts of nodes that were not visited before."""
        visited, covered, set_counts = self.items, self._covered, self._set_counts
        match, bits, width = self._match, self._bits, len(self._terms)
        for node in nodes:
            key, item = node.key, node.item
            if key in visited:
                continue
            visited[key] = item
            text, matched = fold_words(f" {item.title} {item.text[:MAX_SCANNED]}"), 0
            for number in match(text[:MAX_SCANNED_SYNONYMS].encode()) or ():
                matched |= bits[number]
            if len(text) > MAX_SCANNED_SYNONYMS:
                matched |= sum([bit for term, bit in self._terms if term in text])
            terms = matched & self._all_terms
            set_counts[terms] = set_counts.get(terms, 0) + 1
            covered[key] = matched | terms << width
        self._weights = None

    def transition_weights(
        self,
        source: NodeKey,
        neighbours: Mapping[NodeKey, tuple[float, Edge]],
        proximity: Mapping[NodeKey, float],
    ) -> list[float]:
        """Return the unnormalised transition weight of each neighbour of an item.

        It is the product of the edge's weight, the neighbour's proximity to the query, and the
        query terms that the neighbour covers and the source lacks.
        """
        lacking, covered, weights = ~self._covered.get(source, -1), self._covered, self._weigh()
        return [
            weight * proximity[key] * (MIN_COVERAGE + weights[covered.get(key, 0) & lacking])
            for key, (weight, _) in neighbours.items()
        ]

    def overlap(self, key: NodeKey, others: Iterable[NodeKey]) -> list[float]:
        """Return the share of the query that each other item covers as well, synonyms apart.

        Items that were not visited count as covering all of it.
        """
        all_terms, covered, weights = self._all_terms, self._covered, self._weigh()
        terms = covered.get(key, all_terms) & all_terms
        return [2 * weights[terms & covered.get(other, all_terms)] for other in others]

    def terms_of(self, key: NodeKey) -> int:
        """Return the query terms that an item covers, synonyms apart, as a bit set."""
        return self._covered.get(key, 0) & self._all_terms

    def weigh(self, terms: int) -> float:
        """Return the share of the query that a set of terms is, from 0 to 1."""
        return 2 * self._weigh()[terms]

    def _weigh(self) -> _TermSetWeights:
        if self._weights is None:
            self._weights = _weigh_terms(len(self._terms), self._set_counts, len(self._covered))
        return self._weights


def cover_query(text: str, parts: Sequence[str]) -> list[float]:
    """Return the share of the query that each part of a text covers, from 0 to 1.

    A term weighs its inverse document frequency among the parts, a synonym half of it.
    """
    compile_query = _compile_cached if len(text) <= MAX_CACHED_QUERY else _compile_query
    terms, bits, match = compile_query(text)
    width, all_terms = len(terms), (1 << len(terms)) - 1
    covered = []
    for part in parts:
        matched = 0
        for number in match(fold_words(f" {part}").encode(errors="replace")) or ():
            matched |= bits[number]
        covered.append(matched | (matched & all_terms) << width)
    set_counts = Counter([terms_of & all_terms for terms_of in covered])
    weights = _weigh_terms(width, set_counts, len(parts))
    return [weights[terms_of] for terms_of in covered]


def _weigh_terms(width: int, set_counts: Mapping[int, int], documents: int) -> _TermSetWeights:
    """Return the weights of `width` query terms and, in the upper half, of terms and synonyms.

    `set_counts` has the number of documents per set of query terms. All weights add up to 1.
    """
    frequencies = {1 << place: 0 for place in range(width)}
    for terms, count in set_counts.items():
        for bit in _bits(terms):
            frequencies[bit] += count
    idfs = {bit: idf(documents, count) for bit, count in frequencies.items()}
    total = sum(idfs.values()) or 1.0
    return _TermSetWeights(
        {half: weight / total / 2 for bit, weight in idfs.items() for half in (bit, bit << width)}
    )


class _TermSetWeights(dict[int, float]):
    """Weights of sets of terms: sums of the weights of single terms, computed on demand."""

    def __missing__(self, terms: int) -> float:
        self[terms] = sum([self[bit] for bit in _bits(terms)])
        return self[terms]


def _bits(number: int) -> Iterator[int]:
    while number:
        bit = number & -number
        yield bit
        number ^= bit


def _compile_query(text: str) -> CompiledQuery:
    stems = list(dict.fromkeys(extract_terms(text)))[:MAX_QUERY_TERMS]
    # Capitalised words may be names, which have no synonyms.
    lower_case = set(extract_terms(" ".join([word for word in text.split() if word.islower()])))
    terms = [(f" {stem}", 1 << place) for place, stem in enumerate(stems)]
    synonyms = [
        (f" {synonym}", bit << len(stems))
        for term, bit in terms
        if term[1:] in lower_case
        for synonym in find_synonyms(term[1:])
    ]
    patterns = (*terms, *synonyms)
    return terms, [bit for _, bit in patterns], _compile_matcher([term for term, _ in patterns])


# A request may walk more than once, and queries are repeated.
_compile_cached = cached("query coverage", CACHED_QUERIES)(_compile_query)


def _compile_matcher(terms: Sequence[str]) -> TermMatcher:
    """Return a one-pass matcher of all terms: three times as fast as twenty single searches."""
    if not terms:
        return lambda text: None
    options = re2.Options()
    options.literal, options.max_mem = True, MATCHER_MEMORY
    patterns = re2.Set.SearchSet(options)
    for term in terms:
        patterns.Add(term)
    patterns.Compile()
    matcher: TermMatcher = patterns.Match
    return matcher
