"""Secrets are refused at the door: every text of an item or an edge is held against rules, and the refusal never repeats the secret."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import re2

from knowloom import validation
from knowloom.errors import Invalid
from knowloom.loading import readers
from knowloom.loading.readers import Row
from knowloom.model import Edge, Item
from knowloom.report import Skipped

ITEM_NAMES = (
    "id",
    "space",
    "type",
    "section",
    "subject",
)  # first: a refusal names the id, so it must be clean by then
ITEM_TEXTS = ("title", "text", "summary", "embedding_text", "source")
EDGE_NAMES = ("source", "target", "type", "space", "target_space", "item_id")
_PAIRS = (
    ("name", "value"),
    ("key", "value"),
)  # {"name": "DB_PASSWORD", "value": "…"} says what {"DB_PASSWORD": "…"} does


class Secret(Invalid):
    """Knowledge that holds a secret."""

    code = "secret"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one kind of secret looks like; `rules.toml` says what each field means."""

    name: str
    regex: str
    about: str = ""
    keywords: tuple[str, ...] = ()
    entropy: float = 0.0
    allow: tuple[str, ...] = ()
    allow_around: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The rule that fits, and the line of the text where it does, from 1. What was found is not kept."""

    rule: Rule
    line: int


class Rules:
    """Rules that are tried in their order. They are compiled when the first text is looked at: who only reads does not wait."""

    def __init__(self, rules: Sequence[Rule], allow: Sequence[str] = ()) -> None:
        self.rules = tuple(rules)
        self.allow = tuple(allow)

    @cached_property
    def _hints(self) -> Any:
        """One pass over a text that says which rules are worth trying."""
        hints = re2.Set.SearchSet(_options())
        for rule in self.rules:
            hints.Add(
                f"(?i:{'|'.join(re2.escape(word) for word in rule.keywords)})"
                if rule.keywords
                else rule.regex
            )
        hints.Compile()
        return hints

    @cached_property
    def _compiled(self) -> dict[int, tuple[Any, Any, Any]]:
        return {}  # each rule when a text first comes near it

    def promising(self, text: bytes) -> list[int]:
        """The numbers of the rules that may fit, in their order."""
        return sorted(self._hints.Match(text) or ()) if self.rules else []

    def find(self, text: bytes, promising: Sequence[int] | None = None) -> Finding | None:
        """The first rule that fits a UTF-8 text."""
        for number in self.promising(text) if promising is None else promising:
            regex, allow, allow_around = self._patterns(number)
            for match in regex.finditer(text):
                group = 1 if regex.groups else 0
                secret = match.group(group) or b""
                if _entropy(secret) >= self.rules[number].entropy and not (
                    allow.search(secret) or allow_around.search(match.group())
                ):
                    return Finding(self.rules[number], text.count(b"\n", 0, match.start(group)) + 1)
        return None

    def _patterns(self, number: int) -> tuple[Any, Any, Any]:
        if number not in self._compiled:
            rule = self.rules[number]
            self._compiled[number] = (
                compiled(rule.regex),
                _one_of((*self.allow, *rule.allow)),
                _one_of(rule.allow_around),
            )
        return self._compiled[number]

    # the door

    def item(self, given: Item) -> Item:
        """The item as it will be stored; Invalid if it is not right or holds a secret."""
        item = validation.item(given)
        self.refuse(item)
        return item

    def edge(self, given: Edge) -> Edge:
        edge = validation.edge(given)
        self.refuse(edge)
        return edge

    def parsed(self, row: Row) -> Item | Edge | Skipped:
        """What a row says, or why it is not stored."""
        found = readers.parsed(row)
        if isinstance(found, Skipped) or not (secret := self._in(found)):
            return found
        return Skipped(
            row.where,
            "" if secret.unnamed else (found.id if isinstance(found, Item) else found.source),
            str(secret.error()),
        )

    def refuse(self, value: Item | Edge) -> None:
        if found := self._in(value):
            raise found.error()

    def refuse_text(self, text: str) -> None:
        """For notes, which leave for a language model before they are items."""
        if found := self.find(text.encode()):
            raise _refusal("the text to ingest", f"line {found.line}", found.rule)

    def _in(self, value: Item | Edge) -> _Found | None:
        parts = list(_item_parts(value) if isinstance(value, Item) else _edge_parts(value))
        promising = self.promising("\n".join(part.text for part in parts).encode())
        for part in parts if promising else ():
            if finding := self.find(part.text.encode(), promising):
                return _Found(value, part, finding)
        return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A text of an item or an edge, and its place."""

    place: str
    text: str
    naming: bool = False  # names the whole: a refusal because of it must not repeat it


@dataclass(frozen=True, slots=True)
class _Found:
    value: Item | Edge
    part: _Part
    finding: Finding

    @property
    def unnamed(self) -> bool:
        return self.part.naming

    def error(self) -> Secret:
        line = self.finding.line
        return _refusal(
            self._owner(),
            f"{self.part.place} line {line}" if line > 1 else self.part.place,
            self.finding.rule,
        )

    def _owner(self) -> str:
        if isinstance(self.value, Item):
            return "an item" if self.unnamed else f"item {self.value.id[:80]!r}"
        return (
            "an edge"
            if self.unnamed
            else f"edge {self.value.source[:80]!r} -> {self.value.target[:80]!r}"
        )


def _refusal(owner: str, place: str, rule: Rule) -> Secret:
    what = f"{rule.about or 'a secret'} (rule {rule.name!r})"
    return Secret(
        f"{owner}: {place} holds what looks like {what}: take it out, or put a placeholder such as <SECRET> there"
    )


def _item_parts(item: Item) -> Iterator[_Part]:
    yield from (_Part(name, value, True) for name in ITEM_NAMES if (value := getattr(item, name)))
    yield from (_Part(name, value) for name in ITEM_TEXTS if (value := getattr(item, name)))
    yield from (_Part("tags", tag) for tag in item.tags)
    yield from _properties(item.properties)


def _edge_parts(edge: Edge) -> Iterator[_Part]:
    yield from (_Part(name, value, True) for name in EDGE_NAMES if (value := getattr(edge, name)))
    yield from _properties(edge.properties)


def _properties(value: object, place: str = "properties", name: str = "") -> Iterator[_Part]:
    """Every text inside, with the names that lead to it: `password` and its value are a secret only together. A name comes before
    the places it is part of."""
    if isinstance(value, Mapping):
        for first, second in _PAIRS:
            if isinstance(value.get(first), str) and isinstance(value.get(second), str):
                yield _Part(
                    f"{place}.{second}" if place else second, f"{value[first]}: {value[second]}"
                )
        for key, inner in value.items():
            yield _Part(f"a name in {place}", key)
            yield from _properties(inner, f"{place}.{key}", f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _properties(inner, f"{place}[{number}]", name)
    elif isinstance(value, str) and value:
        yield _Part(place, f"{name}: {value}")


def compiled(regex: str) -> Any:
    """A regex for UTF-8 bytes; re2.error if RE2 does not take it. RE2 needs time linear in the text, whatever the regex."""
    return re2.compile(regex.encode(), _options())


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    return options


def _one_of(regexes: Sequence[str]) -> Any:
    """One regex for all; for none one that fits nothing."""
    return compiled("|".join(f"(?:{one})" for one in regexes) or r"[^\x00-\x{10FFFF}]")


def _entropy(text: bytes) -> float:
    """Bits a character."""
    return (
        -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
        if text
        else 0.0
    )
