"""Results of a graph context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowloom.axioms.model import Axiom, Violation
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.model import Edge, Form, Hit, Item, Kind, LeftOut, Passage, Problem, Stats


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity of the answer, its scores, and the form it is shown in."""

    hit: Hit
    matched_terms: tuple[str, ...] = ()
    form: Form = Form.WHOLE
    tokens: int = 0
    shown_properties: tuple[str, ...] = ()  # names of the properties in the text
    passages: tuple[Passage, ...] = ()  # of an excerpt, in the order of the text

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
    """An edge between two entities of the answer, with their names."""

    edge: Edge
    source_name: str
    target_name: str
    score: float


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """Entities with their relationships, axioms and claims: as values, and as one text."""

    text: str
    tokens: int
    query: str | None = None  # None if entities were requested by id
    entities: tuple[GraphEntity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    axioms: tuple[Axiom, ...] = ()
    claims: tuple[Hit, ...] = ()
    truncated: bool = False  # limits or the budget left something out or shortened it
    violations: tuple[Violation, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Problem, ...] = ()
    digest: str = ""  # of everything the answer depends on; "" if the stores could not be read
    stats: Stats = field(default_factory=Stats)
    confidence: float | None = None  # that the text is about stored entities; None: by id

    @property
    def shown(self) -> tuple[Item, ...]:
        """The content of the text as items; relationships, axioms and claims in words."""
        names = {entity.item.id: entity.item.name for entity in reversed(self.entities)}
        return (
            *map(_entity_item, self.entities),
            *map(_relationship_item, self.relationships),
            *map(_axiom_item, self.axioms),
            *(_claim_item(hit.item, names) for hit in self.claims),
        )


def _entity_item(entity: GraphEntity) -> Item:
    """Return the item with no more than is shown of it."""
    item = entity.item
    texts = {
        Form.WHOLE: item.text or item.summary,
        Form.EXCERPT: join_runs(excerpt_runs(entity.hit, entity.passages)),
        Form.SUMMARY: item.summary,
        Form.POINTER: "",
    }
    properties = {name: item.properties[name] for name in entity.shown_properties}
    title, text = item.title or item.id, texts[entity.form]
    return Item(item.id, item.space, item.kind, item.type, title, text, properties=properties)


def _relationship_item(relationship: Relationship) -> Item:
    edge = relationship.edge
    verb = edge.type.replace("_", " ").lower()
    text = f"{relationship.source_name} {verb} {relationship.target_name}."
    return Item(edge.name, edge.space, type=edge.type, text=text, properties=edge.properties)


def _axiom_item(axiom: Axiom) -> Item:
    from knowloom.axioms.parsing import describe_rules  # imported here because it loads RE2

    text = axiom.description or describe_rules(axiom)
    return Item(axiom.id, axiom.space, Kind.RULE, axiom.target_type, axiom.name, text)


def _claim_item(item: Item, names: Mapping[str, str]) -> Item:
    claim, subject = item.properties, names.get(item.subject or "", item.subject or "")
    predicate = str(claim.get("predicate") or item.type or "says")
    properties = {predicate: claim["object"]} if "object" in claim else {}
    text = str(claim.get("evidence") or item.text)
    return Item(item.id, item.space, item.kind, item.type, subject, text, properties=properties)
