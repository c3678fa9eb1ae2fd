"""Metrics of one ranking or context, in [0, 1]. Duplicates in a ranking count once."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Sequence, Set
from typing import TypeVar

from knowloom.errors import Invalid
from knowloom.validation import validate_int

T = TypeVar("T", bound=Hashable)


def recall(ranking: Sequence[T], expected: Set[T], k: int) -> float:
    """Return the share of the expected items among the top k."""
    return len(expected & set(_top(ranking, expected, k))) / len(expected)


def complete_recall(ranking: Sequence[T], expected: Set[T], k: int) -> float:
    """Return 1 if all expected items are among the top k, else 0."""
    return float(expected <= set(_top(ranking, expected, k)))


def ndcg(ranking: Sequence[T], expected: Set[T], k: int = 10) -> float:
    """Return the normalised discounted cumulative gain of the top k."""
    ranks = enumerate(_top(ranking, expected, k), 1)
    gain = sum(1 / math.log2(rank + 1) for rank, item in ranks if item in expected)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(expected)) + 1))
    return gain / ideal


def fact_recall(text: str, facts: Sequence[Sequence[str]]) -> float:
    """Return the share of facts that the text states in one of their wordings.

    Whole words are compared, regardless of case and white space.
    """
    if not facts:
        raise Invalid("facts must not be empty")
    words = f" {_normalise(text)} "
    stated = sum(any(f" {_normalise(wording)} " in words for wording in fact) for fact in facts)
    return stated / len(facts)


def _top(ranking: Sequence[T], expected: Set[T], k: int) -> list[T]:
    if not expected:
        raise Invalid("a question must expect at least one item")
    validate_int("k", k, 1)
    return list(dict.fromkeys(ranking))[:k]


def _normalise(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
