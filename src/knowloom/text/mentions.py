"""Which names a text holds: pure functions. With the names that items go by (`called.py`), joined, they are the links between items.

Per item two short tables are enough to keep the links of a space up to date: `names` of the item and `candidates` of its text (or
`mentioned`, once it is known which candidates are names). All names are normalised, so that the join is equality of texts.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator, Sequence
from typing import NamedTuple

from knowloom.caching import MemoDict

MAX_WORDS = 10  # of a name; what is longer is a sentence
MAX_UNSPACED_CHARACTERS = (
    24  # of a name in a script without spaces, where every sign counts as a word
)
MAX_NAME = 200  # characters of a title that are looked at
MAX_NAMES_PER_TEXT = 500  # names of others that count in one text
MAX_READ = 100_000  # characters of a text that are looked at
MAX_PREFILTERED = 50  # names in one text: to read it as a whole is then as quick
MIN_LETTERS = 3  # of a name of one word in a script with spaces; a letter of Hangul is a syllable, and two are enough

# Words that name nothing when they stand alone, and that no span begins with.
_STOP_LIST = """
    a about above after again against all also although always am an and another any are aren't as at back be because been before
    being below between both but by can can't cannot could did didn't do does doesn't doing don't down during each either else even ever
    every few first for from further get got had has have having he he's her here hers him his how however i i'm i've if in indeed into is
    isn't it it's its itself just last later least less let let's like made make many may maybe me meanwhile might more moreover most much
    must my near neither never next no nor not nothing now of off often on once one only or other others our ours out over own per perhaps
    please same second see several shall she she's should since so some still such than that that's the their theirs them then there
    there's therefore these they they're third this those though through thus to today together too two under unless until up upon us use
    used using very was we we're well were what what's when whenever where whether which while who who's whom whose why will with within
    without would yes yet you you're your yours zero
    january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday"""
STOP_WORDS = frozenset(_STOP_LIST.split())
# Titles that say what part of a text this is, not what it is about.
_GENERIC_LIST = """
    abstract answer answers appendix background chapter comment comments conclusion content contents context description details
    discussion document documentation example examples faq file general guide help history home index info information intro introduction
    item links list main message misc name new node note notes other overview page part question questions readme reference references
    related results section settings step steps summary table tbd text title todo topic type untitled update usage value version"""
GENERIC_TITLES = frozenset(_GENERIC_LIST.split())
_GENERIC_WORDS = STOP_WORDS | GENERIC_TITLES
_ASKING = "are can could did do does how is should was what when where which who why will would"
_QUESTION_WORDS = frozenset(_ASKING.split())

# A sign of a script without spaces is a word of its own.
_ONE_SIGN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ONE_SIGN}]|[^\W{_ONE_SIGN}]+(?:'[^\W{_ONE_SIGN}]+)*")
_ASCII_WORD = re.compile(
    "[A-Za-z0-9_]+(?:'[A-Za-z0-9_]+)*"
)  # the same in a text of ASCII alone, in half the time
_SIGN = re.compile(f"[{_ONE_SIGN}]")
_FIRST_SIGN = _ONE_SIGN[0]
_BETWEEN_SIGNS = rf"(?<=[{_ONE_SIGN}])[^\w{_ONE_SIGN}]+(?=[{_ONE_SIGN}])"  # compiled when it is needed: it takes 8 ms
_TWO_SYLLABLES = re.compile("[\uac00-\ud7a3]{2}")
_GEORGIAN = re.compile(
    "[\u10d0-\u10ff]"
)  # small letters to Unicode, yet nobody writes names with others
_GAP = re.compile(r"\n\s*\n|[|•]")  # no name reaches across
SYMBOL = re.compile(
    r"[a-z][A-Z]|_|\d[A-Za-z]|[A-Za-z]\d"
)  # what a symbol of a program has and a word has not
_CODE = re.compile(r"`([^`\n]{2,120})`")
_CAPITAL = r"[A-ZÀ-ÖØ-ÞĆČĎĐĘĚĞİŁŃŇŐŒŘŚŞŠŢŤŮŰŹŻŽΑ-ΩА-ЯЁ][\w'.-]*"
_SMALL = "of|the|de|la|del|von|van|der|and|for|in|on|at|to|di|da|du|le|&"
_INNER = r"(?<!\w{4}\.)\s+"  # no name reaches across the end of a sentence; few abbreviations have four letters
_SPAN = re.compile(rf"{_CAPITAL}(?:{_INNER}(?:(?:{_SMALL})\s+){{0,2}}{_CAPITAL}|{_INNER}\d+)*")
_SMALL_WORDS = frozenset(_SMALL.split("|"))
_OPENING, _ENDING = " \"'([“‘", ".!?:;\n"  # what may stand between two sentences, and what ends one


class Word(NamedTuple):
    """A word of a text as names have it, and where it stands."""

    text: str
    start: int
    end: int


def normalise_name(name: str) -> str:
    """The form in which names are compared: words in lower case, one blank between them. Signs between words do not count, so
    `Engine.search`, "engine search" and "Engine/search" are one name."""
    return " ".join(_name_words(name))


def _name_words(name: str) -> list[str]:
    if name.isascii():
        return _ASCII_WORD.findall(name[:MAX_NAME].lower())
    return [word.lower() for word in _WORD.findall(_prepare(name[:MAX_NAME]))]


def is_useful_name(name: str) -> bool:
    """Whether a normalised name tells one thing from others: no stop word, no letter or number alone, no sentence, no question."""
    words = name.split(" ")
    if len(words) > MAX_WORDS and (len(words) > MAX_UNSPACED_CHARACTERS or not _SIGN.match(name)):
        return False
    if all(map(is_generic_word, words)):
        return False
    if words[0] in _QUESTION_WORDS and len(words) > 3:
        return False
    return len(words) > 1 or len(name) >= MIN_LETTERS or _TWO_SYLLABLES.fullmatch(name) is not None


def is_generic_word(word: str) -> bool:
    """Whether a word alone is no name: a stop word, the title of any part of a text, a number, a letter."""
    return word in _GENERIC_WORDS or word.isnumeric() or (len(word) == 1 and not _SIGN.match(word))


def candidate_names(text: str) -> tuple[str, ...]:
    """Every run of words in a text that may be a name, normalised, each once, in order: `mentioned(text, known)` needs to know no
    other names than those among them."""
    text = _prepare(text)
    words = _words(text)
    runs = (name for start, most in _starts(text, words) for name, _ in _runs(words, start, most))
    return tuple(dict.fromkeys(name for name in runs if " " in name or is_useful_name(name)))


def split_parts(text: str) -> Iterator[tuple[list[str], bool]]:
    """The words of each part of a text, as they stand there, and whether it has Georgian ones; no name reaches from one part into another."""
    plain = _prepare(text)
    for part in _GAP.split(plain) if "\n" in plain or "|" in plain or "•" in plain else (plain,):
        if part.isascii():
            yield _ASCII_WORD.findall(part), False
        else:
            yield _WORD.findall(part), _GEORGIAN.search(part) is not None


def find_names(text: str, known: Container[str]) -> tuple[str, ...]:
    """The known names that a text holds, each once, in order. At every place the longest one counts, and nothing inside it."""
    return tuple(dict.fromkeys(name for name, _ in iter_mentions(text, known)))


def iter_mentions(text: str, known: Container[str]) -> Iterator[tuple[str, int]]:
    """Each known name that a text holds, and the character it begins at (of the text in Unicode's form NFKC), in order."""
    text = _prepare(text)
    words = _words(text)
    behind = 0
    for start, most in _starts(text, words):
        if start < behind:
            continue
        name, length = max(
            (run for run in _runs(words, start, most) if run[0] in known),
            key=lambda run: run[1],
            default=("", 0),
        )
        if length:
            behind = start + length
            yield name, words[start].start


def fold_text(text: str) -> str:
    """What `holds_one` looks at. Folded, as what small letters of a whole text are depends on the letters beside them. Nothing stands between
    signs of scripts without spaces: signs alone are in every text, and only side by side they tell one from another."""
    plain = _prepare(text).casefold()
    return (
        plain if plain.isascii() or not _SIGN.search(plain) else re.sub(_BETWEEN_SIGNS, "", plain)
    )


def may_mention(text: str, names: Sequence[str]) -> bool:
    """Whether a folded text has all words of one of the normalised names, wherever they stand: if not, it mentions none of them. Of very
    many names it may be said without looking."""
    return len(names) > MAX_PREFILTERED or any(
        all(word in text for word in fold_text(name).split(" ")) for name in names
    )


def find_query_names(text: str, known: Collection[str]) -> tuple[str, ...]:
    """The known names that a question holds, each once. Questions are typed carelessly: names of several words count in any case."""
    words, firsts = _words(_prepare(text)), {name.partition(" ")[0] for name in known}
    starts = [
        start
        for start, word in enumerate(words)
        if word.text in firsts or word.text.removesuffix("'s") in firsts
    ]
    runs = (
        run
        for start in starts
        for run, _ in _runs(words, start, min(max_words(words[start].text), len(words) - start))
    )
    found = dict.fromkeys(run for run in runs if run in known)
    capital = (
        frozenset(candidate_names(text)) if any(" " not in run for run in found) else frozenset()
    )
    return tuple(run for run in found if " " in run or run in capital)


def capitalised_spans(text: str) -> tuple[str, ...]:
    """Runs of capitalised words and symbols of programs in a text: names of things that may have no item of their own. Two texts
    that share a rare one belong together a little."""
    text = _prepare(text)
    # Most runs of several words are met once: to keep them would take longer than to make them again. A word is looked at once, however
    # often it stands there.
    runs = dict.fromkeys(_SPAN.findall(text))
    at = 0  # each stands behind the one before: to look from the beginning of the text for each took the square of its length
    found = dict.fromkeys(
        [
            name
            for run in runs
            if (
                name := _span(run)
                if " " in run
                else ""
                if _only_begins_sentences(text, run, at := text.find(run, at))
                else _spans[run]
            )
        ]
    )
    for symbol in _CODE.findall(text) if "`" in text else ():
        if SYMBOL.search(symbol) and is_useful_name(normalise_name(symbol)):
            found[normalise_name(symbol)] = None
    return tuple(found)


def _only_begins_sentences(text: str, word: str, at: int) -> bool:
    """Whether a word has its capital because sentences begin with it, and never inside one: then it is no name. Looked for first from `at`
    on, where it stands: there most are seen to be names."""
    if not word[1:].islower():
        return False
    for begin, end in ((at, len(text)), (0, at + len(word) - 1)):
        start = text.find(word, begin, end)
        while start >= 0:
            before = text[max(0, start - 4) : start].rstrip(_OPENING)
            if before and before[-1] not in _ENDING:
                return False
            start = text.find(word, start + 1, end)
    return True


def _span(run: str) -> str:
    """A run of capitalised words as a name, without small words around it; "" if it is none."""
    words = _name_words(run)
    while words and words[0] in STOP_WORDS:
        del words[0]
    while words and words[-1] in _SMALL_WORDS:
        del words[-1]
    if not words:
        return ""
    if words[-1].endswith("'s"):
        words[-1] = words[-1][:-2]
    name = " ".join(words)
    return name if is_useful_name(name) else ""


_spans = MemoDict("capitalised spans", _span)


def _prepare(text: str) -> str:
    """What is looked at of a text, in the form in which signs that look the same are the same."""
    text = text[:MAX_READ]
    return text if text.isascii() else unicodedata.normalize("NFKC", text).replace("’", "'")


def _words(plain: str) -> list[Word]:
    return [
        Word(found.group().lower(), found.start(), found.end()) for found in _WORD.finditer(plain)
    ]


def _starts(text: str, words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Where a name may begin, and how many words it may have there: as many as stand before the next gap."""
    gaps = [gap.start() for gap in _GAP.finditer(text)]
    ends = _ends_by_word(gaps, words) if gaps else []
    for number, word in enumerate(words):
        end = ends[number] if ends else len(words)
        if _begins_name(text, word) and (
            word.text not in STOP_WORDS or _leads_to_name(text, words[number:end])
        ):
            yield number, min(max_words(word.text), end - number)


def _ends_by_word(gaps: Sequence[int], words: Sequence[Word]) -> list[int]:
    """For every word the number of the first word behind the next gap."""
    starts = [word.start for word in words]
    behind = [*(bisect_left(starts, gap) for gap in gaps), len(words)]
    return [behind[bisect_left(gaps, start)] for start in starts]


def _begins_name(text: str, word: Word) -> bool:
    """A capital, a number, a script without capitals or a symbol may begin a name; a small letter may not, so that common words are
    never taken for names."""
    return can_begin_name(text[word.start : word.end])


def _leads_to_name(text: str, words: Sequence[Word]) -> bool:
    """Whether a stop word with a capital begins a name, or just a sentence: the next word that says something may begin one itself."""
    return next((_begins_name(text, word) for word in words if word.text not in STOP_WORDS), False)


def can_begin_name(written: str) -> bool:
    return not written[0].islower() or bool(SYMBOL.search(written) or _GEORGIAN.match(written))


def max_words(first: str) -> int:
    """Words of a name that begins with this one."""
    return MAX_UNSPACED_CHARACTERS if begins_unspaced(first) else MAX_WORDS


def begins_unspaced(name: str) -> bool:
    """Whether the first word of a name is a sign of a script without spaces."""
    return name >= _FIRST_SIGN and _SIGN.match(name) is not None


def _runs(words: Sequence[Word], start: int, most: int) -> Iterator[tuple[str, int]]:
    """The runs of words from a place, shortest first, with their lengths; a possessive also without its ending."""
    name = ""
    for length in range(1, most + 1):
        word = words[start + length - 1].text
        name = f"{name} {word}" if name else word
        if word.endswith("'s"):
            yield name[:-2], length
        yield name, length
