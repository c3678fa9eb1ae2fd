"""Names that a finder of the user's finds in texts: by which an item goes, which it may share with others, and how they are remembered.

Finding takes long, and the texts of many items are read again when a name appears. So what was found is one more label of the item,
with a mark of the text it was found in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from knowloom.ports import NameFinder
from knowloom.text.mentions import MAX_READ, normal, useful

FOUND = "f:"
MAX_FOUND = 200  # names of one text
_BETWEEN = "\x1f"  # stands in no normalised name
_ARTICLES = frozenset(("", "the", "a", "an", "**", "__", "#", "##", "###"))


class Named(NamedTuple):
    """The normalised names in a text, in order, each once, and the one that it begins with."""

    names: tuple[str, ...] = ()
    opening: str = ""


def find(finder: NameFinder, text: str) -> Named:
    """Only names that are useful by the same measure as titles. One in small letters opens nothing: no text could mention it."""
    text = text[:MAX_READ]
    found = [
        (start, name) for start, written in finder.find(text) if useful(name := normal(written))
    ]
    opens = [
        name
        for start, name in found[:1]
        if text[:start].strip().lower() in _ARTICLES and not text[start].islower()
    ]
    return Named(tuple(dict.fromkeys(name for _, name in found))[:MAX_FOUND], "".join(opens))


def remembered(finder: NameFinder, text: str, entered: Iterable[str]) -> Named:
    """The same, from the label that an item with this text is entered under, if there is one."""
    mark = f"{FOUND}{_mark(text)}{_BETWEEN}"
    for label in entered:
        if label.startswith(mark):
            opening, *names = label[len(mark) :].split(_BETWEEN)
            return Named(tuple(names), opening)
    return find(finder, text)


def label(text: str, named: Named) -> str:
    return f"{FOUND}{_BETWEEN.join((_mark(text), named.opening, *named.names))}"


def _mark(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
