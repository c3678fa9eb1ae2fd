"""The keys of names: how an item that comes later finds the texts that may name it, without an entry for every run of words in them.

A text may hold any of some hundred runs of words that could be names. Its keys are few: the first word, and the first two, of each run
that say something. A name's key is made of it in the same way.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
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
    keys: tuple[str, ...]


class Text:
    """A text, read once: the keys of the names it may hold, and, when it is known which keys matter, the names themselves."""

    def __init__(self, text: str) -> None:
        self._words, starts = read(text)
        self._places = list(self._placed(starts))
        self.keys = list(dict.fromkeys([one for place in self._places for one in place.keys]))

    def runs(self, live: Container[str]) -> set[str]:
        """Every run of words that has one of these keys."""
        return {run for place in self._places if any(one in live for one in place.keys) for run, _ in self._runs(place)}

    def mentioned(self, live: Container[str], known: Container[str]) -> list[str]:
        """What `mentions.mentioned` finds of the known names, all of which have a live key; the first MAX_NAMED of them."""
        found: dict[str, None] = {}
        behind = 0
        for place in self._places:
            if place.start < behind or not any(one in live for one in place.keys):
                continue
            name, length = max((run for run in self._runs(place) if run[0] in known), key=lambda run: run[1], default=("", 0))
            if length:
                behind = place.start + length
                found[name] = None
        return list(found)[:MAX_NAMED]

    def _placed(self, starts: Sequence[tuple[int, int]]) -> Iterator[Place]:
        telling = self._telling()
        for start, most in starts:
            end, first = start + most, telling[start]
            if first >= end:
                continue
            word, second = self._words[first], telling[first + 1]
            found = [form for form in _forms(word) if not tells_nothing(form)]
            if second < end:
                found += [f"{word} {form}" for form in _forms(self._words[second])]
            if found:
                yield Place(start, most, tuple([one[:MAX_KEY] for one in found]))

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


def _forms(word: str) -> tuple[str, ...]:
    return (word, word[:-2]) if word.endswith("'s") else (word,)
