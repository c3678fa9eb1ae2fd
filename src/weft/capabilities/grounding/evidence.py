"""What a context says, cut into lines that can be held against a sentence."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.capabilities.grounding.facts import Facts, facts
from weft.capabilities.grounding.numbers import Number
from weft.capabilities.grounding.sentences import sentences
from weft.errors import Invalid
from weft.model import Chosen, Context, Form, Hit, Item
from weft.words import words

CANDIDATES = 30  # lines that a sentence is compared with
_TOKEN = re.compile(r"\w+")

Given = Context | str | Iterable[Item | Hit | str]


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of an item, or one of its properties; `frame` is then what names the property, without its value."""

    source: int
    facts: Facts
    stems: frozenset[str]  # with those of the title: a line speaks of what its item is about
    frame: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Source:
    """An item as a whole."""

    item: Item
    lower: str
    tokens: frozenset[str]
    stems: frozenset[str]
    numbers: tuple[Number, ...]

    def has_name(self, name: str) -> bool:
        parts = _TOKEN.findall(name)
        return (
            name in self.tokens
            or (len(parts) > 1 and all(part in self.tokens for part in parts))
            or any(f"{before}{name}" in self.lower for before in (" ", "(", "\n", '"'))
        )


@dataclass(slots=True)
class Evidence:
    sources: list[Source] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    holders: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)

    def weight(self, stem: str) -> float:
        """A word that few lines have tells more; one that no line has tells most."""
        return math.log(2 + (len(self.lines) + 1) / (self.counts[stem] + 0.5))

    def covered(self, wanted: Iterable[str], having: frozenset[str]) -> float:
        weights = {stem: self.weight(stem) for stem in wanted}
        total = sum(weights.values())
        return sum(weight for stem, weight in weights.items() if stem in having) / total if total else 1.0

    def near(self, stems: Iterable[str]) -> list[int]:
        """The lines that share most with these words, best first."""
        scores: Counter[int] = Counter()
        for stem in sorted(stems):
            for line in self.holders.get(stem, ()):
                scores[line] += self.weight(stem)  # type: ignore[assignment]
        return [line for line, _ in sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:CANDIDATES]]


def evidence(context: Given) -> Evidence:
    found = Evidence()
    for item in _items(context):
        _add(found, item)
    for number, line in enumerate(found.lines):
        for stem in line.facts.every:
            found.counts[stem] += 1
            found.holders[stem].append(number)
    return found


def _items(context: Given) -> list[Item]:
    if isinstance(context, Context):
        return shown_items(context)
    given: Sequence[object] = [context] if isinstance(context, str | Item | Hit) else list(context)
    return [_item(one, number) for number, one in enumerate(given, start=1)]


def _item(given: object, number: int) -> Item:
    if isinstance(given, Hit):
        return given.item
    if isinstance(given, str):
        return Item(f"text-{number}", "", text=given)
    if not isinstance(given, Item):
        raise Invalid(f"a context is a Context, a text, or a list of items and texts, not one of {type(given).__name__}")
    return given


def shown_items(context: Context) -> list[Item]:
    """The items of a context, each with no more than the context shows of it."""
    return [_shown(chosen) for fragment in context.fragments for chosen in fragment.chosen]


def _shown(chosen: Chosen) -> Item:
    """Of an item only what the context shows of it."""
    item = chosen.hit.item
    if chosen.form is Form.WHOLE:
        return item
    return Item(item.id, item.space, item.kind, item.type, item.title, text=item.summary if chosen.form is Form.SUMMARY else "")


def _add(found: Evidence, item: Item) -> None:
    title = frozenset(words(item.title))
    number = len(found.sources)
    texts = [sentence.text for part in (item.text, item.summary) for sentence in sentences(part)] or ([item.title] if item.title else [])
    lines = [Line(number, said, said.every | title) for said in map(facts, texts)]
    for name, value in item.properties.items():
        frame = title | frozenset(words(name.replace("_", " ")))
        said = facts(f"{item.title} {name.replace('_', ' ')}: {_plain(value)}")
        lines.append(Line(number, said, said.every, frame))
    found.lines += lines
    whole = " \n".join([item.title, *(line.facts.text for line in lines)]).lower()
    stems = frozenset(stem for line in lines for stem in line.stems)
    titled = facts(item.title).numbers
    found.sources.append(Source(item, f" {whole}", frozenset(_TOKEN.findall(whole)), stems, (*titled, *(one for line in lines for one in line.facts.numbers))))


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
