"""The analyser and the BM25 parameters that every text index shares."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from threading import local

import re2
import Stemmer

from knowloom.caching import cached
from knowloom.model import Item
from knowloom.text.normalisation import strip_accents
from knowloom.text.passages import outer_heading_path, split_passages
from knowloom.text.stop_words import FREQUENT_WORDS

ANALYSER = "english-3"  # stored with an index, which is rebuilt if it has another value
TITLE_WEIGHT = 2  # terms of the title count twice: +1 to +4 points of recall@2 on the tuning sets
K1, B = 1.2, 0.75
# The share of the item in the score of one of its passages: the words of a long question are spread
# over several. 0.2 to 0.5 rank alike, more is worse for items of unrelated passages.
ITEM_SHARE = 0.3
MAX_TERM_FREQUENCY = 255  # higher frequencies in one text count as this
# The stages of a request extract the terms of its query again and again.
CACHED_TEXTS = 4096
MAX_CACHED_CHARACTERS = 300

_WORD = re.compile(r"[^\W_]+")
# The places where the parts of a name such as `ignoreHTTPErrors` meet; `URLs` is one word.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_HAS_HUMP = re2.compile(rb"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")  # 15 times as fast as `re`
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation.replace("'", ""), " "))
_MIN_PART = 2  # characters of a part of a name that is a term of its own
# Vowels of Indic scripts and other marks belong to words, which Python's \w does not match.
_MARK_RANGES = (range(0x300, 0x1E00), range(0xA800, 0xAC00))
_MARKS = "".join(
    chr(code)
    for codes in _MARK_RANGES
    for code in codes
    if unicodedata.category(chr(code)).startswith("M")
)
_MARKED_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*")
# Scripts without spaces between words: each run is split into overlapping bigrams.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_stemmers = local()  # a stemmer must not be shared by threads


def extract_terms(text: str) -> list[str]:
    """Return the stemmed terms of a text, in order, without the most frequent English words."""
    return _extract(text) if len(text) > MAX_CACHED_CHARACTERS else list(_extract_cached(text))


@cached("words", CACHED_TEXTS)
def _extract_cached(text: str) -> tuple[str, ...]:
    return tuple(_extract(text))


def _extract(text: str) -> list[str]:
    words = _lower_words(text)
    return stem_words([word for word in words if word not in FREQUENT_WORDS])


def extract_all_terms(text: str) -> list[str]:
    """Return the stemmed terms of a text, in order: those of a text index."""
    return stem_words(_lower_words(text))


def _lower_words(text: str) -> list[str]:
    """Return the words of a text in lower case, each name in camel case followed by its parts."""
    text = normalise_characters(text)
    if not has_camel_case(text):
        return find_words(text.lower())
    words = []
    for word in find_words(text):
        lower = word.lower()
        words.append(lower)
        if lower != word:
            words += split_camel_case(word)
    return words


def fold_words(text: str) -> str:
    """Return a text in lower case, without accents, in which a space precedes each word.

    Punctuation becomes spaces, and so do the places where the parts of a name in camel case meet.
    """
    if has_camel_case(text):
        text = _HUMP.sub(" ", text)
    return strip_accents(text.lower()).translate(_PUNCTUATION)


def has_camel_case(text: str) -> bool:
    # RE2 itself would refuse the lone surrogates that a text may contain.
    return _HAS_HUMP.search(text.encode(errors="surrogatepass")) is not None


def split_camel_case(word: str) -> list[str]:
    """Return the parts of a name such as `parseHTML` in lower case, none of another word."""
    parts = _HUMP.split(word)
    if len(parts) == 1:
        return []
    return [part.lower() for part in parts if len(part) >= _MIN_PART]


def normalise_characters(text: str) -> str:
    """Replace compatibility characters, such as ligatures and wide letters, by plain ones."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def find_words(text: str) -> list[str]:
    """Return the words of a text with normal characters, in order."""
    return (_WORD if text.isascii() else _MARKED_WORD).findall(text)


def stem_words(words: Sequence[str]) -> list[str]:
    """Return the terms of words in lower case: without accents, stemmed, unspaced ones split."""
    if not "".join(words).isascii():
        words = [
            part
            for word in words
            for part in ((word,) if word.isascii() else split_unspaced(strip_accents(word)))
        ]
    terms: list[str] = _stemmer().stemWords(words)
    return terms


def _stemmer() -> Stemmer.Stemmer:
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english")
    return _stemmers.english


def count_terms(item: Item) -> Counter[str]:
    """Return the frequency of each term in an item, with the title weighted."""
    frequencies = Counter(extract_all_terms(item.searchable))
    for term in extract_all_terms(item.title) * (TITLE_WEIGHT - 1):
        frequencies[term] += 1
    return frequencies


def count_passage_terms(item: Item, passage_size: int) -> list[Counter[str]]:
    """Return the frequency of each term in each passage of an item.

    A passage has the terms of the title and of the headings above it, each once, the first one
    those of the summary, tags and properties as well. The only passage of a short item has the
    terms of the item.
    """
    passages = split_passages(item.text, passage_size)
    if len(passages) == 1:
        return [count_terms(item)]
    title = extract_all_terms(item.title)
    frequencies = []
    for passage in passages:
        terms = Counter(extract_all_terms(item.text[passage.start : passage.end]))
        terms.update(title)
        terms.update(extract_all_terms(" ".join(outer_heading_path(item, passage))))
        frequencies.append(terms)
    frequencies[0].update(extract_all_terms(item.searchable_metadata))
    return frequencies


def idf(documents: int, frequency: int) -> float:
    """Return the inverse document frequency of a term that `frequency` of `documents` contain."""
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def split_unspaced(word: str) -> list[str]:
    """Split the runs of unspaced scripts in a word into bigrams."""
    if not _UNSPACED.search(word):
        return [word] if word else []
    parts: list[str] = []
    position = 0
    for run in _UNSPACED.finditer(word):
        parts += [word[position : run.start()], *_bigrams(run.group())]
        position = run.end()
    return [part for part in [*parts, word[position:]] if part]


def _bigrams(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)] or [run]
