"""What an assembler is asked, what a strategy is, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from knowloom.model import Context, Fragment, Hit, Item, LeftOut, Problem
from knowloom.tiers import Given

TEXT = "text"  # the type of an item that is nothing but a piece of text


class TextDocument(Protocol):
    """A document as an editor has it; any object with these will do."""

    @property
    def title(self) -> str: ...

    @property
    def content(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AssemblyRequest:
    """What every strategy is told. `selection` is (start, end) in characters of the document's content."""

    text: str
    spaces: tuple[str, ...] = ()
    max_tokens: int | None = 8000
    document: TextDocument | str | None = None
    selection: tuple[int, int] | None = None
    entity: str | None = None
    agent: str | None = None  # the agent that asks: its recipes gather the knowledge
    tier: Given = None  # what may be seen of the knowledge; None: everything
    format: str = "markdown"
    model: str = "gpt-4"
    now: datetime | None = None
    as_of: datetime | None = None

    @property
    def content(self) -> str:
        """Of the document; "" without one."""
        return (
            ""
            if self.document is None
            else self.document
            if isinstance(self.document, str)
            else self.document.content
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """A text that a strategy found. The score, from 0 to 1, says how much it matters; with a title it is shown under it."""

    text: str
    score: float = 0.5
    title: str = ""


StrategyOutput = str | Context | Iterable[str | Piece | Item | Hit] | None


class Strategy(Protocol):
    """One way to find context. It may also have `required` (False), `timeout_s` (5.0) and `share` (of the budget; else an equal one)."""

    @property
    def name(self) -> str: ...

    @property
    def priority(self) -> float:
        """The lowest stands first in the answer."""

    @property
    def enabled(self) -> bool: ...

    def get(self, request: AssemblyRequest) -> StrategyOutput:
        """What it found: a text, pieces, items, hits, a whole context, or nothing. Called in a thread of its own."""


@dataclass(frozen=True, slots=True)
class StrategyReport:
    """What became of one strategy. `asked` and `got` are tokens: of all it gave, and of what is in the text."""

    name: str
    priority: float
    required: bool
    status: str  # used, cut, left_out, empty, disabled, failed, timed_out
    asked: int = 0
    got: int = 0
    given: int = 0  # pieces
    used: int = 0
    reasons: tuple[str, ...] = ()  # why it was cut, or why it failed


@dataclass(frozen=True, slots=True)
class Assembly:
    """One text within the budget, and what every strategy had to do with it, in the order of the text."""

    text: str
    tokens: int
    strategies: tuple[StrategyReport, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Problem, ...] = ()
    token_counter: str = ""
    optimality_gap: float = 0.0
    timings: Mapping[str, float] = field(
        default_factory=dict
    )  # milliseconds of each strategy that answered


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """What a strategy gave, as hits in its own order, with notes on what was not looked at; or why it gave nothing."""

    hits: tuple[Hit, ...] = ()
    given: int = 0
    notes: tuple[str, ...] = ()
    problem: Problem | None = None
    seconds: float = 0.0
