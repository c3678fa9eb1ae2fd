"""The scanner that finds secrets in texts by rules."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import re2

MARKER = "[redacted: {}]"  # with the name of the rule
MAX_PASSES = 20  # over a text: a redaction may uncover another secret


@dataclass(frozen=True, slots=True)
class SecretRule:
    """The pattern of one kind of secret; `rules.toml` documents the fields."""

    name: str
    regex: str
    about: str = ""
    keywords: tuple[str, ...] = ()
    shape: str = ""
    until: str = ""
    entropy: float = 0.0
    allow: tuple[str, ...] = ()
    allow_around: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """The rule that matches, and the bytes and the line of the secret, counted from 1."""

    rule: SecretRule
    line: int
    start: int
    end: int


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
        numbers = sorted(self._prefilter.Match(text) or ()) if self.rules else []
        shapes = {shape: None for number in numbers if (shape := self.rules[number].shape)}
        missing = {shape for shape in shapes if not compile_regex(shape).search(text)}
        return [number for number in numbers if self.rules[number].shape not in missing]

    def find(self, text: bytes, candidates: Sequence[int] | None = None) -> SecretMatch | None:
        """Return the match of the first rule that matches a UTF-8 text."""
        numbers = self.candidate_rules(text) if candidates is None else candidates
        return next((match for number in numbers for match in self._matches(text, number)), None)

    def redact(self, text: str) -> str | None:
        """Return the text with a marker in place of every secret; None if some remain.

        Line breaks inside a secret stay, so that the lines keep their numbers.
        """
        data = text.encode()
        for _ in range(MAX_PASSES):
            candidates = self.candidate_rules(data)
            matches = [match for number in candidates for match in self._matches(data, number)]
            if not matches:
                return data.decode()
            data = self._replace(data, matches)
        return None

    def _replace(self, data: bytes, matches: Sequence[SecretMatch]) -> bytes:
        """Replace the matches; of two that overlap, the one that begins first."""
        parts, position = [], 0
        for match in sorted(matches, key=lambda match: (match.start, -match.end)):
            if match.start >= position:
                end = self._extend(data, match)
                marker = MARKER.format(match.rule.name).encode()
                lines = b"\n" * data.count(b"\n", match.start, end)
                parts += [data[position : match.start], marker, lines]
                position = end
        return b"".join((*parts, data[position:]))

    def _extend(self, data: bytes, match: SecretMatch) -> int:
        """Return the end of a secret that goes on after its match, such as a private key."""
        if not match.rule.until:
            return match.end
        last = compile_regex(match.rule.until).search(data, match.end)
        return last.start() if last else len(data)

    def _matches(self, text: bytes, number: int) -> Iterator[SecretMatch]:
        rule, (regex, allow, allow_around) = self.rules[number], self._patterns(number)
        for match in regex.finditer(text):
            group = match.lastindex or 0
            secret = match.group(group)
            if _entropy(secret) < rule.entropy:
                continue
            if not allow.search(secret) and not allow_around.search(match.group()):
                start, end = match.span(group)
                yield SecretMatch(rule, text.count(b"\n", 0, start) + 1, start, end)

    def _patterns(self, number: int) -> tuple[Any, Any, Any]:
        if number not in self._compiled:
            rule = self.rules[number]
            self._compiled[number] = (
                compile_regex(rule.regex),
                _compile_any((*self.allow, *rule.allow)),
                _compile_any(rule.allow_around),
            )
        return self._compiled[number]


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
