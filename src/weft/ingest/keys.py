"""The keys of names: how an item that comes later finds the texts that may name it, without an entry for every run of words in them.

A text may hold any of some hundred runs of words that could be names. Its keys are few: the first word, and the first two, of each run
that say something. A name's key is made of it in the same way.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from weft.ingest.kept import Kept
from weft.ingest.mentions import MAX_NAMED, STOP, may_begin, most_words, parts, tells_nothing

MAX_KEY = 80  # characters; what is cut off is looked at when the text is read again


def key_of(name: str) -> str:
    """The first two words of a normalised name that say something; the one, if it is alone. Every useful name has one."""
    return " ".join([word for word in name.split(" ") if word not in STOP][:2])[:MAX_KEY]


# Where a name may begin in a text: the number of its first word, how many words it may have, and the keys that a name from here has. A
# plain tuple, as a round has some hundred thousand: these are made in a fifth of the time, and the garbage collector forgets them.
Place = tuple[int, int, tuple[str, ...]]

# What is to be known of a word wherever it stands: how names have it, whether it says something (is no stop word), whether it may begin a
# name, how many words a name that begins with it may have, and the keys of one that has no other word that says something.
Shape = tuple[str, bool, bool, int, tuple[str, ...]]


class Text:
    """A text, read once: the keys of the names it may hold, and, when it is known which keys matter, the names themselves."""

    __slots__ = ("_places", "_words", "keys")

    def __init__(self, text: str) -> None:
        self._words: list[str] = []
        self._places: list[Place] = []
        for words, georgian in parts(text):
            self._read(list(map(_georgian if georgian else _shapes.__getitem__, words)))
        self.keys = list(dict.fromkeys([one for _, _, keys in self._places for one in keys]))

    def living(self, live: AbstractSet[str]) -> list[Place]:
        """Where a name with one of these keys may begin."""
        return [] if live.isdisjoint(self.keys) else [place for place in self._places if not live.isdisjoint(place[2])]

    def runs(self, places: Iterable[Place]) -> set[str]:
        """Every run of words that begins there."""
        return {run for start, most, _ in places for run, _ in self._runs(start, most)}

    def mentioned(self, places: Iterable[Place], known: Container[str]) -> list[str]:
        """What `mentions.mentioned` finds of the known names, which all begin at one of these places; the first MAX_NAMED of them."""
        found: dict[str, None] = {}
        behind = 0
        for start, most, _ in places:
            if start < behind:
                continue
            name, length = max((run for run in self._runs(start, most) if run[0] in known), key=lambda run: run[1], default=("", 0))
            if length:
                behind = start + length
                found[name] = None
        return list(found)[:MAX_NAMED]

    def _read(self, part: Sequence[Shape]) -> None:
        """Backwards, as the keys of a name are of the next two words that say something."""
        words = self._words
        places: list[Place] = []
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
                if second < stop:
                    places.append((number, stop - number, (*alone, *_pair(f"{word} {words[second]}"))))
                elif alone and first < stop:
                    places.append((number, stop - number, alone))
        places.reverse()
        self._places += places

    def _runs(self, start: int, most: int) -> Iterator[tuple[str, int]]:
        name = ""
        for length, word in enumerate(self._words[start : start + most], 1):
            name = f"{name} {word}" if name else word
            if word.endswith("'s"):
                yield name[:-2], length
            yield name, length


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
