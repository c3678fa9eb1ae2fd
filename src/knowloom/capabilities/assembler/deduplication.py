"""Texts that say the same: near duplicates by the words they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

MIN_SIMILARITY = 0.85  # of all words of two texts, so many are in both

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_NUMBER = re.compile(r"\d")
_TELLING = frozenset(["no", "not", "never", "none", "cannot", "without", "nor", "neither"])


def word_set(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


def find_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """For each text that is a near duplicate of an earlier one that stays, which one that is. Texts that differ in a number or in a
    negation say different things, however much else they share."""
    sets = [word_set(text) for text in texts]
    counts = Counter(word for one in sets for word in one)
    holders: dict[str, list[int]] = {}
    found: dict[int, int] = {}
    for number, own in enumerate(sets):
        # Two sets that are alike share one of the rarest words of each: only texts with one of these are compared.
        rarest = sorted(own, key=lambda word: (counts[word], word))[
            : len(own) - math.ceil(MIN_SIMILARITY * len(own)) + 1
        ]
        earlier = sorted({other for word in rarest for other in holders.get(word, ())})
        same = next((other for other in earlier if is_duplicate(own, sets[other])), None)
        if same is not None:
            found[number] = same
            continue
        for word in rarest:
            holders.setdefault(word, []).append(number)
    return found


def is_duplicate(one: frozenset[str], other: frozenset[str]) -> bool:
    return jaccard(one, other) >= MIN_SIMILARITY and not any(
        _NUMBER.search(word) or word in _TELLING or word.endswith(("n't", "n’t"))
        for word in one ^ other
    )
