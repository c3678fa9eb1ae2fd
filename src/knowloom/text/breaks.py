"""Break points of a text: where it can be cut without harm to a sentence, a word or a grapheme."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from knowloom.caching import cached

Ranges = Sequence[tuple[int, int]]

MIN_SHARE = 0.25  # of the target: a shorter part only where nothing else is possible
# A window of more characters is searched from the target outwards, in rings of these radii:
# characters, then shares of the size. Where breaks are many, only the nearest are looked at.
SMALL_WINDOW = 2_000
FIRST_RADIUS = 32
RADII = (0.125, 0.5, 2.0)
OVERLAP = 8  # characters between the end of a sentence and the break after it
JOINER = "\u200d"

_CLOSING = "\"')\\]}\u00bb\u201d\u2019*_`\u300d\u300f\uff09\u3011"
# A line that ends with a colon introduces the list or the code below it.
_PARAGRAPH = re.compile(r"\n(?<!:\n)[ \t\r]*+\n\s*+")
_BLANK_LINE = re.compile(r"\n[ \t\r]*+\n\s*+")
_LIST_ITEM = re.compile(r"\n(?<!:\n)(?=[ \t]*+(?:[-*+\u2022]|(?:\d{1,3}|[a-z])[.)])[ \t])")
_TABLE_ROW = re.compile(r"\n(?=[ \t]*+(?:\||\+[-=+]))")
_SENTENCE_MARKS = "\u3002\uff01\uff1f\uff61\u0964\u0965\u061f\u06d4\u1362\u0589\u17d4\u104b"
_SENTENCE = re.compile(rf"[.!?\u2026][{_CLOSING}]*+\s++|[{_SENTENCE_MARKS}]++[{_CLOSING}]*+\s*+")
_LINE = re.compile(r"\n")
_SPACE = re.compile(r"\s++")
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
    if text[match.start()] != ".":
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
    """A kind of break; the distance from the target, as a share of the size, is subtracted."""

    weight: float
    code_weight: float  # inside a code block
    pattern: re.Pattern[str]
    accepts: Callable[[str, re.Match[str]], bool] | None = None


_KINDS = (  # the best ones first
    _Kind(1.0, -1.0, _PARAGRAPH),
    _Kind(0.7, -1.4, _LIST_ITEM),
    _Kind(0.6, -1.4, _TABLE_ROW),
    _Kind(0.5, -3.0, _SENTENCE, _ends_sentence),
    _Kind(0.4, -1.0, _BLANK_LINE),
    _Kind(0.2, -1.4, _LINE),
    _Kind(0.1, -3.0, _UNSPACED),
    _Kind(0.0, -3.0, _SPACE),
)
_ASCII_KINDS = tuple(kind for kind in _KINDS if kind.pattern is not _UNSPACED)
_CODE_KINDS = (_Kind(1.0, 1.0, _BLANK_LINE), _Kind(0.6, 0.6, _LINE), _Kind(-1.0, -1.0, _SPACE))
_LAST_WEIGHT, _LAST_CODE_WEIGHT = -1.0, -4.0  # of a break beside a mark of punctuation


@cached("punctuation_breaks", 2)
def _last_kind(is_ascii: bool) -> _Kind:
    """Return the kind of break after each character that no word contains.

    Combining marks and pairs of letters that form a flag are parts of words, though no `\\w`.
    """
    if is_ascii:
        return _Kind(_LAST_WEIGHT, _LAST_CODE_WEIGHT, re.compile(r"\W"))
    codes = [code for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M"]
    marks = "".join(map(chr, codes))
    symbols = "\U0001f000-\U0001f1e5\U0001f200-\U0001faff"
    pattern = re.compile(f"[^\\w{marks}\u200c{JOINER}\U00010000-\U0010ffff]|[{symbols}]")
    return _Kind(_LAST_WEIGHT, _LAST_CODE_WEIGHT, pattern)


def find_break(
    text: str, start: int, lowest: int, limit: int, target: int, code: Ranges, size: int
) -> int:
    """Return the best position from `lowest` to `limit` to cut a part that begins at `start`.

    The best part has `target` characters. A code block of up to `size` characters is not cut. If
    no position is possible, the first one after the limit is returned.
    """
    aim, is_ascii = start + target, text.isascii()
    first = max(lowest, start + int(target * MIN_SHARE))
    for begin, end in ((first, limit), (lowest, first)):
        kinds = _ASCII_KINDS if is_ascii else _KINDS
        best = _best_break(text, kinds, begin, end, aim, code, size)
        if best is not None:
            return best
    last = _last_kind(is_ascii)
    best = _best_break(text, (last,), lowest, limit, aim, code, size)
    return best or _next_break(text, limit, last.pattern)


def _best_break(
    text: str,
    kinds: Sequence[_Kind],
    first: int,
    limit: int,
    target: int,
    code: Ranges,
    size: int,
) -> int | None:
    """Return the best position between two others, None if there is none."""
    if code and _is_inside_code(first, limit, code, size):
        kinds, code = (_CODE_KINDS if len(kinds) > 1 else kinds), ()
    best, best_score = None, float("-inf")
    rings = list(_rings(first, limit, target, size))
    for kind in kinds:
        if kind.weight <= best_score:
            break
        for begin, end, distance in rings:
            if kind.weight - distance / size <= best_score:
                break  # no other position of this kind is better
            for position in _breaks(text, kind, begin, end):
                weight = _weigh(kind, position, code, size) if code else kind.weight
                score = weight - abs(position - target) / size
                if score > best_score:
                    best, best_score = position, score
    return best


def _rings(first: int, last: int, target: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges around the target, nearest first, and their distance from it."""
    if last - first <= SMALL_WINDOW:
        yield first, last, 0
        return
    before = after = min(max(first, target), last)
    for share in (FIRST_RADIUS / size, *RADII):
        distance = min(abs(before - target), abs(after - target))
        if before > first:
            end, before = before, max(first, min(before, target - int(share * size)))
            yield before, end, distance
        if after < last:
            begin, after = after, min(last, max(after, target + int(share * size)))
            yield begin, after, distance


def _breaks(text: str, kind: _Kind, first: int, last: int) -> list[int]:
    """Return the positions of a kind from `first` to `last`."""
    accepts = kind.accepts
    return [
        position
        for match in kind.pattern.finditer(text, max(0, first - OVERLAP), last)
        if first <= (position := match.end()) < len(text)
        and (accepts is None or accepts(text, match))
        and is_boundary(text, position)
    ]


def _is_inside_code(first: int, last: int, code: Ranges, size: int) -> bool:
    """Return True if a range is inside a code block that is longer than `size`."""
    place = bisect_right(code, (first,)) - 1
    return place >= 0 and last < code[place][1] and code[place][1] - code[place][0] > size


def _weigh(kind: _Kind, position: int, code: Ranges, size: int) -> float:
    """Return the weight of a break, which depends on the code block around it."""
    place = bisect_right(code, (position,)) - 1
    if place < 0 or not code[place][0] < position < code[place][1]:
        return kind.weight
    return kind.code_weight if code[place][1] - code[place][0] > size else float("-inf")


def _next_break(text: str, position: int, pattern: re.Pattern[str]) -> int:
    """Return the first possible break after a position, the end of the text if there is none."""
    end = len(text)
    for match in pattern.finditer(text, position):
        if match.end() < end and is_boundary(text, match.end()):
            end = match.end()
            break
    unspaced = None if text.isascii() else _UNSPACED.search(text, position + 1, end)
    return unspaced.start() if unspaced else end


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
