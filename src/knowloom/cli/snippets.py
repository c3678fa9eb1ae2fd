"""The part of a text that matches a query best, for lists of search results."""

from __future__ import annotations

import re
from itertools import accumulate

from knowloom.text.words import extract_terms

MAX_CHARACTERS = 4000  # of a text that is searched for the best part
_WORD = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"[.!?:]$")


def select_snippet(text: str, query: str, width: int) -> str:
    """Return at most `width` characters with as many terms of the query as possible.

    Among equal parts it is one that begins a sentence, then the first. An ellipsis marks a part
    that begins or ends elsewhere.
    """
    words = _WORD.findall(text[:MAX_CHARACTERS])
    ends = list(accumulate(len(word) + 1 for word in words))
    if not words or ends[-1] - 1 <= width:
        return " ".join(words)[:width]
    room = width - 4  # two ellipses, with a space each
    requested = set(extract_terms(query))
    terms = [requested.intersection(extract_terms(word)) for word in words]
    best, best_rank = (0, 1), (-1, False)
    end = 0
    for start in range(len(words)):
        offset = ends[start - 1] if start else 0
        while end < len(words) and ends[end] - offset - 1 <= room:
            end += 1
        covered = len(set().union(*terms[start:end]))
        is_opening = start == 0 or bool(_SENTENCE_END.search(words[start - 1]))
        if (covered, is_opening) > best_rank:
            best, best_rank = (start, max(end, start + 1)), (covered, is_opening)
    start, end = best
    part = " ".join(words[start:end])[:room]
    return f"{'… ' if start else ''}{part}{' …' if end < len(words) else ''}"
