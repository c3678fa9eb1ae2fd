"""Axioms and their rules, the facts they are checked against, and violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from knowloom.model import Edge, Item, Key, Kind

Severity = Literal["error", "warning", "info"]
TargetKind = Literal["entity", "relationship", "claim"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # the worst first
TARGET_KINDS: tuple[TargetKind, ...] = ("entity", "relationship", "claim")
CONTRADICTION = "contradiction"  # the constraint of a violation: two claims that cannot both hold


@dataclass(frozen=True, slots=True)
class Condition:
    """A test on a property; a rule with a condition is checked only on facts that pass it."""

    property: str
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class AxiomRule:
    """One constraint on one or more properties; the constraint decides which fields are used."""

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
    """Rules that hold for all entities, relationships or claims of a type."""

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
    """An entity, a relationship or a claim, reduced to the values that axioms check."""

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
    others: tuple[str, ...] = ()  # ids of the other facts involved

    @property
    def order(self) -> tuple[int, str, str, str, str, str, tuple[str, ...], str]:
        """The sort key: the worst first, then by kind, space and id."""
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
    """Return the fact of an entity; properties take precedence over `name` and `type`."""
    values = {"name": item.name, "type": item.type, **item.properties}
    return AxiomFact("entity", item.space, item.id, item.name, (item.type,), values)


def relationship_fact(edge: Edge, names: Mapping[Key, str] | None = None) -> AxiomFact:
    """Return the fact of an edge: its type, weight, source, target and properties."""
    names = names or {}
    source, target = (names.get(key, key[1]) for key in (edge.source_key, edge.target_key))
    values = {
        "type": edge.type,
        "weight": edge.weight,
        "source": edge.source,
        "target": edge.target,
        **edge.properties,
    }
    name = f"{source} -[{edge.type}]-> {target}"
    return AxiomFact("relationship", edge.space, edge.name, name, (edge.type,), values)


def claim_fact(item: Item) -> AxiomFact:
    """Return the fact of a claim; axioms may target its type or its predicate."""
    values = {"subject": item.subject, "confidence": item.confidence, **item.properties}
    types = tuple(dict.fromkeys([item.type, str(item.properties.get("predicate", ""))]))
    return AxiomFact("claim", item.space, item.id, item.name, types, values)


FACT_BUILDERS = {Kind.ENTITY: entity_fact, Kind.CLAIM: claim_fact}
