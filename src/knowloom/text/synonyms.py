"""Words that mean nearly the same: questions ask for a spouse, texts tell of a wife.

The table was made from the word vectors of the bundled embedder (tools/build_synonyms.py): a line for each stem, with those near to it.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

from knowloom.caching import cached

TABLE = Path(__file__).with_name("synonyms.txt")


def find_synonyms(stem: str) -> tuple[str, ...]:
    """The stems that mean nearly the same as this one, nearest first; none for a word that the table does not know."""
    lines, begins = _lines(), f"{stem}: "
    place = bisect_left(lines, begins)
    return (
        tuple(lines[place].split(" ")[1:])
        if place < len(lines) and lines[place].startswith(begins)
        else ()
    )


@cached("synonyms", 1)
def _lines() -> list[str]:
    """The table as it is, in order: a dictionary of it takes ten times as long to make."""
    return TABLE.read_text(encoding="ascii").splitlines()
