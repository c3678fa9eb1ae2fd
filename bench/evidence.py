"""Evidence of a question, measured by the text that a context shows.

The same definitions hold for passages that are items and for passages joined to long documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bench.long_documents import Place
from knowloom.evaluation.metrics import fact_recall
from knowloom.model import Chosen, Context, Key

Row = Mapping[str, Any]
Range = tuple[int, int]

HALF = 0.5  # of a passage's characters: what counts as shown where a set names no sentences
UNSPECIFIC_ANSWERS = ("yes", "no")  # they occur in most texts
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SENTENCE_END = re.compile(
    r"[.!?]+[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]?[A-Z0-9\u00c0-\u00d6\u00d8-\u00de])|\n+"
)
_LAST_WORD = re.compile(r"([^\s(\[\"\u201c]+)$")
_DOTTED = re.compile(r"(?:[a-z]\.)+[a-z]")
_ABBREVIATIONS = frozenset(
    "approx apr aug b bros c ca capt cf co col corp d dec dr est feat feb ft gen gov hon inc jan jr"
    " jul jun lt ltd mar mr mrs ms mt no nov oct op ph.d pres prof r rep rev sen sept sgt sr st vol"
    " vs".split()
)


def fold(text: str) -> str:
    """Return a text with Markdown escapes undone and each white space as one space."""
    return " ".join(_ESCAPE.sub(r"\1", text).split())


class Shown:
    """The text of a context, and the ranges of the items' texts that it shows.

    A range counts only if the block of its item holds its text; `unconfirmed` counts the others.
    """

    def __init__(self, context: Context) -> None:
        self.text = fold(context.text)
        self.ranges: dict[Key, list[Range]] = {}
        self.whole: set[Key] = set()
        self.texts: dict[Key, str] = {}
        self.unconfirmed = 0
        for fragment in context.fragments:
            for choice in fragment.chosen:
                self._add(choice)

    def _add(self, choice: Chosen) -> None:
        item = choice.hit.item
        block = ""
        for start, end in _ranges(choice):
            block = block or fold(choice.text)
            if fold(item.text[start:end]) not in block:
                self.unconfirmed += 1
                continue
            self.ranges.setdefault(item.key, []).append((start, end))
            self.texts[item.key] = item.text
            if (start, end) == (0, len(item.text)):
                self.whole.add(item.key)

    def parts(self, place: Place) -> list[str]:
        """Return the parts of a passage that are shown."""
        text = self.texts.get(place.key, "")
        return [text[start:end] for start, end in self._overlaps(place)]

    def share(self, place: Place) -> float:
        """Return the share of a passage's characters that are shown."""
        shown = sum(end - start for start, end in self._overlaps(place))
        return shown / max(1, place.end - place.start)

    def _overlaps(self, place: Place) -> Iterator[Range]:
        """Yield the shown ranges inside a passage; overlapping ones count once."""
        position = place.start
        for start, end in sorted(self.ranges.get(place.key, [])):
            start, end = max(start, position), min(end, place.end)
            if start < end:
                yield start, end
                position = end


def _ranges(choice: Chosen) -> list[Range]:
    if choice.form.value == "whole":
        return [(0, len(choice.hit.item.text))]
    if choice.form.value == "excerpt":
        return [(passage.start, passage.end) for passage in choice.passages]
    return []


class Evidence(Protocol):
    """Something that a context must show."""

    def is_shown(self, shown: Shown) -> bool: ...


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence that the text of the context holds."""

    text: str

    def is_shown(self, shown: Shown) -> bool:
        return fold(self.text) in shown.text


@dataclass(frozen=True, slots=True)
class Answer:
    """A text in one of its wordings inside the shown part, or the title, of one of the passages."""

    places: tuple[Place, ...]
    wordings: tuple[str, ...]

    def is_shown(self, shown: Shown) -> bool:
        for place in self.places:
            parts = shown.parts(place)
            text = "\n\n".join([place.title, *parts])
            if parts and fact_recall(text, [self.wordings]) == 1:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Share:
    """At least a share of the characters of a passage."""

    place: Place
    minimum: float

    def is_shown(self, shown: Shown) -> bool:
        return shown.share(self.place) >= self.minimum


def find_evidence(row: Row, golds: Sequence[Place], texts: Sequence[str]) -> tuple[Evidence, ...]:
    """Return the evidence of a question.

    `golds` and `texts` are the places and the texts of its gold passages. The first field of
    EVIDENCE that the row has decides; without one, half of each gold passage must be shown.
    """
    for field, find in EVIDENCE.items():
        if row.get(field):
            return tuple(find(row, golds, texts))
    return tuple(Share(place, HALF) for place in golds)


def find_answer(row: Row, golds: Sequence[Place], texts: Sequence[str]) -> Answer | None:
    """Return the answer if one of the gold passages holds it, else None."""
    values = [row.get("answer"), *row.get("answer_aliases", [])]
    wordings = tuple(str(value) for value in values if re.search(r"\w", str(value or "")))
    holders = tuple(
        place
        for place, text in zip(golds, texts, strict=True)
        if wordings and fact_recall(f"{place.title}\n\n{text}", [wordings]) == 1
    )
    if not holders or wordings[0].casefold() in UNSPECIFIC_ANSWERS:
        return None
    return Answer(holders, wordings)


def _find_sentences(row: Row, golds: Sequence[Place], texts: Sequence[str]) -> Iterator[Evidence]:
    """Yield the supporting sentences: (title, index) pairs."""
    by_title = {place.title: text for place, text in zip(golds, texts, strict=True)}
    for title, index in row["supporting_facts"]:
        sentences = split_sentences(by_title[title])
        yield Quote(sentences[min(index, len(sentences) - 1)])


def _find_steps(row: Row, golds: Sequence[Place], texts: Sequence[str]) -> Iterator[Evidence]:
    """Yield the answer of each step. The gold passages are in the order of the support index.

    A step whose passage does not hold its answer (9 of 2,648 of musique) is left out.
    """
    indexes = sorted({step["paragraph_support_idx"] for step in row["decomposition"]})
    for step in row["decomposition"]:
        position = indexes.index(step["paragraph_support_idx"])
        wordings = (str(step["answer"]),)
        if fact_recall(f"{golds[position].title}\n\n{texts[position]}", [wordings]) == 1:
            yield Answer((golds[position],), wordings)


def _find_facts(row: Row, golds: Sequence[Place], texts: Sequence[str]) -> Iterator[Evidence]:
    return (Quote(fact) for fact in row["facts"])


def _find_turns(row: Row, golds: Sequence[Place], texts: Sequence[str]) -> Iterator[Evidence]:
    """Yield the turns: all of their text, without white space around it."""
    for place, text in zip(golds, texts, strict=True):
        start = place.start + len(text) - len(text.lstrip())
        end = place.end - (len(text) - len(text.rstrip()))
        yield Share(replace(place, start=start, end=end), 1.0)


EVIDENCE: Mapping[str, Callable[[Row, Sequence[Place], Sequence[str]], Iterator[Evidence]]] = {
    "supporting_facts": _find_sentences,
    "decomposition": _find_steps,
    "facts": _find_facts,
    "raw_evidence": _find_turns,
}


def split_sentences(text: str) -> list[str]:
    """Split a passage into sentences.

    The sets join their sentences by spaces, so that the original split is lost: this one agrees
    with the answers of hotpotqa in 99 % of the questions, and of 2wiki in 86 %. It is part of the
    measure, and independent of the package.
    """
    sentences, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if match[0].startswith(".") and _is_abbreviation(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


def _is_abbreviation(text: str) -> bool:
    match = _LAST_WORD.search(text)
    word = match[1] if match else ""
    lower = word.lower().rstrip(".")
    is_initial = len(word) == 1 and word.isupper()
    return lower in _ABBREVIATIONS or is_initial or _DOTTED.fullmatch(lower) is not None
