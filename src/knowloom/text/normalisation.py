"""Normal forms of short texts: one line, no accents, kebab case."""

from __future__ import annotations

import re
import unicodedata

MAX_SLUG = 80  # characters

_WHITESPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_FIRST_ACCENT, _LAST_ACCENT = "\u0300", "\u036f"


def collapse_whitespace(text: str) -> str:
    """Return the text on one line: line breaks, control characters and runs of spaces become one
    space."""
    if text.isprintable() and "  " not in text:
        return text.strip()  # the fast path: most texts need nothing else
    return _WHITESPACE.sub(" ", text).strip()


def strip_accents(text: str) -> str:
    """Remove the accents of Latin, Greek and Cyrillic letters.

    Combining marks of other scripts distinguish letters and stay.
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFD", text)
    bare = "".join([char for char in decomposed if not _FIRST_ACCENT <= char <= _LAST_ACCENT])
    return unicodedata.normalize("NFC", bare)


def slugify(text: str) -> str:
    """Return the text in kebab case: lower-case words joined by dashes."""
    words = re.findall(r"\w+", text.lower().replace("'", "").replace("_", " "))
    return "-".join(words)[:MAX_SLUG].rstrip("-") or "section"
