"""Break points of a text: where it can be cut without harm to a sentence, a word or a grapheme."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from knowloom.caching import cached

Ranges = Sequence[tuple[int, int]]

MIN_SHARE = 0.25  # of the target: a shorter part only where nothing else is possible
# Shares of the target around it that are searched, one after the other: the best break is near.
RADII = (0.125, 0.5, 2.0)
JOINER = "\u200d"

_CLOSING = "\"')\\]}\u00bb\u201d\u2019*_`\u300d\u300f\uff09\u3011"
_PARAGRAPH = re.compile(r"\n[ \t\r]*+\n\s*+")
_LIST_ITEM = re.compile(r"\n(?=[ \t]*+(?:[-*+\u2022]|\w{1,3}[.)])[ \t])")
_TABLE_ROW = re.compile(r"\n(?=[ \t]*+(?:\||\+[-=+]))")
_SENTENCE = re.compile(
    rf"(?P<end>[.!?\u2026][{_CLOSING}]*+)\s++"
    rf"|[\u3002\uff01\uff1f\uff61\u0964\u0965\u061f\u06d4\u1362\u0589\u17d4\u104b]++[{_CLOSING}]*+\s*+"
)
_LINE = re.compile(r"\n")
_SPACE = re.compile(r"\s++")
_NON_WORD = re.compile(r"\W")
# Scripts without spaces between words can be cut before each syllable or ideograph.
_UNSPACED = re.compile(
    "(?<=[\u0e01-\u0e3a\u0e45-\u0e4e\u0e81-\u0ebd\u0ec6-\u0ecd\u1000-\u1038\u103a-\u109f"
    "\u1780-\u17d1\u17d3-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
    "(?=[\u0e01-\u0e2e\u0e40-\u0e44\u0e81-\u0eae\u0ec0-\u0ec4\u1000-\u102a\u1780-\u17b3"
    "\u3042\u3044\u3046\u3048\u304a-\u3062\u3064-\u3082\u3084\u3086\u3088-\u308d\u308f-\u3094"
    "\u30a2\u30a4\u30a6\u30a8\u30aa-\u30c2\u30c4-\u30e2\u30e4\u30e6\u30e8-\u30ed\u30ef-\u30f4"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    "(?![\u1000-\u1021][\u1039\u103a])"
)
_ABBREVIATIONS = frozenset(
    """
    abb abs al approx art aufl av bd bzw ca cap cf ch chap chr co dept dr ed eds eq evtl fig figs
    gen ggf hrsg inkl jr lt max min mlle mme mr mrs ms no nos nr op pp prof ref rev sec sgt sr sra
    srta st str tab tel ud uds univ usw vgl vol vols vs zb
    """.split()
)
_LAST_WORD = re.compile(r"[^\W_]++(?:[.'\u2019-][^\W_]++)*+$")


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Return False after an initial, an abbreviation or an ordinal, and before a small letter."""
    position = match.end()
    if position < len(text) and text[position].islower():
        return False
    if text[match.start()] != "." or match["end"] is None:
        return True
    word = _LAST_WORD.search(text, max(0, match.start() - 16), match.start())
    if word is None:
        return True
    last = word[0]
    if last.isdigit():
        return len(last) > 2  # "3. Mai"
    is_initial = len(last.rpartition(".")[2]) == 1
    return not is_initial and last.lower() not in _ABBREVIATIONS


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of break; the distance from the target, as a share of it, is subtracted."""

    weight: float
    code_weight: float  # inside a code block
    pattern: re.Pattern[str]
    accepts: Callable[[str, re.Match[str]], bool] | None = None


# The best kinds first.
_STRUCTURE = (
    _Kind(1.0, -1.0, _PARAGRAPH),
    _Kind(0.7, -1.4, _LIST_ITEM),
    _Kind(0.6, -1.4, _TABLE_ROW),
    _Kind(0.5, -3.0, _SENTENCE, _ends_sentence),
    _Kind(0.2, -1.4, _LINE),
)
_ASCII_KINDS = (*_STRUCTURE, _Kind(0.0, -3.0, _SPACE), _Kind(-1.0, -4.0, _NON_WORD))


@cached("break_kinds", 1)
def _all_kinds() -> tuple[_Kind, ...]:
    return (
        *_STRUCTURE,
        _Kind(0.1, -3.0, _UNSPACED),
        _Kind(0.0, -3.0, _SPACE),
        _Kind(-1.0, -4.0, _non_word()),
    )


@cached("non_word_pattern", 1)
def _non_word() -> re.Pattern[str]:
    """Return the pattern of characters that no word contains: a combining mark is part of one."""
    codes = chain(range(0x300, 0x1E950), range(0xE0100, 0xE01F0))
    marks = "".join([chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M"])
    return re.compile(f"[^\\w{marks}\u200c{JOINER}]")


def find_break(
    text: str, start: int, lowest: int, limit: int, target: int, code: Ranges, size: int
) -> int:
    """Return the best position from `lowest` to `limit` to cut a part that begins at `start`.

    The best part has `target` characters. A code block of up to `size` characters is not cut. If
    no position is possible, the first one after the limit is returned.
    """
    kinds = _ASCII_KINDS if text.isascii() else _all_kinds()
    first = max(lowest, start + int(target * MIN_SHARE))
    for begin in (first, lowest):
        best = _best_break(text, kinds, begin, limit, (start, target), code, size)
        if best is not None:
            return best
    return _next_break(text, limit, kinds)


def _best_break(
    text: str,
    kinds: Sequence[_Kind],
    first: int,
    limit: int,
    aim: tuple[int, int],
    code: Ranges,
    size: int,
) -> int | None:
    """Return the best position between two others, None if there is none."""
    start, target = aim
    centre = start + target
    best, best_score = None, float("-inf")
    for kind in kinds:
        searched = 0.0
        for radius in RADII:
            if kind.weight - searched <= best_score:
                break  # no other position of this kind is better
            searched, reach = radius, int(radius * target)
            for position in _breaks(text, kind, max(first, centre - reach), centre + reach, limit):
                weight = _weigh(kind, position, code, size) if code else kind.weight
                score = weight - abs(position - centre) / target
                if score > best_score:
                    best, best_score = position, score
    return best


def _breaks(text: str, kind: _Kind, first: int, last: int, limit: int) -> Iterator[int]:
    """Return the positions of a kind between `first` and `last`."""
    for match in kind.pattern.finditer(text, max(0, first - 1), min(last, limit)):
        position = match.end()
        if (
            first <= position < len(text)
            and (kind.accepts is None or kind.accepts(text, match))
            and is_boundary(text, position)
        ):
            yield position


def _weigh(kind: _Kind, position: int, code: Ranges, size: int) -> float:
    """Return the weight of a break, which depends on the code block around it."""
    place = bisect_right(code, (position,)) - 1
    if place < 0 or not code[place][0] < position < code[place][1]:
        return kind.weight
    return kind.code_weight if code[place][1] - code[place][0] > size else float("-inf")


def _next_break(text: str, position: int, kinds: Sequence[_Kind]) -> int:
    """Return the first possible break after a position, the end of the text if there is none."""
    end = len(text)
    for match in kinds[-1].pattern.finditer(text, position):
        if match.end() < end and is_boundary(text, match.end()):
            end = match.end()
            break
    if not text.isascii() and (match_ := _UNSPACED.search(text, position + 1, end)):
        return match_.start()
    return end


def is_boundary(text: str, position: int) -> bool:
    """Return False inside a grapheme: before an accent, inside an emoji sequence or a flag."""
    before, after = text[position - 1], text[position]
    if before == JOINER:
        return False
    if after < "\u0300":
        return True
    return not (
        unicodedata.category(after)[0] == "M"
        or after in "\u200c\u200d\uff9e\uff9f"
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")
        or ("\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff")
    )
