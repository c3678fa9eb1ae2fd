"""Synonyms of terms: a query may ask for a spouse where a text mentions a wife.

The table was computed from the word vectors of the bundled embedder (tools/build_synonyms.py); each
line has a stem and the stems nearest to it.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

from knowloom.caching import cached

TABLE = Path(__file__).with_name("synonyms.txt")


def find_synonyms(stem: str) -> tuple[str, ...]:
    """Return the synonyms of a stem, nearest first; empty if the table does not have it."""
    lines, prefix = _read_lines(), f"{stem}: "
    place = bisect_left(lines, prefix)
    if place < len(lines) and lines[place].startswith(prefix):
        return tuple(lines[place].split(" ")[1:])
    return ()


@cached("synonyms", 1)
def _read_lines() -> list[str]:
    """Return the sorted lines of the table: building a dictionary takes ten times as long."""
    return TABLE.read_text(encoding="ascii").splitlines()
