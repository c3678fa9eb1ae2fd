"""The keys of names: how an item that comes later finds the texts that may name it, without an entry for every run of words in them.

A text may hold any of some hundred runs of words that could be names. Its keys are few: the first word, and the first two, of each run
that say something. A name's key is made of it in the same way.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from weft.ingest.mentions import MAX_NAMED, STOP, read, tells_nothing

MAX_KEY = 80  # characters; what is cut off is looked at when the text is read again


def key_of(name: str) -> str:
    """The first two words of a normalised name that say something; the one, if it is alone. Every useful name has one."""
    return " ".join([word for word in name.split(" ") if word not in STOP][:2])[:MAX_KEY]


class Place(NamedTuple):
    """Where a name may begin in a text: at most so many words, and the keys that a name from here has."""

    start: int
    most: int
    keys: list[str]


class Text:
    """A text, read once: the keys of the names it may hold, and, when it is known which keys matter, the names themselves."""

    def __init__(self, text: str) -> None:
        self._words, starts = read(text)
        self._places = list(self._placed(starts))
        self.keys = list(dict.fromkeys([one for place in self._places for one in place.keys]))

    def living(self, live: AbstractSet[str]) -> list[Place]:
        """Where a name with one of these keys may begin."""
        return [] if live.isdisjoint(self.keys) else [place for place in self._places if not live.isdisjoint(place.keys)]

    def runs(self, places: Iterable[Place]) -> set[str]:
        """Every run of words that begins there."""
        return {run for place in places for run, _ in self._runs(place)}

    def mentioned(self, places: Iterable[Place], known: Container[str]) -> list[str]:
        """What `mentions.mentioned` finds of the known names, which all begin at one of these places; the first MAX_NAMED of them."""
        found: dict[str, None] = {}
        behind = 0
        for place in places:
            if place.start < behind:
                continue
            name, length = max((run for run in self._runs(place) if run[0] in known), key=lambda run: run[1], default=("", 0))
            if length:
                behind = place.start + length
                found[name] = None
        return list(found)[:MAX_NAMED]

    def _placed(self, starts: Sequence[tuple[int, int]]) -> Iterator[Place]:
        words, telling = self._words, self._telling()
        for start, most in starts:
            end, first = start + most, telling[start]
            if first >= end:
                continue
            word, second = words[first], telling[first + 1]
            found = [] if tells_nothing(word) else [word[:MAX_KEY]]
            if word.endswith("'s") and not tells_nothing(word[:-2]):
                found.append(word[:-2][:MAX_KEY])
            if second < end:
                pair = f"{word} {words[second]}"
                found.append(pair[:MAX_KEY])
                if pair.endswith("'s"):
                    found.append(pair[:-2][:MAX_KEY])
            if found:
                yield Place(start, most, found)

    def _telling(self) -> list[int]:
        """For every word the number of the next one, itself included, that says something."""
        following = len(self._words)
        found = [following] * (following + 2)
        for number in range(following - 1, -1, -1):
            if self._words[number] not in STOP:
                following = number
            found[number] = following
        return found

    def _runs(self, place: Place) -> Iterator[tuple[str, int]]:
        name = ""
        for length in range(1, place.most + 1):
            word = self._words[place.start + length - 1]
            name = f"{name} {word}" if name else word
            if word.endswith("'s"):
                yield name[:-2], length
            yield name, length
