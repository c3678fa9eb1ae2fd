"""Documents that a graph context is built for, and the terms a long one is searched by.

The cost of reading a document is linear in its length.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from knowloom.errors import Invalid
from knowloom.model import Hit, Item, Kind, LeftOut
from knowloom.text.passages import split_passages
from knowloom.text.words import extract_terms
from knowloom.validation import validate_fraction, validate_int, validate_name

MAX_CONTENT = 10_000_000  # characters
PASSAGE_LENGTH = 240  # characters, about two sentences
MAX_PASSAGES = 24
MAX_GIST = 8  # words that a passage is ranked by
MAX_TERMS = 64  # words that a long document is searched by
NAME_WEIGHT = 3.0  # of a word that looks like a name

_TOKEN = re.compile(r"[^\W_](?:[\w.\-/]*[^\W_])?")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """A mention in a document, and the entity it was linked to, if any."""

    mention: str
    entity_id: str | None = None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """A document in an editor; `selection` is (start, end) in characters of the content."""

    id: str = ""
    title: str = ""
    content: str = ""
    linked_entities: tuple[LinkedEntity, ...] = ()
    selection: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The selected text, or all of it."""
        if self.selection is None:
            return self.content
        return self.content[self.selection[0] : self.selection[1]]


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text as it is searched for (`query`) and as entities are ranked by it."""

    query: str
    passages: tuple[str, ...]
    text: str


def validate_document(document: object) -> Document:
    """Return the document; raise Invalid for a wrong field."""
    if not isinstance(document, Document):
        raise Invalid(f"document must be a Document, got {type(document).__name__}")
    where = f"document {str(document.id)[:80]!r}"
    for name in ("id", "title", "content"):
        value = getattr(document, name)
        if not isinstance(value, str):
            raise Invalid(f"{where}: {name} must be a text, got {type(value).__name__}")
    length = len(document.content)
    if length > MAX_CONTENT:
        raise Invalid(
            f"{where}: content must have at most {MAX_CONTENT:,} characters, got {length:,}"
        )
    if _SURROGATES.search(document.content + document.title):
        raise Invalid(f"{where} contains lone surrogates, which are not text")
    if document.selection is not None:
        _validate_selection(where, document)
    for link in document.linked_entities:
        _validate_link(where, link)
    has_text = document.text.strip() or document.title.strip()
    if not has_text and not any(link.entity_id for link in document.linked_entities):
        raise Invalid(f"{where} has neither text nor linked entities")
    return document


def _validate_selection(where: str, document: Document) -> None:
    selection = document.selection
    if not isinstance(selection, tuple | list) or len(selection) != 2:
        raise Invalid(f"{where}: selection must be (start, end), got {selection!r}")
    start, end = selection
    validate_int(f"{where}: the start of the selection", start, 0, len(document.content))
    validate_int(f"{where}: the end of the selection", end, 0, len(document.content))
    if start >= end:
        raise Invalid(f"{where}: the selection {start} to {end} is empty")


def _validate_link(where: str, link: object) -> None:
    if not isinstance(link, LinkedEntity):
        raise Invalid(f"{where}: a linked entity must be a LinkedEntity, got {type(link).__name__}")
    validate_name("mention", link.mention)
    validate_fraction(f"{where}: the confidence of {link.mention!r}", link.confidence)
    if link.entity_id is not None:
        validate_name("entity_id", link.entity_id)


def select_links(
    document: Document, min_confidence: float
) -> tuple[dict[str, float], list[LeftOut]]:
    """Return the entities a document is linked to with their confidence, the most certain first,
    and the mentions that are left out. With a selection only links whose mention is in it count."""
    text = document.text.lower()
    scores: dict[str, float] = {}
    left_out: list[LeftOut] = []
    for link in document.linked_entities:
        if document.selection is not None and link.mention.lower() not in text:
            continue
        if link.entity_id is None:
            left_out.append(_leave_out_link(link, "the mention is linked to no entity"))
        elif link.confidence < min_confidence:
            reason = f"its link has the confidence {link.confidence:g}, below {min_confidence:g}"
            left_out.append(_leave_out_link(link, reason))
        else:
            confidence = float(link.confidence)
            scores[link.entity_id] = max(scores.get(link.entity_id, 0.0), confidence)
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))), left_out


def _leave_out_link(link: LinkedEntity, reason: str) -> LeftOut:
    item = Item(link.entity_id or "", "", Kind.ENTITY, title=link.mention)
    return LeftOut(Hit(item, link.confidence), "entities", reason)


def extract_query(document: Document) -> QueryText:
    """Reduce a document to the terms it is searched by, and its best passages to a few terms each.

    A ranker that counts terms would lose every entity among the words of a whole document.
    """
    text = "\n\n".join(part for part in (document.title, document.text) if part.strip())
    weights = weigh_terms(text)
    gists = [
        _extract_gist(text[passage.start : passage.end], weights)
        for passage in split_passages(text, PASSAGE_LENGTH)
    ]
    ranked = sorted(
        enumerate(gists), key=lambda pair: (-sum(weights[word] for word in pair[1]), pair[0])
    )
    best = [" ".join(gist) for _, gist in sorted(ranked[:MAX_PASSAGES]) if gist]
    start = text[:PASSAGE_LENGTH]
    return QueryText(" ".join(weights) or start, tuple(dict.fromkeys(best)) or (start,), text)


def weigh_terms(text: str) -> dict[str, float]:
    """Return the most characteristic words, best first: frequent ones, names before others.

    The weight is that of a single occurrence: the more occurrences, the less each one weighs.
    """
    counts: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for token in _TOKEN.finditer(text):
        word = token.group()
        folded = word.lower()
        counts[folded] += 1
        # The first word of a sentence is always capitalised.
        is_inside = token.start() > 1 and text[token.start() - 2] not in ".!?\n"
        names[folded] += (
            not word.islower() and (is_inside or not word[1:].islower()) and not word.isnumeric()
        )
    weights = {
        word: NAME_WEIGHT if names[word] * 2 >= count else 1.0
        for word, count in counts.items()
        if extract_terms(word)
    }
    best = sorted(weights, key=lambda word: (-weights[word] * counts[word] ** 0.5, word))
    return {word: weights[word] / counts[word] ** 0.5 for word in best[:MAX_TERMS]}


def _extract_gist(passage: str, weights: dict[str, float]) -> list[str]:
    """Return the heaviest words of a passage in their order."""
    tokens = dict.fromkeys(token.group().lower() for token in _TOKEN.finditer(passage))
    words = [word for word in tokens if word in weights]
    best = set(sorted(words, key=lambda word: (-weights[word], word))[:MAX_GIST])
    return [word for word in words if word in best]
