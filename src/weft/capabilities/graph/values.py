"""What a graph context answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.axioms.values import Axiom, Violation
from weft.model import Edge, Form, Hit, Item, LeftOut, Problem, Stats


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity of the answer: why it is there, and how it is shown."""

    hit: Hit
    matched_terms: tuple[str, ...] = ()
    form: Form = Form.WHOLE
    tokens: int = 0

    @property
    def item(self) -> Item:
        return self.hit.item

    @property
    def score(self) -> float:
        return self.hit.score

    @property
    def signals(self) -> Mapping[str, float]:
        return self.hit.signals


@dataclass(frozen=True, slots=True)
class Relationship:
    """A link between two entities of the answer, with their names."""

    edge: Edge
    source_name: str
    target_name: str
    score: float


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """Entities, what links them, the rules that hold for them and what is claimed about them: as values, and as one text."""

    text: str
    tokens: int
    query: str | None = None  # what was asked; None where entities were named
    entities: tuple[GraphEntity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    axioms: tuple[Axiom, ...] = ()
    claims: tuple[Hit, ...] = ()
    truncated: bool = False  # something that belongs here is missing or shortened for want of room
    violations: tuple[Violation, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Problem, ...] = ()
    digest: str = ""  # names all that the answer depends on; "" where the knowledge could not be read
    stats: Stats = field(default_factory=Stats)
