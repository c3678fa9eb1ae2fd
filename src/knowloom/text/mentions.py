"""Find names in texts. Joined with the names of items, these are the edges between items.

Two short lists per item keep the edges of a space up to date: the names of the item
(`item_names.collect_names`) and the candidates in its text (`candidate_names`, or `find_names` once
it is known which candidates are names). Names are normalised, so the join is equality of strings.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator, Sequence
from typing import NamedTuple

from knowloom.caching import MemoDict

MAX_WORDS = 10  # of a name; longer ones are sentences
MAX_UNSPACED_CHARACTERS = 24  # of a name in an unspaced script, where each character is a word
MAX_NAME = 200  # characters of a title that are read
MAX_NAMES_PER_TEXT = 500  # names of other items that count in one text
MAX_READ = 100_000  # characters of a text that are read
MAX_PREFILTERED = 50  # names in one text: beyond, reading the whole text is as fast
MIN_LETTERS = 3  # of a name of one word; two are enough in Hangul, whose letters are syllables

# Words that are no names by themselves, and that no span begins with.
_STOP_WORDS = """
    a about above after again against all also although always am an and another any are aren't as
    at back be because been before being below between both but by can can't cannot could did didn't
    do does doesn't doing don't down during each either else even ever every few first for from
    further get got had has have having he he's her here hers him his how however i i'm i've if in
    indeed into is isn't it it's its itself just last later least less let let's like made make many
    may maybe me meanwhile might more moreover most much must my near neither never next no nor not
    nothing now of off often on once one only or other others our ours out over own per perhaps
    please same second see several shall she she's should since so some still such than that that's
    the their theirs them then there there's therefore these they they're third this those though
    through thus to today together too two under unless until up upon us use used using very was we
    we're well were what what's when whenever where whether which while who who's whom whose why
    will with within without would yes yet you you're your yours zero
    january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
# Titles that name a part of a text and not its subject.
_GENERIC_TITLES = """
    abstract answer answers appendix background chapter comment comments conclusion content contents
    context description details discussion document documentation example examples faq file general
    guide help history home index info information intro introduction item links list main message
    misc name new node note notes other overview page part question questions readme reference
    references related results section settings step steps summary table tbd text title todo topic
    type untitled update usage value version"""
GENERIC_TITLES = frozenset(_GENERIC_TITLES.split())
_GENERIC_WORDS = STOP_WORDS | GENERIC_TITLES
_QUESTIONS = "are can could did do does how is should was what when where which who why will would"
_QUESTION_WORDS = frozenset(_QUESTIONS.split())

# In unspaced scripts, each character is a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:'[^\W{_UNSPACED}]+)*")
_ASCII_WORD = re.compile("[A-Za-z0-9_]+(?:'[A-Za-z0-9_]+)*")  # for ASCII texts, twice as fast
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_FIRST_UNSPACED = _UNSPACED[0]
# Compiled on first use, which takes 8 ms.
_BETWEEN_UNSPACED = rf"(?<=[{_UNSPACED}])[^\w{_UNSPACED}]+(?=[{_UNSPACED}])"
_TWO_SYLLABLES = re.compile("[\uac00-\ud7a3]{2}")
# Lower case according to Unicode, yet names are written with no other letters.
_GEORGIAN = re.compile("[\u10d0-\u10ff]")
_GAP = re.compile(r"\n\s*\n|[|•]")  # no name spans it
SYMBOL = re.compile(r"[a-z][A-Z]|_|\d[A-Za-z]|[A-Za-z]\d")  # in program symbols, but not in words
_CODE = re.compile(r"`([^`\n]{2,120})`")
_CAPITALISED = r"[A-ZÀ-ÖØ-ÞĆČĎĐĘĚĞİŁŃŇŐŒŘŚŞŠŢŤŮŰŹŻŽΑ-ΩА-ЯЁ][\w'.-]*"
_PARTICLE = "of|the|de|la|del|von|van|der|and|for|in|on|at|to|di|da|du|le|&"
_PARTICLES = frozenset(_PARTICLE.split("|"))
_BLANK = r"(?<!\w{4}\.)\s+"  # not after the end of a sentence: few abbreviations have four letters
_SPAN = re.compile(
    rf"{_CAPITALISED}(?:{_BLANK}(?:(?:{_PARTICLE})\s+){{0,2}}{_CAPITALISED}|{_BLANK}\d+)*"
)
_BETWEEN_SENTENCES, _SENTENCE_END = " \"'([“‘", ".!?:;\n"


class Word(NamedTuple):
    """A lower-case word of a text, and its position."""

    text: str
    start: int
    end: int


def normalise_name(name: str) -> str:
    """Return the form in which names are compared: lower-case words, one blank between them.

    Punctuation is ignored, so `Engine.search`, "engine search" and "Engine/search" are equal.
    """
    return " ".join(_name_words(name))


def _name_words(name: str) -> list[str]:
    if name.isascii():
        return _ASCII_WORD.findall(name[:MAX_NAME].lower())
    return [word.lower() for word in _WORD.findall(_prepare(name[:MAX_NAME]))]


def is_useful_name(name: str) -> bool:
    """Return True if a normalised name is specific: neither a generic word, a single letter or
    number, a sentence, nor a question."""
    words = name.split(" ")
    if len(words) > MAX_WORDS and (
        len(words) > MAX_UNSPACED_CHARACTERS or not _UNSPACED_CHARACTER.match(name)
    ):
        return False
    if all(map(is_generic_word, words)):
        return False
    if words[0] in _QUESTION_WORDS and len(words) > 3:
        return False
    return len(words) > 1 or len(name) >= MIN_LETTERS or _TWO_SYLLABLES.fullmatch(name) is not None


def is_generic_word(word: str) -> bool:
    """Return True if a word alone is no name: a stop word, generic title, number or letter."""
    return (
        word in _GENERIC_WORDS
        or word.isnumeric()
        or (len(word) == 1 and not _UNSPACED_CHARACTER.match(word))
    )


def candidate_names(text: str) -> tuple[str, ...]:
    """Return every run of words that may be a name, normalised and without duplicates, in order.

    `find_names(text, names)` finds no names but these.
    """
    text = _prepare(text)
    words = _split_words(text)
    runs = (name for start, limit in _starts(text, words) for name, _ in _runs(words, start, limit))
    return tuple(dict.fromkeys(name for name in runs if " " in name or is_useful_name(name)))


def split_parts(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each part of a text, as written, and whether it has Georgian ones.

    No name spans two parts.
    """
    text = _prepare(text)
    for part in _GAP.split(text) if "\n" in text or "|" in text or "•" in text else (text,):
        if part.isascii():
            yield _ASCII_WORD.findall(part), False
        else:
            yield _WORD.findall(part), _GEORGIAN.search(part) is not None


def find_names(text: str, names: Container[str]) -> tuple[str, ...]:
    """Return those names that a text mentions, without duplicates, in order.

    At each position the longest name counts, and none inside it.
    """
    return tuple(dict.fromkeys(name for name, _ in iter_mentions(text, names)))


def iter_mentions(text: str, names: Container[str]) -> Iterator[tuple[str, int]]:
    """Yield each mention of a name and its offset in the text's NFKC form, in order."""
    text = _prepare(text)
    words = _split_words(text)
    position = 0
    for start, limit in _starts(text, words):
        if start < position:
            continue
        name, length = max(
            (run for run in _runs(words, start, limit) if run[0] in names),
            key=lambda run: run[1],
            default=("", 0),
        )
        if length:
            position = start + length
            yield name, words[start].start


def fold_text(text: str) -> str:
    """Return the text in the form that `may_mention` searches.

    It is case-folded, since lower-casing depends on adjacent letters. Punctuation between
    characters of unspaced scripts is removed: single characters occur in every text, and only
    sequences of them are specific.
    """
    folded = _prepare(text).casefold()
    if folded.isascii() or not _UNSPACED_CHARACTER.search(folded):
        return folded
    return re.sub(_BETWEEN_UNSPACED, "", folded)


def may_mention(text: str, names: Sequence[str]) -> bool:
    """Return False if a folded text mentions none of the normalised names.

    A cheap filter: True if all words of a name occur anywhere, or if there are very many names.
    """
    return len(names) > MAX_PREFILTERED or any(
        all(word in text for word in fold_text(name).split(" ")) for name in names
    )


def find_query_names(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Return those names that a query mentions, without duplicates.

    Queries are typed carelessly: names of several words match in any case.
    """
    words, first_words = _split_words(_prepare(text)), {name.partition(" ")[0] for name in names}
    starts = [
        start
        for start, word in enumerate(words)
        if word.text in first_words or word.text.removesuffix("'s") in first_words
    ]
    runs = (
        run
        for start in starts
        for run, _ in _runs(words, start, min(max_words(words[start].text), len(words) - start))
    )
    mentioned = dict.fromkeys(run for run in runs if run in names)
    capitalised: frozenset[str] = frozenset()
    if any(" " not in name for name in mentioned):
        capitalised = frozenset(candidate_names(text))
    return tuple(name for name in mentioned if " " in name or name in capitalised)


def capitalised_spans(text: str) -> tuple[str, ...]:
    """Return runs of capitalised words and program symbols: names that may have no item.

    Two texts that share a rare one are weakly related.
    """
    text = _prepare(text)
    # Only single words are memoised, since most longer runs occur once.
    names: dict[str, None] = {}
    position = 0  # of the last run: searching from the start each time would be quadratic
    for run in dict.fromkeys(_SPAN.findall(text)):
        if " " in run:
            name = _span_name(run)
        else:
            position = text.find(run, position)
            name = "" if _only_begins_sentences(text, run, position) else _span_names[run]
        if name:
            names[name] = None
    for symbol in _CODE.findall(text) if "`" in text else ():
        if SYMBOL.search(symbol) and is_useful_name(normalise_name(symbol)):
            names[normalise_name(symbol)] = None
    return tuple(names)


def _only_begins_sentences(text: str, word: str, position: int) -> bool:
    """Return True if a word is capitalised only at the start of sentences: then it is no name.

    The search begins at `position`, where the word occurs: most names are recognised there.
    """
    if not word[1:].islower():
        return False
    for begin, end in ((position, len(text)), (0, position + len(word) - 1)):
        start = text.find(word, begin, end)
        while start >= 0:
            before = text[max(0, start - 4) : start].rstrip(_BETWEEN_SENTENCES)
            if before and before[-1] not in _SENTENCE_END:
                return False
            start = text.find(word, start + 1, end)
    return True


def _span_name(run: str) -> str:
    """Return a run of capitalised words as a name, without stop words around it, or ""."""
    words = _name_words(run)
    while words and words[0] in STOP_WORDS:
        del words[0]
    while words and words[-1] in _PARTICLES:
        del words[-1]
    if not words:
        return ""
    if words[-1].endswith("'s"):
        words[-1] = words[-1][:-2]
    name = " ".join(words)
    return name if is_useful_name(name) else ""


_span_names = MemoDict("capitalised spans", _span_name)


def _prepare(text: str) -> str:
    """Return the part of a text that is read, in Unicode's form NFKC, with plain apostrophes."""
    text = text[:MAX_READ]
    return text if text.isascii() else unicodedata.normalize("NFKC", text).replace("’", "'")


def _split_words(text: str) -> list[Word]:
    return [
        Word(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)
    ]


def _starts(text: str, words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Yield where a name may begin, and its maximal number of words, up to the next gap."""
    gaps = [gap.start() for gap in _GAP.finditer(text)]
    ends = _ends_by_word(gaps, words) if gaps else []
    for number, word in enumerate(words):
        end = ends[number] if ends else len(words)
        if _begins_name(text, word) and (
            word.text not in STOP_WORDS or _leads_to_name(text, words[number:end])
        ):
            yield number, min(max_words(word.text), end - number)


def _ends_by_word(gaps: Sequence[int], words: Sequence[Word]) -> list[int]:
    """Return, for every word, the number of the first word after the next gap."""
    starts = [word.start for word in words]
    ends = [*(bisect_left(starts, gap) for gap in gaps), len(words)]
    return [ends[bisect_left(gaps, start)] for start in starts]


def _begins_name(text: str, word: Word) -> bool:
    return can_begin_name(text[word.start : word.end])


def _leads_to_name(text: str, words: Sequence[Word]) -> bool:
    """Return True if a capitalised stop word begins a name, and not merely a sentence.

    It does if the next word that is no stop word can begin one.
    """
    return next((_begins_name(text, word) for word in words if word.text not in STOP_WORDS), False)


def can_begin_name(word: str) -> bool:
    """Return True if a word, as written, has a capital or number first, belongs to a script
    without capitals, or is a symbol; common words are never taken for names."""
    return not word[0].islower() or bool(SYMBOL.search(word) or _GEORGIAN.match(word))


def max_words(first: str) -> int:
    """Return the maximal number of words of a name that begins with this one."""
    return MAX_UNSPACED_CHARACTERS if begins_unspaced(first) else MAX_WORDS


def begins_unspaced(name: str) -> bool:
    """Return True if the first word of a name is a character of an unspaced script."""
    return name >= _FIRST_UNSPACED and _UNSPACED_CHARACTER.match(name) is not None


def _runs(words: Sequence[Word], start: int, limit: int) -> Iterator[tuple[str, int]]:
    """Yield the runs of up to `limit` words with their lengths; possessives also without ending."""
    name = ""
    for length in range(1, limit + 1):
        word = words[start + length - 1].text
        name = f"{name} {word}" if name else word
        if word.endswith("'s"):
            yield name[:-2], length
        yield name, length
