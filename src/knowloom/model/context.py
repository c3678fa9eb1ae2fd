"""Requests for a context, and the context: its text, its parts, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from html import escape

from knowloom.model.condition import ItemCondition
from knowloom.model.hit import Hit, Passage
from knowloom.model.problem import Problem
from knowloom.model.turn import Earlier, Shown

SHOWN_BEFORE = "shown_before"  # the section of pointers to items that the reader has seen


@dataclass(frozen=True, slots=True)
class ContextFormat:
    """A format that the user defines: parts with variables such as `{{title}}` and `{{text}}`.

    `escape` is "" or "xml". `line_break` replaces line breaks in values, so that a text cannot
    imitate the lines of the format; None keeps them.
    """

    item: str = "- {{title}}: {{text}}\n"
    pointer: str = "- {{title}} ({{id}})\n"  # an item that is shown by its name
    link: str = "- {{text}}\n"  # a relationship between two items
    section: str = "{{section}}:\n"  # the heading of a section
    separator: str = ""  # between two items
    section_separator: str = "\n"
    header: str = ""
    footer: str = ""
    escape: str = ""
    line_break: str | None = "\n  "


@dataclass(frozen=True, slots=True)
class Query:
    """A complete request: the same query on the same knowledge gives the same bytes."""

    text: str
    spaces: tuple[str, ...]
    now: datetime
    max_tokens: int | None = 2000
    format: str | ContextFormat = "markdown"
    model: str = "gpt-4"
    entity: str | None = None  # the entity that the agent works for, such as "user:maya"
    as_of: datetime | None = None  # excludes everything that became known or valid later
    vector: tuple[float, ...] = ()  # a ready query vector; empty: the engine embeds the text
    paths: bool = field(default=False, repr=False)  # True: show the paths to hits of the graph
    citations: bool = field(default=False, repr=False)  # True: number blocks and list their sources
    min_answer_confidence: float = field(default=0.0, repr=False)  # below it, show nothing
    where: tuple[ItemCondition, ...] = field(default=(), repr=False)  # of every item of the answer
    seen: tuple[Shown, ...] = field(default=(), repr=False)  # not shown again unless it changed
    after: Earlier | None = field(default=None, repr=False)  # the text that this one continues
    new_tokens: int | None = field(default=None, repr=False)  # of what is added; None: no limit
    fence: bool = field(default=False, repr=False)  # True: mark untrusted text as data


class Form(StrEnum):
    """The part of an item that is shown."""

    WHOLE = "whole"
    EXCERPT = "excerpt"  # the best passages, under their headings
    SUMMARY = "summary"
    POINTER = "pointer"  # one line with the name


@dataclass(frozen=True, slots=True)
class Chosen:
    """A hit that is part of the text, with its form, its tokens and its own text."""

    hit: Hit
    form: Form
    tokens: int
    text: str
    passages: tuple[Passage, ...] = ()  # of an excerpt, in the order of the text


@dataclass(frozen=True, slots=True)
class Citation:
    """The number and source of a block of the text; `passages` are the ranges of an excerpt."""

    number: int
    space: str
    id: str
    title: str
    source: str  # such as "docs/install.md, lines 12-30 (Install > Linux)"
    url: str = ""
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A candidate that is not part of the text, why, and what would include it."""

    hit: Hit
    fragment: str
    reason: str
    tokens: int = 0  # of the whole item; 0 if it was never rendered
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The result of one recipe."""

    name: str
    chosen: tuple[Chosen, ...] = ()
    tokens: int = 0
    text: str = ""
    problem: str = ""

    @property
    def hits(self) -> tuple[Hit, ...]:
        return tuple(chosen.hit for chosen in self.chosen)


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one request, and its times in milliseconds."""

    searched: int = 0  # items that the indexes considered
    expanded: int = 0  # items reached by edges
    max_depth: int = 0
    matched: int = 0  # items that searches matched, before min_score and limits
    candidates: int = 0
    token_counter: str = ""
    optimality_gap: float = 0.0  # an upper bound on the missing share of the value; 0: optimal
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: text within the budget, its parts, the candidates left out, and the problems."""

    text: str
    tokens: int
    query: Query
    fragments: tuple[Fragment, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Problem, ...] = ()
    digest: str = ""
    stats: Stats = field(default_factory=Stats)
    citations: tuple[Citation, ...] = ()  # in the order of the text, if requested
    confidence: float | None = None  # share of such answers with the evidence; None: no search
    prefix: int = 0  # characters at the beginning that are the text of an earlier context

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Return the text and its size for notebooks."""
        budget = self.query.max_tokens
        size = f"{self.tokens}" if budget is None else f"{self.tokens} of {budget}"
        return f"<pre>{escape(self.text)}</pre><p>{size} tokens</p>"

    @property
    def hits(self) -> tuple[Hit, ...]:
        return tuple(hit for fragment in self.fragments for hit in fragment.hits)

    @property
    def truncated(self) -> bool:
        """True if the budget left a candidate out or shortened it."""
        fragments = [part for part in self.fragments if part.name != SHOWN_BEFORE]
        forms = {chosen.form for fragment in fragments for chosen in fragment.chosen}
        return bool(forms - {Form.WHOLE}) or any(entry.tokens for entry in self.left_out)

    def sections(self) -> dict[str, str]:
        """Return the text by prompt section, ready to merge into a template."""
        texts: dict[str, list[str]] = {}
        for fragment in self.fragments:
            for chosen in fragment.chosen:
                texts.setdefault(chosen.hit.item.section, []).append(chosen.text)
        return {section: "\n\n".join(parts) for section, parts in texts.items()}
