"""What a context says, cut into lines that can be held against a sentence."""

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
from knowloom.model import LINK, OWN, Chosen, Form, Fragment, Hit, Item
from knowloom.text.words import words

CANDIDATES = 30  # lines that a sentence is compared with
_TOKEN = re.compile(r"\w+")


@runtime_checkable
class HasFragments(Protocol):
    """A Context or an Assembly."""

    @property
    def fragments(self) -> tuple[Fragment, ...]: ...


@runtime_checkable
class HasShownItems(Protocol):
    """A GraphAnswer, or anything else that knows what it shows."""

    @property
    def shown(self) -> tuple[Item, ...]: ...


ContextLike = HasFragments | HasShownItems | str | Item | Hit | Iterable[Item | Hit | str]


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A sentence of an item, or one of its properties; `frame` is then what names the property, without its value."""

    source: int
    facts: SentenceFacts
    stems: frozenset[str]  # with those of the title: a line speaks of what its item is about
    frame: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """An item as a whole."""

    item: Item
    lower: str
    tokens: frozenset[str]
    stems: frozenset[str]
    amounts: NumberIndex

    def has_name(self, name: str) -> bool:
        parts = _TOKEN.findall(name)
        return (
            name in self.tokens
            or (len(parts) > 1 and all(part in self.tokens for part in parts))
            or any(f"{before}{name}" in self.lower for before in (" ", "(", "\n", '"'))
        )


@dataclass(slots=True)
class Evidence:
    sources: list[EvidenceSource] = field(default_factory=list)
    lines: list[EvidenceLine] = field(default_factory=list)
    holders: dict[str, npt.NDArray[np.int32]] = field(
        default_factory=dict
    )  # the numbers of the lines that have a word
    weights: dict[str, float] = field(default_factory=dict)

    def weight(self, stem: str) -> float:
        """A word that few lines have tells more; one that no line has tells most."""
        if stem not in self.weights:
            self.weights[stem] = math.log(
                2 + (len(self.lines) + 1) / (len(self.holders.get(stem, ())) + 0.5)
            )
        return self.weights[stem]

    def covered(self, wanted: Iterable[str], having: frozenset[str]) -> float:
        weights = {stem: self.weight(stem) for stem in wanted}
        total = sum(weights.values())
        return (
            sum(weight for stem, weight in weights.items() if stem in having) / total
            if total
            else 1.0
        )

    def near(self, stems: Iterable[str]) -> list[int]:
        """The lines that share most with these words, best first."""
        scores = np.zeros(len(self.lines))
        for stem in sorted(stems):
            if stem in self.holders:
                scores[self.holders[stem]] += self.weight(stem)
        best = np.argsort(-scores, kind="stable")[:CANDIDATES]
        return [int(line) for line in best if scores[line] > 0]


def build_evidence(context: ContextLike) -> Evidence:
    found = Evidence()
    for item in _items(context):
        _add(found, item)
    holders: dict[str, list[int]] = {}
    for number, line in enumerate(found.lines):
        for stem in line.facts.every:
            holders.setdefault(stem, []).append(number)
    found.holders = {stem: np.array(lines, np.int32) for stem, lines in holders.items()}
    return found


def _items(context: ContextLike) -> list[Item]:
    if isinstance(context, str | Item | Hit):
        return [_item(context, 1)]
    if isinstance(context, HasFragments):
        return shown_items(context)
    if isinstance(context, HasShownItems):
        return list(context.shown)
    if not isinstance(context, Iterable) or isinstance(context, bytes | Mapping):
        raise Invalid(
            f"a context is what a request gave, a text, or a list of items and texts, not {type(context).__name__}"
        )
    return [_item(one, number) for number, one in enumerate(context, start=1)]


def _item(given: object, number: int) -> Item:
    if isinstance(given, Hit):
        return _linked(given) if given.found_by == LINK else given.item
    if isinstance(given, str):
        return Item(f"text-{number}", "", text=given)
    if not isinstance(given, Item):
        raise Invalid(
            f"a context is what a request gave, a text, or a list of items and texts, not one of {type(given).__name__}"
        )
    return given


def shown_items(context: HasFragments) -> list[Item]:
    """The items of a context, each with no more than the context shows of it."""
    return [_shown(chosen) for fragment in context.fragments for chosen in fragment.chosen]


def _shown(chosen: Chosen) -> Item:
    """Of an item only what the context shows of it."""
    item = _item(chosen.hit, 0)
    if chosen.form is Form.WHOLE:
        return item
    return Item(
        item.id,
        item.space,
        item.kind,
        item.type,
        item.title,
        text=item.summary if chosen.form is Form.SUMMARY else "",
    )


def _linked(hit: Hit) -> Item:
    """A link in words."""
    item, said = hit.item, hit.item.properties
    text = f"{said['from']} {item.type.replace('_', ' ').lower()} {said['to']}."
    return Item(
        item.id, item.space, type=item.type, text=text, properties=said.get("properties", {})
    )


def _add(found: Evidence, item: Item) -> None:
    title = frozenset(words(item.title))
    number = len(found.sources)
    texts = [
        sentence.text for part in (item.text, item.summary) for sentence in split_sentences(part)
    ] or ([item.title] if item.title else [])
    lines = [EvidenceLine(number, said, said.every | title) for said in map(extract_facts, texts)]
    for name, value in item.properties.items():
        if name.startswith(OWN):
            continue
        frame = title | frozenset(words(name.replace("_", " ")))
        said = extract_facts(f"{item.title} {name.replace('_', ' ')}: {_plain(value)}")
        lines.append(EvidenceLine(number, said, said.every, frame))
    found.lines += lines
    whole = " \n".join([item.title, *(line.facts.text for line in lines)]).lower()
    stems = frozenset(stem for line in lines for stem in line.stems)
    titled = extract_facts(item.title).numbers
    found.sources.append(
        EvidenceSource(
            item,
            f" {whole}",
            frozenset(_TOKEN.findall(whole)),
            stems,
            NumberIndex((*titled, *(one for line in lines for one in line.facts.numbers))),
        )
    )


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
