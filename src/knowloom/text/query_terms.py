"""Terms of a query and their weights: what a question asks for counts more than its phrasing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from knowloom.caching import cached
from knowloom.text.normalisation import strip_accents
from knowloom.text.stop_words import FREQUENT_WORDS, STOP_WORDS, detect_language
from knowloom.text.words import (
    find_words,
    has_camel_case,
    normalise_characters,
    split_camel_case,
    stem_words,
)

STOP_WORD_WEIGHT = 0.1  # of a word such as "what"; 0 to 0.3 rank alike on the tuning sets
# A term that occurs n times counts n * (K3 + 1) / (n + K3): a paragraph repeats its subject. 1 to 4
# rank alike, counting each occurrence in full is worse.
K3 = 2.0
CACHED_QUERIES = 1024
MAX_CACHED_CHARACTERS = 2000
SENTENCE_ENDS = frozenset(".?!:\n")
MAX_ABBREVIATION = 3  # letters before a period that ends no sentence, as in "Dr. No"
# Capitalised pronouns are no names, except after a capitalised word: "World War I".
PRONOUNS = frozenset(["I", "Sie", "Ihr", "Ihre", "Ihnen"])

TermWeights = Mapping[str, float]


def weigh_terms(query: str) -> TermWeights:
    """Return the terms of a query with their weights, in order.

    Stop words of the query's language count STOP_WORD_WEIGHT, and the most frequent English ones
    nothing, except where they are names ("The Who", "IT") or where there is nothing else. The parts
    of a name in camel case are terms as well.
    """
    return _weigh_cached(query) if len(query) <= MAX_CACHED_CHARACTERS else _weigh(query)


def _weigh(query: str) -> TermWeights:
    text = normalise_characters(query)
    words = find_words(text)
    lower = [strip_accents(word.lower()) or word for word in words]
    stop_words = STOP_WORDS[detect_language(lower)]
    are_names = _recognise_names(text, words, stop_words)
    content = [
        word
        for word, is_name in zip(lower, are_names, strict=True)
        if is_name or word not in stop_words
    ]
    if has_camel_case(text):
        parts = [part for word in words for part in split_camel_case(word)]
        content += [part for part in parts if part not in stop_words]
    others = [word for word in lower if word in stop_words and word not in FREQUENT_WORDS]
    weights = {
        term: count * (K3 + 1) / (count + K3)
        for term, count in Counter(stem_words(content or others or lower)).items()
    }
    for term in stem_words(others):
        weights.setdefault(term, STOP_WORD_WEIGHT)
    return MappingProxyType(weights)


_weigh_cached = cached("query terms", CACHED_QUERIES)(_weigh)


def _recognise_names(text: str, words: Sequence[str], stop_words: Set[str]) -> list[bool]:
    """Return a flag for each word: capitalised inside a sentence, or in capitals anywhere."""
    if text.upper() == text:
        return [False] * len(words)
    are_names = []
    position, before = 0, ""
    for word in words:
        place = text.index(word, position)
        gap = text[position:place]
        if len(before) <= MAX_ABBREVIATION:
            gap = gap.replace(".", "")
        begins = not before or not SENTENCE_ENDS.isdisjoint(gap)
        position = place + len(word)
        is_name = word[0].isupper() and (not begins or (len(word) > 1 and word.isupper()))
        if word in PRONOUNS:
            follows_name = before[:1].isupper() and strip_accents(before.lower()) not in stop_words
            is_name = is_name and follows_name
        are_names.append(is_name)
        before = word
    return are_names
