"""Documents a graph context is asked for, and what of a long one is worth searching for. The cost grows with the length alone."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from knowloom import validation
from knowloom.errors import Invalid
from knowloom.options import fraction, whole
from knowloom.text.words import words

MAX_CONTENT = 10_000_000  # characters
PASSAGE_LENGTH = 300  # characters, about two sentences
MAX_PASSAGES = 24
MAX_GIST = 8  # words a passage is ranked by
MAX_TERMS = 64  # words that a long document is searched by
NAME_WEIGHT = 3.0  # of a word that looks like a name

_BOUNDARY = re.compile(r"(?<=[.!?。！？])\s+|\n\s*\n")
_TOKEN = re.compile(r"[^\W_](?:[\w.\-/]*[^\W_])?")


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """A mention in a document, and the entity it was linked to, if it was."""

    mention: str
    entity_id: str | None = None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """A document as an editor has it. `selection` is (start, end) in characters of the content."""

    id: str = ""
    title: str = ""
    content: str = ""
    linked_entities: tuple[LinkedEntity, ...] = ()
    selection: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """What is selected, or all of it."""
        return (
            self.content
            if self.selection is None
            else self.content[self.selection[0] : self.selection[1]]
        )


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text as it is searched for (`query`) and as entities are ranked by it."""

    query: str
    passages: tuple[str, ...]
    text: str


def validate_document(document: object) -> Document:
    if not isinstance(document, Document):
        raise Invalid(f"a document must be a Document, not {type(document).__name__}")
    what = f"document {str(document.id)[:80]!r}"
    for name in ("id", "title", "content"):
        if not isinstance(getattr(document, name), str):
            raise Invalid(
                f"{what}: {name} must be text, not {type(getattr(document, name)).__name__}"
            )
    if len(document.content) > MAX_CONTENT:
        raise Invalid(
            f"{what} has {len(document.content):,} characters; the most is {MAX_CONTENT:,}"
        )
    if re.search("[\ud800-\udfff]", document.content + document.title):
        raise Invalid(f"{what} contains lone surrogates, which are not text")
    if document.selection is not None:
        _check_selection(what, document)
    for link in document.linked_entities:
        if not isinstance(link, LinkedEntity):
            raise Invalid(
                f"{what}: a linked entity must be a LinkedEntity, not {type(link).__name__}"
            )
        validation.name("a mention", link.mention)
        fraction(f"{what}: the confidence of {link.mention!r}", link.confidence)
        if link.entity_id is not None:
            validation.name("entity_id", link.entity_id)
    if (
        not document.text.strip()
        and not document.title.strip()
        and not any(link.entity_id for link in document.linked_entities)
    ):
        raise Invalid(f"{what} has neither text nor linked entities")
    return document


def _check_selection(what: str, document: Document) -> None:
    if not isinstance(document.selection, tuple | list) or len(document.selection) != 2:
        raise Invalid(f"{what}: a selection is (start, end), not {document.selection!r}")
    start, end = document.selection
    whole(f"{what}: the start of the selection", start, 0, len(document.content))
    whole(f"{what}: the end of the selection", end, 0, len(document.content))
    if start >= end:
        raise Invalid(f"{what}: the selection {start} to {end} is empty")


def extract_query(document: Document) -> QueryText:
    """A text is searched for by its most telling words, and ranked by: of each of its richest passages the words that tell most.
    A ranker that counts terms would find every entity lost among the words of a whole document."""
    text = "\n\n".join(part for part in (document.title, document.text) if part.strip())
    rare = weigh_terms(text)
    gists = [_gist(passage, rare) for passage in split_passages(text)]
    ranked = sorted(
        enumerate(gists), key=lambda pair: (-sum(rare[word] for word in pair[1]), pair[0])
    )
    best = [" ".join(gist) for _, gist in sorted(ranked[:MAX_PASSAGES]) if gist]
    return QueryText(
        " ".join(rare) or text[:PASSAGE_LENGTH],
        tuple(dict.fromkeys(best)) or (text[:PASSAGE_LENGTH],),
        text,
    )


def weigh_terms(text: str) -> dict[str, float]:
    """The words that say most of what a text is about, best first: frequent ones, names before others. Each comes with what it
    tells in one place: a word that stands everywhere tells little there."""
    counts: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for found in _TOKEN.finditer(text):
        word = found.group()
        folded = word.lower()
        counts[folded] += 1
        inside = (
            found.start() > 1 and text[found.start() - 2] not in ".!?\n"
        )  # the first word of a sentence is always written large
        names[folded] += (
            not word.islower() and (inside or not word[1:].islower()) and not word.isnumeric()
        )
    weight = {
        word: NAME_WEIGHT if names[word] * 2 >= count else 1.0
        for word, count in counts.items()
        if words(word)
    }
    best = sorted(weight, key=lambda word: (-weight[word] * counts[word] ** 0.5, word))[:MAX_TERMS]
    return {word: weight[word] / counts[word] ** 0.5 for word in best}


def split_passages(text: str) -> list[str]:
    """Whole sentences, as many as make a passage; a run without sentences is cut at spaces."""
    made: list[str] = []
    for sentence in _BOUNDARY.split(text):
        for piece in _pieces(sentence.strip()):
            if made and len(made[-1]) + len(piece) < PASSAGE_LENGTH:
                made[-1] = f"{made[-1]} {piece}"
            elif piece:
                made.append(piece)
    return made


def _pieces(sentence: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    while len(sentence) - start > 2 * PASSAGE_LENGTH:
        space = sentence.rfind(" ", start, start + PASSAGE_LENGTH)
        end = space if space > start else start + PASSAGE_LENGTH
        pieces.append(sentence[start:end].strip())
        start = end
    return [*pieces, sentence[start:].strip()]


def _gist(passage: str, rare: dict[str, float]) -> list[str]:
    """The words of a passage that tell most, in their order."""
    found = [
        word
        for word in dict.fromkeys(found.group().lower() for found in _TOKEN.finditer(passage))
        if word in rare
    ]
    best = set(sorted(found, key=lambda word: (-rare[word], word))[:MAX_GIST])
    return [word for word in found if word in best]
