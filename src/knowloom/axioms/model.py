"""What an axiom is made of, the facts it is about, and what is said of a fact that breaks one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from knowloom.model import Edge, Item, Key, Kind

Severity = Literal["error", "warning", "info"]
TargetKind = Literal["entity", "relationship", "claim"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # the worst first
TARGET_KINDS: tuple[TargetKind, ...] = ("entity", "relationship", "claim")
CONTRADICTION = "contradiction"  # in place of a constraint: two claims that cannot both hold


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule with a condition is asked only of facts that meet it."""

    property: str
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class AxiomRule:
    """One constraint on one or more properties. Which of the other fields count depends on the constraint."""

    constraint: str
    properties: tuple[str, ...]
    values: tuple[Any, ...] = ()
    value: Any = None
    min: Any = None
    max: Any = None
    pattern: str = ""
    value_type: str = ""
    when: Condition | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Axiom:
    """Rules that hold for every entity, relationship or claim of a type."""

    id: str
    name: str
    target_type: str
    target_kind: TargetKind = "entity"
    description: str = ""
    rules: tuple[AxiomRule, ...] = ()
    severity: Severity = "error"
    category: str = ""
    tags: tuple[str, ...] = ()
    enabled: bool = True
    space: str = ""


@dataclass(frozen=True, slots=True)
class AxiomFact:
    """Something axioms are about: an entity, a relationship or a claim, reduced to what they ask of it."""

    kind: TargetKind
    space: str
    id: str
    name: str
    types: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Violation:
    """A fact that breaks an axiom, or claims that contradict each other (then `axiom` is empty)."""

    severity: Severity
    kind: TargetKind
    space: str
    id: str
    name: str
    constraint: str
    message: str
    properties: tuple[str, ...] = ()
    axiom: str = ""
    axiom_name: str = ""
    others: tuple[str, ...] = ()  # the ids of the other facts that are involved

    @property
    def order(self) -> tuple[int, str, str, str, str, str, tuple[str, ...], str]:
        """The worst first, then by place."""
        return (
            SEVERITIES.index(self.severity),
            self.kind,
            self.space,
            self.id,
            self.axiom,
            self.constraint,
            self.properties,
            self.message,
        )


def entity_fact(item: Item) -> AxiomFact:
    """The properties, with the name and the type where no property is called so."""
    return AxiomFact(
        "entity",
        item.space,
        item.id,
        item.name,
        (item.type,),
        {"name": item.name, "type": item.type, **item.properties},
    )


def relationship_fact(edge: Edge, names: Mapping[Key, str] | None = None) -> AxiomFact:
    """Its properties, and what every link has: type, weight, source and target."""
    known = names or {}
    ends = [known.get(key, key[1]) for key in (edge.source_key, edge.target_key)]
    values = {
        "type": edge.type,
        "weight": edge.weight,
        "source": edge.source,
        "target": edge.target,
        **edge.properties,
    }
    return AxiomFact(
        "relationship",
        edge.space,
        edge.name,
        f"{ends[0]} -[{edge.type}]-> {ends[1]}",
        (edge.type,),
        values,
    )


def claim_fact(item: Item) -> AxiomFact:
    """Its properties, its subject and its confidence. A claim answers to its type and to its predicate."""
    values = {"subject": item.subject, "confidence": item.confidence, **item.properties}
    types = tuple(dict.fromkeys([item.type, str(item.properties.get("predicate", ""))]))
    return AxiomFact("claim", item.space, item.id, item.name, types, values)


FACT_BUILDERS = {Kind.ENTITY: entity_fact, Kind.CLAIM: claim_fact}
