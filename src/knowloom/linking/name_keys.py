"""The keys of names: how an item that comes later finds the texts that may name it, without an entry for every run of words in them.

A text may hold any of some hundred runs of words that could be names. Its keys are few: the first word, and the first two, of each run
that say something. A name's key is made of it in the same way.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import count

from knowloom.caching import Kept
from knowloom.text.mentions import (
    MAX_NAMED,
    MAX_SIGNS,
    STOP,
    begins_with_sign,
    may_begin,
    most_words,
    parts,
    tells_nothing,
)

MAX_KEY = 80  # characters; what is cut off is looked at when the text is read again
AT_MOST = 32  # more words than any name has


def key_of(name: str) -> str:
    """The first two words of a normalised name that say something; the one, if it is alone. Every useful name has one."""
    return " ".join([word for word in name.split(" ") if word not in STOP][:2])[:MAX_KEY]


# What is to be known of a word wherever it stands: how names have it, whether it says something (is no stop word), whether it may begin a
# name, how many words a name that begins with it may have, and the keys of one that has no other word that says something.
Shape = tuple[str, bool, bool, int, tuple[str, ...]]

Runs = dict[str, int]  # runs of words that begin at one place, shortest first, each with its length


class Text:
    """A text, read once: the keys of the names it may hold, and, when it is known which keys matter, the names themselves. It keeps nothing but
    texts, and numbers as bytes: the garbage collector would walk over others again and again, for a twentieth of the time of linking."""

    __slots__ = ("_places", "_said", "_words", "keys")

    def __init__(self, text: str) -> None:
        words: list[str] = []
        said: list[str] = []  # keys that names may have here
        places: list[
            int
        ] = []  # where a name with this key may begin: the number of the word, times AT_MOST, and how many words it may have
        for part, georgian in parts(text):
            _read(
                list(map(_georgian if georgian else _shapes.__getitem__, part)), words, said, places
            )
        numbers = dict(zip(dict.fromkeys(said), count(), strict=False))
        self.keys = tuple(numbers)
        self._words = tuple(words)
        self._said, self._places = (
            array("I", map(numbers.__getitem__, said)).tobytes(),
            array("Q", places).tobytes(),
        )

    @property
    def size(self) -> int:
        """Words, and keys wherever they stand: what it takes to keep. Eight times as many for a character where there are no spaces."""
        return len(self._words) + len(self._said) // 4

    def places(self, live: AbstractSet[str]) -> tuple[list[int], list[int]]:
        """Where names with one of these keys may begin: at words, and at signs of a script without spaces (for `signs.py`)."""
        if live.isdisjoint(self.keys):
            return [], []
        here = {number for number, key in enumerate(self.keys) if key in live}
        everywhere = zip(
            memoryview(self._said).cast("I"), memoryview(self._places).cast("Q"), strict=True
        )
        places = list(dict.fromkeys([place for key, place in everywhere if key in here]))
        if not any([begins_with_sign(self.keys[number]) for number in here]):
            return places, []
        signs = set(filter(begins_with_sign, set(self._words)))
        at_words = [place for place in places if self._words[place // AT_MOST] not in signs]
        return at_words, [place for place in places if self._words[place // AT_MOST] in signs]

    def beginning(self, places: Iterable[int], length: int) -> list[str]:
        """So many words from each place; "" where no name that begins there has so many."""
        words = self._words
        return [
            " ".join(words[(start := place // AT_MOST) : start + length])
            if place % AT_MOST >= length
            else ""
            for place in places
        ]

    def runs(self, places: Iterable[int], live: AbstractSet[str]) -> list[tuple[int, Runs]]:
        """The number of the word at each place, and the runs of words from there that have one of these keys."""
        return [(place // AT_MOST, self._runs(*divmod(place, AT_MOST), live)) for place in places]

    def _runs(self, start: int, most: int, live: AbstractSet[str]) -> Runs:
        """A possessive also without its ending, which of the two counts more, so it comes last."""
        found: Runs = {}
        name = key = ""
        wanted, saying = False, 0
        for length, word in enumerate(self._words[start : start + most], 1):
            name = f"{name} {word}" if name else word
            if saying < 2 and word not in STOP:
                saying += 1
                key = f"{key} {word}" if key else word
                wanted = key[:MAX_KEY] in live
            if wanted:
                found[name] = length
            if word.endswith("'s") and key_of(name[:-2]) in live:
                found[name[:-2]] = length
            if saying == 2 and not wanted:
                break  # what follows has the same key
        return found


def mentioned(runs: Iterable[tuple[int, Runs]], known: Container[str]) -> list[str]:
    """What `mentions.mentioned` finds of the known names in a text with these runs; the first MAX_NAMED of them."""
    found: dict[str, None] = {}
    behind = 0
    for start, lengths in runs:
        name = (
            next((run for run in reversed(lengths) if run in known), "") if start >= behind else ""
        )
        if name:
            behind = start + lengths[name]
            found[name] = None
    return list(found)[:MAX_NAMED]


def _read(part: Sequence[Shape], words: list[str], said: list[str], places: list[int]) -> None:
    """Add a part of a text. Backwards, as the keys of a name are of the next two words that say something."""
    begin = len(said)
    alone: tuple[str, ...] = ()
    number = end = first = second = len(words) + len(part)
    words += [shape[0] for shape in part]
    word, told = "", False  # the next word that says something, and whether it may begin a name
    for small, tells, begins, most, keys in reversed(part):
        number -= 1
        if tells:
            first, second, word, alone, told = number, first, small, keys, begins
        if begins and told:
            stop = number + most
            if stop > end:
                stop = end
            place = number * AT_MOST + stop - number
            if second < stop:
                pair = f"{word} {words[second]}"
                if len(pair) > MAX_KEY or pair[-2:] == "'s":
                    pairs = _pair(pair)
                    said += reversed(pairs)
                    places += [place] * len(pairs)
                else:
                    said.append(pair)
                    places.append(place)
            # A sign alone is no name: its key is that of a sign before stop words.
            if alone and first < stop and (most < MAX_SIGNS or second > first + 1 < stop):
                said += reversed(alone)
                places += [place] * len(alone)
    said[begin:], places[begin:] = said[begin:][::-1], places[begin:][::-1]


def _pair(pair: str) -> tuple[str, ...]:
    """The keys of a name that begins with two words that say something, besides those of the first alone."""
    return (pair[:MAX_KEY], pair[:-2][:MAX_KEY]) if pair.endswith("'s") else (pair[:MAX_KEY],)


def _shape(word: str) -> Shape:
    small = word.lower()
    begins = word != small or not (word.isalpha() and word.islower())
    forms = (small, small[:-2]) if small.endswith("'s") else (small,)
    keys = tuple([form[:MAX_KEY] for form in forms if not tells_nothing(form)])
    return (small, small not in STOP, begins and may_begin(word), most_words(word), keys)


def _georgian(word: str) -> Shape:
    small, tells, _, most, keys = _shape(word)
    return (small, tells, may_begin(word), most, keys)


_shapes = Kept(_shape)
