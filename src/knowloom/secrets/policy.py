"""The policy about secrets: refuse, redact or flag what contains one.

No message repeats a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from knowloom import validation
from knowloom.errors import Invalid, unknown_name
from knowloom.loading import source_rows
from knowloom.loading.source_rows import SourceRow
from knowloom.model import Edge, Item, Key
from knowloom.report import Skipped
from knowloom.secrets import parts
from knowloom.secrets.parts import ScannedText
from knowloom.secrets.scanner import SecretMatch, SecretRule, SecretScanner

T = TypeVar("T", bound=Item | Edge)

# "auto" refuses what programs add, and redacts the documents of a load.
AUTO, REFUSE, REDACT, FLAG, ALLOW = "auto", "refuse", "redact", "flag", "allow"
SETTINGS = (AUTO, REFUSE, REDACT, FLAG, ALLOW)
POLICIES = (REFUSE, REDACT, FLAG)
REMEDY = (
    "remove it, use a placeholder such as <SECRET>, accept the value with `allow` in the file of "
    'the setting secret_rules, or choose the policy secrets="redact" or "flag"'
)


class SecretDetected(Invalid):
    """An item, an edge or a text contains a secret."""

    code = "secret"


@dataclass(frozen=True, slots=True)
class SecretPolicy:
    """The rules of an engine, and what happens to texts that match one."""

    scanner: SecretScanner
    setting: str = AUTO

    def screen(self, policy: str | None = None) -> Screening:
        """Return the check of one write; None stands for the setting."""
        if policy is not None and policy not in POLICIES:
            raise unknown_name("policy about secrets", policy, POLICIES)
        return Screening(self.scanner, policy or self.setting)

    def validate_policy(self, policy: str | None) -> None:
        """Raise Invalid for a policy that stores secrets which the setting would not."""
        self.screen(policy)
        if policy == FLAG and self.setting not in (FLAG, ALLOW):
            raise Invalid(
                f'secrets="flag" stores secrets, but the setting is {self.setting!r}: use "refuse" '
                'or "redact", or start the server with KNOWLOOM_SECRETS=flag',
                "forbidden",
            )


@dataclass(slots=True)
class Screening:
    """The check of one write, with notes on what was redacted or flagged."""

    scanner: SecretScanner
    policy: str
    notes: list[str] = field(default_factory=list)
    refused: set[Key] = field(default_factory=set)  # items that were not stored

    @property
    def fingerprint(self) -> str:
        """A hash of the rules and the policy: it tells if a file must be read again."""
        return f"{self.scanner.fingerprint}:{self.policy}"

    def screen_item(self, item: Item) -> Item:
        """Return the item as it will be stored; Invalid if it is malformed or refused."""
        return self._screen(validation.validate_item(item), self._resolve(False))

    def screen_edge(self, edge: Edge) -> Edge:
        """Return the edge as it will be stored; Invalid if it is malformed or refused."""
        return self._screen(validation.validate_edge(edge), self._resolve(False))

    def parse_row(self, row: SourceRow) -> Item | Edge | Skipped:
        """Return the item or the edge of a row, or why it is skipped."""
        value = source_rows.parse_row(row)
        if isinstance(value, Skipped):
            return value
        try:
            return self._screen(value, self._resolve(row.is_document), f"{row.where}: ")
        except _Refused as error:
            if isinstance(value, Item):
                self.refused.add(value.key)
            id = value.id if isinstance(value, Item) else value.source
            return Skipped(row.where, "" if error.is_name else id, str(error))

    def screen_text(self, text: str) -> str:
        """Return a text as it may be sent to a language model; Invalid if it is refused."""
        match = self.scanner.find(text.encode()) if self.policy != ALLOW else None
        if match is None:
            return text
        place = f"line {match.line}"
        if self.policy == FLAG:
            self.notes.append(_describe("the text to ingest", place, match.rule) + ": it was used")
            return text
        redacted = self.scanner.redact(text) if self.policy == REDACT else None
        if redacted is None:
            raise SecretDetected(_describe("the text to ingest", place, match.rule) + f": {REMEDY}")
        self.notes.append(_describe("the text to ingest", place, match.rule) + ": it was redacted")
        return redacted

    def _resolve(self, is_document: bool) -> str:
        if self.policy != AUTO:
            return self.policy
        return REDACT if is_document else REFUSE

    def _screen(self, value: T, policy: str, where: str = "") -> T:
        if policy == ALLOW or not (detections := self._detect(value)):
            return value
        if policy == FLAG:
            self._note(detections, where, "it was stored")
            return value
        redacted = self._redact(value) if policy == REDACT else value
        if remaining := self._detect(redacted):
            raise _Refused(remaining[0])
        self._note(detections, where, "it was redacted")
        return redacted

    def _note(self, detections: Sequence[_Detection], where: str, outcome: str) -> None:
        self.notes += [f"{where}{detection.describe()}: {outcome}" for detection in detections]

    def _redact(self, value: T) -> T:
        redact = self.scanner.redact
        if isinstance(value, Item):
            return cast(T, parts.redact_item(value, redact))
        return cast(T, parts.redact_edge(cast(Edge, value), redact))

    def _detect(self, value: Item | Edge) -> list[_Detection]:
        """Return the first secret of each part."""
        texts = parts.list_parts(value)
        candidates = self.scanner.candidate_rules("\n".join(part.text for part in texts).encode())
        if not candidates:
            return []
        matches = ((part, self.scanner.find(part.text.encode(), candidates)) for part in texts)
        return [_Detection(value, part, match) for part, match in matches if match is not None]


@dataclass(frozen=True, slots=True)
class _Detection:
    """A secret in a part of an item or an edge."""

    value: Item | Edge
    part: ScannedText
    match: SecretMatch

    def describe(self) -> str:
        line = f" line {self.match.line}" if self.match.line > 1 else ""
        return _describe(self._owner(), f"{self.part.place}{line}", self.match.rule)

    def _owner(self) -> str:
        value = self.value
        if isinstance(value, Item):
            return "an item" if self.part.is_name else f"item {value.id[:80]!r}"
        if self.part.is_name:
            return "an edge"
        return f"edge {value.source[:80]!r} -> {value.target[:80]!r}"


class _Refused(SecretDetected):
    """A refused item or edge; `is_name` if its id must not be shown."""

    def __init__(self, detection: _Detection) -> None:
        super().__init__(f"{detection.describe()}: {REMEDY}")
        self.is_name = detection.part.is_name


def _describe(owner: str, place: str, rule: SecretRule) -> str:
    what = f"{rule.about or 'a secret'} (rule {rule.name!r})"
    return f"{owner}: {place} contains what looks like {what}"
