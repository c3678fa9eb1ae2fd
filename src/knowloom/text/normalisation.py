"""Normal forms of short texts: one line, no accents, kebab case."""

from __future__ import annotations

import re
import unicodedata

from knowloom.caching import cached

MAX_SLUG = 80  # characters

_WHITESPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
# Marks that no letter consists of: accents that are left after composition, stress marks, Hebrew
# points, Arabic vowel signs and tatweel.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"
)
# Letters with accents: Latin, Greek, and Russian ё.
_LETTERS = "\u00c0-\u024f\u0386-\u0390\u03aa-\u03b0\u03ca-\u03ce\u0401\u0451\u1e00-\u1fff"
_MARK = re.compile(f"[{_MARKS}]")
_ACCENTED = re.compile(f"[{_LETTERS}{_MARKS}]")
# Letters that Unicode does not decompose, as they are typed without them.
_SPELLINGS = dict(
    zip("ßæœøłđðþıẞÆŒØŁĐÐÞ", "ss ae oe o l d d th i SS AE OE O L D D TH".split(), strict=True)
)
_CACHED_LETTERS = 4096  # more than there are


def collapse_whitespace(text: str) -> str:
    """Return the text on one line: line breaks, control characters and runs of spaces become one
    space."""
    if text.isprintable() and "  " not in text:
        return text.strip()  # the fast path: most texts need nothing else
    return _WHITESPACE.sub(" ", text).strip()


def strip_accents(text: str) -> str:
    """Remove the accents of Latin and Greek letters, and marks that are optional in their script.

    Marks that make another letter stay: й is not и, nor が か, and Indic vowels are marks.
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    return _ACCENTED.sub(lambda match: _strip_letter(match.group()), text)


@cached("accents", _CACHED_LETTERS)
def _strip_letter(letter: str) -> str:
    bare = _MARK.sub("", unicodedata.normalize("NFD", letter))
    return _SPELLINGS.get(bare, bare)


def slugify(text: str) -> str:
    """Return the text in kebab case: lower-case words joined by dashes."""
    words = re.findall(r"\w+", text.lower().replace("'", "").replace("_", " "))
    return "-".join(words)[:MAX_SLUG].rstrip("-") or "section"
