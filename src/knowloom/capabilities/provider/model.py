"""What the provider finds and gives. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowloom.model import Edge, Hit, Item, Key, Problem


@dataclass(frozen=True, slots=True)
class Relation:
    """A link met on the way out from the entity. `depth` is how many links away it is met, `score` is its weight / depth."""

    edge: Edge
    depth: int
    score: float
    source: Item
    target: Item
    piece: Key | None = None  # the piece that explains it, if that can be seen

    @property
    def type(self) -> str:
        return self.edge.type


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What the three layers found. Profiles are in the order of the spaces asked; pieces best first; links by (type, target)."""

    query: str
    entity_id: str | None
    metadata: tuple[Item, ...] = ()
    global_metadata: tuple[Item, ...] = ()
    pieces: tuple[Hit, ...] = ()
    graph_context: tuple[Relation, ...] = ()
    degraded: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that goes into a section: a line of a profile, a piece, or a link. `line` is how it is shown when no format says
    otherwise, `short` a shorter way to say it, if there is one."""

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

    def values(self) -> dict[str, Any]:
        """What a template may use. The names of the three-layer files work too."""
        own = {
            name: getattr(self, name)
            for name in (
                "kind",
                "section",
                "id",
                "space",
                "line",
                "score",
                "type",
                "title",
                "text",
                "summary",
            )
        }
        own |= {"tags": list(self.tags), "properties": dict(self.properties)}
        return own | {
            "content": self.text,
            "knowledge_type": self.type,
            "info_type": self.section,
            "piece_id": self.id,
        }


@dataclass(frozen=True, slots=True)
class Unshown:
    """An entry that did not fit, with the tokens that showing it would have cost."""

    section: str
    kind: str
    id: str
    space: str
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Provision:
    """Text by prompt section. `tokens` is the sum over all sections, counted by `token_counter` on the texts as they are here."""

    sections: Mapping[str, str]
    tokens: int
    token_counter: str
    retrieval: Retrieval
    left_out: tuple[Unshown, ...] = ()
    degraded: tuple[Problem, ...] = ()
