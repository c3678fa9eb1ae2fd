"""Near duplicates among texts, by the words they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from knowloom.caching import cached

MIN_SIMILARITY = 0.85  # the Jaccard similarity of near duplicates
CACHED_WORD_SETS = 16_384

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_NUMBER = re.compile(r"\d")
_NEGATIONS = frozenset(["no", "not", "never", "none", "cannot", "without", "nor", "neither"])


@cached("word sets", CACHED_WORD_SETS)
def word_set(text: str) -> frozenset[str]:
    """Return the distinct words of a text in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right) if left or right else 1.0


def find_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """Return, for each near duplicate of an earlier text, the number of that text."""
    sets = [word_set(text) for text in texts]
    counts = Counter(word for words in sets for word in words)
    postings: dict[str, list[int]] = {}
    duplicates: dict[int, int] = {}
    for number, words in enumerate(sets):
        # Similar sets share one of the rarest words of each: only texts with one are compared.
        prefix = len(words) - math.ceil(MIN_SIMILARITY * len(words)) + 1
        rarest = sorted(words, key=lambda word: (counts[word], word))[:prefix]
        earlier = sorted({other for word in rarest for other in postings.get(word, ())})
        original = next((other for other in earlier if is_duplicate(words, sets[other])), None)
        if original is not None:
            duplicates[number] = original
            continue
        for word in rarest:
            postings.setdefault(word, []).append(number)
    return duplicates


def is_duplicate(left: frozenset[str], right: frozenset[str]) -> bool:
    """Return True if two texts share most words and differ in no number and no negation."""
    return jaccard(left, right) >= MIN_SIMILARITY and not changes_meaning(left ^ right)


def changes_meaning(words: frozenset[str]) -> bool:
    """Return True if a number or a negation is among the words that two texts differ in."""
    return any(
        _NUMBER.search(word) or word in _NEGATIONS or word.endswith(("n't", "n’t"))
        for word in words
    )
