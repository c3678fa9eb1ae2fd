"""Check facts against axioms, and find claims that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowloom import codec
from knowloom.axioms import parsing
from knowloom.axioms.constraints import (
    CHECKED_WHEN_ABSENT,
    FACT_CHECKS,
    VALUE_CHECKS,
    abbreviate,
    as_list,
    condition_holds,
    has_value,
)
from knowloom.axioms.model import (
    CONTRADICTION,
    FACT_BUILDERS,
    Axiom,
    AxiomFact,
    AxiomRule,
    Violation,
    relationship_fact,
)
from knowloom.model import Edge, Filter, Item, Key, Kind
from knowloom.ports import Stores

PAGE_SIZE = 1000

KeyLookup = Callable[[Sequence[Key]], set[Key]]
"""Return which of the keys are stored items: one call for all references of a check."""


class _Reference(NamedTuple):
    fact: AxiomFact
    axiom: Axiom
    rule: AxiomRule
    property: str
    value: Any


class AxiomChecker:
    """Checks facts in any number of batches; remembers the values that must be unique."""

    def __init__(self, axioms: Iterable[Axiom], lookup: KeyLookup) -> None:
        self._axioms: dict[tuple[str, str, str], list[Axiom]] = {}
        for axiom in sorted(axioms, key=lambda axiom: (axiom.space, axiom.id)):
            if axiom.enabled and axiom.rules:
                target = (axiom.space, axiom.target_kind, axiom.target_type)
                self._axioms.setdefault(target, []).append(axiom)
        self._lookup = lookup
        self._spaces = sorted({space for space, _, _ in self._axioms})
        # (axiom, rule, property, value) -> the id of the first fact with that value
        self._first: dict[tuple[str, int, str, str], str] = {}

    def check(self, facts: Iterable[AxiomFact], spaces: Sequence[str] = ()) -> list[Violation]:
        """Return the violations of these facts, the worst first. An axiom applies to all of
        `spaces` if its space is among them, else to its space alone."""
        violations: list[Violation] = []
        references: list[_Reference] = []
        applicable: dict[tuple[str, str, tuple[str, ...]], list[Axiom]] = {}
        for fact in facts:
            target = (fact.space, fact.kind, fact.types)
            if target not in applicable:
                applicable[target] = self._applicable(fact, spaces)
            for axiom in applicable[target]:
                for number, rule in enumerate(axiom.rules):
                    if rule.when is not None and not condition_holds(rule.when, fact.values):
                        continue
                    if rule.constraint == "reference_exists":
                        references += _references(fact, axiom, rule)
                    elif rule.constraint == "unique":
                        violations += self._find_repeated(fact, axiom, number, rule)
                    else:
                        violations += [
                            _make_violation(fact, axiom, rule, problem, names)
                            for names, problem in _find_breaches(rule, fact.values)
                        ]
        violations += self._find_dangling(references, spaces)
        return sorted(violations, key=lambda violation: violation.order)

    def _applicable(self, fact: AxiomFact, spaces: Sequence[str]) -> list[Axiom]:
        shared = (space for space in self._spaces if space in spaces)
        return [
            axiom
            for space in dict.fromkeys((fact.space, *shared))
            for type in fact.types
            for axiom in self._axioms.get((space, fact.kind, type), ())
        ]

    def _find_repeated(
        self, fact: AxiomFact, axiom: Axiom, number: int, rule: AxiomRule
    ) -> Iterator[Violation]:
        scope = f"{axiom.space}\n{axiom.id}\n{fact.space}"
        for name in rule.properties:
            for value in _present_values(fact, name):
                first = self._first.setdefault((scope, number, name, _canonical(value)), fact.id)
                if first != fact.id:
                    problem = f"{name} is {abbreviate(value)}, as it is of {first!r}: "
                    problem += "it must be unique"
                    yield _make_violation(fact, axiom, rule, problem, (name,), (first,))

    def _find_dangling(
        self, references: Sequence[_Reference], spaces: Sequence[str]
    ) -> Iterator[Violation]:
        keys = {
            (space, str(reference.value))
            for reference in references
            for space in _candidate_spaces(reference.fact, spaces)
        }
        stored = self._lookup(sorted(keys)) if keys else set()
        for fact, axiom, rule, name, value in references:
            if not any((space, str(value)) in stored for space in _candidate_spaces(fact, spaces)):
                problem = f"{name} is {abbreviate(value)}, and there is no such item"
                yield _make_violation(fact, axiom, rule, problem, (name,))


def find_contradictions(claims: Iterable[Item]) -> list[Violation]:
    """Return a violation for each group of active claims with the same subject and predicate but
    different objects."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for claim in claims:
        predicate = claim.properties.get("predicate")
        if claim.subject and predicate and claim.properties.get("active", True) is not False:
            groups.setdefault((claim.space, claim.subject, str(predicate)), []).append(claim)
    violations = [
        _make_contradiction(subject, predicate, group)
        for (_, subject, predicate), group in sorted(groups.items())
        if len({_canonical(claim.properties.get("object")) for claim in group}) > 1
    ]
    return sorted(violations, key=lambda violation: violation.order)


def _make_contradiction(subject: str, predicate: str, claims: Sequence[Item]) -> Violation:
    ordered = sorted(claims, key=lambda claim: (-(claim.confidence or 0.0), claim.id))
    objects = "; ".join(
        f"{abbreviate(claim.properties.get('object'))} ({claim.id})" for claim in ordered
    )
    surest = ordered[0]
    return Violation(
        "warning",
        "claim",
        surest.space,
        surest.id,
        surest.name,
        CONTRADICTION,
        f"claims about {subject} disagree on {predicate}: {objects}",
        (predicate,),
        others=tuple(claim.id for claim in ordered[1:]),
    )


def _candidate_spaces(fact: AxiomFact, spaces: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((fact.space, *spaces)))


def _present_values(fact: AxiomFact, name: str) -> list[Any]:
    return [value for value in as_list(fact.values.get(name)) if has_value(value)]


def _references(fact: AxiomFact, axiom: Axiom, rule: AxiomRule) -> list[_Reference]:
    return [
        _Reference(fact, axiom, rule, name, value)
        for name in rule.properties
        for value in _present_values(fact, name)
    ]


def _find_breaches(rule: AxiomRule, values: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    """Return (properties, what is wrong with them) for each breach of a rule."""
    if rule.constraint in FACT_CHECKS:
        problem = FACT_CHECKS[rule.constraint](values, rule)
        return [(rule.properties, problem)] if problem else []
    check = VALUE_CHECKS[rule.constraint]
    when_absent = rule.constraint in CHECKED_WHEN_ABSENT
    breaches: list[tuple[tuple[str, ...], str]] = []
    for name in rule.properties:
        value = values.get(name)
        if (when_absent or has_value(value)) and (problem := check(value, rule)):
            breaches.append(((name,), f"{name} {problem}"))
    return breaches


def _make_violation(
    fact: AxiomFact,
    axiom: Axiom,
    rule: AxiomRule,
    problem: str,
    names: tuple[str, ...],
    others: tuple[str, ...] = (),
) -> Violation:
    return Violation(
        axiom.severity,
        fact.kind,
        fact.space,
        fact.id,
        fact.name,
        rule.constraint,
        f"{rule.message} ({problem})" if rule.message else problem,
        names,
        axiom.id,
        axiom.name,
        others,
    )


def _canonical(value: Any) -> str:
    """Return a text that is the same for values that are equal as JSON: 60 and 60.0."""
    return codec.to_json(_normalise(value))


def _normalise(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normalise(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_normalise(element) for element in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check; `unusable` are rules with a wrong definition, which were skipped."""

    violations: tuple[Violation, ...]
    axioms: int = 0
    entities: int = 0
    relationships: int = 0
    claims: int = 0
    unusable: tuple[tuple[str, str, str], ...] = ()  # space, id, reason

    @property
    def ok(self) -> bool:
        """True if there is no violation of severity `error` and no unusable rule."""
        return not self.unusable and not any(
            violation.severity == "error" for violation in self.violations
        )


def parse_rules(rules: Iterable[Item]) -> tuple[list[Axiom], list[tuple[str, str, str]]]:
    """Parse items of kind rule; return the axioms and (space, id, reason) of those that fail.
    Rules in words alone become axioms without rules."""
    axioms: list[Axiom] = []
    unusable: list[tuple[str, str, str]] = []
    for item in rules:
        if not item.subject and "rules" not in item.properties:
            continue  # a text that applies to everything
        try:
            axioms.append(parsing.axiom_from_item(item))
        except parsing.InvalidAxiom as error:
            unusable.append((item.space, item.id, str(error)))
    return axioms, unusable


def check_spaces(spaces: Sequence[str], stores: Stores) -> Checked:
    """Check the entities, relationships and claims of each space against the axioms in it."""
    violations: list[Violation] = []
    counts = {"axioms": 0, "entities": 0, "relationships": 0, "claims": 0}
    unusable: list[tuple[str, str, str]] = []
    for space in spaces:
        axioms, failures = parse_rules(_iterate_items(space, Kind.RULE, stores))
        unusable += failures
        counts["axioms"] += len(axioms)
        checker = AxiomChecker(axioms, lambda keys: {item.key for item in stores.items.get(keys)})
        for kind, name in ((Kind.ENTITY, "entities"), (Kind.CLAIM, "claims")):
            for page in _item_pages(space, kind, stores):
                counts[name] += len(page)
                violations += checker.check([FACT_BUILDERS[kind](item) for item in page])
        for edges in _edge_pages(space, stores):
            counts["relationships"] += len(edges)
            violations += checker.check([relationship_fact(edge) for edge in edges])
        violations += find_contradictions(_iterate_items(space, Kind.CLAIM, stores))
    violations.sort(key=lambda violation: violation.order)
    return Checked(tuple(violations), **counts, unusable=tuple(unusable))


def _iterate_items(space: str, kind: Kind, stores: Stores) -> Iterator[Item]:
    for page in _item_pages(space, kind, stores):
        yield from page


def _item_pages(space: str, kind: Kind, stores: Stores) -> Iterator[list[Item]]:
    after: Key | None = None
    while page := stores.items.find(Filter((space,), (kind,)), PAGE_SIZE, after):
        yield page
        after = page[-1].key


def _edge_pages(space: str, stores: Stores) -> Iterator[list[Edge]]:
    """Yield the explicit edges in pages; an edge of weight 0 forbids a relationship."""
    after: Edge | None = None
    while page := stores.graph.edges([space], PAGE_SIZE, after, automatic=False):
        yield [edge for edge in page if edge.weight > 0]
        after = page[-1]
