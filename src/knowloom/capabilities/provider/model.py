"""Values of the provider: relations, entries, and the answer by prompt section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowloom.model import Edge, Hit, Item, Key, Problem


@dataclass(frozen=True, slots=True)
class Relation:
    """An edge reached from the entity within `depth` hops; its score is weight / depth."""

    edge: Edge
    depth: int
    score: float
    source: Item
    target: Item
    piece: Key | None = None  # the item that explains the edge, if it is visible

    @property
    def type(self) -> str:
        return self.edge.type


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The results of the three layers.

    Profiles are in the order of the requested spaces, pieces best first, relations ordered by
    (type, target).
    """

    query: str
    entity_id: str | None
    metadata: tuple[Item, ...] = ()
    global_metadata: tuple[Item, ...] = ()
    pieces: tuple[Hit, ...] = ()
    graph_context: tuple[Relation, ...] = ()
    degraded: tuple[Problem, ...] = ()
    confidence: float | None = None  # of the search for pieces; None: there was none


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a section: a profile property, a piece, or a relation.

    `line` is the default rendering, `short` that of the summary, if there is any. `excerpts` are
    the entry with a part of a long text, longest first.
    """

    kind: str  # "metadata", "piece", "relation"
    section: str
    id: str
    space: str
    line: str
    score: float = 1.0
    short: str = ""
    type: str = ""
    title: str = ""
    text: str = ""
    summary: str = ""
    tags: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    excerpts: tuple[Entry, ...] = ()
    worth: float = 0.0  # of an excerpt, on the scale of a whole entry with the score 1

    def values(self) -> dict[str, Any]:
        """Return the variables of a template, also under the names of three-layer files."""
        values = {name: getattr(self, name) for name in TEMPLATE_FIELDS}
        return values | {
            "tags": list(self.tags),
            "properties": dict(self.properties),
            "content": self.text,
            "knowledge_type": self.type,
            "info_type": self.section,
            "piece_id": self.id,
        }


TEMPLATE_FIELDS = tuple(
    ["kind", "section", "id", "space", "line", "score", "type", "title", "text", "summary"]
)


@dataclass(frozen=True, slots=True)
class Unshown:
    """An entry that did not fit, with the tokens that it would have cost."""

    section: str
    kind: str
    id: str
    space: str
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Provision:
    """Text by prompt section. `tokens` is the sum over all sections as returned."""

    sections: Mapping[str, str]
    tokens: int
    token_counter: str
    retrieval: Retrieval
    left_out: tuple[Unshown, ...] = ()
    degraded: tuple[Problem, ...] = ()
