"""The scanner that rejects items and edges with secrets; its errors never repeat the secret."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import re2

from knowloom import validation
from knowloom.errors import Invalid
from knowloom.loading import source_rows
from knowloom.loading.source_rows import SourceRow
from knowloom.model import Edge, Item
from knowloom.report import Skipped

# Scanned first: errors name the id, which must be clean by then.
ITEM_NAMES = ("id", "space", "type", "section", "subject")
ITEM_TEXTS = ("title", "text", "summary", "embedding_text", "source")
EDGE_NAMES = ("source", "target", "type", "space", "target_space", "item_id")
# {"name": "DB_PASSWORD", "value": "…"} means the same as {"DB_PASSWORD": "…"}.
_PAIRS = (("name", "value"), ("key", "value"))


class SecretDetected(Invalid):
    """An item, an edge or a text contains a secret."""

    code = "secret"


@dataclass(frozen=True, slots=True)
class SecretRule:
    """The pattern of one kind of secret; `rules.toml` documents the fields."""

    name: str
    regex: str
    about: str = ""
    keywords: tuple[str, ...] = ()
    entropy: float = 0.0
    allow: tuple[str, ...] = ()
    allow_around: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """The rule that matches, and the line of the match, counted from 1; never the secret itself."""

    rule: SecretRule
    line: int


class SecretScanner:
    """Rules that are tried in order; they are compiled on first use, as readers need none."""

    def __init__(self, rules: Sequence[SecretRule], allow: Sequence[str] = ()) -> None:
        self.rules = tuple(rules)
        self.allow = tuple(allow)
        self._compiled: dict[int, tuple[Any, Any, Any]] = {}  # regexes by rule number

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the rules: what was scanned with the same need not be scanned again."""
        rules = repr((self.rules, self.allow))
        return hashlib.blake2b(rules.encode(), digest_size=8).hexdigest()

    @cached_property
    def _prefilter(self) -> Any:
        """A regex set that selects the candidate rules in one pass over a text."""
        patterns = re2.Set.SearchSet(_options())
        for rule in self.rules:
            keywords = "|".join(re2.escape(word) for word in rule.keywords)
            patterns.Add(f"(?i:{keywords})" if keywords else rule.regex)
        patterns.Compile()
        return patterns

    def candidate_rules(self, text: bytes) -> list[int]:
        """Return the numbers of the rules that may match, in order."""
        return sorted(self._prefilter.Match(text) or ()) if self.rules else []

    def find(self, text: bytes, candidates: Sequence[int] | None = None) -> SecretMatch | None:
        """Return the match of the first rule that matches a UTF-8 text."""
        for number in self.candidate_rules(text) if candidates is None else candidates:
            regex, allow, allow_around = self._patterns(number)
            group = 1 if regex.groups else 0
            for match in regex.finditer(text):
                secret = match.group(group) or b""
                if _entropy(secret) < self.rules[number].entropy:
                    continue
                if not allow.search(secret) and not allow_around.search(match.group()):
                    line = text.count(b"\n", 0, match.start(group)) + 1
                    return SecretMatch(self.rules[number], line)
        return None

    def _patterns(self, number: int) -> tuple[Any, Any, Any]:
        if number not in self._compiled:
            rule = self.rules[number]
            self._compiled[number] = (
                compile_regex(rule.regex),
                _compile_any((*self.allow, *rule.allow)),
                _compile_any(rule.allow_around),
            )
        return self._compiled[number]

    def validate_item(self, item: Item) -> Item:
        """Return the item as it will be stored; Invalid if it is malformed or has a secret."""
        item = validation.validate_item(item)
        self._check(item)
        return item

    def validate_edge(self, edge: Edge) -> Edge:
        """Return the edge as it will be stored; Invalid if it is malformed or has a secret."""
        edge = validation.validate_edge(edge)
        self._check(edge)
        return edge

    def parse_row(self, row: SourceRow) -> Item | Edge | Skipped:
        """Return the item or the edge of a row, or why it is skipped."""
        value = source_rows.parse_row(row)
        if isinstance(value, Skipped) or not (detection := self._detect(value)):
            return value
        id = value.id if isinstance(value, Item) else value.source
        return Skipped(row.where, "" if detection.part.is_name else id, str(detection.error()))

    def check_text(self, text: str) -> None:
        """Reject a text with a secret before it is sent to a language model."""
        if match := self.find(text.encode()):
            raise _rejection("the text to ingest", f"line {match.line}", match.rule)

    def _check(self, value: Item | Edge) -> None:
        if detection := self._detect(value):
            raise detection.error()

    def _detect(self, value: Item | Edge) -> _Detection | None:
        parts = list(_item_parts(value) if isinstance(value, Item) else _edge_parts(value))
        candidates = self.candidate_rules("\n".join(part.text for part in parts).encode())
        for part in parts if candidates else ():
            if match := self.find(part.text.encode(), candidates):
                return _Detection(value, part, match)
        return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A text of an item or an edge, and its place; an error must not repeat a part `is_name`."""

    place: str
    text: str
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class _Detection:
    """A secret in a part of an item or an edge."""

    value: Item | Edge
    part: _Part
    match: SecretMatch

    def error(self) -> SecretDetected:
        line = f" line {self.match.line}" if self.match.line > 1 else ""
        return _rejection(self._owner(), f"{self.part.place}{line}", self.match.rule)

    def _owner(self) -> str:
        value = self.value
        if isinstance(value, Item):
            return "an item" if self.part.is_name else f"item {value.id[:80]!r}"
        if self.part.is_name:
            return "an edge"
        return f"edge {value.source[:80]!r} -> {value.target[:80]!r}"


def _rejection(owner: str, place: str, rule: SecretRule) -> SecretDetected:
    what = f"{rule.about or 'a secret'} (rule {rule.name!r})"
    remedy = "remove it, or use a placeholder such as <SECRET>"
    return SecretDetected(f"{owner}: {place} contains what looks like {what}: {remedy}")


def _item_parts(item: Item) -> Iterator[_Part]:
    yield from (_Part(name, value, True) for name in ITEM_NAMES if (value := getattr(item, name)))
    yield from (_Part(name, value) for name in ITEM_TEXTS if (value := getattr(item, name)))
    yield from (_Part("tags", tag) for tag in item.tags)
    yield from _property_parts(item.properties)


def _edge_parts(edge: Edge) -> Iterator[_Part]:
    yield from (_Part(name, value, True) for name in EDGE_NAMES if (value := getattr(edge, name)))
    yield from _property_parts(edge.properties)


def _property_parts(value: object, place: str = "properties", name: str = "") -> Iterator[_Part]:
    """Yield the texts inside, each after the names that lead to it.

    `password` and its value are a secret only together. A name comes before the places that it is
    part of, so that it is scanned before an error repeats it.
    """
    if isinstance(value, Mapping):
        for first, second in _PAIRS:
            if isinstance(value.get(first), str) and isinstance(value.get(second), str):
                inner_place = f"{place}.{second}" if place else second
                yield _Part(inner_place, f"{value[first]}: {value[second]}")
        for key, inner in value.items():
            yield _Part(f"a name in {place}", key)
            yield from _property_parts(inner, f"{place}.{key}", f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _property_parts(inner, f"{place}[{number}]", name)
    elif isinstance(value, str) and value:
        yield _Part(place, f"{name}: {value}")


def compile_regex(regex: str) -> Any:
    """Compile a regex for UTF-8 bytes; raise re2.error if RE2 does not support it.

    RE2 takes time linear in the text, whatever the regex.
    """
    return re2.compile(regex.encode(), _options())


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    return options


def _compile_any(regexes: Sequence[str]) -> Any:
    """Compile an alternation of the regexes; of none, one that never matches."""
    return compile_regex("|".join(f"(?:{regex})" for regex in regexes) or r"[^\x00-\x{10FFFF}]")


def _entropy(text: bytes) -> float:
    """Return the Shannon entropy in bits per byte."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
