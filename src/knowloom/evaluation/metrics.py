"""How good one ranking is, as numbers from 0 to 1. What stands twice in a ranking counts once, where it stands first."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Sequence, Set
from typing import TypeVar

from knowloom.errors import Invalid

T = TypeVar("T", bound=Hashable)


def recall(found: Sequence[T], expected: Set[T], k: int) -> float:
    """The share of what was expected that is among the best k."""
    return len(expected & set(_best(found, expected, k))) / len(expected)


def all_found(found: Sequence[T], expected: Set[T], k: int) -> float:
    """1 if everything expected is among the best k, else 0: an answer that needs two pieces needs both."""
    return float(expected <= set(_best(found, expected, k)))


def ndcg(found: Sequence[T], expected: Set[T], k: int = 10) -> float:
    """Normalised discounted cumulative gain: what was expected counts 1 / log2(place + 1), as a share of the best order possible."""
    gain = sum(
        1 / math.log2(place + 1)
        for place, one in enumerate(_best(found, expected, k), 1)
        if one in expected
    )
    return gain / sum(1 / math.log2(place + 1) for place in range(1, min(k, len(expected)) + 1))


def facts_said(text: str, facts: Sequence[Sequence[str]]) -> float:
    """The share of the facts that the text says, each in one of its wordings: whole words, whatever the case, spaces and line ends."""
    if not facts:
        raise Invalid("without facts there is nothing to measure")
    within = f" {_plain(text)} "
    return sum(any(f" {_plain(wording)} " in within for wording in fact) for fact in facts) / len(
        facts
    )


def _best(found: Sequence[T], expected: Set[T], k: int) -> list[T]:
    if not expected:
        raise Invalid("a question that expects nothing cannot be measured")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise Invalid(f"k must be a whole number from 1, not {k!r}")
    return list(dict.fromkeys(found))[:k]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
