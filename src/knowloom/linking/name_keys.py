"""Blocking keys: find the texts that may mention a new name without indexing all their word runs.

A text may contain hundreds of word runs that could be names, but few keys: the first content word
of each run, and its first two. The key of a name is formed in the same way. A content word is any
word that is no stop word.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import count

from knowloom.caching import MemoDict
from knowloom.model import Passage
from knowloom.text.mentions import (
    MAX_READ,
    MAX_UNSPACED_CHARACTERS,
    STOP_WORDS,
    begins_unspaced,
    can_begin_name,
    is_generic_word,
    max_words,
    split_parts,
)

MAX_KEY_LENGTH = 80  # characters; the rest is compared when the text is read again
POSITION_BASE = 32  # a position is word number * POSITION_BASE + words of the longest name there

WordShape = tuple[str, bool, bool, int, tuple[str, ...]]
"""A word apart from its context: normalised form, whether it is a content word, whether it may
begin a name, how many words such a name may have, and the keys of a name without another content
word."""

RunLengths = dict[str, int]
"""The word runs that begin at one position, shortest first, with their lengths in words."""


def blocking_key(name: str) -> str:
    """Return the first two content words of a normalised name, or its only one."""
    content_words = [word for word in name.split(" ") if word not in STOP_WORDS]
    return " ".join(content_words[:2])[:MAX_KEY_LENGTH]


def readable_passages(text: str, passages: Sequence[Passage]) -> Iterator[str]:
    """Yield the texts of the passages, as far as they are read; no name spans two."""
    for passage in passages:
        if passage.start < MAX_READ:
            yield text[passage.start : min(passage.end, MAX_READ)]


class KeyedText:
    """A text, its blocking keys, and the positions at which a name with each key may begin.

    `passages` are those of a text that has several. Numbers are stored as bytes: the garbage
    collector would walk over lists and tuples again and again, which took a twentieth of the time
    of linking.
    """

    __slots__ = ("_first_words", "_key_numbers", "_positions", "_words", "keys")

    def __init__(self, text: str, passages: Sequence[Passage] = ()) -> None:
        words: list[str] = []
        keys: list[str] = []  # of the names that may begin at the position beside it
        positions: list[int] = []
        first_words: list[int] = []  # the number of the first word of each passage
        for passage in readable_passages(text, passages) if passages else (text,):
            first_words.append(len(words))
            for part, georgian in split_parts(passage):
                shapes = list(map(_georgian_shape if georgian else _shapes.__getitem__, part))
                _scan_part(shapes, words, keys, positions)
        numbers = dict(zip(dict.fromkeys(keys), count(), strict=False))
        self.keys = tuple(numbers)
        self._words = tuple(words)
        self._first_words = tuple(first_words)
        self._key_numbers = array("I", map(numbers.__getitem__, keys)).tobytes()
        self._positions = array("Q", positions).tobytes()

    @property
    def size(self) -> int:
        """The number of words and key occurrences, a measure of memory.

        It is about eight times higher per character in scripts without spaces.
        """
        return len(self._words) + len(self._key_numbers) // 4

    def passages_of(self, word_numbers: Iterable[int]) -> tuple[int, ...]:
        """Return the numbers of the passages that have these words, each once, in order."""
        numbers = (bisect_right(self._first_words, word) - 1 for word in word_numbers)
        return tuple(dict.fromkeys(numbers))

    def positions(self, live: AbstractSet[str]) -> tuple[list[int], list[int]]:
        """Return where names with a live key may begin: at words, and in unspaced scripts."""
        if live.isdisjoint(self.keys):
            return [], []
        numbers = {number for number, key in enumerate(self.keys) if key in live}
        occurrences = zip(
            memoryview(self._key_numbers).cast("I"),
            memoryview(self._positions).cast("Q"),
            strict=True,
        )
        positions = list(dict.fromkeys([at for key, at in occurrences if key in numbers]))
        if not any([begins_unspaced(self.keys[number]) for number in numbers]):
            return positions, []
        words = self._words
        unspaced = set(filter(begins_unspaced, set(words)))
        return (
            [at for at in positions if words[at // POSITION_BASE] not in unspaced],
            [at for at in positions if words[at // POSITION_BASE] in unspaced],
        )

    def prefixes(self, positions: Iterable[int], length: int) -> list[str]:
        """Return `length` words from each position; "" where no name is that long."""
        words = self._words
        return [
            " ".join(words[(start := at // POSITION_BASE) : start + length])
            if at % POSITION_BASE >= length
            else ""
            for at in positions
        ]

    def runs(
        self, positions: Iterable[int], live: AbstractSet[str]
    ) -> list[tuple[int, RunLengths]]:
        """Return the word number of each position and the runs from there that have a live key."""
        return [
            (at // POSITION_BASE, self._runs(*divmod(at, POSITION_BASE), live)) for at in positions
        ]

    def _runs(self, start: int, longest: int, live: AbstractSet[str]) -> RunLengths:
        """Return the runs from a word. A possessive without its ending takes precedence: last."""
        runs: RunLengths = {}
        name = key = ""
        is_live, content_words = False, 0
        for length, word in enumerate(self._words[start : start + longest], 1):
            name = f"{name} {word}" if name else word
            if content_words < 2 and word not in STOP_WORDS:
                content_words += 1
                key = f"{key} {word}" if key else word
                is_live = key[:MAX_KEY_LENGTH] in live
            if is_live:
                runs[name] = length
            if word.endswith("'s") and blocking_key(name[:-2]) in live:
                runs[name[:-2]] = length
            if content_words == 2 and not is_live:
                break  # longer runs have the same key
        return runs


def locate_mentions(
    runs: Iterable[tuple[int, RunLengths]], names: Container[str]
) -> dict[str, list[int]]:
    """Return the names mentioned in a text with these runs, each with its word numbers.

    At each place the longest name counts: the result is that of `mentions.find_names`.
    """
    mentions: dict[str, list[int]] = {}
    end = 0
    for start, lengths in runs:
        name = next((run for run in reversed(lengths) if run in names), "") if start >= end else ""
        if name:
            end = start + lengths[name]
            mentions.setdefault(name, []).append(start)
    return mentions


def _scan_part(
    part: Sequence[WordShape], words: list[str], keys: list[str], positions: list[int]
) -> None:
    """Append the words of a part of a text, and the keys with their positions.

    The scan is backwards, as a key is formed from the next two content words.
    """
    begin = len(keys)
    alone: tuple[str, ...] = ()
    number = end = first = second = len(words) + len(part)
    words += [shape[0] for shape in part]
    content, may_start = "", False  # the next content word, and whether it may begin a name
    for word, is_content, can_begin, longest, word_keys in reversed(part):
        number -= 1
        if is_content:
            first, second, content, alone, may_start = number, first, word, word_keys, can_begin
        if can_begin and may_start:
            stop = number + longest
            if stop > end:
                stop = end
            position = number * POSITION_BASE + stop - number
            if second < stop:
                pair = f"{content} {words[second]}"
                if len(pair) > MAX_KEY_LENGTH or pair[-2:] == "'s":
                    pair_keys = _pair_keys(pair)
                    keys += reversed(pair_keys)
                    positions += [position] * len(pair_keys)
                else:
                    keys.append(pair)
                    positions.append(position)
            # A single unspaced character is no name; its key is for one before stop words.
            if (
                alone
                and first < stop
                and (longest < MAX_UNSPACED_CHARACTERS or second > first + 1 < stop)
            ):
                keys += reversed(alone)
                positions += [position] * len(alone)
    keys[begin:], positions[begin:] = keys[begin:][::-1], positions[begin:][::-1]


def _pair_keys(pair: str) -> tuple[str, ...]:
    """Return the keys of a name that begins with two content words."""
    forms = (pair, pair[:-2]) if pair.endswith("'s") else (pair,)
    return tuple([form[:MAX_KEY_LENGTH] for form in forms])


def _shape(word: str) -> WordShape:
    lower = word.lower()
    can_begin = word != lower or not (word.isalpha() and word.islower())
    forms = (lower, lower[:-2]) if lower.endswith("'s") else (lower,)
    keys = tuple([form[:MAX_KEY_LENGTH] for form in forms if not is_generic_word(form)])
    can_begin = can_begin and can_begin_name(word)
    return (lower, lower not in STOP_WORDS, can_begin, max_words(word), keys)


def _georgian_shape(word: str) -> WordShape:
    """Return the shape of a word in a text with Georgian, which has no capitals in names."""
    lower, is_content, _, longest, keys = _shape(word)
    return (lower, is_content, can_begin_name(word), longest, keys)


_shapes = MemoDict("name shapes", _shape)
