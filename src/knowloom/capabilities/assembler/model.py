"""Requests, strategies and results of an assembler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypedDict

from knowloom.filters.condition_json import WhereArgument
from knowloom.model import Context, Fragment, Hit, Item, LeftOut, Problem
from knowloom.tiers import TierArgument

TEXT = "text"  # the type of an item that is a bare piece of text


class TextDocument(Protocol):
    """A document in an editor."""

    @property
    def title(self) -> str: ...

    @property
    def content(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AssemblyRequest:
    """The input of every strategy; `selection` is (start, end) in characters of the document."""

    text: str
    spaces: tuple[str, ...] = ()
    max_tokens: int | None = 8000
    document: TextDocument | str | None = None
    selection: tuple[int, int] | None = None
    entity: str | None = None
    agent: str | None = None  # the agent whose recipes gather the knowledge
    tier: TierArgument = None  # None: everything is allowed
    format: str = "markdown"
    model: str = "gpt-4"
    now: datetime | None = None
    as_of: datetime | None = None
    where: WhereArgument = None  # conditions that every item of the knowledge fulfils
    strict: bool = False  # an upper bound instead of an estimate for models without a tokenizer

    @property
    def content(self) -> str:
        """The text of the document; "" without one."""
        if self.document is None:
            return ""
        return self.document if isinstance(self.document, str) else self.document.content


class AssemblyArguments(TypedDict, total=False):
    """Keyword arguments of `assemble`: the fields of AssemblyRequest except for its text."""

    spaces: tuple[str, ...]
    max_tokens: int | None
    document: TextDocument | str | None
    selection: tuple[int, int] | None
    entity: str | None
    agent: str | None
    tier: TierArgument
    format: str
    model: str
    now: datetime | None
    as_of: datetime | None
    where: WhereArgument
    strict: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a strategy, with its relevance from 0 to 1 and an optional heading.

    If all pieces of a strategy are `verbatim`, they are joined and shown byte for byte.
    """

    text: str
    score: float = 0.5
    title: str = ""
    verbatim: bool = False


StrategyOutput = str | Context | Iterable[str | Piece | Item | Hit] | None


class Strategy(Protocol):
    """A source of context. Optional attributes: `required` (False), `timeout_s` (5.0) and `share`
    (of the budget; by default all strategies have the same)."""

    @property
    def name(self) -> str: ...

    @property
    def priority(self) -> float:
        """The position in the answer; the lowest comes first."""

    @property
    def enabled(self) -> bool: ...

    def get(self, request: AssemblyRequest) -> StrategyOutput:
        """Return a text, pieces, items, hits, a context, or nothing. Called in a thread."""


@dataclass(frozen=True, slots=True)
class StrategyReport:
    """The outcome of one strategy: what it offered, and what of it is in the text."""

    name: str
    priority: float
    required: bool
    status: str  # used, cut, left_out, empty, disabled, failed, timed_out
    offered_tokens: int = 0
    used_tokens: int = 0
    offered_pieces: int = 0
    used_pieces: int = 0
    reasons: tuple[str, ...] = ()  # why it was cut, or why it failed


@dataclass(frozen=True, slots=True)
class Assembly:
    """One text within the budget, and the outcome of each strategy in the order of the text."""

    text: str
    tokens: int
    strategies: tuple[StrategyReport, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Problem, ...] = ()
    token_counter: str = ""
    optimality_gap: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)  # milliseconds by strategy


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """The hits of a strategy in its order, with notes on what was skipped; or a problem."""

    hits: tuple[Hit, ...] = ()
    piece_count: int = 0
    notes: tuple[str, ...] = ()
    problem: Problem | None = None
    seconds: float = 0.0
    failures: tuple[Problem, ...] = ()  # layers that the hits were found without
