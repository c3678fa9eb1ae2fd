"""Index a context as lines that a sentence of an answer can be compared with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from knowloom.capabilities.grounding.facts import SentenceFacts, extract_facts, split_sentences
from knowloom.capabilities.grounding.numbers import NumberIndex
from knowloom.errors import Invalid
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.model import LINK, RESERVED_PREFIX, Chosen, Form, Fragment, Hit, Item
from knowloom.text.words import extract_terms

MAX_CANDIDATES = 30  # lines that a sentence is compared with
_TOKEN = re.compile(r"\w+")
_EXPECTED = "a context must be the result of a request, a text, or a list of items and texts"


@runtime_checkable
class HasFragments(Protocol):
    """A Context or an Assembly."""

    @property
    def fragments(self) -> tuple[Fragment, ...]: ...


@runtime_checkable
class HasShownItems(Protocol):
    """A GraphAnswer, or another result that lists the items it shows."""

    @property
    def shown(self) -> tuple[Item, ...]: ...


ContextLike = HasFragments | HasShownItems | str | Item | Hit | Iterable[Item | Hit | str]


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A sentence or a property of an item; `frame` are the stems that name the property."""

    source: int
    facts: SentenceFacts
    stems: frozenset[str]  # with those of the item's title
    frame: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """An item with the tokens, stems and numbers of its whole text."""

    item: Item
    lower: str
    tokens: frozenset[str]
    stems: frozenset[str]
    numbers: NumberIndex

    def has_name(self, name: str) -> bool:
        parts = _TOKEN.findall(name)
        return (
            name in self.tokens
            or (len(parts) > 1 and all(part in self.tokens for part in parts))
            or any(f"{before}{name}" in self.lower for before in (" ", "(", "\n", '"'))
        )


@dataclass(slots=True)
class Evidence:
    """An inverted index over the lines of a context."""

    sources: list[EvidenceSource] = field(default_factory=list)
    lines: list[EvidenceLine] = field(default_factory=list)
    postings: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)  # stem -> lines
    weights: dict[str, float] = field(default_factory=dict)

    def weight(self, stem: str) -> float:
        """Return the idf of a stem; a stem that no line has weighs most."""
        weight = self.weights.get(stem)
        if weight is None:
            frequency = len(self.postings.get(stem, ()))
            weight = math.log(2 + (len(self.lines) + 1) / (frequency + 0.5))
            self.weights[stem] = weight
        return weight

    def coverage(self, stems: Iterable[str], present: frozenset[str]) -> float:
        """Return the weighted share of `stems` that is in `present`; 1 without stems."""
        weights = {stem: self.weight(stem) for stem in stems}
        total = sum(weights.values())
        if not total:
            return 1.0
        return sum(weight for stem, weight in weights.items() if stem in present) / total

    def nearest_lines(self, stems: Iterable[str]) -> list[EvidenceLine]:
        """Return the lines that share most with the stems, best first."""
        scores = np.zeros(len(self.lines))
        for stem in sorted(stems):
            if stem in self.postings:
                scores[self.postings[stem]] += self.weight(stem)
        best = np.argsort(-scores, kind="stable")[:MAX_CANDIDATES]
        return [self.lines[number] for number in best if scores[number] > 0]


def build_evidence(context: ContextLike) -> Evidence:
    """Index the items of a context."""
    evidence = Evidence()
    for item in _items_of(context):
        _add_item(evidence, item)
    postings: dict[str, list[int]] = {}
    for number, line in enumerate(evidence.lines):
        for stem in line.facts.all_stems:
            postings.setdefault(stem, []).append(number)
    evidence.postings = {stem: np.array(lines, np.int32) for stem, lines in postings.items()}
    return evidence


def _items_of(context: ContextLike) -> list[Item]:
    if isinstance(context, str | Item | Hit):
        return [_to_item(context, 1)]
    if isinstance(context, HasFragments):
        return shown_items(context)
    if isinstance(context, HasShownItems):
        return list(context.shown)
    if not isinstance(context, Iterable) or isinstance(context, bytes | Mapping):
        raise Invalid(f"{_EXPECTED}, got {type(context).__name__}")
    return [_to_item(value, number) for number, value in enumerate(context, start=1)]


def _to_item(value: object, number: int) -> Item:
    if isinstance(value, Hit):
        return _relationship_item(value) if value.found_by == LINK else value.item
    if isinstance(value, str):
        return Item(f"text-{number}", "", text=value)
    if not isinstance(value, Item):
        raise Invalid(f"{_EXPECTED}, got a list with a {type(value).__name__}")
    return value


def shown_items(context: HasFragments) -> list[Item]:
    """Return the items of a context, each with no more than the context shows of it."""
    return [_shown_item(chosen) for fragment in context.fragments for chosen in fragment.chosen]


def _shown_item(chosen: Chosen) -> Item:
    item = _to_item(chosen.hit, 0)
    if chosen.form is Form.WHOLE:
        return item
    text = item.summary if chosen.form is Form.SUMMARY else ""
    if chosen.form is Form.EXCERPT:
        text = join_runs(excerpt_runs(chosen.hit, chosen.passages))
    return Item(item.id, item.space, item.kind, item.type, item.title, text=text)


def _relationship_item(hit: Hit) -> Item:
    """Return an item that states a relationship in words."""
    item, fields = hit.item, hit.item.properties
    text = f"{fields['from']} {item.type.replace('_', ' ').lower()} {fields['to']}."
    properties = fields.get("properties", {})
    return Item(item.id, item.space, type=item.type, text=text, properties=properties)


def _add_item(evidence: Evidence, item: Item) -> None:
    number = len(evidence.sources)
    lines = [*_text_lines(item, number), *_property_lines(item, number)]
    evidence.lines += lines
    text = " \n".join([item.title, *(line.facts.text for line in lines)]).lower()
    numbers = [number for line in lines for number in line.facts.numbers]
    evidence.sources.append(
        EvidenceSource(
            item,
            f" {text}",
            frozenset(_TOKEN.findall(text)),
            frozenset(stem for line in lines for stem in line.stems),
            NumberIndex((*extract_facts(item.title).numbers, *numbers)),
        )
    )


def _text_lines(item: Item, number: int) -> list[EvidenceLine]:
    title = frozenset(extract_terms(item.title))
    texts = [
        sentence.text for part in (item.text, item.summary) for sentence in split_sentences(part)
    ]
    if not texts and item.title:
        texts = [item.title]
    return [
        EvidenceLine(number, facts, facts.all_stems | title) for facts in map(extract_facts, texts)
    ]


def _property_lines(item: Item, number: int) -> list[EvidenceLine]:
    title = frozenset(extract_terms(item.title))
    lines = []
    for name, value in item.properties.items():
        if name.startswith(RESERVED_PREFIX):
            continue
        label = name.replace("_", " ")
        facts = extract_facts(f"{item.title} {label}: {_format_value(value)}")
        frame = title | frozenset(extract_terms(label))
        lines.append(EvidenceLine(number, facts, facts.all_stems, frame))
    return lines


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
