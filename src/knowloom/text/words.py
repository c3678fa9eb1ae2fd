"""Words of a text, and what they are worth: the analyser and the BM25 formula that every word index shares."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from threading import local

import Stemmer

from knowloom.caching import cached
from knowloom.model import Item

ANALYSER = "english-1"  # stored with an index; another value there means its words must be rebuilt
TITLE_WEIGHT = 2  # a word of the title counts twice: +1 to +4 points of recall@2 on the tuning sets
K1, B = 1.2, 0.75
MAX_TERM_FREQUENCY = 255  # a word more frequent than this in one text counts as this often
CACHED_TEXTS, MAX_CACHED_CHARACTERS = (
    4096,
    300,
)  # texts, and their characters, whose words are remembered: stages of one request ask for those of its question again and again

_WORD = re.compile(r"[^\W_]+")
# Scripts that do not put spaces between words: each run is cut into overlapping pairs of characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_STOP_WORDS = "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with"
_STOP = frozenset(_STOP_WORDS.split())
_stemmers = local()  # a stemmer must not be used by two threads at once


def extract_terms(text: str) -> list[str]:
    """The stems that index and query share, in order. Any text is fine; the result may be empty."""
    return _extract(text) if len(text) > MAX_CACHED_CHARACTERS else list(_extract_cached(text))


@cached("words", CACHED_TEXTS)
def _extract_cached(text: str) -> tuple[str, ...]:
    return tuple(_extract(text))


def _extract(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found = [word for word in _WORD.findall(text.lower()) if word not in _STOP]
    if not text.isascii():
        found = [part for word in found for part in split_unspaced(word)]
    stems: list[str] = _stemmer().stemWords(found)
    return stems


def count_terms(item: Item) -> Counter[str]:
    """How often each word stands in an item, the title's words weighted."""
    found = Counter(extract_terms(item.searchable))
    for word in extract_terms(item.title) * (TITLE_WEIGHT - 1):
        found[word] += 1
    return found


def idf(documents: int, holding: int) -> float:
    """How much a word tells when `holding` of `documents` have it."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def _stemmer() -> Stemmer.Stemmer:
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english")
    return _stemmers.english


def split_unspaced(word: str) -> list[str]:
    if not _UNSPACED.search(word):
        return [word]
    parts: list[str] = []
    position = 0
    for run in _UNSPACED.finditer(word):
        parts += [word[position : run.start()], *_bigrams(run.group())]
        position = run.end()
    return [part for part in [*parts, word[position:]] if part]


def _bigrams(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)] or [run]
