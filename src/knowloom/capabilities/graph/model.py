"""What a graph context answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowloom.axioms.model import Axiom, Violation
from knowloom.model import Edge, Form, Hit, Item, Kind, LeftOut, Problem, Stats


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity of the answer: why it is there, and how it is shown."""

    hit: Hit
    matched_terms: tuple[str, ...] = ()
    form: Form = Form.WHOLE
    tokens: int = 0
    shown_properties: tuple[str, ...] = ()  # the names of those in the text

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
    digest: str = (
        ""  # names all that the answer depends on; "" where the knowledge could not be read
    )
    stats: Stats = field(default_factory=Stats)

    @property
    def shown(self) -> tuple[Item, ...]:
        """What the text says, as items: of each entity no more than is shown of it; links, rules and claims in words."""
        names = {one.item.id: one.item.name for one in reversed(self.entities)}
        claims = (_said(hit.item, names) for hit in self.claims)
        return (
            *(_seen(one) for one in self.entities),
            *(_told(one) for one in self.relationships),
            *(_ruled(one) for one in self.axioms),
            *claims,
        )


def _seen(one: GraphEntity) -> Item:
    item = one.item
    text = {Form.WHOLE: item.text or item.summary, Form.SUMMARY: item.summary, Form.POINTER: ""}[
        one.form
    ]
    properties = {name: item.properties[name] for name in one.shown_properties}
    return Item(
        item.id,
        item.space,
        item.kind,
        item.type,
        item.title or item.id,
        text,
        properties=properties,
    )


def _told(one: Relationship) -> Item:
    text = f"{one.source_name} {one.edge.type.replace('_', ' ').lower()} {one.target_name}."
    return Item(
        one.edge.name, one.edge.space, type=one.edge.type, text=text, properties=one.edge.properties
    )


def _ruled(one: Axiom) -> Item:
    from knowloom.axioms.parsing import describe_rules  # here, as it brings RE2 with it

    return Item(
        one.id,
        one.space,
        Kind.RULE,
        one.target_type,
        one.name,
        one.description or describe_rules(one),
    )


def _said(item: Item, names: Mapping[str, str]) -> Item:
    said, subject = item.properties, names.get(item.subject or "", item.subject or "")
    about = (
        {str(said.get("predicate") or item.type or "says"): said["object"]}
        if "object" in said
        else {}
    )
    return Item(
        item.id,
        item.space,
        item.kind,
        item.type,
        subject,
        str(said.get("evidence") or item.text),
        properties=about,
    )
