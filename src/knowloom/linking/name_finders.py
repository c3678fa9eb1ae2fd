"""Names found by a user-supplied `NameFinder`: which finder to use, and its cached output per text.

Finding names is slow, and texts are read again whenever a name appears. The output of the finder is
therefore stored as one more label of the item, with a digest of the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from knowloom.errors import Invalid, Unavailable
from knowloom.ports import NameFinder
from knowloom.text.mentions import MAX_READ, is_useful_name, normalise_name

BUILTIN = "builtin"  # no finder besides knowloom's own recognition of titles
FINDER_OUTPUT = "f:"  # the role of the label that caches the output of a finder
MAX_FINDER_NAMES = 200  # per text
_SEPARATOR = "\x1f"  # occurs in no normalised name
_ARTICLES = frozenset(("", "the", "a", "an", "**", "__", "#", "##", "###"))


class FinderNames(NamedTuple):
    """The normalised names in a text, in order, each once, and the one that it begins with."""

    names: tuple[str, ...] = ()
    opening: str = ""


NO_NAMES = FinderNames()


class FinderResolver:
    """Choose the name finder to link with.

    `choice` is a finder, BUILTIN for none, or None for the finder that the knowledge was last
    linked with, which `open` opens by its name.
    """

    def __init__(
        self,
        choice: NameFinder | str | None = None,
        open: Callable[[str], NameFinder] | None = None,
    ) -> None:
        if isinstance(choice, str) and choice != BUILTIN:
            raise Invalid(f"names must be a NameFinder or {BUILTIN!r}, got {choice!r}")
        self._choice, self._open = choice, open
        self._opened: dict[str, NameFinder] = {}

    def resolve(self, last_fingerprint: str) -> NameFinder | None:
        """Return the finder; `last_fingerprint` is that of the last one, "" for none."""
        if self._choice is not None:
            return None if isinstance(self._choice, str) else self._choice
        if not last_fingerprint:
            return None
        name = unquote(last_fingerprint.rpartition("@")[0])
        if name not in self._opened:
            if self._open is None:
                raise Unavailable(
                    f"edges were made with the name finder {name!r}, which is not available: "
                    f"open the knowledge with it, or with names={BUILTIN!r}"
                )
            self._opened[name] = self._open(name)
        return self._opened[name]


def run_finder(finder: NameFinder, text: str) -> FinderNames:
    """Run a finder and keep the names that would do as titles.

    A lower-case name is never the opening one: no text could mention it.
    """
    text = text[:MAX_READ]
    names = ((start, normalise_name(written)) for start, written in finder.find(text))
    matches = [(start, name) for start, name in names if is_useful_name(name)]
    opening = ""
    for start, name in matches[:1]:
        if text[:start].strip().lower() in _ARTICLES and not text[start].islower():
            opening = name
    unique = dict.fromkeys(name for _, name in matches)
    return FinderNames(tuple(unique)[:MAX_FINDER_NAMES], opening)


def run_finder_cached(finder: NameFinder, text: str, labels: Iterable[str]) -> FinderNames:
    """Return the output for this text from the labels of its item, or run the finder."""
    prefix = f"{FINDER_OUTPUT}{_digest(text)}{_SEPARATOR}"
    for label in labels:
        if label.startswith(prefix):
            opening, *names = label[len(prefix) :].split(_SEPARATOR)
            return FinderNames(tuple(names), opening)
    return run_finder(finder, text)


def encode_names(text: str, finder_names: FinderNames) -> str:
    """Return the label that caches the output of a finder for a text."""
    parts = (_digest(text), finder_names.opening, *finder_names.names)
    return f"{FINDER_OUTPUT}{_SEPARATOR.join(parts)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
