"""Items and edges: the knowledge itself, and the entries of its change log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

Key = tuple[str, str]
"""(space, id), the key of an item. The same id in two spaces is two items."""
EdgeKey = tuple[Key, Key, str]
"""(source, target, type), the key of an edge."""

RESERVED_PREFIX = "knowloom:"
"""The prefix of property names reserved for knowloom: not shown, and only METADATA is searched."""
SINCE = f"{RESERVED_PREFIX}since"
"""The property of an edge with the time, in ISO 8601, from which on it is known."""
LINES = f"{RESERVED_PREFIX}lines"
"""The property of an item that was cut from a file: its first and last line there."""
PLACES = f"{RESERVED_PREFIX}places"
"""The property of an item whose text is not that of its file: under the unit, such as `page`, pairs
of a line of the text, counted from 0, and the place in the file that begins there."""
METADATA = f"{RESERVED_PREFIX}metadata"
"""The property of an item with facts about its document, which are searched but not shown."""
AUTOMATIC = "knowloom"
"""The origin of automatic edges: those that knowloom computes and keeps up to date."""
TRUSTED, UNTRUSTED = "trusted", "untrusted"
"""The levels of `Item.trust`."""
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
    space: str = ""  # "": that of the call that stores it
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
    trust: str = TRUSTED  # UNTRUSTED text is never shown as instructions, and may be fenced

    @property
    def is_document(self) -> bool:
        """True for a loaded document or a part of one: its place in the source is known."""
        return LINES in self.properties or PLACES in self.properties

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
    def metadata(self) -> Mapping[str, Any]:
        """Facts about the document of the item, such as its front matter."""
        metadata = self.properties.get(METADATA)
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def searchable(self) -> str:
        """The text of the full-text index."""
        return "\n".join(filter(None, (self.title, self.text, self.searchable_metadata)))

    @property
    def searchable_metadata(self) -> str:
        """The part of the text of the full-text index beside title and text."""
        facts = (*self.shown_properties.values(), *self.metadata.values())
        values = (str(value) for value in facts)
        return "\n".join(filter(None, (self.summary, " ".join(self.tags), *values)))

    @property
    def embeddable(self) -> str:
        """The text of the embedding."""
        if self.embedding_text is not None:
            return self.embedding_text
        facts = {} if self.text else {**self.metadata, **self.shown_properties}
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
    action: str  # "add", "update", "delete", "purge"; "link" and "unlink" for edges
    before: Item | Edge | None = None
    link: EdgeKey | None = None  # the edge; None for items and for edges of files of schema 1
    actor: str = ""  # the author; "" in files of schemas before 5
    erased: bool = False  # True: what was before it has been erased
