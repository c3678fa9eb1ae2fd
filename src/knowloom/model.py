"""What knowloom knows and what it answers. Values only: no I/O, nothing from the rest of the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

Key = tuple[str, str]
"""(space, id): what names an item. The same id in two spaces is two items."""


RESERVED_PREFIX = "knowloom:"
"""How the names of properties begin that knowloom keeps for itself: they are neither searched nor shown."""
SINCE = f"{RESERVED_PREFIX}since"
"""The property of an edge that says from when on it is known, as a time in ISO 8601."""


class Kind(StrEnum):
    """The part an item plays. The engine branches on kind; users filter on type."""

    NODE = "node"  # faq, playbook, fact, procedure: searchable text
    ENTITY = "entity"  # a thing with a name and properties
    PROFILE = "profile"  # key-value facts about one entity, fetched by id
    RULE = "rule"  # an axiom: holds for every entity of a type
    CLAIM = "claim"  # a statement about one entity, with evidence
    MEMORY = "memory"  # something learned in a workspace


@dataclass(frozen=True, slots=True)
class Item:
    """One thing known. `subject` is the entity it is about (for a rule: an entity type; for a memory: its conversation)."""

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
    numbered: bool = False  # its id came as a whole number, and is given back as one

    @property
    def key(self) -> Key:
        return (self.space, self.id)

    @property
    def name(self) -> str:
        """What to call it in one line: its title, else its id."""
        return self.title or self.id

    @property
    def shown_properties(self) -> dict[str, Any]:
        """Those that are not knowloom's own."""
        return {
            name: value
            for name, value in self.properties.items()
            if not name.startswith(RESERVED_PREFIX)
        }

    @property
    def searchable(self) -> str:
        """The text whose words find this item."""
        values = (str(value) for value in self.shown_properties.values())
        return "\n".join(
            part
            for part in (self.title, self.text, self.summary, " ".join(self.tags), *values)
            if part
        )

    @property
    def embeddable(self) -> str:
        """The text whose meaning finds this item."""
        if self.embedding_text is not None:
            return self.embedding_text
        values = (
            ""
            if self.text
            else "\n".join(f"{name}: {value}" for name, value in self.properties.items())
        )
        return "\n".join(part for part in (self.title, self.text or self.summary, values) if part)


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed, weighted link. It belongs to `space`; its target may live in another one (`target_space`)."""

    source: str
    target: str
    type: str = "related"
    weight: float = 1.0
    space: str = ""
    item_id: str | None = None  # the item that explains this link
    properties: Mapping[str, Any] = field(default_factory=dict)
    target_space: str = ""  # "" means the same space
    origin: str = ""  # "" for people's links, MADE for those knowloom makes itself. A weight of 0 forbids a link: nobody follows it

    @property
    def source_key(self) -> Key:
        return (self.space, self.source)

    @property
    def target_key(self) -> Key:
        return (self.target_space or self.space, self.target)

    def known_at(self, time: datetime | None) -> bool:
        """Whether it was known at that time; an edge that does not say since when always was."""
        if time is None or SINCE not in self.properties:
            return True
        try:
            return datetime.fromisoformat(self.properties[SINCE]) <= time
        except (TypeError, ValueError):  # written by somebody else, and no time
            return True

    @property
    def name(self) -> str:
        """What to call it; unlike its key it is one text. The space of its target is told where it is another one."""
        return f"{self.source} -[{self.type}]-> {self.target}{f' ({self.target_space})' if self.target_space else ''}"

    @property
    def key(self) -> EdgeKey:
        return (self.source_key, self.target_key, self.type)


AUTOMATIC = "knowloom"  # the origin of links that knowloom makes and keeps true

EdgeKey = tuple[Key, Key, str]
"""(source, target, type): what names an edge."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One write: everything in it happens, or nothing does. `at` is its time in the change log."""

    at: datetime
    items: tuple[Item, ...] = ()
    edges: tuple[Edge, ...] = ()
    deleted: tuple[Key, ...] = ()
    deleted_edges: tuple[EdgeKey, ...] = ()
    expected: tuple[
        tuple[Key, str], ...
    ] = ()  # versions that must still be stored, "" for nothing; else the batch is a Conflict
    marked: tuple[Key, ...] = ()  # items whose own links must be made anew, besides those written


@dataclass(frozen=True, slots=True)
class Marks:
    """Items whose links wait to be made: each as it was when they were last made, None if it had none. True of one `version`."""

    version: int
    before: Mapping[str, Item | None]


@dataclass(frozen=True, slots=True)
class Links:
    """What knowloom writes of its own links of one space: edges to keep and to drop, labels that became common or rare, items that are
    done with, and items that must be looked at again. For links by names: all labels that an item is entered under from now on (none:
    it is forgotten), items whose links are out of date (`stale`), and items whose links are not any more (`renewed`)."""

    space: str
    version: int  # of the space, when this was worked out
    made: tuple[Edge, ...] = ()
    dropped: tuple[EdgeKey, ...] = ()
    common: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    entered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpaceInfo:
    """What a store holds for one space. `digest` depends on the knowledge alone, not on how it got there; links that knowloom made
    are no knowledge, and have a digest of their own."""

    name: str
    items: int
    edges: int  # given by people
    digest: str
    links: int = 0  # made by knowloom
    links_digest: str = "0" * 32


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the change log: what happened to an item or an edge, and what was there before."""

    number: int
    at: datetime
    space: str
    id: str
    action: str  # "add", "update", "delete"; "link" and "unlink" for edges
    before: Item | Edge | None = None
    link: EdgeKey | None = (
        None  # which edge; None for items, and for links that a file of schema 1 did not name
    )


@dataclass(frozen=True, slots=True)
class Filter:
    """Which items may be seen. An empty field does not restrict; empty `spaces` allows nothing."""

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

    def refuses(self, item: Item) -> str:
        """Why the item may not be seen, in words; "" when it may. The rule every index must agree with."""
        return next(self._objections(item), "")

    def allows(self, item: Item) -> bool:
        return not self.refuses(item)

    def _objections(self, item: Item) -> Iterator[str]:
        if item.space not in self.spaces:
            yield f"space {item.space!r} was not asked for"
        if self.kinds and item.kind not in self.kinds:
            yield f"kind {item.kind.value!r} was not asked for"
        if self.types and item.type not in self.types:
            yield f"type {item.type!r} was not asked for"
        if item.type in self.exclude_types:
            yield f"type {item.type!r} was excluded"
        if self.tags and not any(tag in item.tags for tag in self.tags):
            yield f"has none of the tags {', '.join(self.tags)}"
        if self.subjects and item.subject not in self.subjects:
            yield f"subject {item.subject!r} was not asked for"
        if self.min_confidence > (item.confidence or 0.0):
            yield f"confidence {item.confidence or 0.0:g} is below {self.min_confidence:g}"
        yield from self._untimely(item)

    def _untimely(self, item: Item) -> Iterator[str]:
        if self.created_from and item.created_at and item.created_at < self.created_from:
            yield "was created before the dates asked for"
        if self.created_to and item.created_at and item.created_at > self.created_to:
            yield "was created after the dates asked for"
        if self.valid_at and item.valid_from and item.valid_from > self.valid_at:
            yield "was not valid yet"
        if self.valid_at and item.valid_to and item.valid_to <= self.valid_at:
            yield "was no longer valid"


@dataclass(frozen=True, slots=True)
class Found:
    """What one index answered: keys with scores, best first, and how many items it looked at."""

    matches: tuple[tuple[Key, float], ...] = ()
    considered: int = 0
    others: Mapping[Key, float] = field(
        default_factory=dict
    )  # scores of keys that were asked about by name


LINK = ("link",)
"""How a hit was found that is itself a link between two others: it is shown as one line, with `from`, `type` and `to` as properties."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An item, how well it fits, and why: which searches found it, the numbers behind its score, the path that led to it."""

    item: Item
    score: float
    signals: Mapping[str, float] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()  # "bm25", "vector", "graph", "key", "name", "subject", "link"
    path: tuple[Key, ...] = ()
    edge: Edge | None = None  # the link it was reached by
    links: tuple[Edge, ...] = ()  # all links of the path, in its order; the last is `edge`
    via: str = ""  # the path in words, by titles, where it was asked for

    @property
    def relevance(self) -> float:
        """How much it matters to the request: what a walk along the links found it to be worth, else its
        score, where what a link leads to matters no more than the item the link starts from."""
        return (
            self.signals["walk"]
            if "walk" in self.signals
            else self.score * self.signals.get("start", 1.0)
        )

    @property
    def distance(self) -> int:
        """Links between this item and the one that search found."""
        return max(0, len(self.path) - 1)

    @property
    def match_source(self) -> str:
        """What found it, in one word: `hybrid` when words and meaning both did."""
        return "hybrid" if len(self.found_by) > 1 else "".join(self.found_by)


@dataclass(frozen=True, slots=True)
class Query:
    """One request, complete: the same query on the same knowledge gives the same bytes."""

    text: str
    spaces: tuple[str, ...]
    now: datetime
    max_tokens: int | None = 2000
    format: str = "markdown"
    model: str = "gpt-4"
    entity: str | None = None  # the entity the agent works for, such as "user:maya"
    as_of: datetime | None = None  # nothing that became known or valid later is seen
    vector: tuple[float, ...] = ()  # a ready query vector; empty: the engine embeds the text
    paths: bool = field(
        default=False, repr=False
    )  # True: what links led to says by which, in one line


class Form(StrEnum):
    """How much of an item is shown."""

    WHOLE = "whole"
    SUMMARY = "summary"
    POINTER = "pointer"  # one line: that it exists, and under which name


@dataclass(frozen=True, slots=True)
class Chosen:
    """A hit that made it into the text: how it is shown, the tokens it costs, and the text itself."""

    hit: Hit
    form: Form
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A candidate that did not make it, why, and what would bring it in."""

    hit: Hit
    fragment: str
    reason: str
    tokens: int = 0  # what showing it whole would cost; 0 when it was never rendered
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the answer that is missing or weaker than asked, and why."""

    part: str
    reason: str
    code: str = "unavailable"


@dataclass(frozen=True, slots=True)
class Fragment:
    """What one recipe gave."""

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
    """What was counted while the answer was made. Times are in milliseconds."""

    searched: int = 0  # items the indexes looked at
    expanded: int = 0  # items reached by links
    max_depth: int = 0
    candidates: int = 0
    token_counter: str = ""
    optimality_gap: float = (
        0.0  # 0: no better set fits; else at most this share of the value is missing
    )
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: text within the budget, what it is made of, what was left out, and what went wrong."""

    text: str
    tokens: int
    query: Query
    fragments: tuple[Fragment, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Problem, ...] = ()
    digest: str = ""
    stats: Stats = field(default_factory=Stats)

    @property
    def hits(self) -> tuple[Hit, ...]:
        return tuple(hit for fragment in self.fragments for hit in fragment.hits)

    def sections(self) -> dict[str, str]:
        """The same text by prompt section, ready to merge into a template."""
        texts: dict[str, list[str]] = {}
        for fragment in self.fragments:
            for chosen in fragment.chosen:
                texts.setdefault(chosen.hit.item.section, []).append(chosen.text)
        return {section: "\n\n".join(parts) for section, parts in texts.items()}
