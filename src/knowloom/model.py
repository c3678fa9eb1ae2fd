"""Items, edges, queries and contexts. Values only: no I/O, no imports from the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from html import escape
from typing import Any

Key = tuple[str, str]
"""(space, id), the key of an item. The same id in two spaces is two items."""
EdgeKey = tuple[Key, Key, str]
"""(source, target, type), the key of an edge."""

RESERVED_PREFIX = "knowloom:"
"""The prefix of property names reserved for knowloom: they are neither searched nor shown."""
SINCE = f"{RESERVED_PREFIX}since"
"""The property of an edge with the time, in ISO 8601, from which on it is known."""
LINES = f"{RESERVED_PREFIX}lines"
"""The property of an item that was cut from a file: its first and last line there."""
AUTOMATIC = "knowloom"
"""The origin of automatic edges: those that knowloom computes and keeps up to date."""
LINK = ("link",)
"""`Hit.found_by` of an edge between two others, with `from`, `type` and `to` as properties."""


class Kind(StrEnum):
    """The role of an item. The engine branches on kind; users filter on type."""

    NODE = "node"  # faq, playbook, fact, procedure: searchable text
    ENTITY = "entity"  # a thing with a name and properties
    PROFILE = "profile"  # key-value facts about one entity, fetched by id
    RULE = "rule"  # an axiom: holds for every entity of a type
    CLAIM = "claim"  # a statement about one entity, with evidence
    MEMORY = "memory"  # something learned in a workspace


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of knowledge.

    `subject` is the entity it is about; of a rule an entity type, of a memory its conversation.
    """

    id: str
    space: str
    kind: Kind = Kind.NODE
    type: str = ""
    title: str = ""
    text: str = ""
    summary: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    section: str = "context"
    subject: str | None = None
    confidence: float | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    source: str | None = None
    embedding_text: str | None = None
    numbered: bool = False  # its id was an integer, and is returned as one

    @property
    def key(self) -> Key:
        return (self.space, self.id)

    @property
    def name(self) -> str:
        """The title, or the id of an item without one."""
        return self.title or self.id

    @property
    def shown_properties(self) -> dict[str, Any]:
        """The properties without reserved ones."""
        shown = [name for name in self.properties if not name.startswith(RESERVED_PREFIX)]
        return {name: self.properties[name] for name in shown}

    @property
    def searchable(self) -> str:
        """The text of the full-text index."""
        return "\n".join(filter(None, (self.title, self.text, self.searchable_metadata)))

    @property
    def searchable_metadata(self) -> str:
        """The part of the text of the full-text index beside title and text."""
        values = (str(value) for value in self.shown_properties.values())
        return "\n".join(filter(None, (self.summary, " ".join(self.tags), *values)))

    @property
    def embeddable(self) -> str:
        """The text of the embedding."""
        if self.embedding_text is not None:
            return self.embedding_text
        facts = {} if self.text else self.properties
        values = (f"{name}: {value}" for name, value in facts.items())
        return "\n".join(filter(None, (self.title, self.text or self.summary, *values)))


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed, weighted edge of `space`; its target may live in another one (`target_space`)."""

    source: str
    target: str
    type: str = "related"
    weight: float = 1.0  # 0 forbids an automatic edge, and is never followed
    space: str = ""
    item_id: str | None = None  # the item that explains this edge
    properties: Mapping[str, Any] = field(default_factory=dict)
    target_space: str = ""  # "" means the same space
    origin: str = ""  # AUTOMATIC, or "" for an explicit edge

    @property
    def source_key(self) -> Key:
        return (self.space, self.source)

    @property
    def target_key(self) -> Key:
        return (self.target_space or self.space, self.target)

    def is_known_at(self, time: datetime | None) -> bool:
        """Return True if it was known at that time; an edge without SINCE always was."""
        if time is None or SINCE not in self.properties:
            return True
        try:
            return datetime.fromisoformat(self.properties[SINCE]) <= time
        except (TypeError, ValueError):  # not written by knowloom, and not a time
            return True

    @property
    def name(self) -> str:
        """The edge as one line; the target's space is named if it is another one."""
        space = f" ({self.target_space})" if self.target_space else ""
        return f"{self.source} -[{self.type}]-> {self.target}{space}"

    @property
    def key(self) -> EdgeKey:
        return (self.source_key, self.target_key, self.type)


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the change log: the action, and the item or the edge before it."""

    number: int
    at: datetime
    space: str
    id: str
    action: str  # "add", "update", "delete"; "link" and "unlink" for edges
    before: Item | Edge | None = None
    link: EdgeKey | None = None  # the edge; None for items and for edges of files of schema 1


@dataclass(frozen=True, slots=True)
class Filter:
    """The items that a request may see. An empty field does not restrict; no spaces, no items."""

    spaces: tuple[str, ...]
    kinds: tuple[Kind, ...] = ()
    types: tuple[str, ...] = ()
    exclude_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # at least one of them
    subjects: tuple[str, ...] = ()
    created_from: datetime | None = None
    created_to: datetime | None = None
    valid_at: datetime | None = None  # inside [valid_from, valid_to)
    min_confidence: float = 0.0

    def rejection_reason(self, item: Item) -> str:
        """Return why the item is not visible; "" if it is. Every index must agree with this."""
        return next(self._reasons(item), "")

    def allows(self, item: Item) -> bool:
        return not self.rejection_reason(item)

    def _reasons(self, item: Item) -> Iterator[str]:
        if item.space not in self.spaces:
            yield f"space {item.space!r} was not requested"
        if self.kinds and item.kind not in self.kinds:
            yield f"kind {item.kind.value!r} was not requested"
        if self.types and item.type not in self.types:
            yield f"type {item.type!r} was not requested"
        if item.type in self.exclude_types:
            yield f"type {item.type!r} was excluded"
        if self.tags and not any(tag in item.tags for tag in self.tags):
            yield f"has none of the tags {', '.join(self.tags)}"
        if self.subjects and item.subject not in self.subjects:
            yield f"subject {item.subject!r} was not requested"
        if self.min_confidence > (item.confidence or 0.0):
            yield f"confidence {item.confidence or 0.0:g} is below {self.min_confidence:g}"
        if self.created_from and item.created_at and item.created_at < self.created_from:
            yield "was created before the requested dates"
        if self.created_to and item.created_at and item.created_at > self.created_to:
            yield "was created after the requested dates"
        if self.valid_at and item.valid_from and item.valid_from > self.valid_at:
            yield "was not valid yet"
        if self.valid_at and item.valid_to and item.valid_to <= self.valid_at:
            yield "was no longer valid"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of an item's text, and its headings; the last `inner` ones are written in it."""

    number: int
    start: int
    end: int
    headings: tuple[str, ...] = ()
    inner: int = 0

    @property
    def outer_headings(self) -> tuple[str, ...]:
        """The headings that are written before the passage."""
        return self.headings[: len(self.headings) - self.inner]


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage of a hit and its relevance to the query, on the scale of the hit's score."""

    passage: Passage
    score: float
    linked: bool = False  # True if the edge that led to the item points to this passage


@dataclass(frozen=True, slots=True)
class Hit:
    """An item with its score, the numbers behind it, the searches that found it and its path."""

    item: Item
    score: float
    signals: Mapping[str, float] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()  # "bm25", "vector", "graph", "key", "name", "subject", "link"
    path: tuple[Key, ...] = ()
    edge: Edge | None = None  # the last edge of the path
    links: tuple[Edge, ...] = ()  # all edges of the path, in order
    via: str = ""  # the path in words, by titles, if requested
    passages: tuple[ScoredPassage, ...] = ()  # of an item with several, best first

    @property
    def passage(self) -> Passage:
        """The passage that matched best; of a short item its whole text."""
        if self.passages:
            return self.passages[0].passage
        return Passage(0, 0, len(self.item.text))

    @property
    def relevance(self) -> float:
        """The score of a walk, else the score; of an edge's target at most that of the start."""
        if "walk" in self.signals:
            return self.signals["walk"]
        return self.score * self.signals.get("start", 1.0)

    @property
    def distance(self) -> int:
        """The number of edges between this item and the search hit that the path starts from."""
        return max(0, len(self.path) - 1)

    @property
    def match_source(self) -> str:
        """The search that found it; `hybrid` if text and vector search both did."""
        return "hybrid" if len(self.found_by) > 1 else "".join(self.found_by)


@dataclass(frozen=True, slots=True)
class Query:
    """A complete request: the same query on the same knowledge gives the same bytes."""

    text: str
    spaces: tuple[str, ...]
    now: datetime
    max_tokens: int | None = 2000
    format: str = "markdown"
    model: str = "gpt-4"
    entity: str | None = None  # the entity that the agent works for, such as "user:maya"
    as_of: datetime | None = None  # excludes everything that became known or valid later
    vector: tuple[float, ...] = ()  # a ready query vector; empty: the engine embeds the text
    paths: bool = field(default=False, repr=False)  # True: show the paths to hits of the graph
    citations: bool = field(default=False, repr=False)  # True: number blocks and list their sources


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
class Problem:
    """A part of the answer that is missing or degraded, and why."""

    part: str
    reason: str
    code: str = "unavailable"


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

    def sections(self) -> dict[str, str]:
        """Return the text by prompt section, ready to merge into a template."""
        texts: dict[str, list[str]] = {}
        for fragment in self.fragments:
            for chosen in fragment.chosen:
                texts.setdefault(chosen.hit.item.section, []).append(chosen.text)
        return {section: "\n\n".join(parts) for section, parts in texts.items()}
