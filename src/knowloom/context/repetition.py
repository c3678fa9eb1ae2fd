"""Near-duplicates among the candidates: only the most relevant of them is offered."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from knowloom.caching import cached
from knowloom.model import Hit, Item
from knowloom.text.duplicates import MIN_SIMILARITY, changes_meaning, is_duplicate, word_set

MIN_WORDS = 8  # shorter texts are compared as a whole
BANDS = 4  # pairs of minimum hashes: near-duplicates share one with 99.4 %
CACHED_SIGNATURES = 16_384
MAX_CHARACTERS = 2_000  # longer texts are shown by excerpts, which do not repeat each other

_MULTIPLIERS: npt.NDArray[np.uint32] = np.array(
    [
        0x9E3779B1,
        0x85EBCA77,
        0xC2B2AE3D,
        0x27D4EB2F,
        0x165667B1,
        0xD3A2646D,
        0xFD7046C5,
        0xB55A4F09,
    ],
    np.uint32,
)

SKETCH_BITS = 512
# Two sets of m and n words with the least similarity differ in so many of m + n words at most.
MAX_DIFFERENCE = (1 - MIN_SIMILARITY) / (1 + MIN_SIMILARITY)
ROUNDING = 1e-6


class Signature(NamedTuple):
    """Parts of a text by which most pairs of texts are told apart without comparing their words."""

    bands: tuple[tuple[object, ...], ...]  # of minimum hashes; near-duplicates share at least one
    sketch: int = 0  # a bit for each word; two texts differ in at least as many words as bits
    size: int = 0  # distinct words


def find_repetitions(
    hits: Sequence[Hit], query: str = "", may_repeat: Sequence[bool] = ()
) -> dict[int, int]:
    """Return, by number, the hits that repeat a more relevant one, and the number of that one.

    Texts that differ in a word of the query do not repeat each other. Hits that `may_repeat`, by
    number, are left out.
    """
    query_words = word_set(query)
    order = sorted(
        range(len(hits)),
        key=lambda number: (-hits[number].relevance, *hits[number].item.key[::-1], number),
    )
    by_band: dict[tuple[object, ...], list[tuple[int, Signature]]] = {}
    repetitions: dict[int, int] = {}
    for number in order:
        item = hits[number].item
        if not 0 < len(item.text) <= MAX_CHARACTERS or hits[number].passages:
            continue
        signature = _signature(item.text)
        similar = _find_similar(signature, by_band)
        original = next(
            (other for other in similar if _repeats(item, hits[other].item, query_words)), None
        )
        if original is not None:
            if not may_repeat or not may_repeat[number]:
                repetitions[number] = original
            continue
        for band in signature.bands:
            by_band.setdefault(band, []).append((number, signature))
    return repetitions


def _find_similar(
    signature: Signature, by_band: Mapping[tuple[object, ...], Sequence[tuple[int, Signature]]]
) -> dict[int, None]:
    """Return the numbers of texts that share a band and may have nearly the same words.

    The bound is exact: each differing bit of the sketches is at least one differing word.
    """
    bands, sketch, size = signature
    return dict.fromkeys(
        [
            number
            for band in bands
            for number, (_, other, other_size) in by_band.get(band, ())
            if (sketch ^ other).bit_count() <= MAX_DIFFERENCE * (size + other_size) + ROUNDING
        ]
    )


def _repeats(item: Item, other: Item, query_words: frozenset[str]) -> bool:
    """Return True if two items say the same: items with other properties never do."""
    words, others = word_set(item.text), word_set(other.text)
    if min(len(words), len(others)) < MIN_WORDS:
        is_same = item.name == other.name and item.text.split() == other.text.split()
        return is_same and item.shown_properties == other.shown_properties
    if not is_duplicate(words, others) or item.shown_properties != other.shown_properties:
        return False
    titles = word_set(item.title) ^ word_set(other.title)
    return not (changes_meaning(titles) or query_words & (titles | (words ^ others)))


@cached("repetition signatures", CACHED_SIGNATURES)
def _signature(text: str) -> Signature:
    words = word_set(text)
    if len(words) < MIN_WORDS:
        return Signature(((*text.split(),),))
    hashes = [zlib.crc32(word.encode(errors="replace")) for word in words]
    sketch = 0
    for hash in hashes:
        sketch |= 1 << hash % SKETCH_BITS
    lowest = (np.array(hashes, np.uint32)[:, None] * _MULTIPLIERS).min(axis=0).tolist()
    bands = tuple((band, *lowest[2 * band : 2 * band + 2]) for band in range(BANDS))
    return Signature(bands, sketch, len(words))
